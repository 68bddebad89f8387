"""Memory over time: one line of bars for each rank, on the time axis of the pipeline diagram."""

import numpy as np

from headway.report import palette
from headway.report.diagram import Line, Piece, Scale, rank_label
from headway.schedule.row import Column, Times
from headway.trace import Trace
from headway.units import show_bytes

_BARS = " ▁▂▃▄▅▆▇█"  # the first is no memory at all


def occupancy(trace: Trace, scale: Scale) -> tuple[Line, ...]:
    """What each rank holds on top of its states (which stay), and a last line that says how much a full bar is.

    A column shows the most that is held within its time. No lines where that is not known, as of a measured trace.
    """
    begin = float(trace.spans.starts.min(initial=np.inf))
    edges = begin + np.arange(round(min(trace.makespan, scale.shown) * scale.rate) + 1) / scale.rate
    ranks = {}
    for rank in trace.memory:
        times, sizes = trace.held.totals(rank)
        if len(times):
            ranks[rank] = _most(times, sizes, edges)
    full = max((max(columns, default=0) for columns in ranks.values()), default=0)
    if not full:
        return ()
    lines = [
        (Piece(rank_label(rank, scale)), Piece("".join(_bar(size, full) for size in columns), palette.MEMORY))
        for rank, columns in ranks.items()
    ]
    legend = Piece(f"{'':{scale.label}}memory on top of the states; a full bar is {show_bytes(full)}", palette.FAINT)
    return (*lines, (legend,))


def _most(times: Times, sizes: Column, edges: Times) -> list[int]:
    """The largest size between each edge and the next, where a size holds from its time to that of the next."""
    held = np.concatenate([[0], sizes])  # before the first change nothing is
    first = np.searchsorted(times, edges[:-1], side="right")
    last = np.searchsorted(times, edges[1:])  # a change at the end of a column is the next one's
    return [int(held[a : max(a, b) + 1].max()) for a, b in zip(first, last, strict=True)]


def _bar(size: int, full: int) -> str:
    return _BARS[-(-size * (len(_BARS) - 1) // full)]
