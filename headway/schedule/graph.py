"""The program of all ranks as a graph of integers: what both the check and the engine walk."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headway.schedule.action import RECEIVES, SENDS
from headway.schedule.needs import meetings, needs
from headway.schedule.operation import LANES, Lane, Operations
from headway.schedule.program import Program
from headway.schedule.row import Column, Flags, Times, among

_COMPUTE = LANES.index(Lane.COMPUTE)
SHOWN = 3  # operations on either side of the next one, where a rank's stuck row is shown


@dataclass(frozen=True)
class Lists:
    """Rows of different lengths, one after another: row i is `flat[start[i]:start[i + 1]]`."""

    flat: list[int]
    start: list[int]

    def __getitem__(self, i: int) -> list[int]:
        return self.flat[self.start[i] : self.start[i + 1]]

    def __len__(self) -> int:
        return len(self.start) - 1


@dataclass(frozen=True, eq=False)
class Graph:
    """Operations of all ranks, numbered rank by rank in row order; those that can only run together are one event.

    `ranks`, `operations`, `lanes` (places in LANES): [n]; `source`: [n], the place of each among the program's.
    `events`: [n], the number of the event that each is part of. An operation may start when everything before it has
    ended: the pairs (`earlier`, `later`) are its needs, the one before it in its lane, and the compute operation before
    it in its row (issue order counts). An event starts when all its operations may, and they end together.
    """

    ranks: Column
    source: Column
    operations: Operations
    lanes: Column
    events: Column
    earlier: Column
    later: Column

    def __len__(self) -> int:
        return len(self.ranks)

    @cached_property
    def num_events(self) -> int:
        """Events are numbered from 0 on."""
        return 1 + int(self.events.max(initial=-1))

    @cached_property
    def waits(self) -> list[int]:
        """How many pairs hold each event back."""
        counts: list[int] = np.bincount(self.events[self.later], minlength=self.num_events).tolist()
        return counts

    @cached_property
    def after(self) -> Lists:
        """The events that wait for each event."""
        return _lists(self.events[self.earlier], self.events[self.later], self.num_events)

    @cached_property
    def members(self) -> Lists:
        """The operations of each event."""
        return _lists(self.events, np.arange(len(self)), self.num_events)

    @cached_property
    def before(self) -> Lists:
        """What each operation waits for: operations."""
        return _lists(self.later, self.earlier, len(self))


def build(program: Program, *, replicas: int = 1) -> Graph:
    """The graph of `replicas` copies of each row: copy d of pipeline rank p is rank p·replicas + d.

    Messages stay within a copy, collectives meet over all. A send completes only with its receive (gloo, NCCL).
    """
    every = program.operations
    lengths = np.array([len(row) for row in program.rows])
    first = np.cumsum(lengths) - lengths  # of each row, in the program
    within = np.arange(len(every)) - first[program.ranks]
    # [copies, operations]: the number in the graph of each operation of the program
    copies = np.arange(replicas)[:, None]
    numbers = (first * replicas + copies * lengths)[:, program.ranks] + within
    needed, (before, behind) = needs(program), _in_row(program)
    # a player goes through its row from left to right: what stands behind something that needs it is never come to
    blocked = (needed.earlier > needed.later) & (program.ranks[needed.earlier] == program.ranks[needed.later])
    earlier = np.concatenate([needed.earlier, before, needed.later[blocked]])
    later = np.concatenate([needed.later, behind, needed.earlier[blocked]])
    source = np.empty(len(every) * replicas, np.int64)  # the operation of the program that each is a copy of
    source[numbers] = np.arange(len(every))
    copy = np.empty_like(source)
    copy[numbers] = copies
    return Graph(
        ranks=program.ranks[source] * replicas + copy,
        source=source,
        operations=every[source],
        lanes=program.lanes[source],
        events=_events(every, source, copy, replicas),
        earlier=numbers[:, earlier].ravel(),
        later=numbers[:, later].ravel(),
    )


def walk(graph: Graph, seconds: Times) -> tuple[Times, Times]:
    """[events] each: the earliest start and end of every event where nothing is shared; −1 if it can never start.

    `seconds`: [events], how long each takes.
    """
    waiting, after, flat = list(graph.waits), graph.after.start, graph.after.flat
    lasts, earliest, end = seconds.tolist(), [0.0] * len(waiting), [-1.0] * len(waiting)
    ready = [event for event, count in enumerate(waiting) if not count]
    while ready:
        event = ready.pop()
        finish = end[event] = earliest[event] + lasts[event]
        for other in flat[after[event] : after[event + 1]]:
            earliest[other] = max(earliest[other], finish)
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    ends = np.array(end)
    return np.where(ends < 0, -1.0, np.array(earliest)), ends


def steps(graph: Graph) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """The events in an order in which each comes behind those that it waits for, with these: to walk a graph often.

    The graph must be one that can finish.
    """
    waiting, after = list(graph.waits), graph.after
    before: list[list[int]] = [[] for _ in waiting]
    ready, order = [event for event, count in enumerate(waiting) if not count], []
    while ready:
        event = ready.pop()
        # what another of them waits for anyway has ended as well
        known = {earlier for other in before[event] for earlier in before[other]}
        order.append((event, tuple(dict.fromkeys(other for other in before[event] if other not in known))))
        for other in after[event]:
            before[other].append(event)
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    return tuple(order)


def explain(graph: Graph, done: Flags) -> str:
    """The text of a deadlock: each rank's place in its row and what it waits for, then the circle of waiting."""
    stuck: dict[int, int] = {}  # rank → its next operation
    for i, rank in enumerate(graph.ranks.tolist()):
        if not done[i]:
            stuck.setdefault(rank, i)
    pieces = {rank: _around(graph, i) for rank, i in stuck.items()}
    widths = [max(len(each[side]) for each in pieces.values()) for side in range(3)]
    label = max(len(f"rank {rank}") for rank in stuck)
    lines = []
    for rank, i in stuck.items():
        past, now, future = pieces[rank]
        place = f"{past:>{widths[0]}} [{now:^{widths[1]}}] {future:<{widths[2]}}"
        waits = [_name(graph, j) for j in graph.before[i] if not done[j]]
        waits += [f"{_name(graph, j)} to meet it" for j in _partners(graph, i) if not _may_start(graph, j, done)]
        lines.append(f"  {f'rank {rank}':<{label}}  {place}  {graph.operations[i]} waits for {' and '.join(waits)}")
    return "\n".join([*lines, f"  {_circle(graph, done)}"])


