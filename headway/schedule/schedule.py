"""Schedule: one row of actions for each pipeline rank, with its text form and torch's CSV."""

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headway.errors import ScheduleError
from headway.schedule import action as actions
from headway.schedule.action import COMPUTE, GIVES_INPUT_GRADIENT, GIVES_WEIGHT_GRADIENT, Action, Kind, from_code
from headway.schedule.row import Column, Flags, Row, row


@dataclass(frozen=True)
class Schedule:
    """What every pipeline rank does, in order. Bubbles are not in it: they are what playing it finds."""

    name: str
    rows: tuple[Row, ...]

    def __str__(self) -> str:
        return f"# {self.name}\n{to_csv(self)}"

    def __contains__(self, action: Action) -> bool:
        return action.code in self._codes

    def has(self, codes: Column) -> Flags:
        """[n]: which of the actions with these codes are in some row."""
        places = np.searchsorted(self._ordered, codes)
        found: Flags = self._ordered[np.minimum(places, len(self._ordered) - 1)] == codes
        return found

    @property
    def num_ranks(self) -> int:
        """Pipeline ranks: the number of rows."""
        return len(self.rows)

    @cached_property
    def codes(self) -> Column:
        """`Action.code` of every action, row after row."""
        return np.concatenate([each.codes for each in self.rows]) if self.rows else np.zeros(0, np.int64)

    @cached_property
    def kinds(self) -> frozenset[Kind]:
        """Every kind of action that some row has."""
        return frozenset(actions.KINDS[number] for number in np.unique(Row(self.codes).kinds))

    @cached_property
    def ranks(self) -> dict[int, int]:
        """Stage → the pipeline rank that holds it, for every stage, in order."""
        found = {int(stage): rank for rank, each in enumerate(self.rows) for stage in np.unique(each.stages)}
        return {stage: found[stage] for stage in sorted(found) if stage >= 0}

    @property
    def num_stages(self) -> int:
        """Stages of all ranks together."""
        return len(self.ranks)

    @cached_property
    def num_microbatches(self) -> int:
        """Micro-batches that every stage sees."""
        every = Row(self.codes)
        return 1 + int(every.microbatches[every.of(*COMPUTE)].max(initial=-1))

    @cached_property
    def final(self) -> dict[int, Action]:
        """Stage → the last action of its row that adds to the gradients of its weights: a B or a W."""
        found: dict[int, int] = {}
        for each in self.rows:
            last = np.flatnonzero(each.of(*GIVES_WEIGHT_GRADIENT))[::-1]
            stages, first = np.unique(each.stages[last], return_index=True)
            found |= zip(stages.tolist(), each.codes[last[first]].tolist(), strict=True)
        return {stage: from_code(found[stage]) for stage in sorted(found)}

    @cached_property
    def trains(self) -> bool:
        """Whether there is any backward: a schedule without is an evaluation."""
        return bool(self.kinds & (GIVES_INPUT_GRADIENT | GIVES_WEIGHT_GRADIENT))

    def num(self, *kinds: Kind) -> int:
        """How many actions of some kinds the rows have."""
        return int(np.count_nonzero(Row(self.codes).of(*kinds)))

    def partner(self, rank: int) -> int:
        """The rank that holds what `rank` evicts: the first with the last, the second with the last but one."""
        return self.num_ranks - 1 - rank

    def stages(self, rank: int) -> tuple[int, ...]:
        """Stages that pipeline rank `rank` holds, in order."""
        return tuple(stage for stage, owner in self.ranks.items() if owner == rank)

    def compute(self, rank: int) -> Row:
        """The compute actions of a row."""
        return Row(self.rows[rank].codes[self.rows[rank].of(*COMPUTE)])

    @cached_property
    def _ordered(self) -> Column:
        # np.isin would hash, and numpy 2.3 takes seconds to hash 10^5 numbers that are multiples of a power of two
        return np.sort(self.codes)

    @cached_property
    def _codes(self) -> frozenset[int]:
        return frozenset(self.codes.tolist())


def parse(text: str) -> Schedule:
    """The schedule whose `str` is `text`: a line `# name`, then one line a rank. Without the name it is torch's CSV."""
    first, _, rest = text.partition("\n")
    return from_csv(rest, first[1:].strip()) if first.startswith("#") else from_csv(text)


def to_csv(schedule: Schedule) -> str:
    """torch's schedule CSV: one line a rank, comma-separated actions."""
    return "".join(",".join(map(str, each)) + "\n" for each in schedule.rows)


def from_csv(text: str, name: str = "csv") -> Schedule:
    """The schedule in torch's CSV; empty cells (idle time in torch's files) are dropped.

    `(0F3;3B1)OVERLAP_F_B` is read as its two actions, one after the other. Older files write a full backward `BW` and
    an input-backward `B`: they are known by having a `BW`.

    >>> print(from_csv("0F0,,0B0"), end="")
    # csv
    0F0,0B0
    """
    rows: list[Row] = []
    text = text.removeprefix("\ufeff")  # the byte-order mark that spreadsheets write
    text = re.sub(r"\(([^()]*);([^()]*)\)OVERLAP_F_B", r"\1,\2", text)
    if re.search(r"\d+BW\d+", text):
        text = re.sub(r"(\d+)B(W?)(\d+)", lambda found: f"{found[1]}{'B' if found[2] else 'I'}{found[3]}", text)
    for line, cells in enumerate(text.splitlines(), start=1):
        try:
            rows.append(row(actions.parse(cell) for cell in cells.split(",") if cell.strip()))
        except ScheduleError as error:
            raise ScheduleError(f"line {line}: {error}") from None
    if not any(rows):
        raise ScheduleError("the schedule is empty. Write one line of comma-separated actions for each rank.")
    return Schedule(name, tuple(rows))
