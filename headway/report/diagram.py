"""The pipeline diagram: a Trace as lines of styled text, one line a rank, time to the right (GPipe 2019, figure 2)."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from headway.report import palette
from headway.schedule.action import COMPUTE as BLOCKS
from headway.schedule.action import Action, Kind
from headway.trace import COMPUTE, Trace

BUBBLE, OTHER, CUT = "·", "=", "…"
_BRACKETS = {Kind.BACKWARD: "[]", Kind.INPUT_BACKWARD: "<>", Kind.WEIGHT_BACKWARD: "()"}
_NAMES = {
    Kind.FORWARD: "forward",
    Kind.BACKWARD: "backward",
    Kind.INPUT_BACKWARD: "input-backward",
    Kind.WEIGHT_BACKWARD: "weight-backward",
}
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_WIDEST = 4  # columns of the shortest block: more makes a small diagram long, not clearer
_TICK = 10  # columns between two ticks of the axis, at least


@dataclass(frozen=True, slots=True)
class Piece:
    """Neighbouring characters of a line in one style, which is spelled as rich spells it."""

    text: str
    style: str = ""


Line = tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Scale:
    """The time axis that diagrams under each other share.

    `columns` of time after a label of `label` columns; `rate` columns a second (or unit of time); `span` of the longest
    trace; `coloured` diagrams tell forward from backward by colour, others by brackets. `digits` of the largest
    micro-batch, `chunks` of a rank, `kinds` of blocks that the legend explains.
    """

    columns: int
    label: int
    rate: float
    span: float
    coloured: bool
    digits: int
    chunks: int
    kinds: tuple[Kind, ...]

    @property
    def needed(self) -> int:
        """Columns, label included, that show all of it."""
        return self.label + math.ceil(self.span * self.rate - 1e-9)

    @property
    def shown(self) -> float:
        """The time that fits; the rest is cut."""
        return self.span if self.needed <= self.label + self.columns else (self.columns - 1) / self.rate

    @property
    def is_cut(self) -> bool:
        """Whether something is left out on the right."""
        return self.shown < self.span

    @property
    def note(self) -> str:
        """What is left out, in a sentence; empty if nothing is."""
        if not self.is_cut:
            return ""
        left_out = 1 - self.shown / self.span
        share = f"{left_out:.0%}" if left_out >= 0.01 else "under 1%"
        return f"{CUT} {share} of the time is left out on the right: all of it needs {self.needed} columns."


@dataclass(frozen=True, slots=True)
class _Block:
    action: Action
    start: float
    end: float


def fit(traces: Sequence[Trace], *, columns: int, coloured: bool) -> Scale:
    """The scale at which all `traces` fit into `columns`, or the smallest that still has room for the numbers.

    Where every time is a multiple of the shortest block, as in a bare schedule, that block gets a whole number of
    columns, so that equal blocks look equal.
    """
    by_rank = [_rows(trace) for trace in traces]
    rows = [row for each in by_rank for row in each.values()]
    blocks = [block for row in rows for block in row if block.action.kind in BLOCKS]
    span = max((trace.makespan for trace in traces), default=0.0)
    digits = max((len(str(b.action.microbatch)) for b in blocks), default=1)
    chunks = max((len({b.action.stage for b in row if b.action.kind in BLOCKS}) for row in rows), default=1)
    ranks = max((len(str(rank)) for each in by_rank for rank in each), default=1)
    lengths: dict[Kind, list[float]] = {}
    for block in blocks:
        if block.end > block.start:  # an empty stage passes on in no time
            lengths.setdefault(block.action.kind, []).append(block.end - block.start)
    least = max((_least(k, digits, coloured=coloured) / median(all_) for k, all_ in lengths.items()), default=1.0)
    quantum = min((length for all_ in lengths.values() for length in all_), default=0.0)
    is_grid = _is_grid(rows, quantum)
    scales = []
    for label in (len("rank ") + ranks + 1, len("r") + ranks + 1):
        room = max(columns - label, 1)
        rate = _rate(room, span, least, quantum if is_grid else 0.0)
        scales.append(
            Scale(room, label, rate, span, coloured, digits, chunks, tuple(k for k in _NAMES if k in lengths))
        )
    long, short = scales
    return short if long.is_cut or (is_grid and short.rate > long.rate) else long


def draw(trace: Trace, scale: Scale) -> tuple[Line, ...]:
    """One line for each rank: its compute lane, blocks with their micro-batch, idle time as dots."""
    return tuple(_line(rank, row, trace.makespan, scale) for rank, row in _rows(trace).items())


def rank_label(rank: int, scale: Scale) -> str:
    """What stands before the line of a rank, as wide as all of them."""
    return next(name for name in (f"rank {rank} ", f"r{rank} ") if len(name) <= scale.label).ljust(scale.label)


def axis(scale: Scale, show: Callable[[float], str]) -> Line:
    """The time axis: round times, each at its column; `show` gives their text."""
    step = _round_up(_TICK / scale.rate)
    text = " " * scale.label
    for tick in range(math.floor(scale.shown / step + 1e-9) + 1):
        name = show(tick * step)
        text = text.ljust(scale.label + round(tick * step * scale.rate))
        if len(text) + len(name) <= scale.label + scale.columns:
            text += name + " "
    return (Piece(text.rstrip(), palette.FAINT),)


def stack(pictures: Sequence[tuple[str, Trace]], scale: Scale, show: Callable[[float], str]) -> tuple[Line, ...]:
    """Traces with their titles under each other, the axis and the legend below the last."""
    lines: list[Line] = []
    blank: list[Line] = [()] if len(pictures) == 1 else []
    for title, trace in pictures:
        lines += [(Piece(title, "bold"),), *blank, *draw(trace, scale)]
    note: list[Line] = [(Piece(scale.note, "yellow"),)] if scale.note else []
    return (*lines, axis(scale, show), *note, legend(scale))


def legend(scale: Scale, *, steps: bool = False) -> Line:
    """What the signs mean, drawn with the signs themselves; `steps`: also the optimizer step."""
    actions = [Action(kind, 0, 0) for kind in scale.kinds]
    pieces = [Piece(" " * scale.label)]
    for action in actions:
        pieces += [_piece(action, 0, 3, scale), Piece(f" {_NAMES[action.kind]}   ")]
    if scale.chunks > 1:
        later = scale.chunks - 1
        for action in actions:
            pieces += [_piece(action, later, 4, scale), Piece(" ")]
        pieces.append(Piece("second chunk   " if later == 1 else f"chunk {later} of 0–{later}   "))
    if steps:
        pieces += [Piece(OTHER * 3, palette.OTHER if scale.coloured else ""), Piece(" step   ")]
    return (*pieces, Piece(BUBBLE * 3, palette.BUBBLE), Piece(" idle"))


def _rows(trace: Trace) -> dict[int, list[_Block]]:
    """Rank → blocks of its compute lane, from the trace's start on; the parts of one action are one block."""
    spans = trace.spans
    begin, tiny = spans.starts.min(initial=np.inf), 1e-6 * trace.makespan
    order = np.lexsort((spans.ends, spans.starts, spans.ranks))
    spans = spans[order[spans.in_lane(COMPUTE)[order]]]
    found: dict[int, list[_Block]] = {}
    columns = (spans.ranks, spans.starts - begin, spans.ends - begin)
    for operation, rank, start, end in zip(spans.operations, *(each.tolist() for each in columns), strict=True):
        row = found.setdefault(rank, [])
        block = _Block(operation.action, start, end)
        if row and row[-1].action == block.action and block.start <= row[-1].end + tiny:
            row[-1] = _Block(block.action, row[-1].start, block.end)
        else:
            row.append(block)
    return found


