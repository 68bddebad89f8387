"""A bare schedule played with given weights: step time, bubble and peak in flight, as the papers draw them."""

from collections.abc import Mapping
from dataclasses import dataclass

from headway.schedule import graph
from headway.schedule.action import Action, Kind
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


def play(schedule: Schedule, weights: Mapping[Kind, float] = WEIGHTS) -> Played:
    """Play the compute rows on free links. With V stages a rank, each action takes 1/V of its weight."""
    chunks = max(len(schedule.stages(rank)) for rank in range(schedule.num_ranks))
    rows = graph.build(Program(schedule))
    seconds = [weights.get(op.action.kind, 0.0) / chunks for op in rows.operations]
    starts, ends = engine.play(rows, seconds)
    spans = tuple(
        Span(rank, str(Lane.COMPUTE), str(op), Seconds(start), Seconds(end))
        for rank, op, start, end in zip(rows.ranks, rows.operations, starts, ends, strict=True)
    )
    peaks = tuple(peak_in_flight(schedule.compute(rank)) for rank in range(schedule.num_ranks))
    return Played(Trace("predicted", spans), peaks)


def peak_in_flight(row: tuple[Action, ...]) -> int:
    """The most forwards of a row whose backward is still to come: what the rank keeps activations for."""
    held = peak = 0
    for action in row:
        held += (action.kind is Kind.FORWARD) - (action.kind is Kind.BACKWARD)
        peak = max(peak, held)
    return peak
