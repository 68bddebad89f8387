"""Loads: how full each kind of link is, how evenly, and the way of one connection in names."""

from dataclasses import dataclass

import numpy as np

from headway.fabric.fabric import NONE, Column, Fabric, Rates, Tier
from headway.fabric.route import Hop
from headway.fabric.traffic import Carried

_TIERS = {Hop.CARD_UP: Tier.GPU, Hop.TOR_UP: Tier.TOR, Hop.AGG_UP: Tier.AGG}
_DOWN = {Hop.CORE_DOWN: Tier.AGG, Hop.AGG_DOWN: Tier.TOR, Hop.TOR_DOWN: Tier.GPU}


@dataclass(frozen=True, slots=True, eq=False)
class HopLoads:
    """The links of one hop of a route. `links`: [n] directed ones that could be used; `share`: [n] of each that is.

    `used`: how many carry anything. `mean` and `most` share of those, and `imbalance`, the one over the other.
    """

    hop: Hop
    links: Column
    share: Rates
    used: int
    mean: float
    most: float

    @property
    def imbalance(self) -> float:
        """1 where all links that carry anything carry as much."""
        return self.most / self.mean if self.mean else 1.0


def by_hop(fabric: Fabric, carried: Carried) -> tuple[HopLoads, ...]:
    """The loads of each hop that anything takes, on the way up and then down."""
    share = np.divide(carried.loads, carried.capacity, out=np.zeros(len(carried.loads)), where=carried.capacity > 0)
    found = []
    for hop in Hop:
        links = fabric.links((_TIERS | _DOWN)[hop]) + (fabric.num_links if hop in _DOWN else 0)
        each = share[links]
        if (used := each > 0).any():
            found.append(HopLoads(hop, links, each, int(used.sum()), float(each[used].mean()), float(each.max())))
    return tuple(found)


def link_name(fabric: Fabric, directed: int) -> str:
    """A directed link as `tor-s0-r0-0 → agg-p0-0-7`, with the port of a card."""
    link = directed % fabric.num_links
    names = [fabric.node_name(int(ends[link])) for ends in (fabric.lower, fabric.upper)]
    if fabric.lower[link] < fabric.num_gpus:
        names[0] += f":{fabric.lower_port[link]}"
    return " → ".join(names if directed < fabric.num_links else reversed(names))


def way_name(fabric: Fabric, route: Column) -> str:
    """A route as the nodes that it passes."""
    names: list[str] = []
    for directed in route[route != NONE].tolist():
        one, other = link_name(fabric, directed).split(" → ")
        names += [other] if names else [one, other]
    return " → ".join(names)
