"""The only statement of dependency: what each operation needs finished, and whom it meets."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from headway.schedule.action import (
    COMPUTE,
    GIVES_INPUT_GRADIENT,
    GIVES_WEIGHT_GRADIENT,
    NEEDS_PARAMETERS,
    NUMBERS,
    Kind,
    pack,
)
from headway.schedule.operation import TOTAL, UPDATE, Operations, Part
from headway.schedule.program import Program
from headway.schedule.row import Column, among, last_before

UNSENT = 2  # messages of one stage and direction that may be under way before the stage makes another
UNREDUCED = 1  # units whose gradients may be under way before those of one more unit are made, where none stays whole
_NOTHING = -1
_OF_A_UNIT = 1 << 19  # above the number of any stage that is played


@dataclass(frozen=True, slots=True, eq=False)
class Needs:
    """Pairs of places in a program's operations: the one at `later[k]` needs that at `earlier[k]` to be finished."""

    later: Column
    earlier: Column

    def of(self, place: int) -> Column:
        """What the operation at `place` needs."""
        found: Column = self.earlier[self.later == place]
        return found


def needs(program: Program) -> Needs:
    """Which operations, on any rank, must be finished before which others start.

    Messages and collectives also wait for those that they meet (see `meetings`); issue order is not in here.
    """
    rules = list(_rules(program))
    later, earlier = (np.concatenate([rule[side] for rule in rules]) for side in (0, 1))
    found = np.flatnonzero(earlier != _NOTHING)
    found = found[np.argsort(later[found], kind="stable")]
    return Needs(later[found], earlier[found])


def meetings(operations: Operations) -> Column:
    """[n]: the key that operations of different ranks share when they can only run together; −1 for the others.

    A send meets its receive; a collective meets its members.
    """
    kinds, stages, microbatches, parts = (
        operations.kinds,
        operations.stages,
        operations.microbatches,
        operations.parts,
    )
    keys = np.full(len(operations), _NOTHING)
    # a message is known by its send
    for receive, send, step in ((Kind.RECV_F, Kind.SEND_F, -1), (Kind.RECV_B, Kind.SEND_B, 1)):
        sent, received = kinds == NUMBERS[send], kinds == NUMBERS[receive]
        keys[sent] = operations.codes[sent]
        keys[received] = pack(NUMBERS[send], stages[received] + step, microbatches[received])
    # a unit's reductions and gathers by the unit, which two stages may share; of a whole stage by the stage
    shared = among(kinds, Kind.REDUCE_GRAD, Kind.UNSHARD)
    keys[shared] = pack(kinds, np.where(parts > 0, _OF_A_UNIT + parts, stages), microbatches)[shared]
    alone = (kinds == NUMBERS[Kind.BEGIN]) | ((kinds == NUMBERS[Kind.STEP]) & (parts == _part(operations, TOTAL)))
    keys[alone] = operations.codes[alone]
    return keys


def _rules(program: Program) -> Iterator[tuple[Column, Column]]:
    """Rule by rule: places of operations, and for each the place of what it needs, or none."""
    every, by = program.operations, _Places(program)
    forward, weight = by.starts(Kind.FORWARD), by.starts(Kind.WEIGHT_BACKWARD)
    backward = by.starts(*GIVES_INPUT_GRADIENT)
    # a forward needs its input, received or made by the stage before (bare rows have no messages), and room for its
    # activations and for its output
    yield forward, _first(by.end(forward, Kind.RECV_F), by.end(forward, Kind.FORWARD, step=-1))
    yield forward, by.room(forward, Kind.SEND_F)
    yield forward, by.before(forward, Kind.EVICT)
    # a backward needs the activations of its forward, here again if they were away
    yield backward, by.end(backward, Kind.FORWARD)
    yield backward, by.end(backward, Kind.RESTORE)
    # the gradient of its output, received or made by the stage behind; that of the loss needs the count of tokens
    here = by.end(backward, *GIVES_INPUT_GRADIENT, step=1)
    yield backward, _first(by.end(backward, Kind.RECV_B), here, by.begin(backward))
    # and room for the gradient of its input
    yield backward, by.room(backward, Kind.SEND_B)
    yield weight, by.end(weight, Kind.INPUT_BACKWARD)
    # unit after unit within an action, each with its parameters, and with room for its gradients
    units = by.of(*COMPUTE)
    for each in (*by.gathered(units), *by.unreduced(units)):
        yield units, each
    units = units[np.argsort(every.codes[units], kind="stable")]
    yield units[1:], np.where(every.codes[units[1:]] == every.codes[units[:-1]], units[:-1], _NOTHING)
    # what leaves must have been made
    for kind in (Kind.SEND_F, Kind.EVICT):
        yield (sent := by.of(kind)), by.end(sent, Kind.FORWARD)
    yield (sent := by.of(Kind.SEND_B)), by.end(sent, *GIVES_INPUT_GRADIENT)
    yield (back := by.of(Kind.RESTORE)), by.end(back, Kind.EVICT)
    yield (reduced := by.of(Kind.REDUCE_GRAD)), by.completed(reduced)
    yield from _steps(program, by)


