"""Operations: actions expanded to units where something overlaps inside; a Program is what both players play."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from headway.schedule import action as actions
from headway.schedule.action import Action, Kind
from headway.schedule.schedule import Schedule

TOTAL, UPDATE = "total", "update"  # the parts of a STEP


class Lane(StrEnum):
    """The in-order queues of a rank. A lane works through its operations one at a time, in row order."""

    COMPUTE = "compute"
    SEND = "send"
    RECEIVE = "receive"
    REDUCE = "reduce"  # over the data axis
    SHARED = "shared"  # over the ranks that hold a shared weight
    WORLD = "world"  # over all ranks


@dataclass(frozen=True, slots=True)
class Operation:
    """An action, or the `part` of it that concerns one unit (or one phase of a STEP)."""

    action: Action
    part: str = ""

    def __str__(self) -> str:
        return f"{self.action}/{self.part}" if self.part else str(self.action)


@dataclass(frozen=True, slots=True)
class Parts:
    """The units of one stage, as far as order matters.

    `computed`: those that compute, in forward order. `reduced`: those whose gradients are reduced, each with the
    computed unit whose backward completes them, and the lane that carries them.
    """

    computed: tuple[str, ...] = ()
    reduced: tuple[tuple[str, str, Lane], ...] = ()


@dataclass(frozen=True)
class Program:
    """A schedule with the units of its stages: rows of operations, in issue order."""

    schedule: Schedule
    parts: tuple[Parts, ...] = ()

    @cached_property
    def rows(self) -> tuple[tuple[Operation, ...], ...]:
        """One row of operations for each pipeline rank."""
        return tuple(tuple(op for a in row for op in self.expand(a)) for row in self.schedule.rows)

    @cached_property
    def index(self) -> tuple[dict[Operation, int], ...]:
        """For each pipeline rank, operation → its place in the row."""
        return tuple({op: place for place, op in enumerate(row)} for row in self.rows)

    def expand(self, action: Action) -> Iterator[Operation]:
        """The operations of an action; in the last backward of a stage each unit is followed by its reduction."""
        match action.kind:
            case Kind.STEP:
                yield Operation(action, TOTAL)
                if self.trains:
                    yield Operation(action, UPDATE)
            case Kind.BACKWARD if self.is_overlapped(action):
                parts = self.parts_of(action)
                reduction = Action(Kind.REDUCE_GRAD, action.stage)
                for unit in reversed(parts.computed):
                    yield Operation(action, unit)
                    yield from (Operation(reduction, name) for name, after, _ in parts.reduced if after == unit)
            case Kind.REDUCE_GRAD if self.parts:
                pass  # its operations come with the backward that they overlap
            case _:
                yield Operation(action)

    def parts_of(self, action: Action) -> Parts:
        """Parts of the action's stage."""
        return self.parts[action.stage] if action.stage is not None and self.parts else Parts()

    def last(self, action: Action) -> Operation:
        """The operation whose end is the end of a compute action."""
        return Operation(action, self.parts_of(action).computed[0] if self.is_overlapped(action) else "")

    def is_overlapped(self, action: Action) -> bool:
        """Whether the action is the last backward of a stage whose gradients are reduced."""
        if action.kind is not Kind.BACKWARD or action.stage is None or not self.parts_of(action).reduced:
            return False
        return (
            Action(Kind.REDUCE_GRAD, action.stage) in self.schedule.actions
            and self.schedule.order[action.stage, Kind.BACKWARD][-1] == action.microbatch
        )

    @cached_property
    def trains(self) -> bool:
        """Whether there is any backward: a program without is an evaluation."""
        return any(a.kind is Kind.BACKWARD for a in self.schedule.actions)

    def lane(self, operation: Operation) -> Lane:
        """The lane that an operation runs in."""
        match operation.action.kind:
            case Kind.SEND_F | Kind.SEND_B:
                return Lane.SEND
            case Kind.RECV_F | Kind.RECV_B:
                return Lane.RECEIVE
            case Kind.BEGIN:
                return Lane.REDUCE
            case Kind.STEP if operation.part == TOTAL:
                return Lane.WORLD
            case Kind.REDUCE_GRAD:
                reduced = self.parts_of(operation.action).reduced
                return next((lane for name, _, lane in reduced if name == operation.part), Lane.REDUCE)
            case _:
                return Lane.COMPUTE


def parse(text: str) -> Operation:
    """The operation whose `str` is `text`.

    >>> str(parse("0B7/layers.3"))
    '0B7/layers.3'
    """
    action, _, part = text.partition("/")
    return Operation(actions.parse(action), part)
