"""Makeup: what lies in the fullest memory at its fullest moment, when that is, and a bar that shows it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from headway.cluster.spec import Cluster
from headway.report import palette
from headway.report.diagram import Line, Piece
from headway.schedule.row import Column, Times
from headway.trace import COMPUTE, Trace
from headway.units import Bytes, Seconds, show_bytes, show_seconds

STATES = ("parameters", "gradients", "optimizer")
BESIDES = ("allocator", "context")
FREE = "·"
# what is kept through the step and for a backward in capitals, buffers and what the device loses in small letters
_LETTERS: Mapping[str, str] = {
    "parameters": "P",
    "gradients": "G",
    "optimizer": "O",
    "activations": "A",
    "recomputed": "R",
    "logits": "L",
    "messages": "m",
    "gathered": "w",
    "unreduced": "u",
    "reductions": "r",
    "allocator": "a",
    "context": "c",
}


@dataclass(frozen=True, slots=True)
class Place:
    """The memory of one device, or of one node whose `ranks` share it, when most of its `room` is taken.

    `parts`: category → bytes at that moment, on all the ranks together. `at`: seconds after the step began, while
    `operation` computes on `ranks[0]`; None where only peaks by category are known, which are added up then.
    """

    name: str
    ranks: tuple[int, ...]
    parts: dict[str, Bytes]
    room: Bytes
    at: Seconds | None = None
    operation: str = ""

    @property
    def used(self) -> Bytes:
        """All that is taken."""
        return Bytes(sum(self.parts.values()))

    @property
    def margin(self) -> Bytes:
        """What is left; below 0 where it does not fit."""
        return Bytes(self.room - self.used)

    @property
    def fits(self) -> bool:
        """Whether there is room for all of it."""
        return self.used <= self.room

    @property
    def moment(self) -> str:
        """When that is, to stand behind a sentence: `, 1.20 ms into the step, during 0B3`."""
        if self.at is None:
            return ""
        during = f", during {self.operation}" if self.operation else ""
        return f", {show_seconds(self.at)} into the step{during}"


def fullest(trace: Trace, cluster: Cluster) -> Place:
    """The place with the most in it at its fullest moment. Where ranks share cores they share the node's memory too."""
    ranks = np.array(sorted(trace.memory))
    shared = bool(cluster.shared_cores)
    peaks = _peaks(trace, ranks, np.array([cluster.node(rank) for rank in ranks.tolist()]) if shared else ranks)
    where = max(peaks, key=lambda place: peaks[place][0])
    held, index = peaks[where]
    mine = [rank for rank in ranks.tolist() if (cluster.node(rank) if shared else rank) == where]
    parts = _parts(trace, mine, index)
    assert sum(parts.values()) == held
    besides = cluster.device.besides(held)
    parts |= besides | {"context": Bytes(len(mine) * besides["context"])}  # each process has its own
    name = f"node {where} ({len(mine)} ranks together)" if shared else f"rank {where}"
    room, parts = cluster.device.memory, {kind: size for kind, size in parts.items() if size}
    if index is None:
        return Place(name, tuple(mine), parts, room)
    begin = float(trace.spans.starts.min(initial=np.inf))
    rank, time = int(trace.held.ranks[index]), float(trace.held.times[index])
    others = [each for each in mine if each != rank]
    return Place(name, (rank, *others), parts, room, Seconds(time - begin), _operation(trace, rank, time))


def by_rank(trace: Trace, cluster: Cluster) -> dict[int, Bytes]:
    """Rank → the most bytes that it needs at one time, what its device loses beside them included."""
    ranks = np.array(sorted(trace.memory))
    found = _peaks(trace, ranks, ranks)
    return {rank: Bytes(size + sum(cluster.device.besides(size).values())) for rank, (size, _) in found.items()}


def bar(place: Place, *, columns: int, coloured: bool) -> tuple[Line, ...]:
    """The place's memory as one bar of `columns`, and below it what is what, with its bytes and share of the room.

    The bar is as long as the room, or as what is needed where that is more: then `|` marks where the room ends.
    """
    whole = max(place.room, place.used)
    ends = np.cumsum([0, *place.parts.values()]) * columns / whole
    edges = np.rint(ends).astype(int).tolist()
    cells = [
        (kind, stop - start)
        for kind, start, stop in zip(place.parts, edges[:-1], edges[1:], strict=True)
        if stop > start
    ]
    pieces = [_cell(kind, width, coloured=coloured) for kind, width in cells]
    if place.fits:
        pieces.append(Piece(FREE * (columns - edges[-1]), palette.BUBBLE))
        return (tuple(pieces), *_legend(place, coloured=coloured))
    mark = round(place.room * columns / whole)
    end = (Piece(f"{'':{mark}}| the end of the {show_bytes(place.room)} that there are", palette.FAINT),)
    return (tuple(pieces), end, *_legend(place, coloured=coloured))


