"""Operations: actions expanded to units where something overlaps inside; a Program is what both players play."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import overload

import numpy as np

from headway.schedule import action as actions
from headway.schedule.action import KINDS, NUMBERS, Action, Kind, from_code
from headway.schedule.row import Coded, Column
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


LANES: tuple[Lane, ...] = tuple(Lane)
_LANES: Mapping[Kind, Lane] = {
    Kind.SEND_F: Lane.SEND,
    Kind.SEND_B: Lane.SEND,
    Kind.RECV_F: Lane.RECEIVE,
    Kind.RECV_B: Lane.RECEIVE,
    Kind.EVICT: Lane.PAIR,
    Kind.RESTORE: Lane.PAIR,
    Kind.BEGIN: Lane.REDUCE,
    Kind.REDUCE_GRAD: Lane.REDUCE,
}
_LANE_OF_KIND = np.array([LANES.index(_LANES.get(kind, Lane.COMPUTE)) for kind in KINDS])


@dataclass(frozen=True, slots=True)
class Operation:
    """An action, or the `part` of it that concerns one unit (or one phase of a STEP)."""

    action: Action
    part: str = ""

    def __str__(self) -> str:
        return f"{self.action}/{self.part}" if self.part else str(self.action)


class Operations(Coded, Sequence[Operation]):
    """Operations as columns. `codes`: [n], `Action.code` of each; `parts`: [n], the place of its part in `names`."""

    __slots__ = ("names", "parts")

    def __init__(self, codes: Column, parts: Column, names: tuple[str, ...]) -> None:
        self.codes, self.parts, self.names = codes, parts, names

    @overload
    def __getitem__(self, place: int) -> Operation: ...
    @overload
    def __getitem__(self, place: "slice | Column") -> "Operations": ...
    def __getitem__(self, place: "int | slice | Column") -> "Operation | Operations":
        if isinstance(place, int | np.integer):
            return Operation(from_code(int(self.codes[place])), self.names[self.parts[place]])
        return Operations(self.codes[place], self.parts[place], self.names)

    def __iter__(self) -> Iterator[Operation]:
        for code, part in zip(self.codes.tolist(), self.parts.tolist(), strict=True):
            yield Operation(from_code(code), self.names[part])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Operations) and len(self) == len(other) and all(map(Operation.__eq__, self, other))

    __hash__ = Coded.__hash__


@dataclass(frozen=True, slots=True)
class Parts:
    """The units of one stage, as far as order matters.

    `computed`: those that compute, in forward order. `reduced`: those whose gradients are reduced, each with the
    computed unit whose backward completes them, and the lane that carries them.
    """

    computed: tuple[str, ...] = ()
    reduced: tuple[tuple[str, str, Lane], ...] = ()

    def __post_init__(self) -> None:
        assert all(after in self.computed for _, after, _ in self.reduced), "such a reduction would be lost"


@dataclass(frozen=True)
class Program:
    """A schedule with the units of its stages: the operations of all rows, in issue order."""

    schedule: Schedule
    parts: tuple[Parts, ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What an operation may be a part of, or a phase; the first is no part."""
        units = [name for each in self.parts for name in (*each.computed, *(unit for unit, _, _ in each.reduced))]
        return tuple(dict.fromkeys(["", TOTAL, UPDATE, *units]))

    @cached_property
    def rows(self) -> tuple[Operations, ...]:
        """One row of operations for each pipeline rank."""
        return tuple(self._expand(row.codes) for row in self.schedule.rows)

    @cached_property
    def operations(self) -> Operations:
        """The operations of all rows, row after row."""
        codes, parts = (np.concatenate([getattr(row, each) for row in self.rows]) for each in ("codes", "parts"))
        return Operations(codes, parts, self.names)

    @cached_property
    def ranks(self) -> Column:
        """[n]: the pipeline rank of each of `operations`."""
        return np.repeat(np.arange(len(self.rows)), [len(row) for row in self.rows])

    @cached_property
    def lanes(self) -> Column:
        """[n]: the lane of each of `operations`, as its place in LANES."""
        every = self.operations
        lanes = _LANE_OF_KIND[every.kinds]
        total = (every.kinds == NUMBERS[Kind.STEP]) & (every.parts == self.names.index(TOTAL))
        lanes[total] = LANES.index(Lane.WORLD)
        reductions = np.flatnonzero(every.kinds == NUMBERS[Kind.REDUCE_GRAD])
        carried = {(stage, unit): lane for stage, each in enumerate(self.parts) for unit, _, lane in each.reduced}
        for i in reductions[every.parts[reductions] > 0]:
            lanes[i] = LANES.index(carried[int(every.stages[i]), self.names[every.parts[i]]])
        return lanes

    def parts_of(self, action: Action) -> Parts:
        """Parts of the action's stage."""
        return self.parts[action.stage] if action.stage is not None and self.parts else Parts()

    def is_overlapped(self, action: Action) -> bool:
        """Whether the action is the last to add to the gradients of a stage whose gradients are reduced."""
        stage = action.stage
        if stage is None or self.schedule.final.get(stage) != action or not self.parts_of(action).reduced:
            return False
        return Action(Kind.REDUCE_GRAD, stage) in self.schedule

    @property
    def trains(self) -> bool:
        """Whether there is any backward: a program without is an evaluation."""
        return self.schedule.trains

    def _expand(self, codes: Column) -> Operations:
        """A row of actions as operations: only some of the last actions of a stage and of the rank are several."""
        final = [action for action in self.schedule.final.values() if self.is_overlapped(action)]
        reduced = [Action(Kind.REDUCE_GRAD, stage) for stage in self.schedule.ranks] if self.parts else []
        several = np.isin(codes, [action.code for action in (*final, *reduced, Action(Kind.STEP))])
        pieces, parts, done = [], [], 0
        for place in np.flatnonzero(several).tolist():
            within = list(self._within(from_code(int(codes[place]))))
            pieces += [codes[done:place], np.array([op.action.code for op in within], np.int64)]
            parts += [
                np.zeros(place - done, np.int64),
                np.array([self.names.index(op.part) for op in within], np.int64),
            ]
            done = place + 1
        pieces.append(codes[done:])
        parts.append(np.zeros(len(codes) - done, np.int64))
        return Operations(np.concatenate(pieces), np.concatenate(parts), self.names)

    def _within(self, action: Action) -> Iterator[Operation]:
        """The operations of an action that is not one; in the last B or W each unit is followed by its reduction."""
        if action.kind is Kind.STEP:
            yield Operation(action, TOTAL)
            if self.trains:
                yield Operation(action, UPDATE)
        elif action.kind is not Kind.REDUCE_GRAD:  # those come with the backward that they overlap
            parts = self.parts_of(action)
            reduction = Action(Kind.REDUCE_GRAD, action.stage)
            for unit in reversed(parts.computed):
                yield Operation(action, unit)
                yield from (Operation(reduction, name) for name, after, _ in parts.reduced if after == unit)


def parse(text: str) -> Operation:
    """The operation whose `str` is `text`.

    >>> str(parse("0B7/layers.3"))
    '0B7/layers.3'
    """
    action, _, part = text.partition("/")
    return Operation(actions.parse(action), part)