def _rate(room: int, span: float, least: float, quantum: float) -> float:
    """Columns a second: what fills `room`, at least `least`; with a `quantum`, a whole number of columns for it."""
    if not span:
        return 1.0
    if not quantum:
        return max(room / span, least)
    narrowest = math.ceil(least * quantum - 1e-9)
    return min(max(math.floor(room * quantum / span + 1e-9), narrowest), max(narrowest, _WIDEST)) / quantum


def _is_grid(rows: Sequence[Sequence[_Block]], quantum: float) -> bool:
    if quantum <= 0:
        return False
    times = {time / quantum for row in rows for block in row for time in (block.start, block.end)}
    return bool(times) and all(abs(time - round(time)) < 1e-6 for time in times)


def _least(kind: Kind, digits: int, *, coloured: bool) -> int:
    """Columns that a block's number needs; without colour also a space that ends it, or its brackets."""
    return digits + (0 if coloured else 2 if kind in _BRACKETS else 1)


def _line(rank: int, row: Sequence[_Block], end: float, scale: Scale) -> Line:
    pieces = [Piece(rank_label(rank, scale))]
    stages = sorted({block.action.stage for block in row if block.action.stage is not None})
    at = 0
    for block in row:
        start, stop = (max(at, round(time * scale.rate)) for time in (block.start, block.end))
        chunk = stages.index(block.action.stage) if block.action.stage is not None else 0
        if start > at:
            pieces.append(Piece(BUBBLE * (start - at), palette.BUBBLE))
        if stop > start:
            pieces.append(_piece(block.action, chunk, stop - start, scale))
        at = stop
    rest = round(end * scale.rate) - at
    if rest > 0:
        pieces.append(Piece(BUBBLE * rest, palette.BUBBLE))
    return tuple(_cut(pieces, scale.label + scale.columns - 1)) if scale.is_cut else tuple(pieces)


def _piece(action: Action, chunk: int, columns: int, scale: Scale) -> Piece:
    if action.kind not in BLOCKS:
        return Piece(OTHER * columns, palette.OTHER if scale.coloured else "")
    brackets = "" if scale.coloured else _BRACKETS.get(action.kind, "")
    number = str(action.microbatch)
    name = number + str(chunk).translate(_SUBSCRIPTS) if chunk else number
    room = columns - len(brackets)
    fitting = next((text for text in (name, number) if len(text) <= room), "")
    if scale.coloured:
        return Piece(fitting.center(columns), palette.style(action, chunk, scale.chunks))
    if brackets:
        return Piece(brackets[0] + fitting.ljust(room) + brackets[1] if room >= 0 else brackets[:columns])
    return Piece(fitting.ljust(columns) if fitting else "_" * columns)


def _cut(pieces: Sequence[Piece], columns: int) -> Iterator[Piece]:
    left = columns
    for piece in pieces:
        if left > 0:
            yield Piece(piece.text[:left], piece.style)
        left -= len(piece.text)
    yield Piece(CUT, palette.FAINT)


def _round_up(value: float) -> float:
    """The next of 1, 2 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return power * next(n for n in (1, 2, 5, 10) if n * power >= value * (1 - 1e-9))
