"""Schedule: one row of actions for each pipeline rank, with its text form and torch's CSV."""

import re
from dataclasses import dataclass
from functools import cached_property

from headway.errors import ScheduleError
from headway.schedule import action as actions
from headway.schedule.action import COMPUTE, GIVES_INPUT_GRADIENT, GIVES_WEIGHT_GRADIENT, Action, Kind

Row = tuple[Action, ...]


@dataclass(frozen=True)
class Schedule:
    """What every pipeline rank does, in order. Bubbles are not in it: they are what playing it finds."""

    name: str
    rows: tuple[Row, ...]

    def __str__(self) -> str:
        return f"# {self.name}\n{to_csv(self)}"

    @property
    def num_ranks(self) -> int:
        """Pipeline ranks: the number of rows."""
        return len(self.rows)

    @cached_property
    def ranks(self) -> dict[int, int]:
        """Stage → the pipeline rank that holds it, for every stage, in order."""
        found = {a.stage: rank for rank, row in enumerate(self.rows) for a in row if a.stage is not None}
        return dict(sorted(found.items()))

    @property
    def num_stages(self) -> int:
        """Stages of all ranks together."""
        return len(self.ranks)

    @cached_property
    def num_microbatches(self) -> int:
        """Micro-batches that every stage sees."""
        return 1 + max(
            (a.microbatch for a in self.actions if a.kind in COMPUTE and a.microbatch is not None), default=-1
        )

    @cached_property
    def actions(self) -> frozenset[Action]:
        """All actions of stages, of all rows."""
        return frozenset(a for row in self.rows for a in row if a.stage is not None)

    @cached_property
    def made(self) -> dict[tuple[int, Kind], tuple[int, ...]]:
        """(stage, SEND_F or SEND_B) → micro-batches in the order in which the stage makes what such a send carries."""
        found: dict[tuple[int, Kind], list[int]] = {}
        for a in (a for row in self.rows for a in row):
            send = Kind.SEND_F if a.kind is Kind.FORWARD else Kind.SEND_B
            if a.kind is Kind.FORWARD or a.kind in GIVES_INPUT_GRADIENT:
                assert a.stage is not None
                assert a.microbatch is not None
                found.setdefault((a.stage, send), []).append(a.microbatch)
        return {key: tuple(value) for key, value in found.items()}

    @cached_property
    def place(self) -> dict[tuple[int, Kind, int], int]:
        """(stage, SEND_F or SEND_B, micro-batch) → its place in `made`."""
        return {(stage, send, m): i for (stage, send), ms in self.made.items() for i, m in enumerate(ms)}

    @cached_property
    def final(self) -> dict[int, Action]:
        """Stage → the last action of its row that adds to the gradients of its weights: a B or a W."""
        return {a.stage: a for row in self.rows for a in row if a.kind in GIVES_WEIGHT_GRADIENT and a.stage is not None}

    @cached_property
    def trains(self) -> bool:
        """Whether there is any backward: a schedule without is an evaluation."""
        return any(a.kind in GIVES_INPUT_GRADIENT | GIVES_WEIGHT_GRADIENT for row in self.rows for a in row)

    @cached_property
    def room(self) -> dict[Action, Action]:
        """Forward → the last EVICT before it in its row, which must have made room for its activations."""
        found, last = {}, None
        for action in (a for row in self.rows for a in (None, *row)):
            if action is None or action.kind is Kind.EVICT:
                last = action
            elif action.kind is Kind.FORWARD and last:
                found[action] = last
        return found

    def partner(self, rank: int) -> int:
        """The rank that holds what `rank` evicts: the first with the last, the second with the last but one."""
        return self.num_ranks - 1 - rank

    def backward(self, stage: int, microbatch: int | None) -> Action:
        """What gives the gradient of a stage's input: its full backward, or its input-backward if that is split off."""
        full = Action(Kind.BACKWARD, stage, microbatch)
        return full if full in self.actions else Action(Kind.INPUT_BACKWARD, stage, microbatch)

    def stages(self, rank: int) -> tuple[int, ...]:
        """Stages that pipeline rank `rank` holds, in order."""
        return tuple(stage for stage, owner in self.ranks.items() if owner == rank)

    def compute(self, rank: int) -> Row:
        """The compute actions of a row."""
        return tuple(a for a in self.rows[rank] if a.kind in COMPUTE)


def parse(text: str) -> Schedule:
    """The schedule whose `str` is `text`: a line `# name`, then one line a rank. Without the name it is torch's CSV."""
    first, _, rest = text.partition("\n")
    return from_csv(rest, first[1:].strip()) if first.startswith("#") else from_csv(text)


def to_csv(schedule: Schedule) -> str:
    """torch's schedule CSV: one line a rank, comma-separated actions."""
    return "".join(",".join(map(str, row)) + "\n" for row in schedule.rows)


def from_csv(text: str, name: str = "csv") -> Schedule:
    """The schedule in torch's CSV; empty cells (idle time in torch's files) are dropped.

    `(0F3;3B1)OVERLAP_F_B` is read as its two actions, one after the other. Older files write a full backward `BW` and
    an input-backward `B`: they are known by having a `BW`.

    >>> print(from_csv("0F0,,0B0"), end="")
    # csv
    0F0,0B0
    """
    rows: list[Row] = []
    text = re.sub(r"\(([^()]*);([^()]*)\)OVERLAP_F_B", r"\1,\2", text)
    if re.search(r"\d+BW\d+", text):
        text = re.sub(r"(\d+)B(W?)(\d+)", lambda found: f"{found[1]}{'B' if found[2] else 'I'}{found[3]}", text)
    for line, cells in enumerate(text.splitlines(), start=1):
        try:
            rows.append(tuple(actions.parse(cell) for cell in cells.split(",") if cell.strip()))
        except ScheduleError as error:
            raise ScheduleError(f"line {line}: {error}") from None
    if not any(rows):
        raise ScheduleError("the schedule is empty. Write one line of comma-separated actions for each rank.")
    return Schedule(name, tuple(rows))
