"""The engine: plays a graph of operations against a clock, with in-order lanes, meetings and shared cores."""

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headway.errors import ScheduleError
from headway.schedule.graph import Graph
from headway.schedule.operation import Lane


@dataclass(frozen=True, slots=True)
class Cores:
    """Cores that the ranks of each node compete for: a compute operation holds one while it runs.

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
        now, _, together = heapq.heappop(game.events)
        for i in together:
            game.finish(now, i)
    done = [time >= 0 for time in game.end]
    if not all(done):
        raise ScheduleError(f"deadlock: the rows wait for each other.\n{graph.explain(done)}")
    return game.start, game.end


class _Game:
    """The state of one play."""

    def __init__(self, graph: Graph, seconds: Sequence[float], cores: Cores | None) -> None:
        self.graph, self.seconds, self.cores = graph, seconds, cores
        self.waiting = [len(needed) for needed in graph.before]
        self.missing = [len(who) for who in graph.members]
        self.start = [0.0] * len(self.waiting)
        self.end = [-1.0] * len(self.waiting)
        self.events: list[tuple[float, int, Sequence[int]]] = []  # (time, serial, operations that end)
        self.serial = 0
        self.taken: defaultdict[int, int] = defaultdict(int)  # node → cores in use
        self.queues: defaultdict[int, deque[int]] = defaultdict(deque)

    def ready(self, now: float, i: int) -> None:
        """Nothing holds operation `i` back any more, but perhaps its meeting or a core."""
        meets = self.graph.meets[i]
        if meets >= 0:
            self.missing[meets] -= 1
            if not self.missing[meets]:
                self.begin(now, self.graph.members[meets])
        elif (node := self._node(i)) is None:
            self.begin(now, (i,))
        else:
            self.queues[node].append(i)
            self._next(now, node)

    def begin(self, now: float, together: Sequence[int]) -> None:
        """Operations start together and end together."""
        longest = 0.0
        for i in together:
            self.start[i] = now
            longest = max(longest, self.seconds[i])
        self.serial += 1
        heapq.heappush(self.events, (now + longest, self.serial, together))

    def finish(self, now: float, i: int) -> None:
        """Operation `i` ends; what waited for it may start."""
        self.end[i] = now
        if (node := self._node(i)) is not None:
            self.taken[node] -= 1
            self._next(now, node)
        for j in self.graph.after[i]:
            self.waiting[j] -= 1
            if not self.waiting[j]:
                self.ready(now, j)

    def _next(self, now: float, node: int) -> None:
        """Give a free core to the operation that has waited longest."""
        assert self.cores is not None
        if self.queues[node] and self.taken[node] < self.cores.num:
            self.taken[node] += 1
            self.begin(now, (self.queues[node].popleft(),))

    def _node(self, i: int) -> int | None:
        """The node whose core the operation needs; None if it needs none."""
        if self.cores is None or self.graph.lanes[i] is not Lane.COMPUTE or self.graph.meets[i] >= 0:
            return None
        return self.cores.node(self.graph.ranks[i])