def _steps(program: Program, by: "_Places") -> Iterator[tuple[Column, Column]]:
    """The totals of a step need every reduction of the rank and the count; the update needs the totals."""
    every = program.operations
    steps = by.of(Kind.STEP)
    totals, updates = (steps[every.parts[steps] == program.names.index(part)] for part in (TOTAL, UPDATE))
    counted = by.of(Kind.BEGIN, Kind.REDUCE_GRAD)
    for total in totals:
        mine = counted[program.ranks[counted] == program.ranks[total]]
        yield np.full(len(mine), total), mine
    yield updates, by.before(updates, Kind.STEP)


def _first(*choices: Column) -> Column:
    """Element by element, the first of the choices that is there."""
    found = choices[0]
    for each in choices[1:]:
        found = np.where(found == _NOTHING, each, found)
    return found


def _part(operations: Operations, name: str) -> int:
    return operations.names.index(name) if name in operations.names else _NOTHING


class _Places:
    """Where the operations of a program lie: by kind, and of a kind by stage and micro-batch."""

    def __init__(self, program: Program) -> None:
        self._program, self._every = program, program.operations
        self._kinds, self._stages, self._microbatches = (
            self._every.kinds,
            self._every.stages,
            self._every.microbatches,
        )
        numbered = ~among(self._kinds, Kind.USE, Kind.UNSHARD, Kind.RESHARD)  # by something else than a micro-batch
        self._shape = 2 + int(self._stages.max(initial=0)), 1 + int(self._microbatches[numbered].max(initial=0))
        self._size = len(self._every.names)
        self._ends: dict[Kind, Column] = {}

    def of(self, *kinds: Kind) -> Column:
        """Places of the operations of some kinds."""
        return np.flatnonzero(among(self._kinds, *kinds))

    def starts(self, *kinds: Kind) -> Column:
        """Places of the first operations of the actions of some kinds."""
        found = self.of(*kinds)
        return found[np.sort(np.unique(self._every.codes[found], return_index=True)[1])]

    def end(self, places: Column, *kinds: Kind, step: int = 0) -> Column:
        """The last operation of the action of one of `kinds` with the micro-batch of each place, `step` stages on."""
        stages, microbatches = self._stages[places] + step, self._microbatches[places]
        return _first(*(self._table(kind)[stages, microbatches] for kind in kinds))

    def before(self, places: Column, kind: Kind) -> Column:
        """The last operation of a kind before each place in its row."""
        found, ranks = self.of(kind), self._program.ranks
        return last_before(places, ranks[places], found, ranks[found])

    def begin(self, places: Column) -> Column:
        """The BEGIN of the rank of each place, wherever it is in the row."""
        begins, ranks = self.of(Kind.BEGIN), self._program.ranks
        of_rank = np.full(len(self._program.rows), _NOTHING)
        of_rank[ranks[begins]] = begins
        return of_rank[ranks[places]]

    def room(self, makers: Column, send: Kind) -> Column:
        """The message that must have left before a stage makes another, so that unsent ones do not pile up in memory.

        `makers`: what makes them. It is the one that the stage has made UNSENT before.
        """
        order = makers[np.argsort(self._stages[makers], kind="stable")]
        earlier = np.full(len(order), _NOTHING)
        ago = order[:-UNSENT]
        alike = self._stages[ago] == self._stages[order[UNSENT:]]
        earlier[UNSENT:] = np.where(alike, self.end(ago, send), _NOTHING)
        found = np.full(len(self._every), _NOTHING)
        found[order] = earlier
        return found[makers]

    def completed(self, reductions: Column) -> Column:
        """What completes the gradients that each reduction sums: the last backward before it of its stage, or a unit.

        Where none is before it, the last of all, behind it.
        """
        adding, parts = self.of(*GIVES_WEIGHT_GRADIENT), self._every.parts
        after = np.zeros((self._shape[0], self._size), np.int64)  # [stage, unit] → the unit that adds last
        for stage, each in enumerate(self._program.parts):
            for part in each.shared:
                after[stage, self._number(part.name)] = self._number(part.users[0])
        wanted = self._stages[reductions] * self._size + after[self._stages[reductions], parts[reductions]]
        given = self._stages[adding] * self._size + parts[adding]
        behind = last_before(np.full_like(reductions, len(self._every)), wanted, adding, given)
        return _first(last_before(reductions, wanted, adding, given), behind)

    def gathered(self, units: Column) -> Iterator[Column]:
        """The gathers of the parameters that each operation on a unit needs."""
        gathers = self.of(Kind.UNSHARD)
        needing = among(self._kinds[units], *NEEDS_PARAMETERS)
        for used in self._used(units, lambda part: part.gathers):
            yield np.where(needing, self._last(units, used, gathers), _NOTHING)

    def unreduced(self, units: Column) -> Iterator[Column]:
        """The reductions that must be over before each operation adds to gradients that no rank keeps whole.

        That of what the unit has added before, and that of the unit UNREDUCED before it, so that whole gradients do not
        pile up in memory.
        """
        reductions = self.of(Kind.REDUCE_GRAD)
        reductions = reductions[self._microbatches[reductions] >= 0]
        adding = among(self._kinds[units], *GIVES_WEIGHT_GRADIENT)
        for used in self._used(units, lambda part: part.cut_grads):
            yield np.where(adding, self._last(units, used, reductions), _NOTHING)
            ago = np.searchsorted(reductions, units) - 1 - UNREDUCED
            there = reductions[np.maximum(ago, 0)] if len(reductions) else np.zeros_like(units)
            alike = (ago >= 0) & (self._program.ranks[there] == self._program.ranks[units])
            yield np.where(adding & alike & (used > 0), there, _NOTHING)

    def _used(self, units: Column, which: Callable[[Part], bool]) -> Iterator[Column]:
        """For each operation the number of a unit whose parameters it uses, of some; 0: none. As often as one uses."""
        found: dict[tuple[int, int], list[int]] = {}
        for stage, each in enumerate(self._program.parts):
            for part in filter(which, each.shared):
                for user in part.users:
                    found.setdefault((stage, self._number(user)), []).append(self._number(part.name))
        for slot in range(max(map(len, found.values()), default=0)):
            table = np.zeros((self._shape[0], self._size), np.int64)
            for place, used in found.items():
                table[place] = used[slot] if slot < len(used) else 0
            yield table[self._stages[units], self._every.parts[units]]

    def _last(self, places: Column, parts: Column, others: Column) -> Column:
        """Of `others` the last before each place in its row that has the part; nothing for part 0."""
        ranks, size = self._program.ranks, self._size
        wanted, given = ranks[places] * size + parts, ranks[others] * size + self._every.parts[others]
        return np.where(parts > 0, last_before(places, wanted, others, given), _NOTHING)

    def _number(self, name: str) -> int:
        return self._every.names.index(name)

    def _table(self, kind: Kind) -> Column:
        """[stages + 1, micro-batches] → the last operation of that kind; the last stage, which is also −1, has none."""
        if kind not in self._ends:
            table = np.full(self._shape, _NOTHING)
            places = self.of(kind)
            table[self._stages[places], self._microbatches[places]] = places  # of several, numpy keeps the last
            self._ends[kind] = table
        return self._ends[kind]
