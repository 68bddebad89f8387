"""The only statement of dependency: what each operation needs finished, and whom it meets."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headway.schedule.action import GIVES_INPUT_GRADIENT, GIVES_WEIGHT_GRADIENT, NUMBERS, Kind, pack
from headway.schedule.operation import TOTAL, UPDATE, Operation, Operations, Program
from headway.schedule.row import Column, among

UNSENT = 2  # messages of one stage and direction that may be under way before the stage makes another
_NOTHING = -1


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
    # a unit's reduction by the unit, which two stages may share; of a whole stage by the stage
    reduced = kinds == NUMBERS[Kind.REDUCE_GRAD]
    keys[reduced] = pack(kinds, np.where(parts > 0, _NOTHING, stages), parts)[reduced]
    alone = (kinds == NUMBERS[Kind.BEGIN]) | ((kinds == NUMBERS[Kind.STEP]) & (parts == _part(operations, TOTAL)))
    keys[alone] = operations.codes[alone]
    return keys


def _rules(program: Program) -> Iterator[tuple[Column, Column]]:
    """Rule by rule: places of operations, and for each the place of what it needs, or none."""
    every, by = program.operations, _Places(program)
    forward, weight = by.of(Kind.FORWARD), by.starts(Kind.WEIGHT_BACKWARD)
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
    # within a backward, unit after unit
    units = by.of(*GIVES_WEIGHT_GRADIENT)
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
        uses = self._kinds == NUMBERS[Kind.USE]  # its number is no micro-batch
        self._shape = 2 + int(self._stages.max(initial=0)), 1 + int(self._microbatches[~uses].max(initial=0))
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
        found = self.of(kind)
        last = np.searchsorted(found, places) - 1
        there = found[last] if len(found) else np.full(len(places), _NOTHING)
        ranks = self._program.ranks
        return np.where((last >= 0) & (ranks[there] == ranks[places]), there, _NOTHING)

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
        """What completes the gradients that each reduction sums: the last backward of its stage, or a unit of that."""
        last = self.of(*GIVES_WEIGHT_GRADIENT)
        last = last[np.isin(self._every.codes[last], [action.code for action in self._program.schedule.final.values()])]
        where = dict(zip(self._every[last], last.tolist(), strict=True))
        found = []
        for reduction in self._every[reductions]:
            assert reduction.action.stage is not None
            final = self._program.schedule.final[reduction.action.stage]
            after = next((u for name, u, _ in self._program.parts_of(final).reduced if name == reduction.part), "")
            found.append(where[Operation(final, after)])
        return np.array(found, np.int64)

    def _table(self, kind: Kind) -> Column:
        """[stages + 1, micro-batches] → the last operation of that kind; the last stage, which is also −1, has none."""
        if kind not in self._ends:
            table = np.full(self._shape, _NOTHING)
            places = self.of(kind)
            table[self._stages[places], self._microbatches[places]] = places  # of several, numpy keeps the last
            self._ends[kind] = table
        return self._ends[kind]
