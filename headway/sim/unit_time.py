"""A bare schedule played with given weights: step time, bubble and peak in flight, as the papers draw them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway.schedule import graph
from headway.schedule.action import GIVES_WEIGHT_GRADIENT, Action, Kind
from headway.schedule.graph import Graph
from headway.schedule.operation import Lane, Program
from headway.schedule.schedule import Schedule
from headway.sim import engine
from headway.trace import Span, Trace
from headway.units import Seconds

WEIGHTS: Mapping[Kind, float] = {
    Kind.FORWARD: 1.0,
    Kind.BACKWARD: 2.0,
    Kind.INPUT_BACKWARD: 1.0,
    Kind.WEIGHT_BACKWARD: 1.0,
}


@dataclass(frozen=True, slots=True)
class Played:
    """A schedule against the clock. `trace` has one rank for each row; `peak_in_flight` counts per rank."""

    trace: Trace
    peak_in_flight: tuple[int, ...]

    @property
    def step_time(self) -> float:
        """Time from the first start to the last end, for one stage of weight 1 a rank."""
        return self.trace.makespan

    @property
    def idle(self) -> tuple[float, ...]:
        """Last end − first start − busy of each rank: its idle time once it has begun and until it is done."""
        spans: dict[int, list[Span]] = {rank: [] for rank in range(len(self.peak_in_flight))}
        for span in self.trace.spans:
            if span.lane == Lane.COMPUTE and span.seconds:
                spans[span.rank].append(span)
        return tuple(
            max((s.end for s in row), default=0.0)
            - min((s.start for s in row), default=0.0)
            - sum(s.seconds for s in row)
            for row in spans.values()
        )


def play(schedule: Schedule, weights: Mapping[Kind, float] = WEIGHTS) -> Played:
    """Play the compute rows on free links. With V stages a rank, each action takes 1/V of its weight."""
    chunks = max(len(schedule.stages(rank)) for rank in range(schedule.num_ranks))
    rows = graph.build(Program(schedule))
    seconds = [weights.get(op.action.kind, 0.0) / chunks for op in rows.operations]
    starts, ends = engine.play(rows, seconds)
    spans = tuple(
        Span(rank, str(lane), str(op), Seconds(start), Seconds(end))
        for rank, lane, op, start, end in zip(rows.ranks, rows.lanes, rows.operations, starts, ends, strict=True)
    )
    return Played(Trace("predicted", spans), _peaks(schedule, rows, starts, ends))


def peak_in_flight(row: tuple[Action, ...]) -> int:
    """The most forwards of a row whose B or W is still to come: what the rank keeps activations for."""
    held = peak = 0
    for action in row:
        held += (action.kind is Kind.FORWARD) - (action.kind in GIVES_WEIGHT_GRADIENT)
        peak = max(peak, held)
    return peak


def weight_versions(row: tuple[Action, ...]) -> int:
    """The most weight versions of a row's stages that are kept at once, from their first use to their last."""
    uses = [action for action in row if action.kind is Kind.USE]
    last = {action: place for place, action in enumerate(uses)}
    kept: set[Action] = set()
    most = 0
    for place, action in enumerate(uses):
        kept.add(action)
        most = max(most, len(kept))
        if last[action] == place:  # what it names is used until the next USE
            kept.remove(action)
    return most


def _peaks(schedule: Schedule, rows: Graph, starts: Sequence[float], ends: Sequence[float]) -> tuple[int, ...]:
    """The most activations on each rank: those of its own forwards, and those that its partner has evicted to it."""
    if not any(action.kind is Kind.EVICT for action in schedule.actions):
        return tuple(peak_in_flight(schedule.compute(rank)) for rank in range(schedule.num_ranks))
    changes = []  # at one instant, what ends gives back before what starts takes
    for rank, op, start, end in zip(rows.ranks, rows.operations, starts, ends, strict=True):
        kind, partner = op.action.kind, schedule.partner(rank)
        takes = {Kind.FORWARD: rank, Kind.EVICT: partner, Kind.RESTORE: rank}
        gives = {Kind.EVICT: rank, Kind.RESTORE: partner} | dict.fromkeys(GIVES_WEIGHT_GRADIENT, rank)
        changes += [(start, 1, takes[kind])] if kind in takes else []
        changes += [(end, -1, gives[kind])] if kind in gives else []
    held = [0] * schedule.num_ranks
    peaks = [0] * schedule.num_ranks
    for _, change, rank in sorted(changes):
        held[rank] += change
        peaks[rank] = max(peaks[rank], held[rank])
    return tuple(peaks)
