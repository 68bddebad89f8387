"""Splitting: which blocks sit in which stage, contiguous and balanced by cost."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from headway.errors import PlanError


def balanced(costs: Sequence[float], parts: int) -> tuple[tuple[int, ...], ...]:
    """Indices 0 … len(costs)−1 cut into `parts` neighbouring runs, none empty, the dearest run as cheap as possible.

    Among those, the sum of squares is least, so that the other runs are even as well.

    >>> balanced([0, 1, 1, 1, 1, 0], 2)
    ((0, 1, 2), (3, 4, 5))
    """
    n = len(costs)
    if parts > n:
        raise PlanError(
            f"a model of {n} blocks (embedding, {n - 2} layers, head) does not fill {parts} stages. "
            f"Use at most {n} stages (parallel.pipeline × parallel.chunks), or more layers."
        )
    prefix = [0.0]
    for each in costs:
        prefix.append(prefix[-1] + each)
    dearest = _best(prefix, parts, max)[1]
    limit = dearest * (1 + 1e-12)
    cuts, _ = _best(prefix, parts, lambda total, rest: total * total + rest if total <= limit else float("inf"))
    return tuple(tuple(range(a, b)) for a, b in pairwise(cuts))


def _best(prefix: Sequence[float], parts: int, join: Callable[[float, float], float]) -> tuple[list[int], float]:
    """Cuts that minimise `join(cost of a run, value of the runs before it)`, by dynamic programming."""
    n = len(prefix) - 1
    value = [0.0] + [float("inf")] * n
    back: list[list[int]] = []
    for part in range(1, parts + 1):
        row, best = [float("inf")] * (n + 1), [0] * (n + 1)
        for end in range(part, n - (parts - part) + 1):
            for start in range(part - 1, end):
                if value[start] < float("inf"):
                    candidate = join(prefix[end] - prefix[start], value[start])
                    if candidate < row[end]:
                        row[end], best[end] = candidate, start
        value = row
        back.append(best)
    cuts = [n]
    for best in reversed(back):
        cuts.append(best[cuts[-1]])
    return cuts[::-1], value[n]