def _around(graph: Graph, i: int) -> tuple[str, str, str]:
    """What is before operation `i` in its row, the operation, and what is behind it."""
    row = np.flatnonzero(graph.ranks == graph.ranks[i])
    at = int(np.searchsorted(row, i))
    past, future = row[max(0, at - SHOWN) : at], row[at + 1 : at + 1 + SHOWN]
    before, behind = (" ".join(str(graph.operations[int(j)]) for j in part) for part in (past, future))
    return (
        f"… {before}" if at > SHOWN else before,
        str(graph.operations[i]),
        f"{behind} …" if at + 1 + SHOWN < len(row) else behind,
    )


def _circle(graph: Graph, done: Flags) -> str:
    """The operations that wait for each other in a circle, from one that is in it."""
    at = next(i for i, finished in enumerate(done) if not finished)
    path: dict[int, None] = {}
    while at not in path:
        path[at] = None
        # a partner that may not start, and else (issue order too) whatever is before and has not ended
        held = [j for j in _partners(graph, at) if not _may_start(graph, j, done)]
        at = next(iter([*(j for j in graph.before[at] if not done[j]), *held]))
    order = list(path)
    circle = order[order.index(at) :]
    return "The circle: " + ", which waits for ".join(_name(graph, j) for j in [*circle, at]) + "."


def _name(graph: Graph, i: int) -> str:
    return f"{graph.operations[i]} of rank {graph.ranks[i]}"


def _partners(graph: Graph, i: int) -> list[int]:
    return [j for j in graph.members[graph.events[i]] if j != i]


def _may_start(graph: Graph, i: int, done: Flags) -> bool:
    return all(done[j] for j in graph.before[i])


def _events(every: Operations, source: Column, copy: Column, replicas: int) -> Column:
    """The event of each operation: its own, or that of all which share its meeting (of a message: in its copy)."""
    keys = meetings(every)
    _, meeting = np.unique(keys, return_inverse=True)
    own = np.where(among(every.kinds, *SENDS, *RECEIVES)[source], copy, 0)
    # −1, which meets nobody, is numbered as the operation itself, behind all meetings
    known = np.where(
        keys[source] < 0, (len(every) + np.arange(len(source))) * replicas, meeting[source] * replicas + own
    )
    return np.unique(known, return_inverse=True)[1]


def _in_row(program: Program) -> tuple[Column, Column]:
    """Pairs (before, behind): the operation before each in its lane, and the compute operation before it in its row."""
    lanes, ranks, numbers = program.lanes, program.ranks, np.arange(len(program.lanes))
    order = np.lexsort((numbers, lanes, ranks))
    alike = (ranks[order][1:] == ranks[order][:-1]) & (lanes[order][1:] == lanes[order][:-1])
    computing = lanes == _COMPUTE
    last = np.maximum.accumulate(np.where(computing, numbers, -1))  # itself included, for the others
    behind = np.flatnonzero(~computing & (last >= 0))
    behind = behind[ranks[last[behind]] == ranks[behind]]
    return np.concatenate([order[:-1][alike], last[behind]]), np.concatenate([order[1:][alike], behind])


def _lists(keys: Column, values: Column, size: int) -> Lists:
    """`values` grouped by their key, 0 … size − 1."""
    start = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=size))])
    return Lists(values[np.argsort(keys, kind="stable")].tolist(), start.tolist())
