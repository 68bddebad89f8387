"""Validation: a published row predicted, or why it cannot be."""

from collections.abc import Callable
from dataclasses import dataclass

from headway.advise import inputs
from headway.advise.accuracy import Pair
from headway.advise.inputs import Lacking
from headway.advise.published import Published
from headway.errors import PlanError
from headway.sim.estimate import Estimate, estimate
from headway.sim.outline import Outline
from headway.units import Bytes

# What a way to measure does not see. torch's counters know nothing of the CUDA context, and what its allocator holds
# free is reserved but not allocated. Who does not say which counter it was (`unstated`) read one of torch's.
_NOT_COUNTED = {"allocated": ("context", "allocator"), "reserved": ("context",), "unstated": ("context",)}

Predict = Callable[[Outline], Estimate]


@dataclass(frozen=True, slots=True)
class Judged:
    """A row that was predicted."""

    row: Published
    outline: Outline
    estimate: Estimate

    @property
    def memory(self) -> Bytes:
        """Predicted bytes of the fullest rank: those that the row's way to measure counts; all where it has none."""
        hidden = _NOT_COUNTED.get(self.row.memory_kind, ()) if self.row.memory is not None else ()
        return Bytes(sum(size for kind, size in self.estimate.memory.items() if kind not in hidden))

    @property
    def time_pair(self) -> Pair | None:
        """Seconds of a step; None where no step was finished or its time was not published."""
        row = self.row
        return Pair(row.id, self.estimate.seconds, row.seconds) if row.ran and row.seconds is not None else None

    @property
    def memory_pair(self) -> Pair | None:
        """Bytes of the fullest rank; None where they were not measured."""
        row = self.row
        return Pair(row.id, self.memory, row.memory) if row.ran and row.memory is not None else None

    @property
    def sweep(self) -> tuple[object, ...]:
        """What is equal for rows that differ in their layout alone."""
        row = self.row
        return (row.source, row.facts.get("model"), *map(row.numbers.get, ("seq_len", "n_gpus", "gbs")))


def judge(row: Published, predict: Predict = estimate) -> Judged | Lacking:
    """The row with its prediction, or why there is none."""
    outline = inputs.outline(row)
    if isinstance(outline, Lacking):
        return outline
    try:
        return Judged(row, outline, predict(outline))
    except PlanError as error:
        return Lacking(f"not predicted: {error}")
