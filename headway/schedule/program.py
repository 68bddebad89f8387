"""Program: a schedule with the units of its stages, the operations that both players play."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headway.schedule.action import (
    GIVES_WEIGHT_GRADIENT,
    KINDS,
    NEEDS_PARAMETERS,
    NUMBERS,
    Action,
    Kind,
    from_code,
)
from headway.schedule.operation import LANES, TOTAL, UPDATE, Lane, Operation, Operations, Parts
from headway.schedule.row import Column, Flags, Row, among, last_before
from headway.schedule.schedule import Schedule

_LANES: Mapping[Kind, Lane] = {
    Kind.SEND_F: Lane.SEND,
    Kind.SEND_B: Lane.SEND,
    Kind.RECV_F: Lane.RECEIVE,
    Kind.RECV_B: Lane.RECEIVE,
    Kind.EVICT: Lane.PAIR,
    Kind.RESTORE: Lane.PAIR,
    Kind.BEGIN: Lane.REDUCE,
    Kind.REDUCE_GRAD: Lane.REDUCE,
    Kind.UNSHARD: Lane.GATHER,
}
_LANE_OF_KIND = np.array([LANES.index(_LANES.get(kind, Lane.COMPUTE)) for kind in KINDS])
_OF_PARTS = (Kind.UNSHARD, Kind.RESHARD, Kind.REDUCE_GRAD)  # in a row for a whole stage, here for each unit


@dataclass(frozen=True)
class Program:
    """A schedule with the units of its stages: the operations of all rows, in issue order.

    `prefetch`: how many operations ahead of the one that needs them the parameters are gathered that it then releases.
    """

    schedule: Schedule
    parts: tuple[Parts, ...] = ()
    prefetch: int = 1

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What an operation may be a part of, or a phase; the first is no part."""
        units = [name for each in self.parts for name in (*each.computed, *(part.name for part in each.shared))]
        return tuple(dict.fromkeys(["", TOTAL, UPDATE, *units]))

    @cached_property
    def rows(self) -> tuple[Operations, ...]:
        """One row of operations for each pipeline rank."""
        return tuple(map(self._expand, self.schedule.rows))

    @cached_property
    def operations(self) -> Operations:
        """The operations of all rows, row after row."""
        return Operations.joined(self.rows)

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
        for name, lane in {part.name: part.lane for each in self.parts for part in each.shared if part.lane}.items():
            shared = among(every.kinds, Kind.REDUCE_GRAD, Kind.UNSHARD) & (every.parts == self.names.index(name))
            lanes[shared] = LANES.index(lane)
        return lanes

    def parts_of(self, action: Action) -> Parts:
        """Parts of the action's stage."""
        return self.parts[action.stage] if action.stage is not None and self.parts else Parts()

    @property
    def trains(self) -> bool:
        """Whether there is any backward: a program without is an evaluation."""
        return self.schedule.trains

    def _expand(self, row: Row) -> Operations:
        """A row of actions as operations on units where something overlaps inside: gathers ahead, reductions behind."""
        several = row.of(Kind.STEP)
        if self.parts:
            several |= row.of(*_OF_PARTS) | _gathered(row) | _reduced(row)
        pieces, done = [], 0
        for place in np.flatnonzero(several).tolist():
            within = Operations.each(self._within(from_code(int(row.codes[place]))), self.names)
            pieces += [Operations.of_codes(row.codes[done:place], self.names), within]
            done = place + 1
        found = Operations.joined([*pieces, Operations.of_codes(row.codes[done:], self.names)])
        return self._with_gathers(found) if self.parts and row.of(Kind.UNSHARD).any() else found

    def _within(self, action: Action) -> Iterator[Operation]:
        """The operations of an action that is not one; in a B or W each unit is followed by its reduction."""
        if action.kind is Kind.STEP:
            yield Operation(action, TOTAL)
            if self.trains:
                yield Operation(action, UPDATE)
        elif action.kind in NEEDS_PARAMETERS | GIVES_WEIGHT_GRADIENT:
            parts = self.parts_of(action)
            forward, last = action.kind is Kind.FORWARD, self.schedule.final.get(_stage(action)) == action
            reductions = [Action(Kind.REDUCE_GRAD, action.stage, of) for of in (action.microbatch, None)]
            reduced = action.kind in GIVES_WEIGHT_GRADIENT and any(each in self.schedule for each in reductions)
            for unit in parts.computed if forward else reversed(parts.computed):
                yield Operation(action, unit)
                for part in parts.shared if reduced else ():
                    if part.reduces and part.users[0] == unit and (last or part.cut_grads):
                        yield Operation(reductions[0] if part.cut_grads else reductions[1], part.name)

    def _with_gathers(self, row: Operations) -> Operations:
        """The row with the parameters gathered before they are needed, and those that are cut released after it.

        What stays whole until the step ends is gathered at once, in the order in which it is needed, before anything is
        computed: who shares it may wait for it, and make only then what this rank computes first. Of the cut ones those
        that the next `prefetch` operations need are there as well: they are gathered while the one before computes, and
        not released between two that both need them.
        """
        slots = list(self._slots(row))
        start = int(np.flatnonzero(row.of(*NEEDS_PARAMETERS))[0])
        once: dict[str, Action] = {}
        for slot in slots:
            for name in slot.whole:
                once.setdefault(name, Action(Kind.UNSHARD, slot.stage))
        added = [(start, Operation(action, name)) for name, action in once.items()]
        numbers: dict[str, int] = {}  # unit → of its last gather, from 0
        here: set[str] = set()
        for i, slot in enumerate(slots):
            for later in slots[i : i + self.prefetch + 1]:
                for name in later.cut:
                    if name not in here:
                        numbers[name] = numbers.get(name, -1) + 1
                        added.append((slot.place, Operation(Action(Kind.UNSHARD, later.stage, numbers[name]), name)))
                        here.add(name)
            soon = {name for later in slots[i + 1 : i + self.prefetch + 2] for name in later.cut}
            for name in slot.cut:
                if name not in soon:
                    added.append((slot.place + 1, Operation(Action(Kind.RESHARD, slot.stage, numbers[name]), name)))
                    here.remove(name)
        return row.inserted([place for place, _ in added], Operations.each((op for _, op in added), self.names))

    def _slots(self, row: Operations) -> Iterator["_Slot"]:
        """The operations on units that need gathered parameters, in order."""
        for place in np.flatnonzero(row.of(*NEEDS_PARAMETERS) & (row.parts > 0)).tolist():
            action, unit = row[place].action, row[place].part
            stage = _stage(action)
            used = [part for part in self.parts[stage].shared if part.gathers and unit in part.users]
            whole, cut = (tuple(p.name for p in used if p.cut_params is is_cut) for is_cut in (False, True))
            if used:
                yield _Slot(place, stage, whole, cut)


