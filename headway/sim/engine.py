"""The engine: plays a graph of operations against a clock, with in-order lanes, meetings and shared cores."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headway.errors import ScheduleError
from headway.schedule.graph import Graph
from headway.schedule.operation import Lane


@dataclass(frozen=True, slots=True)
class Cores:
    """Cores that the ranks of each node share: while more of them compute than there are cores, all go slower alike.

    `node(rank)` is the node of a rank, `num` the cores of each.
    """

    node: Callable[[int], int]
    num: int


def play(graph: Graph, seconds: Sequence[float], cores: Cores | None = None) -> tuple[list[float], list[float]]:
    """Start and end of every operation in seconds, in the graph's order.

    `seconds` is how long each takes once it starts; a meeting takes the longest of its members. Ties are broken by
    the order of starting, so the result depends on nothing else. Raises ScheduleError with every rank's next operation
    if the rows wait for each other.
    """
    game = _Game(graph, seconds, cores)
    for i, needed in enumerate(graph.before):
        if not needed:
            game.ready(0.0, i)
    while game.events:
        now, serial, event = heapq.heappop(game.events)
        if isinstance(event, _Share):
            if event.serial == serial:
                game.finish_shared(now, event)
        else:
            for i in event:
                game.finish(now, i)
    done = [time >= 0 for time in game.end]
    if not all(done):
        raise ScheduleError(f"deadlock: the rows wait for each other.\n{graph.explain(done)}")
    return game.start, game.end


class _Share:
    """The cores of one node, shared by processor sharing: each of n computing operations gets min(1, cores / n).

    `progress` is the seconds of work that an operation computing since the start would have got; one that starts at
    progress v and takes s seconds alone ends when the progress is v + s.
    """

    def __init__(self, cores: int) -> None:
        self.cores, self.progress, self.now = cores, 0.0, 0.0
        self.running: list[tuple[float, int, int]] = []  # (progress at its end, serial, operation)
        self.serial = 0  # of the event that tells the next end; older ones are void

    def advance(self, now: float) -> None:
        """Let the running operations work until `now`."""
        if self.running:
            self.progress += (now - self.now) * min(1.0, self.cores / len(self.running))
        self.now = now

    def next_end(self) -> float:
        """When the first of the running operations ends, if nothing changes."""
        left = max(0.0, self.running[0][0] - self.progress)
        return self.now + left / min(1.0, self.cores / len(self.running))


class _Game:
    """The state of one play."""

    def __init__(self, graph: Graph, seconds: Sequence[float], cores: Cores | None) -> None:
        self.graph, self.seconds, self.cores = graph, seconds, cores
        self.waiting = [len(needed) for needed in graph.before]
        self.missing = [len(who) for who in graph.members]
        self.start = [0.0] * len(self.waiting)
        self.end = [-1.0] * len(self.waiting)
        self.events: list[tuple[float, int, Sequence[int] | _Share]] = []  # (time, serial, what ends)
        self.serial = 0
        self.shares: dict[int, _Share] = {}

    def ready(self, now: float, i: int) -> None:
        """Nothing holds operation `i` back any more, but perhaps its meeting."""
        meets = self.graph.meets[i]
        if meets >= 0:
            self.missing[meets] -= 1
            if not self.missing[meets]:
                self._begin(now, self.graph.members[meets])
        elif self.cores and self.graph.lanes[i] is Lane.COMPUTE:
            self._compute(now, i, self.cores)
        else:
            self._begin(now, (i,))

    def finish(self, now: float, i: int) -> None:
        """Operation `i` ends; what waited for it may start."""
        self.end[i] = now
        for j in self.graph.after[i]:
            self.waiting[j] -= 1
            if not self.waiting[j]:
                self.ready(now, j)

    def finish_shared(self, now: float, share: _Share) -> None:
        """The first of the operations that share a node's cores ends."""
        share.advance(now)
        _, _, i = heapq.heappop(share.running)
        self._expect(share)
        self.finish(now, i)

    def _begin(self, now: float, together: Sequence[int]) -> None:
        """Operations start together and end together."""
        longest = 0.0
        for i in together:
            self.start[i] = now
            longest = max(longest, self.seconds[i])
        self._push(now + longest, together)

    def _compute(self, now: float, i: int, cores: Cores) -> None:
        """An operation starts on a node whose cores are shared."""
        share = self.shares.setdefault(cores.node(self.graph.ranks[i]), _Share(cores.num))
        share.advance(now)
        self.start[i] = now
        self.serial += 1
        heapq.heappush(share.running, (share.progress + self.seconds[i], self.serial, i))
        self._expect(share)

    def _expect(self, share: _Share) -> None:
        """Tell when the next operation of a share ends, now that their number has changed."""
        if share.running:
            self._push(share.next_end(), share)
            share.serial = self.serial

    def _push(self, time: float, what: Sequence[int] | _Share) -> None:
        self.serial += 1
        heapq.heappush(self.events, (time, self.serial, what))
