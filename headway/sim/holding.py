"""What comes and goes in memory while a plan is played: from what operations take and give to bytes over time."""

from collections.abc import Sequence

import numpy as np

from headway.plan.work import Work
from headway.schedule.row import Column, Times
from headway.trace import Changes


def over_time(works: Sequence[Work], number: Column, ranks: Column, starts: Times, ends: Times) -> Changes:
    """The bytes that ranks hold after each change, of spans that do `works[number]`: [n] each but the works.

    At one instant, what ends gives back before what starts takes: what is taken and given back at once is not seen.
    """
    gives, takes = [each.gives | each.within for each in works], [each.takes | each.within for each in works]
    names = tuple(dict.fromkeys(kind for each in (*gives, *takes) for kind in each))
    found = [(number[:0], starts[:0], number[:0], number[:0], number[:0])]  # rank, time, taking, category, bytes
    for category, name in enumerate(names):
        for taking, each, times in ((0, gives, ends), (1, takes, starts)):
            sizes = np.array([work.get(name, -1) for work in each])[number]
            spans = np.flatnonzero(sizes >= 0)
            alike = np.ones_like(spans)
            size = sizes[spans] if taking else -sizes[spans]
            found.append((ranks[spans], times[spans], taking * alike, category * alike, size))
    ranks, times, taken, categories, sizes = map(np.concatenate, zip(*found, strict=True))
    order = np.lexsort((taken, times, ranks))
    ranks, categories, sizes = ranks[order], categories[order], sizes[order]
    held = np.zeros_like(sizes)
    for category in range(len(names)):
        mine = np.flatnonzero(categories == category)
        held[mine] = _sums_by_rank(ranks[mine], sizes[mine])
    return Changes(ranks, times[order], categories, held, names)


def _sums_by_rank(ranks: Column, sizes: Column) -> Column:
    """Running sums of `sizes`, anew for each rank; `ranks` in order."""
    sums = np.cumsum(sizes)
    first = np.flatnonzero(np.diff(ranks, prepend=-1))
    before = np.repeat(sums[first] - sizes[first], np.diff(first, append=len(ranks)))
    return sums - before
