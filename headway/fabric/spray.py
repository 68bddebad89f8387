"""Spraying: what traffic would get if packets went over all ports and paths alike, the ideal of any choice of paths."""

import numpy as np

from headway.fabric.fabric import NONE, Column, Rates, Tier
from headway.fabric.rates import Uses, max_min
from headway.fabric.traffic import Traffic, capacities
from headway.fabric.ways import Ways


def sprayed(traffic: Traffic, ways: Ways) -> Rates:
    """[C]: bytes a second of an edge of each channel.

    Links that packets are spread over are one pool: those up from a card, from a ToR and from the Aggs of a pod, and
    those down to each. An edge uses all its card's working ports alike. Max-min fair among channels.
    """
    fabric = ways.fabric
    pools = _pools(ways)
    used: list[tuple[Column, Column, Rates]] = []  # edges, pools, weights
    edges = np.arange(len(traffic.source), dtype=np.int32)
    one = np.ones(len(edges))
    down = len(pools) // 2
    used += [(edges, traffic.source, one), (edges, down + traffic.destination, one)]
    apart = fabric.pod[traffic.source] != fabric.pod[traffic.destination]
    for cards, others, side in (
        (traffic.source, traffic.destination, 0),
        (traffic.destination, traffic.source, down),
    ):
        links = ways.ports[cards]
        share = 1.0 / np.maximum((links != NONE).sum(axis=1), 1)
        for link in links.T:
            tor = fabric.upper[link]
            climbs = (link != NONE) & (ways.to_card.find(tor, others)[0] == 0)
            used.append((edges[climbs], side + tor[climbs], share[climbs]))
        used.append((edges[apart], side + fabric.num_nodes + fabric.pod[cards][apart], one[apart]))
    edge, pool, weight = (np.concatenate(each) for each in zip(*used, strict=True))
    uses = Uses(len(traffic.bytes), traffic.channel[edge], pool.astype(np.int32), weight)
    return max_min(pools, uses)[0]


def _pools(ways: Ways) -> Rates:
    """[2 · (N + pods)]: up from each node, and up from the Aggs of each pod; then the same down to them."""
    fabric, half = ways.fabric, ways.fabric.num_links
    each = capacities(fabric, ways.alive)
    pods = int(fabric.pod.max(initial=0)) + 1
    aggs = fabric.tier[fabric.lower] == Tier.AGG
    sides = []
    for capacity in (each[:half], each[half:]):
        nodes = np.bincount(fabric.lower, capacity, fabric.num_nodes)
        sides += [nodes, np.bincount(fabric.pod[fabric.lower[aggs]], capacity[aggs], pods)]
    return np.concatenate(sides)
