"""Operations: actions expanded to units where something overlaps inside; a Program is what both players play."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from headway.schedule import action as actions
from headway.schedule.action import GIVES_WEIGHT_GRADIENT, Action, Kind
from headway.schedule.schedule import Schedule

TOTAL, UPDATE = "total", "update"  # the parts of a STEP


class Lane(StrEnum):
    """The in-order queues of a rank. A lane works through its operations one at a time, in row order."""

    COMPUTE = "compute"
    SEND = "send"
    RECEIVE = "receive"
    REDUCE = "reduce"  # over the data axis
    PAIR = "pair"  # activations to and from the paired rank
    SHARED = "shared"  # over the ranks that hold a shared weight
    WORLD = "world"  # over all ranks


_LANES: Mapping[Kind, Lane] = {
    Kind.SEND_F: Lane.SEND,
    Kind.SEND_B: Lane.SEND,
    Kind.RECV_F: Lane.RECEIVE,
    Kind.RECV_B: Lane.RECEIVE,
    Kind.EVICT: Lane.PAIR,
    Kind.RESTORE: Lane.PAIR,
    Kind.BEGIN: Lane.REDUCE,
}


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
        """The operations of an action; in the last B or W of a stage each unit is followed by its reduction."""
        match action.kind:
            case Kind.STEP:
                yield Operation(action, TOTAL)
                if self.trains:
                    yield Operation(action, UPDATE)
            case Kind.BACKWARD | Kind.WEIGHT_BACKWARD if self.is_overlapped(action):
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
        """Whether the action is the last to add to the gradients of a stage whose gradients are reduced."""
        if action.kind not in GIVES_WEIGHT_GRADIENT or action.stage is None or not self.parts_of(action).reduced:
            return False
        reduction = Action(Kind.REDUCE_GRAD, action.stage)
        return self.schedule.final[action.stage] == action and reduction in self.schedule.actions

    @property
    def trains(self) -> bool:
        """Whether there is any backward: a program without is an evaluation."""
        return self.schedule.trains

    def lane(self, operation: Operation) -> Lane:
        """The lane that an operation runs in."""
        match operation.action.kind:
            case Kind.STEP if operation.part == TOTAL:
                return Lane.WORLD
            case Kind.REDUCE_GRAD:
                reduced = self.parts_of(operation.action).reduced
                return next((lane for name, _, lane in reduced if name == operation.part), Lane.REDUCE)
            case kind:
                return _LANES.get(kind, Lane.COMPUTE)


def parse(text: str) -> Operation:
    """The operation whose `str` is `text`.

    >>> str(parse("0B7/layers.3"))
    '0B7/layers.3'
    """
    action, _, part = text.partition("/")
    return Operation(actions.parse(action), part)
