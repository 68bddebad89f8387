"""Collectives of groups of cards as traffic between hosts: rings, double trees, rails, all pairs, neighbours."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, assert_never

import numpy as np
from numpy.typing import NDArray

from headway.errors import PlanError
from headway.fabric.fabric import Column, Fabric, Rates
from headway.fabric.traffic import Traffic
from headway.model import exchange

Collective = exchange.Collective | Literal["all_to_all", "send_recv"]
Algorithm = Literal["ring", "tree", "hierarchical", "pairs"]
MOST_EDGES = 2**22
Cards = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """The `ranks` of a group. `cards`: [hosts, channels], hosts in the order of ranks; a channel is a card on each.

    `members`, [hosts]: ranks on each.
    """

    cards: Column
    ranks: int
    members: Column

    @property
    def hosts(self) -> int:
        """Hosts that they are on."""
        return len(self.cards)

    @property
    def channels(self) -> int:
        """How many ways lead from a host to the next: one by each card, as many as the host with the fewest has."""
        return self.cards.size // len(self.cards)


def group(fabric: Fabric, cards: Sequence[int] | Column | Cards) -> Group:
    """The group of these cards, rank by rank. Raises PlanError for cards that the fabric lacks or that stand twice."""
    each = np.asarray(cards, np.int64)
    if not len(each) or each.min() < 0 or each.max() >= fabric.num_gpus or len(np.unique(each)) < len(each):
        raise PlanError(
            f"GPUs {each.min(initial=0)} to {each.max(initial=0)} ({len(each)} in all) are no group of {fabric.name}, "
            f"which has 0 to {fabric.num_gpus - 1}. Name each once."
        )
    hosts, first, where, counts = np.unique(
        each // fabric.gpus_per_host, return_index=True, return_inverse=True, return_counts=True
    )
    least, turn = int(counts.min()), np.argsort(first)
    order = np.argsort(where, kind="stable")  # by host, and there by rank
    starts = np.cumsum(counts) - counts
    found = each[order[starts[turn][:, None] + np.arange(least)]]
    assert len(hosts) == len(found)
    return Group(found.astype(np.int32), len(each), counts[turn].astype(np.int32))


def algorithms(kind: Collective) -> tuple[Algorithm, ...]:
    """What a library may take for it."""
    match kind:
        case "all_reduce":
            return "ring", "tree", "hierarchical"
        case "all_gather" | "reduce_scatter":
            return ("ring",)
        case "all_to_all" | "send_recv":
            return ("pairs",)
        case _:
            assert_never(kind)


def volume(kind: Collective, ranks: int) -> float:
    """Bytes that each rank must pass on over those of the buffer; over seconds they are nccl-tests' bus bandwidth."""
    match kind:
        case "send_recv":
            return 1.0
        case "all_to_all":
            return (ranks - 1) / ranks
        case _:
            return exchange.passed_on(kind, ranks)


def traffic(
    fabric: Fabric, groups: Sequence[Group], kind: Collective, algorithm: Algorithm, size: float | Rates
) -> Traffic:
    """What groups that call `kind` at once, with buffers of `size` bytes, send between their hosts.

    `size` is what is reduced, gathered, scattered, or sent by each rank: of all groups, or [groups]. A ring passes
    every channel's part through all hosts; double trees carry half of it each, leaves of one being inner nodes of the
    other; hierarchical: members reduce and scatter inside their hosts, so that rings between hosts carry 2(h − 1)/h of
    each card's part only. Bytes for a card of another rail are handed over inside the host first, and leave by the card
    of that rail.
    """
    if (pairs := sum(_pairs(each, kind, algorithm) for each in groups)) > MOST_EDGES:
        raise PlanError(f"{pairs:,} pairs of cards are more than the {MOST_EDGES:,} that are played. Use fewer GPUs.")
    every = list(zip(groups, np.broadcast_to(size, len(groups)).tolist(), strict=True))
    match algorithm:
        case "ring":
            parts = [_ring(of, volume(kind, of.ranks) * each / of.channels) for of, each in every]
        case "hierarchical":
            parts = [_ring(of, volume(kind, of.hosts) * each / of.channels) for of, each in every]
        case "tree":
            parts = [_tree(of, each / of.channels / 2) for of, each in every]
        case "pairs":
            one = _to_all if kind == "all_to_all" else _to_next
            parts = [one(*each) for each in every]
        case _:
            assert_never(algorithm)
    return _joined(fabric, parts)


def sends(fabric: Fabric, source: Column, destination: Column, size: Rates) -> Traffic:
    """A message of `size` bytes, [E], from each card to another, all at once; those inside a host send nothing."""
    between = source // fabric.gpus_per_host != destination // fabric.gpus_per_host
    ends = source[between].astype(np.int32), destination[between].astype(np.int32)
    return _joined(fabric, [Traffic(*ends, np.arange(len(ends[0]), dtype=np.int32), size[between])])


