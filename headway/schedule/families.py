"""Families: each a function from sizes to the compute rows of a schedule."""

from collections.abc import Callable

from headway.errors import MicrobatchError, ScheduleError, nearest
from headway.schedule.action import Action, Kind
from headway.schedule.schedule import Row, Schedule


def build(family: str, *, pipeline: int, microbatches: int, chunks: int = 1) -> Schedule:
    """The schedule of `family` for P = `pipeline` ranks, M = `microbatches` and V = `chunks` stages a rank.

    Stage s lives on rank s mod P.
    """
    for name, value in (("pipeline", pipeline), ("microbatches", microbatches), ("chunks", chunks)):
        if value < 1:
            raise ScheduleError(f"{name} must be at least 1, got {value}.")
    if family not in FAMILIES:
        raise ScheduleError(f"no schedule is called '{family}'. {nearest(family, FAMILIES)}")
    return FAMILIES[family](pipeline, microbatches, chunks)


def gpipe(pipeline: int, microbatches: int, chunks: int = 1) -> Schedule:
    """All forwards, then all backwards (Huang et al. 2019, figure 2)."""
    _one_chunk("gpipe", chunks)
    return _rows("gpipe", pipeline, lambda rank: _one_stage(rank, microbatches, microbatches))


def one_forward_one_backward(pipeline: int, microbatches: int, chunks: int = 1) -> Schedule:
    """One forward, one backward after P − r − 1 forwards of warm-up (PipeDream-flush; Narayanan et al. 2021, §2.2)."""
    _one_chunk("1f1b", chunks)
    return _rows("1f1b", pipeline, lambda rank: _one_stage(rank, microbatches, pipeline - rank - 1))


def interleaved(pipeline: int, microbatches: int, chunks: int = 1) -> Schedule:
    """1F1B over V stages a rank, in groups of P micro-batches (Narayanan et al. 2021, §2.2.2, figure 4)."""
    p, m, v = pipeline, microbatches, chunks
    if m % p:
        problem = f"interleaved needs a multiple of the pipeline ranks: got {m} micro-batches for {p} ranks."
        raise MicrobatchError(problem, tuple(n for n in (m // p * p, (m // p + 1) * p) if n))

    def row(rank: int) -> Row:
        forward = [(chunk, base + i) for base in range(0, m, p) for chunk in range(v) for i in range(p)]
        backward = [(v - 1 - chunk, index) for chunk, index in forward]
        warmup = min(2 * (p - rank - 1) + (v - 1) * p, m * v)
        return _weave(
            [Action(Kind.FORWARD, chunk * p + rank, index) for chunk, index in forward],
            [Action(Kind.BACKWARD, chunk * p + rank, index) for chunk, index in backward],
            warmup,
        )

    return _rows("interleaved", p, row)


def forward_only(pipeline: int, microbatches: int, chunks: int = 1) -> Schedule:
    """Evaluation: every micro-batch forward through every stage, in interleaved order; no backward."""
    p, m, v = pipeline, microbatches, chunks

    def row(rank: int) -> Row:
        groups = [range(base, min(base + p, m)) for base in range(0, m, p)]
        return tuple(Action(Kind.FORWARD, c * p + rank, i) for group in groups for c in range(v) for i in group)

    return _rows("forward-only", p, row)


FAMILIES: dict[str, Callable[[int, int, int], Schedule]] = {
    "gpipe": gpipe,
    "1f1b": one_forward_one_backward,
    "interleaved": interleaved,
}


def _rows(name: str, pipeline: int, row: Callable[[int], Row]) -> Schedule:
    return Schedule(name, tuple(row(rank) for rank in range(pipeline)))


def _one_stage(stage: int, microbatches: int, warmup: int) -> Row:
    forward = [Action(Kind.FORWARD, stage, index) for index in range(microbatches)]
    backward = [Action(Kind.BACKWARD, stage, index) for index in range(microbatches)]
    return _weave(forward, backward, min(warmup, microbatches))


def _weave(forward: list[Action], backward: list[Action], warmup: int) -> Row:
    """`warmup` forwards, then one forward and one backward in turn, then the backwards that are left."""
    steady = [a for pair in zip(forward[warmup:], backward, strict=False) for a in pair]
    return (*forward[:warmup], *steady, *backward[len(forward) - warmup :])


def _one_chunk(family: str, chunks: int) -> None:
    if chunks != 1:
        raise ScheduleError(
            f"{family} has one stage on each rank, got chunks {chunks}. Use schedule interleaved, or chunks 1."
        )
