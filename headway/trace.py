"""Trace: the spans of one step, predicted or measured, and what follows from them: rows, edges, bubble, memory."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import overload

import numpy as np

from headway.schedule import operation as operations
from headway.schedule.action import RECEIVES
from headway.schedule.operation import Operations
from headway.schedule.row import Column, Flags, Times, among
from headway.units import Bytes, Seconds

COMPUTE = "compute"
_ALIGNED = "STEP/total"
_NOTHING = Bytes(0)


@dataclass(frozen=True, slots=True)
class Span:
    """One operation of one rank: when it ran in which lane, and what it sent.

    `edge` names where bytes went: `0→2` from rank 0 to rank 2, `{0,1}` a collective of ranks 0 and 1; empty if
    nowhere. `bytes` is the size of the message, or of a collective's buffer.
    """

    rank: int
    lane: str
    operation: str
    start: Seconds
    end: Seconds
    edge: str = ""
    bytes: Bytes = _NOTHING

    @property
    def seconds(self) -> Seconds:
        """How long it took."""
        return Seconds(self.end - self.start)


@dataclass(frozen=True, slots=True, eq=False)
class Spans(Sequence[Span]):
    """Spans as columns of [n]: `lanes` and `edges` hold places in `lane_names` and `edge_names`."""

    ranks: Column
    lanes: Column
    operations: Operations
    starts: Times
    ends: Times
    edges: Column
    bytes: Column
    lane_names: tuple[str, ...]
    edge_names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ranks)

    @overload
    def __getitem__(self, place: int) -> Span: ...
    @overload
    def __getitem__(self, place: "slice | Column") -> "Spans": ...
    def __getitem__(self, place: "int | slice | Column") -> "Span | Spans":
        if isinstance(place, int | np.integer):
            return next(iter(self[int(place) : int(place) + 1 or None]))
        columns = ("ranks", "lanes", "operations", "starts", "ends", "edges", "bytes")
        return replace(self, **{name: getattr(self, name)[place] for name in columns})

    def __iter__(self) -> Iterator[Span]:
        columns = (self.ranks, self.lanes, self.starts, self.ends, self.edges, self.bytes)
        rows = zip(self.operations, *(column.tolist() for column in columns), strict=True)
        for operation, rank, lane, start, end, edge, size in rows:
            yield Span(rank, self.lane_names[lane], str(operation), start, end, self.edge_names[edge], size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spans) and len(self) == len(other) and all(map(Span.__eq__, self, other))

    def __hash__(self) -> int:
        return hash((len(self), self.starts.tobytes(), self.ends.tobytes()))

    @property
    def seconds(self) -> Times:
        """[n]: how long each took."""
        return self.ends - self.starts

    def in_lane(self, lane: str) -> Flags:
        """[n]: whether each ran in that lane."""
        found: Flags = self.lanes == (self.lane_names.index(lane) if lane in self.lane_names else -1)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """Bytes held by the ranks over time, as columns of [n] changes in the order of rank and time.

    After change i, rank `ranks[i]` holds `bytes[i]` of category `categories[i]` (a place in `names`) at `times[i]`.
    """

    ranks: Column
    times: Times
    categories: Column
    bytes: Column
    names: tuple[str, ...]

    def peaks(self) -> Iterator[tuple[int, str, Bytes]]:
        """Rank, category and the most bytes of it that the rank holds at a time."""
        most = np.full((1 + int(self.ranks.max(initial=-1)), len(self.names)), -1)
        np.maximum.at(most, (self.ranks, self.categories), self.bytes)
        for rank, category in np.argwhere(most >= 0).tolist():
            yield rank, self.names[category], Bytes(int(most[rank, category]))

    def steps(self) -> Column:
        """[n]: by how much each change makes what its rank holds of its category more, or less."""
        order = np.lexsort((self.categories, self.ranks))  # stable: in the order of time
        sizes = self.bytes[order]
        first = np.diff(self.ranks[order] * len(self.names) + self.categories[order], prepend=-1) != 0
        found = np.empty_like(sizes)
        found[order] = sizes - np.where(first, 0, np.roll(sizes, 1))
        return found

    def totals(self, rank: int) -> tuple[Times, Column]:
        """When something changes on a rank, and what it holds of all categories together from then on."""
        mine = self.of(rank)
        change = mine.steps()
        times, last = np.unique(mine.times[::-1], return_index=True)  # of several at one time, the last counts
        return times, np.cumsum(change)[len(change) - 1 - last]

    def of(self, rank: int) -> "Changes":
        """The changes of one rank."""
        mine = np.flatnonzero(self.ranks == rank)
        columns = ("ranks", "times", "categories", "bytes")
        return replace(self, **{name: getattr(self, name)[mine] for name in columns})


_NONE = np.zeros(0, np.int64)
NO_CHANGES = Changes(_NONE, np.zeros(0), _NONE, _NONE, ())


@dataclass(frozen=True)
class Trace:
    """What happened in one step. `memory`: rank → category → peak bytes. `source` is predicted or measured.

    `held`: what comes and goes over time, where that is known.
    """

    source: str
    spans: Spans
    memory: dict[int, dict[str, Bytes]] = field(default_factory=dict)
    held: Changes = field(default=NO_CHANGES, compare=False)

    @property
    def makespan(self) -> Seconds:
        """From the first start to the last end."""
        return Seconds(float(self.spans.ends.max() - self.spans.starts.min())) if len(self.spans) else Seconds(0.0)

    def rows(self) -> dict[int, dict[str, tuple[str, ...]]]:
        """Rank → lane → its operations in the order in which they were issued."""
        found: dict[int, dict[str, list[str]]] = {}
        for span in self.spans:
            found.setdefault(span.rank, {}).setdefault(span.lane, []).append(span.operation)
        return {rank: {lane: tuple(ops) for lane, ops in lanes.items()} for rank, lanes in sorted(found.items())}

    def edges(self) -> dict[str, Bytes]:
        """Edge → bytes. A message counts once, at its sender; a collective once for each of its calls."""
        spans, names = self.spans, self.spans.edge_names
        # the rank at which a collective's calls are counted
        first = dict(zip(spans.edges[::-1].tolist(), spans.ranks[::-1].tolist(), strict=True))
        of = np.array([first.get(edge, -1) if name.startswith("{") else -1 for edge, name in enumerate(names)])
        counted = ~among(spans.operations.kinds, *RECEIVES) & ((of[spans.edges] < 0) | (of[spans.edges] == spans.ranks))
        sizes = np.bincount(spans.edges[counted], spans.bytes[counted], minlength=len(names))
        used = np.bincount(spans.edges[counted], minlength=len(names))
        return {
            name: Bytes(int(sizes[i])) for i, name in sorted(enumerate(names), key=lambda e: e[1]) if name and used[i]
        }

    def busy(self) -> dict[int, Seconds]:
        """Rank → seconds of its compute lane."""
        computing = self.spans.in_lane(COMPUTE)
        seconds = np.bincount(self.spans.ranks[computing], self.spans.seconds[computing])
        return {int(rank): Seconds(float(seconds[rank])) for rank in np.unique(self.spans.ranks[computing])}

    def bubble(self) -> float:
        """(makespan − busy) / busy, with busy the mean over the ranks (for equal ranks: that of each rank)."""
        busy = self.busy()
        total = sum(busy.values())
        return self.makespan * len(busy) / total - 1 if total else 0.0


def as_columns(spans: Iterable[Span]) -> Spans:
    """Spans as columns, in their order."""
    every = list(spans)
    known = {text: operations.parse(text) for text in dict.fromkeys(span.operation for span in every)}
    names = tuple(dict.fromkeys(["", *(operation.part for operation in known.values())]))
    place = {name: i for i, name in enumerate(names)}
    coded = {text: (operation.action.code, place[operation.part]) for text, operation in known.items()}
    codes, parts = ([coded[span.operation][side] for span in every] for side in (0, 1))
    lanes, edges = (_numbered([getattr(span, name) for span in every]) for name in ("lane", "edge"))
    return Spans(
        _integers(span.rank for span in every),
        _integers(lanes[0]),
        Operations(_integers(codes), _integers(parts), names),
        np.array([span.start for span in every], np.float64),
        np.array([span.end for span in every], np.float64),
        _integers(edges[0]),
        _integers(span.bytes for span in every),
        lanes[1],
        edges[1],
    )


def aligned(ranks: Sequence[Sequence[Span]]) -> Spans:
    """The measured spans of all ranks on one clock that starts at 0.

    Clocks of different nodes have nothing in common, but the last collective of all ranks ends for all at once.
    """
    meets = [next(span.end for span in reversed(spans) if span.operation == _ALIGNED) for spans in ranks]
    first = min(span.start - meet for spans, meet in zip(ranks, meets, strict=True) for span in spans)
    return as_columns(
        replace(span, start=Seconds(span.start - meet - first), end=Seconds(span.end - meet - first))
        for spans, meet in zip(ranks, meets, strict=True)
        for span in spans
    )


def _integers(values: Iterable[int]) -> Column:
    return np.array(list(values), np.int64)


def _numbered(texts: Sequence[str]) -> tuple[list[int], tuple[str, ...]]:
    """Each text as its place among the different ones, and those."""
    places = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    return [places[text] for text in texts], tuple(places)
