"""Reactions: who takes what for dead at any moment, which ways connections take then, and what still moves."""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import isfinite

import numpy as np

from headway.fabric.bench import Attempt, Case, Measured, finish
from headway.fabric.connect import Connections, connect, rerouted
from headway.fabric.convergence import Delays
from headway.fabric.fabric import NONE, Column, Fabric, Flags, Tier
from headway.fabric.hashing import hashing
from headway.fabric.history import TOGETHER, History, apart
from headway.fabric.loads import link_name
from headway.fabric.route import arrives
from headway.fabric.traffic import capacities, carry
from headway.fabric.ways import Ways, ways
from headway.units import BytesPerSecond, Seconds


@dataclass(frozen=True, slots=True, eq=False)
class Phase:
    """A stretch of time in which nothing changes.

    `broken`: what is down, and what that leaves. `waiting`: who has not acted on the last change yet: hosts at their
    own ports, switches, senders elsewhere, retries of pairs that were cut off. `still`: pairs of cards between which
    nothing moves. `measured`: the collective, as if it ran through; its bus bandwidth is 0 where anything stands still.
    `slowest`: the link that bounds it, or a pair that stands still.
    """

    start: Seconds
    end: Seconds
    broken: tuple[str, ...]
    waiting: tuple[str, ...]
    still: int
    measured: Measured
    slowest: str

    @property
    def busbw(self) -> BytesPerSecond:
        """Bus bandwidth of the collective."""
        return self.measured.busbw


