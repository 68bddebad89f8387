"""Spraying: what traffic would get if packets went over all ports and paths alike, the ideal of any choice of paths."""

import numpy as np

from headway.fabric.fabric import NONE, Column, Fabric, Flags, Rates, Tier
from headway.fabric.joined import joined
from headway.fabric.rates import Played, Uses, play
from headway.fabric.traffic import Traffic, capacities
from headway.fabric.ways import Ways


def sprayed(traffic: Traffic, ways: Ways) -> Played:
    """When each channel would be done, and the rate of its edges at the beginning.

    Links that packets are spread over are one pool: those up from a card, from the ToRs that its ports lead to, and
    from the Aggs of a pod, and those down to each. So where ports or uplinks are dead, packets go where there is room.
    Max-min fair among channels; no choice of ports and paths makes the slowest of equal channels faster.
    """
    fabric = ways.fabric
    tors, pods = _tors_together(ways), _pods_together(fabric)
    of_card = np.where(ways.target == NONE, 0, tors[fabric.upper[ways.ports.max(axis=1)]])  # any working port's
    up, down = traffic.source, traffic.destination
    climbs, apart = ~_under_one_tor(ways, up, down), pods[fabric.pod[up]] != pods[fabric.pod[down]]
    capacity = _pools(ways, tors, pods)
    half, edges = len(capacity) // 2, np.arange(len(up), dtype=np.int32)
    used: list[tuple[Column, Column]] = []  # edges, pools
    for cards, side in ((up, 0), (down, half)):
        used += [
            (edges, side + cards),
            (edges[climbs], side + of_card[cards][climbs]),
            (edges[apart], side + fabric.num_nodes + pods[fabric.pod[cards]][apart]),
        ]
    edge, pool = (np.concatenate(each) for each in zip(*used, strict=True))
    uses = Uses(len(traffic.bytes), traffic.channel[edge], pool.astype(np.int32), np.ones(len(edge)))
    return play(capacity, uses, traffic.bytes)


def _under_one_tor(ways: Ways, source: Column, destination: Column) -> Flags:
    """[E]: whether a ToR of the source's working ports is one of the destination's."""
    found = np.zeros(len(source), bool)
    for link in ways.ports[source].T:
        found |= (link != NONE) & (ways.to_card.find(ways.fabric.upper[link], destination)[0] > 0)
    return found


def _tors_together(ways: Ways) -> Column:
    """[N]: of a ToR the first of those that cards join it with, at whose uplinks packets of those cards are sprayed."""
    card, port = np.nonzero(ways.ports != NONE)
    return _together(ways.fabric.num_nodes, card.astype(np.int32), ways.fabric.upper[ways.ports[card, port]])


def _pods_together(fabric: Fabric) -> Column:
    """[pods]: of a pod the first of those that share Aggs with it."""
    links = fabric.links(Tier.TOR)
    return _together(int(fabric.pod.max(initial=0)) + 1, fabric.upper[links], fabric.pod[fabric.lower[links]])


def _together(count: int, groups: Column, members: Column) -> Column:
    """[count]: the first of all things, of `count`, that some chain of common groups joins each one with.

    >>> _together(6, np.array([7, 7, 8, 8, 9]), np.array([0, 2, 2, 3, 4])).tolist()
    [0, 1, 0, 0, 4, 5]
    """
    named = count + groups  # beside all things, so that none of them is a group's least member
    return joined(count + int(groups.max(initial=-1)) + 1, named, members)[:count]


def _pools(ways: Ways, tors: Column, pods: Column) -> Rates:
    """[2 · (N + pods)]: up from each card, the ToRs and the Aggs that are one; then the same down to them."""
    fabric, half = ways.fabric, ways.fabric.num_links
    each = capacities(fabric, ways.alive)
    aggs = np.flatnonzero((fabric.tier[fabric.lower] == Tier.AGG) & (fabric.pod[fabric.lower] != NONE))
    sides = []
    for capacity in (each[:half], each[half:]):
        nodes = np.bincount(tors[fabric.lower], capacity, fabric.num_nodes)
        sides += [nodes, np.bincount(pods[fabric.pod[fabric.lower[aggs]]], capacity[aggs], len(pods))]
    return np.concatenate(sides)
