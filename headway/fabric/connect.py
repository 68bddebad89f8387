"""Connections: how a pair of cards spreads its bytes over ports and paths (HPN §6.1, algorithm 1)."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from headway.errors import PlanError, nearest
from headway.fabric.fabric import NONE, Column, Fabric, Flags, Tier
from headway.fabric.hashing import Flows, Hashing
from headway.fabric.hashing import choose as hashed
from headway.fabric.route import Hop, routes
from headway.fabric.ways import Ways

Ports = Literal["hash", "round_robin", "disjoint"]
Split = Literal["equal", "least_loaded"]
MOST_CONNECTIONS = 128  # of a pair
_ENTROPY = (49152, 65536)  # RoCE's UDP source ports
_STREAM = 1  # of a seed: hashes are drawn from the seed alone, and must not repeat in the source ports
_TRIES = 24  # source ports that a host predicts for a connection before it takes the best of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Connecting:
    """How pairs connect.

    `connections` of a pair of cards. `ports`: whether each leaves by the port of its card that the host's hash gives,
    by each port in turn, or in turn with source ports whose paths, predicted from the switches' hashes, are disjoint.
    `split`: each connection takes an equal part of the bytes, or the next message goes to the one with the fewest
    unfinished bytes (algorithm 2), so that parts are as connections are fast.
    """

    connections: int = 2
    ports: Ports = "round_robin"
    split: Split = "equal"

    def __post_init__(self) -> None:
        if not 1 <= self.connections <= MOST_CONNECTIONS:
            raise PlanError(f"{self.connections} connections of a pair. Use 1 to {MOST_CONNECTIONS}.")
        for key, kind in (("ports", Ports), ("split", Split)):
            if (value := getattr(self, key)) not in get_args(kind):
                raise PlanError(f"{key} is '{value}'. {nearest(value, get_args(kind))}")

    def __str__(self) -> str:
        each = f"{self.connections} connection{'' if self.connections == 1 else 's'} a pair"
        return f"{each}, ports {self.ports.replace('_', ' ')}, split {self.split.replace('_', ' ')}"


def usual(fabric: Fabric) -> Connecting:
    """What is used on such a fabric: HPN's selection where planes keep a path as it was chosen, else plain hashing."""
    if len(np.unique(fabric.plane[fabric.nodes(Tier.AGG)])) > 1:
        return Connecting(ports="disjoint", split="least_loaded")
    return Connecting(ports="hash", split="equal")


@dataclass(frozen=True, slots=True, eq=False)
class Connections:
    """F connections, those of a pair one after another. [F]: `pair`, `flows`, the card's `port`; [F, 6]: `routes`."""

    pair: Column
    flows: Flows
    port: Column
    routes: Column


def connect(
    ways: Ways,
    hashing: Hashing,
    source: Column,
    destination: Column,
    how: Connecting,
    seed: int,
    *,
    own: Ways | None = None,
) -> Connections:
    """The connections of pairs of cards, [E] `source` and `destination`; source ports are drawn from `seed`.

    A pair uses the ports of its card that work and lead to the destination. Where none does, its routes are empty.
    `own`: the ways whose access links cards know to work at their own ports, where those differ from what they know of
    the rest.
    """
    count, pairs = how.connections, len(source)
    random = np.random.default_rng((seed, _STREAM))
    usable = _usable(ways, (own or ways).ports[source], destination)
    pair = np.repeat(np.arange(pairs, dtype=np.int32), count)
    flows = Flows(source[pair], destination[pair], _drawn(random, pairs * count))
    turn = np.tile(np.arange(count, dtype=np.int32), pairs)
    many = usable.sum(axis=1).astype(np.int32)[pair]
    if how.ports == "hash":
        turn = hashed(hashing, flows.source, flows, np.maximum(many, 1))
    ordered = np.argsort(~usable, axis=1, kind="stable").astype(np.int32)
    port = np.where(many > 0, ordered[pair, turn % np.maximum(many, 1)], NONE)
    if how.ports == "disjoint" and count > 1:
        return _disjoint(ways, hashing, Connections(pair, flows, port, np.empty(0, np.int32)), random)
    return Connections(pair, flows, port, _routed(ways, hashing, flows, port))


def rerouted(connections: Connections, ways: Ways, hashing: Hashing) -> Connections:
    """The same connections, from the same ports, over other ways."""
    taken = _routed(ways, hashing, connections.flows, connections.port)
    return Connections(connections.pair, connections.flows, connections.port, taken)


def _routed(ways: Ways, hashing: Hashing, flows: Flows, port: Column) -> Column:
    found = routes(ways, hashing, flows, np.maximum(port, 0))
    found[port == NONE] = NONE
    return found


def _usable(ways: Ways, links: Column, destination: Column) -> Flags:
    """[E, ports]: whether a card's port works, whose `links` those are, and leads to the destination."""
    tors = np.where(links == NONE, 0, ways.fabric.upper[links])
    target = ways.target[destination]
    found = np.empty(links.shape, bool)
    for port, tor in enumerate(tors.T):
        below = ways.to_card.find(tor, destination)[0] > 0
        found[:, port] = below | (ways.from_tor.count[ways.from_tor.of_node[tor], target] > 0)
    found &= (links != NONE) & (target != NONE)[:, None]
    return found


def _disjoint(ways: Ways, hashing: Hashing, of: Connections, random: np.random.Generator) -> Connections:
    """The same pairs and ports, each connection sharing as few links as possible with the earlier ones of its pair."""
    flows, port = of.flows, of.port
    pairs = int(of.pair[-1]) + 1 if len(of.pair) else 0
    count = len(flows) // max(pairs, 1)
    chosen, best = flows.port.reshape(pairs, count), np.full((pairs, count), np.iinfo(np.int32).max)
    ends = [np.maximum((ways.ports[cards] != NONE).sum(axis=1), 1) for cards in (flows.source, flows.destination)]
    least = sum(np.tile(np.arange(count), pairs) // each for each in ends).reshape(pairs, count)
    taken = np.full((pairs, count, len(Hop)), NONE, np.int32)
    for turn in range(count):
        left = np.arange(pairs)
        for _ in range(_TRIES):
            which = left * count + turn
            tried = Flows(flows.source[which], flows.destination[which], _drawn(random, len(which)))
            found = _routed(ways, hashing, tried, port[which])
            shared = (taken[left, :turn] == found[:, None]) & (found[:, None] != NONE)
            cost = shared.sum(axis=(1, 2))
            better = cost < best[left, turn]
            place = left[better]
            chosen[place, turn], best[place, turn] = tried.port[better], cost[better]
            taken[place, turn] = found[better]
            left = left[best[left, turn] > least[left, turn]]
            if not len(left):
                break
    told = Flows(flows.source, flows.destination, chosen.ravel())
    return Connections(of.pair, told, port, taken.reshape(pairs * count, len(Hop)))


def _drawn(random: np.random.Generator, count: int) -> Column:
    return random.integers(*_ENTROPY, size=count, dtype=np.int32)
