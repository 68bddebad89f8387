"""A bare schedule played with given weights: step time, bubble and peak in flight, as the papers draw them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headway.schedule import graph as graphs
from headway.schedule.action import GIVES_WEIGHT_GRADIENT, KINDS, Kind
from headway.schedule.graph import Graph
from headway.schedule.operation import LANES, Lane
from headway.schedule.program import Program
from headway.schedule.row import Row, Times
from headway.schedule.schedule import Schedule
from headway.sim import engine
from headway.trace import Spans, Trace

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
        spans = self.trace.spans
        spans = spans[np.flatnonzero(spans.in_lane(Lane.COMPUTE) & (spans.seconds > 0))]
        found = []
        for rank in range(len(self.peak_in_flight)):
            mine = spans[np.flatnonzero(spans.ranks == rank)]
            within = mine.ends.max(initial=0.0) - mine.starts.min(initial=np.inf) if len(mine) else 0.0
            found.append(float(within - mine.seconds.sum()))
        return tuple(found)


def play(schedule: Schedule, weights: Mapping[Kind, float] = WEIGHTS) -> Played:
    """Play the compute rows on free links. With V stages a rank, each action takes 1/V of its weight."""
    chunks = max(len(schedule.stages(rank)) for rank in range(schedule.num_ranks))
    graph = graphs.build(Program(schedule))
    of_kind = np.array([weights.get(kind, 0.0) / chunks for kind in KINDS])
    starts, ends = engine.play(graph, of_kind[graph.operations.kinds])
    nowhere = np.zeros(len(graph), np.int64)
    spans = Spans(graph.ranks, graph.lanes, graph.operations, starts, ends, nowhere, nowhere, LANES, ("",))
    return Played(Trace("predicted", spans), _peaks(schedule, graph, starts, ends))


def peak_in_flight(row: Row) -> int:
    """The most forwards of a row whose B or W is still to come: what the rank keeps activations for."""
    held = np.cumsum(row.of(Kind.FORWARD).astype(int) - row.of(*GIVES_WEIGHT_GRADIENT))
    return int(held.max(initial=0))


def weight_versions(row: Row) -> int:
    """The most weight versions of a row's stages that are kept at once, from their first use to their last."""
    uses = row.codes[row.of(Kind.USE)]
    # what a USE names is used until the next USE
    _, first, which = np.unique(uses, return_index=True, return_inverse=True)
    last = np.zeros(len(first), np.int64)
    last[which] = np.arange(len(uses))
    kept = np.zeros(len(uses) + 1, np.int64)
    np.add.at(kept, first, 1)
    np.add.at(kept, last + 1, -1)
    return int(np.cumsum(kept).max(initial=0))


def _peaks(schedule: Schedule, graph: Graph, starts: Times, ends: Times) -> tuple[int, ...]:
    """The most activations on each rank: those of its own forwards, and those that its partner has evicted to it."""
    if Kind.EVICT not in schedule.kinds:
        return tuple(peak_in_flight(schedule.compute(rank)) for rank in range(schedule.num_ranks))
    changes = []  # at one instant, what ends gives back before what starts takes
    for rank, op, start, end in zip(graph.ranks.tolist(), graph.operations, starts, ends, strict=True):
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