class Reactions:
    """A job's connections at any moment: who knew what then, which ways that gave, and what still moved.

    Sets of states stand for what somebody takes for dead: all links that are dead in any of them.
    """

    def __init__(
        self, fabric: Fabric, case: Case, attempt: Attempt, seed: int, delays: Delays, history: History
    ) -> None:
        self.fabric, self.case, self.attempt, self.seed = fabric, case, attempt, seed
        self.delays, self.history, self.sent = delays, history, attempt.sent
        self.hashing = hashing(fabric, seed, shared=case.shared_seed)
        self._ways: dict[frozenset[int], Ways] = {}
        self._plans: dict[tuple[frozenset[int], frozenset[int]], Connections] = {}
        self._taken: dict[tuple[frozenset[int], frozenset[int], int, int], Connections] = {}
        self._cut: dict[int, Flags] = {}
        self._found: dict[object, tuple[Measured, int, str]] = {}

    def moments(self) -> list[Seconds]:
        """From 0 to the end, whenever something breaks or comes back, or somebody acts on it."""
        d, times = self.delays, self.history.times
        late = {0.0, d.notice, d.reroute, d.learn, *self._back}
        later = [times + delay for delay in late if isfinite(delay)]
        retries = [end for _, end, _, _ in self._cuts]
        inside = np.concatenate([*later, np.array(retries, float)])
        inside = apart(inside[(inside > 0) & (inside < self.history.end)].tolist())
        return [Seconds(each) for each in (0.0, *inside.tolist(), self.history.end)]

    def phase(self, start: Seconds, end: Seconds) -> Phase:
        """What holds from `start` on."""
        d, now, at = self.delays, self.history.at(start), self.history.at
        own = _union(at(start, d.notice), at(start, self._back[0]))
        learnt = _union(at(start, d.learn), at(start, self._back[1])) if isfinite(d.learn) else frozenset[int]()
        switches = at(start, d.reroute)
        retrying = frozenset((one, other) for begin, stop, one, other in self._cuts if begin <= start < stop - TOGETHER)
        key = (own, learnt, switches, now, retrying)
        if key not in self._found:
            self._found[key] = self._measure(*key)
        measured, still, slowest = self._found[key]
        waiting = []
        if (self._dead(own) ^ self.history.states[now])[self._access].any():
            waiting.append("hosts")
        if switches != now:
            waiting.append("switches")
        if not _same(self._plan(own, learnt), self._plan(own, _union(now))):
            waiting.append("senders")
        if retrying:
            waiting.append("retries")
        return Phase(start, end, self.history.broken[now], tuple(waiting), still, measured, slowest)

    @cached_property
    def _access(self) -> Column:
        return self.fabric.links(Tier.GPU)

    @cached_property
    def _back(self) -> tuple[float, float]:
        """After how long what has come back is used by its host, and by senders elsewhere: not before switches do."""
        d = self.delays
        return max(d.notice, d.reroute), max(d.learn, d.reroute)

    @cached_property
    def _cuts(self) -> list[tuple[float, float, int, int]]:
        """Repairs after which pairs that were cut off wait: from when to when, the states before and after."""
        steps = zip(self.history.times.tolist(), pairwise(self.history.which), strict=True)
        return [(now, now + self.delays.resume, *pair) for now, pair in steps if self._resuming(*pair).any()]

    def _resuming(self, before: int, after: int) -> Flags:
        """[E]: pairs that are cut off in a state and no more in the next one."""
        return self._cut_off(before) & ~self._cut_off(after)

    def _cut_off(self, state: int) -> Flags:
        """[E]: pairs that stand still even when all have acted."""
        if state not in self._cut:
            learnt = _union(state) if isfinite(self.delays.learn) else frozenset[int]()
            self._cut[state] = self._still(self._connections(_union(state), learnt, state, state))
        return self._cut[state]

    def _measure(
        self,
        own: frozenset[int],
        learnt: frozenset[int],
        switches: int,
        now: int,
        retrying: frozenset[tuple[int, int]],
    ) -> tuple[Measured, int, str]:
        """The collective, how many pairs stand still, and what bounds it."""
        found = self._connections(own, learnt, switches, now)
        if retrying:
            waits = np.logical_or.reduce([self._resuming(*each) for each in sorted(retrying)])
            found = _without(found, waits[found.pair])
        capacity = capacities(self.fabric, ~self.history.states[now])
        carried = carry(self.sent, found, capacity, self.case.how.split)
        measured = finish(self.fabric, self.case, self.attempt, carried)
        still = np.flatnonzero(self._still(found))
        if len(still):
            ends = (self.fabric.node_name(int(each[still[0]])) for each in (self.sent.source, self.sent.destination))
            return measured, len(still), " → ".join(ends)
        if measured.inside >= measured.network:
            return measured, 0, "inside hosts"
        return measured, 0, link_name(self.fabric, carried.bottleneck)

    def _still(self, connections: Connections) -> Flags:
        """[E]: pairs of which a connection has no way."""
        found = np.zeros(len(self.sent.source), bool)
        found[connections.pair[~arrives(connections.routes)]] = True
        return found

    def _connections(self, own: frozenset[int], learnt: frozenset[int], switches: int, now: int) -> Connections:
        """As hosts and senders chose them and switches route them; those that meet a link that is dead have no way."""
        key = (own, learnt, switches, now)
        if key not in self._taken:
            taken = rerouted(self._plan(own, learnt), self._ways_without(_union(switches)), self.hashing)
            gone = self.history.states[now][taken.routes % self.fabric.num_links] & (taken.routes != NONE)
            self._taken[key] = _without(taken, gone.any(axis=1))
        return self._taken[key]

    def _plan(self, own: frozenset[int], learnt: frozenset[int]) -> Connections:
        """The ports and source ports that hosts choose, who know `own` of their own ports and `learnt` of the rest."""
        key = (own, learnt)
        if key not in self._plans:
            rest, ends = self._ways_without(learnt), (self.sent.source, self.sent.destination)
            self._plans[key] = connect(rest, self.hashing, *ends, self.case.how, self.seed, own=self._ways_without(own))
        return self._plans[key]

    def _ways_without(self, states: frozenset[int]) -> Ways:
        if states not in self._ways:
            self._ways[states] = ways(self.fabric, ~self._dead(states))
        return self._ways[states]

    def _dead(self, states: frozenset[int]) -> Flags:
        found: Flags = np.logical_or.reduce([self.history.states[each] for each in (0, *states)])
        return found


def _union(*states: int) -> frozenset[int]:
    return frozenset(states) - {0}


def _same(one: Connections, other: Connections) -> bool:
    return bool((one.port == other.port).all() and (one.flows.port == other.flows.port).all())


def _without(connections: Connections, gone: Flags) -> Connections:
    """The same, some of them without a way."""
    return replace(connections, routes=np.where(gone[:, None], NONE, connections.routes).astype(np.int32))