def _pairs(of: Group, kind: Collective, algorithm: Algorithm) -> int:
    """Pairs of cards that send, at most."""
    if kind == "all_to_all":
        return of.hosts * (of.hosts - 1) * of.channels
    return of.hosts * of.channels * (4 if algorithm == "tree" else 1)  # of a host's card to its parent and back, twice


def _ring(of: Group, size: float) -> Traffic:
    if of.hosts == 1:
        return _nothing(of.channels)
    channel = np.tile(np.arange(of.channels, dtype=np.int32), of.hosts)
    return Traffic(of.cards.ravel(), np.roll(of.cards, -1, axis=0).ravel(), channel, np.full(of.channels, size))


def _tree(of: Group, size: float) -> Traffic:
    """Channel c's two trees are channels 2c and 2c + 1; bytes go up to be reduced and down again."""
    if of.hosts == 1:
        return _nothing(2 * of.channels)
    source, destination, channel = [], [], []
    one = double_tree(of.hosts)
    for tree, parents in enumerate(one):
        child = np.flatnonzero(parents >= 0)
        low, high = of.cards[child], of.cards[parents[child]]
        number = np.broadcast_to(2 * np.arange(of.channels, dtype=np.int32) + tree, low.shape)
        source += [low.ravel(), high.ravel()]
        destination += [high.ravel(), low.ravel()]
        channel += [number.ravel()] * 2
    ends = np.concatenate(source), np.concatenate(destination)
    return Traffic(*ends, np.concatenate(channel), np.full(2 * of.channels, size))


def double_tree(count: int) -> tuple[Cards, Cards]:
    """[count] twice: each node's parent, −1 of the root. Leaves of one tree are inner nodes of the other.

    In the first, nodes 1 to n stand in order, and an odd one is a leaf; the second is its mirror image, or for an odd n
    the first shifted by one (Sanders et al. 2009, two-tree algorithms).

    >>> [each.tolist() for each in double_tree(4)]
    [[1, 3, 1, -1], [-1, 2, 0, 2]]
    """
    nodes = np.arange(1, count + 1)
    root = nodes == 1 << (count.bit_length() - 1)
    parents = _above(nodes)
    while (outside := (parents > count) & ~root).any():
        parents = np.where(outside, _above(parents), parents)
    parents[root] = 0
    first = parents - 1
    if count % 2:
        second = np.roll(np.where(first < 0, -1, (first + 1) % count), 1)
    else:
        second = np.where(first < 0, -1, count - 1 - first)[::-1]
    return first, second


def _above(nodes: Cards) -> Cards:
    """Parents in an endless tree whose nodes stand in order: its leaves are the odd numbers."""
    low = nodes & -nodes
    found: Cards = (nodes - low) | (2 * low)
    return found


def _to_all(of: Group, size: float) -> Traffic:
    """Ranks of a host hand what goes to another's card r to their own card r, which sends it in one."""
    one, other = np.nonzero(~np.eye(of.hosts, dtype=bool))
    channel = np.arange(len(one) * of.channels, dtype=np.int32)
    part = size / of.ranks * of.members[one] * of.members[other] / of.channels
    return Traffic(of.cards[one].ravel(), of.cards[other].ravel(), channel, np.repeat(part, of.channels))


def _to_next(of: Group, size: float) -> Traffic:
    """Each rank sends to the next; all but the last of a host find it in their host."""
    if of.hosts == 1:
        return _nothing(0)
    channel = np.arange(of.hosts, dtype=np.int32)
    return Traffic(of.cards[:, -1], np.roll(of.cards[:, 0], -1), channel, np.full(of.hosts, size))


def _nothing(channels: int) -> Traffic:
    none = np.zeros(0, np.int32)
    return Traffic(none, none, none, np.zeros(channels))


def _joined(fabric: Fabric, parts: Iterable[Traffic]) -> Traffic:
    """All of them at once, each with channels of its own."""
    every = list(parts)
    before = np.cumsum([0, *(len(each.bytes) for each in every)])
    source, destination, sizes = (
        np.concatenate([getattr(each, name) for each in every]) for name in ("source", "destination", "bytes")
    )
    channel = np.concatenate([each.channel + start for each, start in zip(every, before[:-1], strict=True)])
    return Traffic(relayed(fabric, source, destination), destination.astype(np.int32), channel.astype(np.int32), sizes)


def relayed(fabric: Fabric, source: Column, destination: Column) -> Column:
    """[E]: the card by which a host sends: its own of the destination's rail, where the source is of another one."""
    host, place = source // fabric.gpus_per_host, destination % fabric.gpus_per_host
    other = fabric.rail[source] != fabric.rail[destination]
    return np.where(other, host * fabric.gpus_per_host + place, source).astype(np.int32)
