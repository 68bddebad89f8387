"""Seating: on which hosts the ranks of a job sit, in which order, and the groups that they make."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headway.errors import PlanError, nearest
from headway.fabric.collectives import Group, group
from headway.fabric.fabric import Fabric

Cards = NDArray[np.int64]
_ORDERS = ("packed", "random")
_STREAM = 2  # of a seed: hashes are drawn from the seed alone, source ports from its stream 1


def order(fabric: Fabric, hosts: int, wanted: str | Sequence[int], seed: int) -> Cards:
    """The hosts of a job in the order of its ranks: `packed` as the fabric numbers them, those `random`, or as told.

    `random` shuffles the hosts that packed ranks would have. Raises PlanError where there are too few active ones.
    """
    active = np.flatnonzero(~fabric.backup[:: fabric.gpus_per_host])
    if not isinstance(wanted, str):
        told, there = np.asarray(wanted, np.int64), fabric.num_gpus // fabric.gpus_per_host
        if len(told) < hosts or len(np.unique(told)) < len(told) or told.min() < 0 or told.max() >= there:
            raise PlanError(
                f"an order of {len(told)} hosts from {told.min(initial=there)} to {told.max(initial=0)} is told. "
                f"{hosts} are needed, each once, of 0 to {there - 1}."
            )
        return told[:hosts]
    if wanted not in _ORDERS:
        raise PlanError(f"the order is '{wanted}'. {nearest(wanted, _ORDERS)}")
    if hosts > len(active):
        raise PlanError(
            f"{hosts:,} hosts are needed, {fabric.name} has {len(active):,} active ones. Use fewer GPUs, or more pods."
        )
    random = np.random.default_rng((seed, _STREAM))
    return random.permutation(active[:hosts]) if wanted == "random" else active[:hosts]


def groups(fabric: Fabric, hosts: Cards, gpus: int, *, jobs: int = 1, by_rail: bool = False) -> tuple[Group, ...]:
    """The groups of `jobs` that share `gpus` GPUs on these hosts in turn; `by_rail`: one for each GPU of a host.

    Raises PlanError where jobs do not share the GPUs evenly, or hosts in part.
    """
    if jobs < 1:
        raise PlanError(f"{jobs} jobs are to share the GPUs. Use 1 or more.")
    per_host, each = fabric.gpus_per_host, gpus // jobs
    if gpus < 1 or gpus % jobs or max(each, per_host) % min(each, per_host):
        raise PlanError(
            f"{gpus} GPUs for {jobs} job{'s' if jobs > 1 else ''} on hosts of {per_host} are no whole hosts each. "
            f"Use a multiple of {jobs * per_host}."
        )
    if gpus > len(hosts) * per_host:
        raise PlanError(
            f"{gpus} GPUs are on {-(-gpus // per_host)} hosts of {per_host}, and {len(hosts)} are given. Give them all."
        )
    cards = (hosts[:, None] * per_host + np.arange(per_host)).ravel()[:gpus].reshape(jobs, each)
    if not by_rail:
        return tuple(group(fabric, row) for row in cards)
    return tuple(group(fabric, row[place::per_host]) for row in cards for place in range(min(per_host, each)))
