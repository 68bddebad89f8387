"""A time line drawn as styled lines: bus bandwidth as a height over time, where it stands still, what breaks when."""

import math
from collections.abc import Iterator
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import NDArray

from headway.fabric.timeline import Timeline
from headway.report import palette
from headway.report.diagram import Line, Piece
from headway.units import Seconds, show_seconds

_LABEL, _ROWS, _LEAST, _WIDEST, _TICK = 8, 6, 8, 160, 12  # columns of the label; of the picture; between two ticks
_PARTS = " ▁▂▃▄▅▆▇█"
_WHOLE = 0.999  # of the bus bandwidth without faults: above it nothing is missing
BREAKS, BACK, STILL = "▼", "▲", "×"
Shares = NDArray[np.float64]


def draw(line: Timeline, columns: int, *, coloured: bool) -> Iterator[Line]:
    """The time line, `columns` wide at most. A column shows the mean of its time, and × if it stands still for a part.

    In colours what is less than without faults differs from what is whole, and what stands still from both.
    """
    width = max(_LEAST, min(columns, _WIDEST) - _LABEL)
    top = max(line.healthy.busbw, *(each.busbw for each in line.phases)) or 1.0
    edges = np.linspace(0.0, line.phases[-1].end, width + 1)
    height = _mean(line, edges) / top
    still = _still(line, edges)
    for row in reversed(range(_ROWS)):
        label = f"{top / 1e9:.1f}" if row == _ROWS - 1 else ""
        filled = np.clip(height * _ROWS - row, 0.0, 1.0)
        yield (
            Piece(label.rjust(_LABEL - 2) + " │", palette.FAINT),
            *_row(filled, height, still, line, top, coloured=coloured),
        )
    marks = "".join(STILL if each else " " for each in still)
    yield (Piece("GB/s 0 └".rjust(_LABEL), palette.FAINT), Piece(marks.rstrip(), palette.STILL if coloured else ""))
    if events := _events(line, edges):
        yield (Piece(" " * _LABEL), Piece(events, "bold"))
    yield (Piece(_axis(line.phases[-1].end, width), palette.FAINT),)
    yield _legend(line, still)


def _row(
    filled: Shares, height: Shares, still: NDArray[np.bool_], line: Timeline, top: float, *, coloured: bool
) -> Iterator[Piece]:
    whole = line.healthy.busbw / top * _WHOLE
    cells = []
    for part, share, stands in zip(filled.tolist(), height.tolist(), still.tolist(), strict=True):
        colour = palette.STILL if stands else palette.WHOLE if share >= whole else palette.REDUCED
        sign = _PARTS[math.ceil(part * (len(_PARTS) - 1) - 1e-9)]
        full = coloured and sign == _PARTS[-1]
        cells.append((" " if full else sign, (f"on {colour}" if full else colour) if coloured else ""))
    for style, run in groupby(cells, key=lambda cell: cell[1]):
        yield Piece("".join(sign for sign, _ in run), style)


def _mean(line: Timeline, edges: Shares) -> Shares:
    """[columns]: bus bandwidth on average between neighbouring edges."""
    ends = np.array([0.0, *(each.end for each in line.phases)])
    moved = np.array([0.0, *np.cumsum([each.busbw * (each.end - each.start) for each in line.phases])])
    found: Shares = np.diff(np.interp(edges, ends, moved)) / np.diff(edges)
    return found


def _still(line: Timeline, edges: Shares) -> NDArray[np.bool_]:
    """[columns]: whether it stands still for a part of the time between neighbouring edges."""
    found = np.zeros(len(edges) - 1, bool)
    for each in line.phases:
        if not each.busbw:
            found |= (edges[:-1] < each.end) & (edges[1:] > each.start)
    return found


def _events(line: Timeline, edges: Shares) -> str:
    """Where something breaks or comes back, of several in one column the last one."""
    signs = [" "] * (len(edges) - 1)
    broken = [(), *(each.broken for each in line.phases)]
    for (before, after), phase in zip(pairwise(broken), line.phases, strict=True):
        if before != after:
            place = min(int(np.searchsorted(edges, phase.start, side="right")) - 1, len(signs) - 1)
            signs[place] = BREAKS if len(after) > len(before) else BACK
    return "".join(signs).rstrip()


def _axis(end: Seconds, width: int) -> str:
    """Round times, each at its column."""
    least = end * _TICK / width
    size = 10.0 ** math.floor(math.log10(least))
    step = next(size * each for each in (1, 2, 5, 10) if size * each >= least * (1 - 1e-9))
    text = " " * _LABEL
    for tick in range(math.floor(end / step + 1e-9) + 1):
        name = show_seconds(tick * step) if 0 < tick * step < 1 else f"{tick * step:g} s"
        place = _LABEL + round(tick * step / end * width)
        if place + len(name) <= _LABEL + width:
            text = text.ljust(place) + name + " "
    return text.rstrip()


def _legend(line: Timeline, still: NDArray[np.bool_]) -> Line:
    signs = [f"{BREAKS} breaks", f"{BACK} back"] if any(each.broken for each in line.phases) else []
    signs += [f"{STILL} stands still, for a part of the column at least"] if still.any() else []
    return (Piece(" " * _LABEL + "   ".join(signs), palette.FAINT),)
