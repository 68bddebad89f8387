"""Routes: the directed links that flows take from card to card, hop by hop as their switches hash."""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from headway.fabric.fabric import NONE, Column, Flags
from headway.fabric.hashing import Flows, Hashing, choose
from headway.fabric.ways import Down, Up, Ways

Indices = NDArray[np.int64]


class Hop(IntEnum):
    """The columns of a route: where each link leads."""

    CARD_UP = 0
    TOR_UP = 1
    AGG_UP = 2
    CORE_DOWN = 3
    AGG_DOWN = 4
    TOR_DOWN = 5


def routes(ways: Ways, hashing: Hashing, flows: Flows, port: Column) -> Column:
    """[F, 6]: the directed links of each flow that leaves by `port` of its card, one column a Hop, NONE where none is.

    Link l upwards is l, downwards L + l. A flow climbs to the lowest tier below which its destination lies, and there
    turns. Where it finds no way on (its port is dead, or its plane does not reach the destination) all later columns
    are NONE, the last one among them: `arrives` tells.
    """
    walk = _Walk(ways, hashing, flows)
    walk.leave(port)
    every = walk.going()
    up = every[ways.to_card.find(walk.node[every], flows.destination[every])[0] == 0]
    walk.climb(Hop.TOR_UP, ways.from_tor, up)
    up = up[walk.node[up] != NONE]
    far = up[ways.to_tor.find(walk.node[up], walk.target[up])[0] == 0]
    walk.climb(Hop.AGG_UP, ways.from_agg, far)
    walk.cross(far[walk.node[far] != NONE])
    walk.fall(Hop.AGG_DOWN, ways.to_tor, walk.target, up[walk.node[up] != NONE])
    walk.fall(Hop.TOR_DOWN, ways.to_card, flows.destination, walk.going())
    return walk.taken


def arrives(routes: Column) -> Flags:
    """[…]: whether each route reaches its card."""
    found: Flags = routes[..., Hop.TOR_DOWN] != NONE
    return found


class _Walk:
    """F flows on their way: the node where each is (NONE: it found no way on), and the links that it has taken."""

    def __init__(self, ways: Ways, hashing: Hashing, flows: Flows) -> None:
        self.ways, self.hashing, self.flows, self.fabric = ways, hashing, flows, ways.fabric
        self.target = ways.target[flows.destination]
        self.node = np.full(len(flows), NONE, np.int32)
        self.taken = np.full((len(flows), len(Hop)), NONE, np.int32)

    def going(self) -> Indices:
        """The flows that have not got stuck."""
        return np.flatnonzero(self.node != NONE)

    def leave(self, port: Column) -> None:
        """By their ports; towards a card that no ToR reaches none leaves."""
        link = self.ways.ports[self.flows.source, port]
        link = np.where(self.target == NONE, NONE, link)
        self._take(Hop.CARD_UP, np.arange(len(link)), link)

    def climb(self, hop: Hop, up: Up, which: Indices) -> None:
        """One tier up by one of the links that lie on a shortest way."""
        node, target = self.node[which], self.target[which]
        kind = up.of_node[node]
        place = self._choose(which, up.count[kind, target])
        goes = np.flatnonzero(place != NONE)  # a node that has no link left has no row to read
        link = np.full(len(which), NONE, np.int32)
        link[goes] = up.links[up.first[node[goes]] + up.order[kind[goes], target[goes], place[goes]]]
        self._take(hop, which, link)

    def fall(self, hop: Hop, down: Down, target: Column, which: Indices) -> None:
        """One tier down by one of the links behind which the target lies."""
        self._take(hop, which, self._fallen(down, target[which], which))

    def cross(self, which: Indices) -> None:
        """Through the cores: by flow, or by the port of arrival as long as what it leads to works (HPN §7)."""
        link = self._fallen(self.ways.to_agg, self.target[which], which)
        if self.fabric.per_port_core and len(which):
            pod = self.fabric.pod[self.flows.destination[which]]
            wired = self.ways.wired
            count, first = wired.find(self.node[which], pod)
            entered = self.ways.port_in_pod[self.taken[which, Hop.AGG_UP]]
            fixed = wired.links[first + entered % np.maximum(count, 1)]
            agg = self.fabric.lower[fixed]
            works = (count > 0) & self.ways.alive[fixed] & (self.ways.to_tor.find(agg, self.target[which])[0] > 0)
            link = np.where(works, fixed, link)
        self._take(Hop.CORE_DOWN, which, link)

    def _fallen(self, down: Down, target: Column, which: Indices) -> Column:
        count, first = down.find(self.node[which], target)
        place = self._choose(which, count)
        link, found = np.full(len(which), NONE, np.int32), place != NONE
        link[found] = down.links[first[found] + place[found]]
        return link

    def _choose(self, which: Indices, count: Column) -> Column:
        """Which of `count` links each of these flows takes at its node, NONE of none."""
        place = choose(self.hashing, self.node[which], self.flows.of(which), np.maximum(count, 1))
        return np.where(count > 0, place, NONE)

    def _take(self, hop: Hop, which: Indices, link: Column) -> None:
        ends = self.fabric.upper if hop <= Hop.AGG_UP else self.fabric.lower
        self.node[which] = np.where(link == NONE, NONE, ends[link])
        directed = link if hop <= Hop.AGG_UP else link + self.fabric.num_links
        self.taken[which, hop] = np.where(link == NONE, NONE, directed)
