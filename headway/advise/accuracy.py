"""Accuracy: how far predictions are from what was published: errors, ranks within sweeps, the row picked first."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FEWEST = 3  # rows that make a sweep: of two, any order is a rank correlation of 1 or -1
NEAR = 0.05  # how far from the best row a pick may be to count as near

Ranks = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pair:
    """A row's predicted and published value, both above 0 and in one unit."""

    id: str
    predicted: float
    published: float

    @property
    def error(self) -> float:
        """Predicted over published, less 1: above 0 where too much was predicted."""
        return self.predicted / self.published - 1


@dataclass(frozen=True, slots=True)
class Errors:
    """Of `rows` pairs: mean and median of the absolute errors, mean of the signed ones, and the worst row."""

    rows: int
    mean: float
    median: float
    bias: float
    worst: Pair


@dataclass(frozen=True, slots=True)
class Sweeps:
    """Of sweeps with at least three rows: how well predictions rank them.

    `spearman`: rank correlation of each, averaged with the sweeps' rows as weights. `near`: sweeps whose row that we
    rank first was published within 5 % of the best row; `loss` how much slower than the best row those picks are, on
    average; `worst` the pick that is furthest away, with the best row's value as what was to be had.
    """

    count: int
    rows: int
    spearman: float | None
    near: int
    loss: float | None
    worst: Pair | None


def errors(pairs: Sequence[Pair]) -> Errors | None:
    """The errors of all pairs; None if there are none.

    >>> errors([Pair("a", 1.1, 1.0), Pair("b", 1.5, 2.0)]).worst.id
    'b'
    """
    if not pairs:
        return None
    found = np.array([pair.error for pair in pairs])
    size = np.abs(found)
    return Errors(
        len(pairs), float(size.mean()), float(np.median(size)), float(found.mean()), pairs[int(size.argmax())]
    )


def sweeps(groups: Sequence[Sequence[Pair]]) -> Sweeps:
    """How the rows of each group are ranked; groups of fewer than three rows are no sweeps."""
    large = [group for group in groups if len(group) >= FEWEST]
    ranked = [(len(group), value) for group in large if (value := spearman(group)) is not None]
    picks = [_pick(group) for group in large]
    losses = [pick.error for pick in picks]
    return Sweeps(
        len(large),
        sum(map(len, large)),
        float(np.average([value for _, value in ranked], weights=[rows for rows, _ in ranked])) if ranked else None,
        sum(loss <= NEAR for loss in losses),
        float(np.mean(losses)) if losses else None,
        max(picks, key=lambda pick: pick.error) if picks else None,
    )


def spearman(pairs: Sequence[Pair]) -> float | None:
    """Rank correlation (Spearman 1904), ties sharing their average rank; None where all published values are equal.

    A prediction that is the same for all rows ranks nothing: 0.

    >>> spearman([Pair("a", 1, 10), Pair("b", 2, 30), Pair("c", 3, 20)])
    0.5
    """
    ours, theirs = ranks([pair.predicted for pair in pairs]), ranks([pair.published for pair in pairs])
    ours, theirs = ours - ours.mean(), theirs - theirs.mean()
    if not theirs.any():
        return None
    return float(ours @ theirs / np.sqrt((ours @ ours) * (theirs @ theirs))) if ours.any() else 0.0


def ranks(values: Sequence[float]) -> Ranks:
    """Rank of each value, the least first; equal values share the average of their ranks.

    >>> ranks([5.0, 7.0, 5.0]).tolist()
    [1.5, 3.0, 1.5]
    """
    ordered = np.sort(values)
    below, upto = np.searchsorted(ordered, values, "left"), np.searchsorted(ordered, values, "right")
    return np.asarray((below + 1 + upto) / 2, dtype=np.float64)


def _pick(group: Sequence[Pair]) -> Pair:
    """The published value of the row that is predicted fastest, over the best one; of equal predictions the slowest."""
    first = min(pair.predicted for pair in group)
    pick = max((pair for pair in group if pair.predicted == first), key=lambda pair: pair.published)
    return Pair(pick.id, pick.published, min(pair.published for pair in group))
