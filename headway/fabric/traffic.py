"""Traffic: who sends how much to whom at once, and how long a fabric takes for it."""

from dataclasses import dataclass, replace

import numpy as np

from headway.fabric.connect import Connections, Split
from headway.fabric.fabric import NONE, Column, Fabric, Flags, Rates
from headway.fabric.rates import Uses, max_min, play
from headway.fabric.route import Hop, arrives

# RoCEv2: of a frame of 4096 bytes of payload 82 more are on the wire (preamble and gap 20, Ethernet 18, IP 20, UDP 8,
# InfiniBand's headers and checksum 16)
GOODPUT = 4096 / 4178


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """E edges between cards and C channels. [E]: `source`, `destination`, `channel`; [C]: the `bytes` of each edge.

    All edges of a channel share one rate: a ring or a tree passes bytes on as they come.
    """

    source: Column
    destination: Column
    channel: Column
    bytes: Rates


@dataclass(frozen=True, slots=True, eq=False)
class Carried:
    """How a fabric carries traffic.

    `seconds`, [C]: when each channel is done (inf: never). `rates`, [C]: bytes a second of an edge, at the beginning.
    `loads`, [2L]: bytes a second on each directed link then, and `capacity` what it has. `bound`, [C]: the link that
    bounds a channel. `route`: of the slowest channel, the connection that crosses that link.
    """

    seconds: Rates
    rates: Rates
    loads: Rates
    capacity: Rates
    bound: Column
    route: Column

    @property
    def slowest(self) -> int:
        """The channel that is done last, of those that never are the first one; NONE where there is no channel."""
        return int(np.argmax(self.seconds)) if len(self.seconds) else NONE

    @property
    def bottleneck(self) -> int:
        """The directed link that bounds the slowest channel; NONE where it stands still, or there is no channel."""
        return int(self.bound[self.slowest]) if len(self.bound) else NONE


def capacities(fabric: Fabric, alive: Flags | None = None) -> Rates:
    """[2L]: bytes of payload a second of each directed link: up, then down; 0 where it is dead."""
    each = fabric.capacity * GOODPUT * (1.0 if alive is None else alive)
    return np.concatenate([each, each])


def carry(traffic: Traffic, connections: Connections, capacity: Rates, split: Split) -> Carried:
    """How long `traffic` takes over the `connections` of its edges, alone on links of `capacity`.

    A channel that has a connection without a way stands still, and takes nothing from others. An equal split makes an
    edge as fast as its slowest connection times their number. Where the next message goes to the connection with the
    fewest unfinished bytes, each carries what it could get alone among all connections.
    """
    stuck = _stuck(traffic, connections, capacity)
    uses = _uses(traffic, connections, capacity, split, stuck)
    played = play(capacity, uses, np.where(stuck, 0.0, traffic.bytes))
    seconds = np.where(stuck & (traffic.bytes > 0), np.inf, played.ends)
    loads = uses.loads(played.rates, len(capacity))
    done = Carried(seconds, played.rates, loads, capacity, played.bound, np.full(len(Hop), NONE, np.int32))
    return replace(done, route=_route(done, traffic, connections))


def started(traffic: Traffic, connections: Connections, capacity: Rates, split: Split) -> tuple[Rates, Column]:
    """[C] each: bytes a second of an edge as long as all channels send, 0 of a stuck one, and the link that bounds it.

    The least of these rates never falls where capacity is added to equal splits.
    """
    return max_min(capacity, _uses(traffic, connections, capacity, split, _stuck(traffic, connections, capacity)))


def _stuck(traffic: Traffic, connections: Connections, capacity: Rates) -> Flags:
    """[C]: whether a connection of the channel never arrives."""
    found = np.zeros(len(traffic.bytes), bool)
    found[traffic.channel[connections.pair[_still(connections, capacity)]]] = True
    return found


def _still(connections: Connections, capacity: Rates) -> Flags:
    """[F]: connections without a way, or over a link that carries nothing: what is sent on them never arrives."""
    routes = connections.routes
    found: Flags = ~arrives(routes) | ((routes != NONE) & (capacity[routes] <= 0)).any(axis=1)
    return found


def _uses(traffic: Traffic, connections: Connections, capacity: Rates, split: Split, stuck: Flags) -> Uses:
    """What each channel that is not stuck takes of links: all its edges with all their connections."""
    pair = connections.pair
    which, hop = np.nonzero((connections.routes != NONE) & ~stuck[traffic.channel[pair]][:, None])
    link = connections.routes[which, hop]
    if split == "equal":
        share = 1.0 / np.bincount(pair, minlength=len(traffic.source))[pair]
    else:
        alone, _ = max_min(capacity, Uses(len(pair), which.astype(np.int32), link, np.ones(len(link))))
        whole = np.bincount(pair, alone, len(traffic.source))[pair]
        share = np.divide(alone, whole, out=np.zeros(len(pair)), where=whole > 0)
    channel = traffic.channel[pair]
    return Uses(len(traffic.bytes), channel[which], link, share[which])


def _route(done: Carried, traffic: Traffic, connections: Connections) -> Column:
    """The route of a connection of the slowest channel: over the link that bounds it, or one that stands still."""
    of = traffic.channel[connections.pair] == done.slowest
    if not of.any():
        return done.route
    bound = done.bottleneck
    one = _still(connections, done.capacity) if bound == NONE else (connections.routes == bound).any(axis=1)
    found: Column = connections.routes[int(np.argmax(of & one))]
    return found
