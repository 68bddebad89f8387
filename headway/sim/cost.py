"""Seconds of an operation on a cluster: products, traffic and kernel launches; latency plus bytes over bandwidth."""

from collections.abc import Mapping

from headway.cluster.spec import Cluster, Link
from headway.model.exchange import Collective
from headway.plan.work import Work
from headway.units import Dtype, Seconds

# how often a ring sends n − 1 messages of 1/n of the buffer
ROUNDS: Mapping[Collective, int] = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}


def seconds(work: Work, cluster: Cluster, dtype: Dtype) -> Seconds:
    """How long `work` takes once it starts: computing, then communicating.

    A collective is a ring over its slowest link class: n − 1 messages of 1/n of the buffer to gather or to reduce and
    scatter, twice as many to reduce for all (Thakur et al. 2005, §4). No contention.
    """
    computing = cluster.device.computing(work.flops, work.traffic, work.kernels, dtype)
    if not work.edge:
        return Seconds(computing)
    link = cluster.link(*work.group)
    if "→" in work.edge:
        return Seconds(computing + link.latency + work.bytes / link.bandwidth)
    return Seconds(computing + communicating(work, link))


def communicating(work: Work, link: Link) -> Seconds:
    """How long the collectives of `work` take over links of one class."""
    n = len(work.group)
    return Seconds(
        sum(ROUNDS[call.kind] * (n - 1) * (link.latency + call.bytes / n / link.bandwidth) for call in work.calls)
    )
