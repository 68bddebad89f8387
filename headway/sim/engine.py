"""The engine: plays a graph of operations against a clock, with in-order lanes, meetings and shared resources."""

import heapq
from dataclasses import dataclass

import numpy as np

from headway.errors import ScheduleError
from headway.schedule import graph as graphs
from headway.schedule.graph import Graph
from headway.schedule.row import Column, Times


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """Resources that several ranks share, such as the cores or the network card of a node.

    `of`: [n], for each operation the number of the resource that it uses (−1: none of them); `size`: what each resource
    has of what an operation uses one: while more use it than it has, all go slower alike.
    """

    of: Column
    size: Times


def play(graph: Graph, seconds: Times, shared: Shared | None = None) -> tuple[Times, Times]:
    """[n] each: start and end of every operation in seconds, in the graph's order.

    `seconds`: [n], how long each takes once it starts; those that meet take the longest of them. Ties are broken by the
    order of starting, so the result depends on nothing else. Raises ScheduleError with every rank's next operation if
    the rows wait for each other.
    """
    longest = np.zeros(graph.num_events)
    np.maximum.at(longest, graph.events, seconds)
    starts, ends = _Game(graph, longest, shared).play() if shared else graphs.walk(graph, longest)
    done = ends[graph.events] >= 0
    if not done.all():
        raise ScheduleError(f"deadlock: the rows wait for each other.\n{graphs.explain(graph, done)}")
    return starts[graph.events], ends[graph.events]


class _Share:
    """One resource by processor sharing: each of n users gets min(1, size / n).

    `progress` is the seconds of work that a user since the start would have got; one that starts at progress v and
    takes s seconds alone ends when the progress is v + s.
    """

    def __init__(self, size: float) -> None:
        self.size, self.progress, self.now = size, 0.0, 0.0
        self.running: list[tuple[float, int, int]] = []  # (progress at its end, serial, event)
        self.serial = 0  # of the entry that tells the next end; older ones are void

    def advance(self, now: float) -> None:
        """Let the users work until `now`."""
        if self.running:
            self.progress += (now - self.now) * min(1.0, self.size / len(self.running))
        self.now = now

    def next_end(self) -> float:
        """When the first of the users ends, if nothing changes."""
        left = max(0.0, self.running[0][0] - self.progress)
        return self.now + left / min(1.0, self.size / len(self.running))


class _Game:
    """The state of one play with shared resources: what ends when, in order of time."""

    def __init__(self, graph: Graph, seconds: Times, shared: Shared) -> None:
        self.waiting, self.after, self.seconds = list(graph.waits), graph.after, seconds.tolist()
        used = np.full(graph.num_events, -1)
        np.maximum.at(used, graph.events, shared.of)  # a meeting uses what one of its members does
        self.used = used.tolist()
        self.shares = [_Share(size) for size in shared.size.tolist()]
        self.start, self.end = [-1.0] * len(used), [-1.0] * len(used)
        self.queue: list[tuple[float, int, int]] = []  # (time, serial, event, or −1 − the share whose first user ends)
        self.serial = 0

    def play(self) -> tuple[Times, Times]:
        """[events] each: start and end; −1 for what never starts."""
        for event in [event for event, count in enumerate(self.waiting) if not count]:
            self._begin(0.0, event)
        while self.queue:
            now, serial, event = heapq.heappop(self.queue)
            if event >= 0:
                self._finish(now, event)
            elif (share := self.shares[-1 - event]).serial == serial:
                share.advance(now)
                _, _, ended = heapq.heappop(share.running)
                self._expect(-1 - event)
                self._finish(now, ended)
        return np.array(self.start), np.array(self.end)

    def _begin(self, now: float, event: int) -> None:
        self.start[event] = now
        used = self.used[event]
        if used < 0:
            self._push(now + self.seconds[event], event)
            return
        share = self.shares[used]
        share.advance(now)
        self.serial += 1
        heapq.heappush(share.running, (share.progress + self.seconds[event], self.serial, event))
        self._expect(used)

    def _finish(self, now: float, event: int) -> None:
        """An event ends; what waited for it may start."""
        self.end[event] = now
        for other in self.after[event]:
            self.waiting[other] -= 1
            if not self.waiting[other]:
                self._begin(now, other)

    def _expect(self, used: int) -> None:
        """Tell when the next user of a resource ends, now that their number has changed."""
        share = self.shares[used]
        if share.running:
            self._push(share.next_end(), -1 - used)
            share.serial = self.serial

    def _push(self, time: float, event: int) -> None:
        self.serial += 1
        heapq.heappush(self.queue, (time, self.serial, event))
