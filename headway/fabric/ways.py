"""Ways: from which links each switch may choose on the way to a card, found from a fabric's working links."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.fabric.fabric import NONE, Column, Fabric, Flags, Tier

Keys = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Down:
    """Links down: for (node, target) the links of the node behind which the target lies.

    `keys`: node · `span` + target, ascending; links `links[first[k] : first[k] + count[k]]` belong to key k.
    """

    span: int
    keys: Keys
    first: Keys
    count: Column
    links: Column

    def find(self, nodes: Column, targets: Column) -> tuple[Column, Keys]:
        """[F] each: how many links, 0 where there is none, and where they begin."""
        if not len(self.keys):
            return np.zeros(len(nodes), np.int32), np.zeros(len(nodes), np.int64)
        wanted = nodes.astype(np.int64) * self.span + targets
        place = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        count = np.where(self.keys[place] == wanted, self.count[place], 0).astype(np.int32)
        return count, self.first[place]


@dataclass(frozen=True, slots=True, eq=False)
class Up:
    """Links up: for (class of node, target) those that lie on a shortest way; nodes with like neighbours are a class.

    `of_node`: [N] class, `first`: [N] where the node's links begin in `links`. `count`: [classes, targets] how many
    lead there, `order`: [classes, targets, most] which of the node's links those are, first.
    """

    of_node: Column
    first: Column
    links: Column
    count: Column
    order: Column


@dataclass(frozen=True, slots=True, eq=False)
class Ways:
    """All choices of a fabric. Cards under the same ToRs are one target: `target`, [G] (NONE: a card without a link).

    `ports`, [G, most]: the working access link of each port of a card, NONE where it is dead or there is none. `wired`:
    for (core, pod) its links, dead ones too, and `port_in_pod`, [L], which of those each link is.
    """

    fabric: Fabric
    alive: Flags
    ports: Column
    target: Column
    to_card: Down
    to_tor: Down
    to_agg: Down
    from_tor: Up
    from_agg: Up
    wired: Down
    port_in_pod: Column


def ways(fabric: Fabric, alive: Flags | None = None) -> Ways:
    """The ways of a fabric over its `alive` links ([L]; all of them where none are given)."""
    alive = np.ones(fabric.num_links, bool) if alive is None else alive
    ports = _ports(fabric, alive)
    target, tors = _targets(fabric, ports)
    access = fabric.links(Tier.GPU)
    access = access[alive[access]]
    to_card = _down(fabric.upper[access], fabric.lower[access], access, fabric.num_gpus)
    served = np.zeros((fabric.num_nodes - fabric.num_gpus, len(tors)), bool)  # which targets lie below a switch
    place, column = np.nonzero(tors != NONE)
    served[tors[place, column] - fabric.num_gpus, place] = True
    to_tor, to_agg = (_served(fabric, alive, tier, served) for tier in (Tier.TOR, Tier.AGG))
    # tiers to climb from a switch before the target lies below: 0, 1, or 2, which is as good as never
    far = np.where(served, 0, 2).astype(np.int8)
    from_agg = _up(fabric, alive, Tier.AGG, far)
    aggs = fabric.nodes(Tier.AGG)
    reached = from_agg.count[from_agg.of_node[aggs]] > 0
    far[aggs - fabric.num_gpus] = np.where(served[aggs - fabric.num_gpus], 0, np.where(reached, 1, 2))
    from_tor = _up(fabric, alive, Tier.TOR, far)
    return Ways(fabric, alive, ports, target, to_card, to_tor, to_agg, from_tor, from_agg, *_wired(fabric))


def _ports(fabric: Fabric, alive: Flags) -> Column:
    """[G, most]: the working access link of each port."""
    access = fabric.links(Tier.GPU)
    port = fabric.lower_port[access]
    found = np.full((fabric.num_gpus, int(port.max(initial=0)) + 1), NONE, np.int32)
    working = alive[access]
    found[fabric.lower[access][working], port[working]] = access[working]
    return found


def _targets(fabric: Fabric, ports: Column) -> tuple[Column, Column]:
    """[G]: the target that each card belongs to, and [targets, most]: the ToRs of each, ascending, NONE first."""
    tors = np.sort(np.where(ports == NONE, NONE, fabric.upper[ports]), axis=1)
    key = np.zeros(len(tors), np.int64)
    for column in tors.T:  # names of ToR sets, packed anew so that they cannot overflow
        _, key = np.unique(key * (fabric.num_nodes + 1) + column + 1, return_inverse=True)
    _, first, target = np.unique(key, return_index=True, return_inverse=True)
    sets = tors[first]
    target = np.where((sets == NONE).all(axis=1)[target], NONE, target)
    return target.astype(np.int32), sets


def _down(nodes: Column, targets: Column, links: Column, span: int) -> Down:
    keys = nodes.astype(np.int64) * span + targets
    order = np.argsort(keys, kind="stable")
    found, first, count = np.unique(keys[order], return_index=True, return_counts=True)
    return Down(span, found, first, count.astype(np.int32), links[order].astype(np.int32))


def _served(fabric: Fabric, alive: Flags, tier: Tier, served: Flags) -> Down:
    """The links down to a tier; marks in `served` what lies below the switches above them."""
    links = fabric.links(tier)
    links = links[alive[links]]
    each, targets = np.nonzero(served[fabric.lower[links] - fabric.num_gpus])
    links = links[each]
    served[fabric.upper[links] - fabric.num_gpus, targets] = True
    return _down(fabric.upper[links], targets.astype(np.int32), links, served.shape[1])


def _wired(fabric: Fabric) -> tuple[Down, Column]:
    """The links of each core into each pod, and the place of every link among them."""
    links = fabric.links(Tier.AGG)
    pods = int(fabric.pod.max(initial=0)) + 1
    found = _down(fabric.upper[links], fabric.pod[fabric.lower[links]], links, pods)
    place = np.zeros(fabric.num_links, np.int32)
    place[found.links] = np.arange(len(found.links)) - np.repeat(found.first, found.count)
    return found, place


def _up(fabric: Fabric, alive: Flags, tier: Tier, far: NDArray[np.int8]) -> Up:
    """The links up from a tier. `far`: [S, targets], how far each switch of the next tier is from each target."""
    links = fabric.links(tier)
    links = links[alive[links]]
    links = links[np.argsort(fabric.lower[links], kind="stable")]
    lower, above = fabric.lower[links], fabric.upper[links] - fabric.num_gpus
    degree = np.bincount(lower, minlength=fabric.num_nodes)
    first = np.concatenate([[0], np.cumsum(degree)[:-1]])
    nodes = fabric.nodes(tier)
    most = int(degree.max(initial=0))
    neighbours = np.full((len(nodes), most), NONE, np.int32)
    place = np.searchsorted(nodes, lower)
    neighbours[place, np.arange(len(links)) - first[lower]] = above
    alike, inverse = (
        np.unique(neighbours, axis=0, return_inverse=True) if most else (neighbours[:1], np.zeros(len(nodes), np.int64))
    )
    of_node = np.zeros(fabric.num_nodes, np.int32)
    of_node[nodes] = inverse.ravel()
    targets = far.shape[1]
    count = np.zeros((len(alike), targets), np.int32)
    order = np.zeros((len(alike), targets, most), np.int32)
    for each, row in enumerate(alike):
        steps = np.where((row == NONE)[:, None], np.int8(2), far[row])  # [most, targets]
        nearest = steps.min(axis=0, initial=2)
        leads = (steps == nearest) & (nearest < 2)
        count[each] = leads.sum(axis=0)
        order[each] = np.argsort(~leads, axis=0, kind="stable").T
    return Up(of_node, first.astype(np.int32), links, count, order)
