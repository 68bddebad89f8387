"""Pipeline of an outline: its schedule played with priced stages, of a long one a few periods, and what ranks hold."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from headway.errors import PlanError
from headway.schedule import families, passes
from headway.schedule import graph as graphs
from headway.schedule.action import GIVES_WEIGHT_GRADIENT, RECEIVES, SENDS, Kind
from headway.schedule.program import Program
from headway.schedule.row import Column
from headway.sim.outline import Outline
from headway.sim.stages import Stages
from headway.units import Seconds

_PASSES = (Kind.FORWARD, Kind.BACKWARD, Kind.INPUT_BACKWARD, Kind.WEIGHT_BACKWARD)
_PERIODS = 3  # of P micro-batches each, after which a regular schedule repeats itself


@dataclass(frozen=True, slots=True)
class Played:
    """Seconds until the last backward has ended, those that each rank is busy, and for each the bytes that it holds."""

    makespan: Seconds
    busy: tuple[float, ...]
    held: tuple[int, ...]


def play(outline: Outline, each: Stages, *, whole: bool = False, message: Seconds | None = None) -> Played:
    """The passes of all micro-batches; `message`: seconds of each message, where they are not the outline's.

    A schedule of many micro-batches repeats itself once its pipeline is full: it is played with two lengths, and each
    further micro-batch takes what the longer took more.
    """
    p, m = outline.pipeline, outline.microbatches
    busy = tuple(
        m * sum(each.forward[s].seconds + each.backward[s].seconds for s in outline.stages_of(rank))
        for rank in range(p)
    )
    if p == 1 and outline.chunks == 1:
        return Played(Seconds(busy[0]), busy, (each.saved[0],))
    sent = _messages(outline) if message is None else [message] * (2 * len(each.layers))
    step = p  # messages and uneven stages may make a period of several micro-batches
    short = _PERIODS * p + m % step
    if whole or m <= short + step:
        makespan, held = _played(outline, each, m, sent)
        return Played(Seconds(makespan), busy, held)
    (one, fewer), (two, held) = _played(outline, each, short, sent), _played(outline, each, short + step, sent)
    more = (m - short - step) // step
    grown = tuple(h + more * (h - f) for f, h in zip(fewer, held, strict=True))
    return Played(Seconds(two + more * (two - one)), busy, grown)


def _messages(outline: Outline) -> list[Seconds]:
    """Seconds of what each stage sends forward, then of what each sends backward."""
    stages = outline.pipeline * outline.chunks
    ranks = [outline.rank_of(stage) for stage in range(stages)]
    inside = [outline.share_a_node(one, other) for one, other in zip(ranks, (*ranks[1:], ranks[0]), strict=True)]
    each = [{i: outline.message_seconds(way, inside=i) for i in (True, False)} for way in ("forward", "backward")]
    ahead, back = ([seconds[near] for near in inside] for seconds in each)
    return [*ahead, back[-1], *back[:-1]]  # what a stage sends back goes the way of what came from the one before


def _played(
    outline: Outline, each: Stages, microbatches: int, sent: Sequence[Seconds]
) -> tuple[float, tuple[int, ...]]:
    rows = _rows(outline.schedule, outline.pipeline, microbatches, outline.chunks)
    there, back = ([way.seconds for way in ways] for ways in (each.forward, each.backward))
    inputs = [seconds - weights for seconds, weights in zip(back, each.weights, strict=True)]
    taken = [*there, *back, *inputs, *each.weights, *sent]
    seconds = np.array(taken)[rows.kinds].tolist()
    ends = [0.0] * len(seconds)
    for event, before in rows.steps:
        start = 0.0
        for other in before:
            start = ends[other] if ends[other] > start else start  # a call of max takes three times as long
        ends[event] = start + seconds[event]
    return max(ends), tuple(_most(stages, change, each.saved) for stages, change in rows.changes)


def _most(stages: Column, change: Column, saved: Sequence[int]) -> int:
    """The most bytes that a rank keeps for backwards still to come."""
    return int(np.cumsum(change * np.array(saved)[stages]).max(initial=0))


@dataclass(frozen=True, slots=True)
class _Rows:
    """A family's rows with their messages, to be played often.

    `steps` as in schedule/graph.py; `kinds`: of each event its forward by stage or, behind all of these, its backward,
    its input-backward, its weight-backward, or what it sends forward or backward; `changes`: for each rank, which
    stages' activations come (+1) and go (−1).
    """

    steps: tuple[tuple[int, tuple[int, ...]], ...]
    kinds: Column
    changes: tuple[tuple[Column, Column], ...]


@lru_cache(maxsize=512)
def _rows(family: str, pipeline: int, microbatches: int, chunks: int) -> _Rows:
    schedule = passes.add_messages(families.build(family, pipeline=pipeline, microbatches=microbatches, chunks=chunks))
    if others := schedule.kinds - set(_PASSES) - SENDS - RECEIVES:
        raise PlanError(f"schedule {family} is not predicted yet: it has {' and '.join(sorted(others))} in its rows.")
    graph = graphs.build(Program(schedule))
    every, stages = graph.operations, schedule.num_stages
    kinds = np.zeros(graph.num_events, dtype=np.int64)
    for number, kind in enumerate((*_PASSES, Kind.SEND_F, Kind.SEND_B)):
        mine = every.of(kind)
        kinds[graph.events[mine]] = number * stages + every.stages[mine]
    changes = []
    for row in schedule.rows:
        change = row.of(Kind.FORWARD).astype(np.int64) - row.of(*GIVES_WEIGHT_GRADIENT)
        passes_only = np.flatnonzero(change)
        changes.append((row.stages[passes_only], change[passes_only]))
    return _Rows(graphs.steps(graph), kinds, tuple(changes))
