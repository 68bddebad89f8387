"""The program of all ranks as a graph of integers: what both the check and the engine walk."""

from collections.abc import Sequence
from dataclasses import dataclass

from headway.schedule.needs import is_message, meeting, needs
from headway.schedule.operation import Lane, Operation, Program


@dataclass(frozen=True, slots=True)
class Graph:
    """Operations of all ranks, numbered rank by rank in row order.

    An operation may start when everything `before` it has ended: its needs, the one before it in its lane, and the
    compute operation before it in its row (issue order counts). `meets` numbers the meeting that it belongs to (−1:
    none); a meeting starts when all its `members` may start, and they end together.
    """

    ranks: Sequence[int]
    operations: Sequence[Operation]
    lanes: Sequence[Lane]
    before: Sequence[tuple[int, ...]]
    after: Sequence[Sequence[int]]
    meets: Sequence[int]
    members: Sequence[Sequence[int]]

    def explain(self, done: Sequence[bool]) -> str:
        """Every rank's next operation and what it waits for: the text of a deadlock."""
        lines, seen = [], set()
        for i, rank in enumerate(self.ranks):
            if done[i] or rank in seen:
                continue
            seen.add(rank)
            waits = [self._name(j) for j in self.before[i] if not done[j]]
            waits += [f"{self._name(j)} to meet it" for j in self._partners(i) if not self._ready(j, done)]
            lines.append(f"  rank {rank}: next {self.operations[i]}, waits for {' and '.join(waits) or 'nothing'}")
        return "\n".join(lines)

    def _name(self, i: int) -> str:
        return f"{self.operations[i]} of rank {self.ranks[i]}"

    def _partners(self, i: int) -> list[int]:
        return [j for j in self.members[self.meets[i]] if j != i] if self.meets[i] >= 0 else []

    def _ready(self, i: int, done: Sequence[bool]) -> bool:
        return all(done[j] for j in self.before[i])


def build(program: Program, *, replicas: int = 1, rendezvous: bool = True) -> Graph:
    """The graph of `replicas` copies of each row: copy d of pipeline rank p is rank p·replicas + d.

    Messages stay within a copy, collectives meet over all. Under `rendezvous` a send completes only with its receive
    (gloo, NCCL); without, a send completes by itself and its receive needs it.
    """
    base, total = [], 0
    for row in program.rows:
        base.append(total)
        total += len(row) * replicas
    before: list[tuple[int, ...]] = []
    lanes: list[Lane] = []
    keys: list[tuple[str, ...] | None] = []
    for rank, row in enumerate(program.rows):
        row_lanes = [program.lane(op) for op in row]
        row_needs = [_places(program, rank, op, rendezvous=rendezvous) for op in row]
        row_order = _in_row(row_lanes)
        row_keys = [_key(op, rendezvous=rendezvous) for op in row]
        for copy in range(replicas):
            start = base[rank] + copy * len(row)
            for op_lane, places, order, key in zip(row_lanes, row_needs, row_order, row_keys, strict=True):
                needed = {base[r] + copy * len(program.rows[r]) + place for r, place in places}
                before.append(tuple(needed | {start + place for place in order}))
                lanes.append(op_lane)
                keys.append((*key, str(copy)) if key and key[0] in "FB" else key)
    after: list[list[int]] = [[] for _ in range(total)]
    for i, earlier in enumerate(before):
        for j in earlier:
            after[j].append(i)
    meets, members = _meetings(keys)
    ranks = [r * replicas + d for r, row in enumerate(program.rows) for d in range(replicas) for _ in row]
    operations = [op for row in program.rows for _ in range(replicas) for op in row]
    return Graph(ranks, operations, lanes, before, after, meets, members)


def walk(graph: Graph) -> list[bool]:
    """Which operations can finish at all, whatever time they take."""
    waiting = [len(needed) for needed in graph.before]
    missing = [len(who) for who in graph.members]
    done = [False] * len(waiting)
    stack = [i for i, count in enumerate(waiting) if not count]
    while stack:
        i = stack.pop()
        meets = graph.meets[i]
        if meets >= 0:
            missing[meets] -= 1
            if missing[meets]:
                continue
        for each in graph.members[meets] if meets >= 0 else (i,):
            done[each] = True
            for j in graph.after[each]:
                waiting[j] -= 1
                if not waiting[j]:
                    stack.append(j)
    return done


def _places(program: Program, rank: int, op: Operation, *, rendezvous: bool) -> list[tuple[int, int]]:
    """(pipeline rank, place in its row) of everything that `op` needs."""
    if rendezvous and op.action.kind.startswith("RECV"):
        return []  # it meets its send instead
    ranks = program.schedule.ranks
    found = []
    for need in needs(program, rank, op):
        owner = rank if need.action.stage is None else ranks[need.action.stage]
        place = program.index[owner].get(need)
        assert place is not None, f"{op} needs {need}, which no row has"
        found.append((owner, place))
    return found


def _in_row(lanes: Sequence[Lane]) -> list[tuple[int, ...]]:
    """For each place of a row, the places of the one before it in its lane and of the compute operation before it."""
    last: dict[Lane, int] = {}
    found = []
    for place, lane in enumerate(lanes):
        found.append(tuple({last[which] for which in (lane, Lane.COMPUTE) if which in last}))
        last[lane] = place
    return found


def _key(op: Operation, *, rendezvous: bool) -> tuple[str, ...] | None:
    return None if is_message(op) and not rendezvous else meeting(op)


def _meetings(keys: Sequence[tuple[str, ...] | None]) -> tuple[list[int], list[list[int]]]:
    numbers: dict[tuple[str, ...], int] = {}
    members: list[list[int]] = []
    meets = []
    for i, key in enumerate(keys):
        if key is None:
            meets.append(-1)
            continue
        if key not in numbers:
            numbers[key] = len(members)
            members.append([])
        meets.append(numbers[key])
        members[numbers[key]].append(i)
    return meets, members
