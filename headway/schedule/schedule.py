"""Schedule: one row of actions for each pipeline rank, with its text form and torch's CSV."""

from dataclasses import dataclass
from functools import cached_property

from headway.errors import ScheduleError
from headway.schedule import action as actions
from headway.schedule.action import COMPUTE, Action, Kind

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
        return 1 + max((a.microbatch for row in self.rows for a in row if a.microbatch is not None), default=-1)

    @cached_property
    def actions(self) -> frozenset[Action]:
        """All actions of stages, of all rows."""
        return frozenset(a for row in self.rows for a in row if a.stage is not None)

    @cached_property
    def order(self) -> dict[tuple[int, Kind], tuple[int, ...]]:
        """(stage, kind) → its micro-batches in the order in which its rank takes them."""
        found: dict[tuple[int, Kind], list[int]] = {}
        for row in self.rows:
            for a in row:
                if a.stage is not None and a.microbatch is not None:
                    found.setdefault((a.stage, a.kind), []).append(a.microbatch)
        return {key: tuple(value) for key, value in found.items()}

    @cached_property
    def place(self) -> dict[Action, int]:
        """Action of a stage → its place among those of its stage and kind."""
        return {Action(kind, stage, m): i for (stage, kind), ms in self.order.items() for i, m in enumerate(ms)}

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

    >>> print(from_csv("0F0,,0B0"), end="")
    # csv
    0F0,0B0
    """
    rows = []
    for line, cells in enumerate(text.splitlines(), start=1):
        try:
            rows.append(tuple(actions.parse(cell) for cell in cells.split(",") if cell.strip()))
        except ScheduleError as error:
            raise ScheduleError(f"line {line}: {error}") from None
    if not any(rows):
        raise ScheduleError("the schedule is empty. Write one line of comma-separated actions for each rank.")
    return Schedule(name, tuple(rows))
