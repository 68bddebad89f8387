"""Paths: how many ways lead from a GPU's port to another GPU, counted over the links of a fabric."""

import numpy as np
from numpy.typing import NDArray

from headway.fabric.fabric import Fabric, Flags, Tier

Counts = NDArray[np.float64]  # they grow beyond 2**63 in no fabric that is built, but a float never wraps


def num_paths(fabric: Fabric, source: int, port: int, destination: int, alive: Flags | None = None) -> int:
    """Shortest paths from port `port` of GPU `source` to any port of GPU `destination`; 0 where none leads there.

    Paths climb to the lowest tier where they can turn, then descend; parallel links are paths of their own. Where cores
    let the port of arrival decide (per_port_core), what a core could choose from counts once. `alive`: [L], links that
    work, where not all do.
    """
    alive = np.ones(fabric.num_links, bool) if alive is None else alive
    climb, fall = _start(fabric, source, port, alive), _start(fabric, destination, None, alive)
    for tier in (Tier.TOR, Tier.AGG, Tier.CORE):
        meet = climb * fall
        if meet.any():
            return round(float((climb[fall > 0]).sum() if tier is Tier.CORE and fabric.per_port_core else meet.sum()))
        climb, fall = (_up(fabric, each, tier, alive) for each in (climb, fall))
    return 0


def ways_up(fabric: Fabric, source: int, port: int) -> tuple[Counts, Counts, Counts]:
    """Paths from port `port` of GPU `source` to each node, [N], of the ToRs, the Aggs and the cores."""
    alive = np.ones(fabric.num_links, bool)
    tors = _start(fabric, source, port, alive)
    aggs = _up(fabric, tors, Tier.TOR, alive)
    return tors, aggs, _up(fabric, aggs, Tier.AGG, alive)


def _start(fabric: Fabric, gpu: int, port: int | None, alive: Flags) -> Counts:
    """[N]: links from a GPU's port, or from all of its ports, to each ToR."""
    links = np.flatnonzero(fabric.lower == gpu)
    chosen = links if port is None else links[port : port + 1]
    chosen = chosen[alive[chosen]]
    return np.bincount(fabric.upper[chosen], minlength=fabric.num_nodes).astype(float)


def _up(fabric: Fabric, ways: Counts, tier: Tier, alive: Flags) -> Counts:
    """[N]: paths one tier further up, of paths that have come to the nodes of `tier`."""
    links = fabric.links(tier)
    links = links[alive[links]]
    weights = ways[fabric.lower[links]]
    return np.bincount(fabric.upper[links], weights, fabric.num_nodes).astype(float)
