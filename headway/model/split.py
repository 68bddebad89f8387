"""Splitting: which blocks sit in which stage, contiguous, balanced by cost or by given numbers of layers."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise

Runs = tuple[tuple[int, ...], ...]  # for each stage the indices of its blocks, in order


def balanced(costs: Sequence[int], parts: int) -> Runs:
    """Indices 0 … len(costs)−1 cut into `parts` neighbouring runs, the dearest run as cheap as possible.

    Among those cuts the sum of squares is least, so that the other runs are even as well. The first block (embedding)
    is in the first run and the last one (head) in the last. Runs between them may be empty: with fewer blocks than
    runs, those right behind the first, because there most micro-batches would be in flight. Whole numbers, so that
    equal runs cost exactly the same and the cut does not hang on rounding.

    >>> balanced([1, 5, 5, 5, 5, 2], 2)
    ((0, 1, 2), (3, 4, 5))
    >>> balanced([1, 5, 2], 5)
    ((0,), (), (), (1,), (2,))
    """
    n = len(costs)
    assert n >= 2, "a model has an embedding and a head"
    if parts == 1:
        return (tuple(range(n)),)
    prefix = [0, *accumulate(costs)]
    limit = _dearest(costs, parts)
    least = {end: prefix[end] ** 2 for end in range(1, n) if prefix[end] <= limit}  # end of a run → sum of squares
    back: list[dict[int, int]] = []  # for each later run, its end → the start that is best
    for ends in [*[range(1, n)] * (parts - 2), (n,)]:
        row: dict[int, int] = {}
        best: dict[int, int] = {}
        for end in ends:
            for start in range(min(end, n - 1), 0, -1):
                run = prefix[end] - prefix[start]
                if run > limit:
                    break
                if start in least and least[start] + run * run <= row.get(end, least[start] + run * run):
                    row[end], best[end] = least[start] + run * run, start
        least = row
        back.append(best)
    cuts = [n]
    for best in reversed(back):
        cuts.append(best[cuts[-1]])
    return _runs([0, *reversed(cuts)])


def of_alike(embedding: int, layer: int, head: int, count: int, parts: int) -> tuple[int, ...]:
    """As `balanced` of `count` layers that cost alike, at once: the number of layers of each part.

    >>> of_alike(1, 5, 2, 4, 2), of_alike(1, 5, 21, 14, 4)
    ((2, 2), (4, 5, 5, 0))
    """
    if parts == 1:
        return (count,)
    most = -(-count // parts) + 2
    best: tuple[int, int, tuple[int, ...]] | None = None
    for first in range(min(most, count) + 1):
        for last in range(min(most, count - first) + 1) if parts > 2 else (count - first,):
            each, more = divmod(count - first - last, parts - 2) if parts > 2 else (0, 0)
            dear, cheap = (each + 1) * layer if more else 0, each * layer if parts - 2 > more else 0
            ends = embedding + first * layer, head + last * layer
            squares = ends[0] ** 2 + ends[1] ** 2 + more * dear**2 + (parts - 2 - more) * cheap**2
            middle = (*(each + 1 for _ in range(more)), *(each for _ in range(parts - 2 - more)))
            found = max(*ends, dear, cheap), squares, (first, *middle, last)
            best = min(best, found) if best else found
    assert best
    return best[2]


def by_layers(counts: Sequence[int]) -> Runs:
    """Runs of the blocks embedding, layers, head for stages of so many layers each.

    >>> by_layers([1, 0, 2])
    ((0, 1), (), (2, 3, 4))
    """
    ends = list(accumulate(counts))
    return _runs([0, *(end + 1 for end in ends[:-1]), ends[-1] + 2])


def _runs(cuts: Sequence[int]) -> Runs:
    return tuple(tuple(range(a, b)) for a, b in pairwise(cuts))


def _dearest(costs: Sequence[int], parts: int) -> int:
    """The least bound that `parts` neighbouring runs can keep: each is filled to the bound before the next begins."""
    low, high = max(costs), sum(costs)
    return low + bisect_left(range(low, high + 1), x=True, key=lambda bound: _num_runs(costs, bound) <= parts)


def _num_runs(costs: Sequence[int], bound: int) -> int:
    runs, filled = 1, 0
    for cost in costs:
        filled += cost
        if filled > bound:
            runs, filled = runs + 1, cost
    return runs