@dataclass(frozen=True, slots=True)
class _Slot:
    """An operation that needs gathered parameters: its place in the row, and the units whose they are."""

    place: int
    stage: int
    whole: tuple[str, ...]
    cut: tuple[str, ...]


def _gathered(row: Row) -> Flags:
    """[n]: whether each action is the first that needs what an UNSHARD before it gathers."""
    found = np.zeros(len(row), bool)
    needing, gathers = (np.flatnonzero(row.of(*kinds)) for kinds in (NEEDS_PARAMETERS, (Kind.UNSHARD,)))
    stages = row.stages
    # from the right: the last that is not yet passed
    first = -last_before(-gathers, stages[gathers], -needing, stages[needing], none=-len(row))
    found[first[first < len(row)]] = True
    return found


def _reduced(row: Row) -> Flags:
    """[n]: whether each action is the last that adds to what a REDUCE_GRAD behind it reduces."""
    found = np.zeros(len(row), bool)
    adding, reductions = (np.flatnonzero(row.of(*kinds)) for kinds in (GIVES_WEIGHT_GRADIENT, (Kind.REDUCE_GRAD,)))
    stages = row.stages
    last = last_before(reductions, stages[reductions], adding, stages[adding])
    found[last[last >= 0]] = True
    return found


def _stage(action: Action) -> int:
    assert action.stage is not None
    return action.stage
