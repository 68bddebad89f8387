"""The executor: plays a rank's row of operations through a Stage, waiting on the handles that `needs` names."""

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass

from headway.schedule.needs import needs
from headway.schedule.operation import LANES, Lane, Operation
from headway.schedule.program import Program
from headway.trace import Span
from headway.train.stage import Handle, Stage, perform
from headway.units import Seconds


@dataclass(frozen=True, slots=True)
class Instruction:
    """One operation of a row, with the places in the row whose handles it must wait for."""

    operation: Operation
    text: str
    lane: Lane
    waits: tuple[int, ...]


def instructions(program: Program, pipeline_rank: int) -> tuple[Instruction, ...]:
    """The row of a pipeline rank, ready to be played every step.

    What runs in the compute lane is finished when it returns; what a peer must finish first is what a receive waits
    for by itself. So only handles of this row are left to wait for.
    """
    first = sum(map(len, program.rows[:pipeline_rank]))
    row = range(first, first + len(program.rows[pipeline_rank]))
    lanes = [LANES[number] for number in program.lanes.tolist()]
    needed = needs(program)
    waits: list[list[int]] = [[] for _ in row]
    mine = (program.ranks[needed.later] == pipeline_rank) & (program.ranks[needed.earlier] == pipeline_rank)
    for later, earlier in zip(needed.later[mine].tolist(), needed.earlier[mine].tolist(), strict=True):
        if lanes[earlier] is not Lane.COMPUTE:
            waits[later - first].append(earlier - first)
    return tuple(
        Instruction(operation, str(operation), lanes[first + place], tuple(sorted(waits[place])))
        for place, operation in enumerate(program.rows[pipeline_rank])
    )


def play(
    row: tuple[Instruction, ...], stage: Stage, rank: int, clock: Callable[[], float], note: Callable[[int], None]
) -> tuple[Span, ...]:
    """Play the row once; the spans are what happened.

    `note(place)` is called before each operation, so that a dead rank's last one is known. A span that communicates
    starts when it is issued and its lane is free, and ends when it is waited for.
    """
    pending: dict[Lane, deque[tuple[int, Handle, float]]] = defaultdict(deque)
    free: dict[Lane, float] = {}  # when the lane's last operation ended
    spans: list[Span | None] = [None] * len(row)

    def finish(place: int) -> None:
        """Wait for an operation, and for those before it in its lane, which works in order."""
        queue = pending[row[place].lane]
        while queue and queue[0][0] <= place:
            first, handle, issued = queue.popleft()
            handle.wait()
            end, each = clock(), row[first]
            start = max(issued, free.get(each.lane, issued))
            free[each.lane] = end
            spans[first] = Span(rank, each.lane, each.text, Seconds(start), Seconds(end), handle.edge, handle.bytes)

    for place, instruction in enumerate(row):
        for wait in instruction.waits:
            finish(wait)
        note(place)
        start = clock()
        handle = perform(stage, instruction.operation)
        if instruction.lane is Lane.COMPUTE:  # finished, with the collectives inside
            times = Seconds(start), Seconds(clock())
            spans[place] = Span(rank, instruction.lane, instruction.text, *times, handle.edge, handle.bytes)
        else:
            pending[instruction.lane].append((place, handle, start))
    for queue in pending.values():
        if queue:
            finish(queue[-1][0])
    return tuple(span for span in spans if span)