def document(place: Place, peaks: Mapping[int, Bytes]) -> dict[str, object]:
    """The place as `--json` prints it; `peaks` of all ranks."""
    return {
        "place": place.name,
        "ranks": place.ranks,
        "seconds": place.at,
        "operation": place.operation,
        "bytes": place.used,
        "room": place.room,
        "margin": place.margin,
        "margin_share": place.margin / place.room,
        "fits": place.fits,
        "made_of": dict(place.parts),
        "by_rank": {str(rank): size for rank, size in peaks.items()},
    }


def verdict(place: Place) -> str:
    """Whether it fits, who needs most and when, and what is left."""
    share, margin = f"{place.used / place.room:.1%}", f"{abs(place.margin) / place.room:.1%}"
    left = f"{show_bytes(abs(place.margin))} ({margin}) {'left' if place.fits else 'too much'}"
    return (
        f"{'Fits' if place.fits else 'Does not fit'}: {place.name} needs {show_bytes(place.used)} of "
        f"{show_bytes(place.room)} ({share}){place.moment}; {left}."
    )


def _peaks(trace: Trace, ranks: Column, places: Column) -> dict[int, tuple[int, int | None]]:
    """Place → the most bytes that its ranks hold at one time, and the change that brings them to it.

    `places`: [ranks] where each of `ranks` is. Without memory over time: all peaks by category added, and no change.
    """
    constant: dict[int, int] = {}
    for rank, place in zip(ranks.tolist(), places.tolist(), strict=True):
        own = sum(size for kind, size in trace.memory[rank].items() if kind not in trace.held.names)
        constant[place] = constant.get(place, 0) + own
    held = trace.held
    found: dict[int, tuple[int, int | None]] = {place: (size, None) for place, size in constant.items()}
    if not len(held.times):
        return found
    of_rank = np.zeros(int(ranks.max()) + 1, np.int64)
    of_rank[ranks] = places
    where, steps = of_rank[held.ranks], held.steps()
    order = np.lexsort((steps > 0, held.times, where))  # at one time, what is given back comes first
    where, sums, times = where[order], np.cumsum(steps[order]), held.times[order]
    # of several changes at one time the last counts
    last = np.flatnonzero(np.append((np.diff(times) != 0) | (np.diff(where) != 0), [True]))
    reached = where[last]
    for place, kept in constant.items():
        mine = last[np.searchsorted(reached, place) : np.searchsorted(reached, place, side="right")]
        if not len(mine):
            continue
        start = int(np.searchsorted(where, place))
        before = int(sums[start - 1]) if start else 0
        best = int(mine[np.argmax(sums[mine])])
        found[place] = kept + int(sums[best]) - before, int(order[best])
    return found


def _parts(trace: Trace, ranks: Iterable[int], index: int | None) -> dict[str, Bytes]:
    """Category → bytes of `ranks` right behind change `index`; what the step keeps first."""
    found: dict[str, int] = {}
    for rank in ranks:
        now = {kind: size for kind, size in trace.memory[rank].items() if kind not in trace.held.names}
        if index is not None:
            now |= _held(trace, rank, float(trace.held.times[index]))
        for kind, size in now.items():
            found[kind] = found.get(kind, 0) + size
    order = [*_LETTERS, *found]
    return {kind: Bytes(found[kind]) for kind in sorted(found, key=order.index)}


def _held(trace: Trace, rank: int, time: float) -> dict[str, Bytes]:
    """Category → what a rank holds at `time`, once all that happens then has."""
    mine = trace.held.of(rank)
    until = int(np.searchsorted(mine.times, time, side="right"))
    last = dict(zip(mine.categories[:until].tolist(), mine.bytes[:until].tolist(), strict=True))
    return {mine.names[category]: Bytes(size) for category, size in last.items()}


def _operation(trace: Trace, rank: int, time: float) -> str:
    """What the rank computes at `time`, or last before it."""
    spans = trace.spans
    mine = np.flatnonzero((spans.ranks == rank) & spans.in_lane(COMPUTE) & (spans.starts <= time))
    if not len(mine):
        return ""
    starts: Times = spans.starts[mine]
    return str(spans.operations[int(mine[np.argmax(starts)])])


def _cell(kind: str, width: int, *, coloured: bool) -> Piece:
    if coloured:
        return Piece(" " * width, f"on {palette.category(kind)}")
    return Piece(_LETTERS.get(kind, "?") * width)


def _legend(place: Place, *, coloured: bool) -> Iterable[Line]:
    names = [*place.parts, *(["free"] if place.fits else [])]
    long = max(map(len, names))
    for kind in names:
        size = place.parts.get(kind, place.margin)
        sign = Piece(FREE * 2, palette.BUBBLE) if kind == "free" else _cell(kind, 2, coloured=coloured)
        yield sign, Piece(f" {kind:<{long}}  {show_bytes(size):>9}  {size / place.room:6.1%}")
