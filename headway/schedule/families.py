"""Families: each a function from sizes to the compute rows of a schedule."""

from collections.abc import Callable, Sequence

import numpy as np

from headway.errors import MicrobatchError, ScheduleError, nearest
from headway.schedule.action import NUMBERS, Action, Kind, pack
from headway.schedule.row import Column, Row, row
from headway.schedule.schedule import Schedule

MOST_FORWARDS = 2_000_000  # a minute of building and playing


def build(family: str, *, pipeline: int, microbatches: int, chunks: int = 1) -> Schedule:
    """The schedule of `family` for P = `pipeline` ranks, M = `microbatches` and V = `chunks` stages a rank.

    Stage s lives on rank s mod P; in zb-v, of 2P stages, on rank s or 2P − 1 − s.
    """
    for name, value in (("pipeline", pipeline), ("microbatches", microbatches), ("chunks", chunks)):
        if value < 1:
            raise ScheduleError(f"{name} must be at least 1, got {value}.")
    if family not in FAMILIES:
        raise ScheduleError(f"no schedule is called '{family}'. {nearest(family, FAMILIES)}")
    wanted = CHUNKS.get(family, chunks)
    if chunks != wanted:
        remedy = "Use schedule interleaved, or chunks 1." if wanted == 1 else f"Use chunks {wanted}."
        number = "one stage" if wanted == 1 else f"{wanted} stages"
        raise ScheduleError(f"{family} has {number} on each rank, got chunks {chunks}. {remedy}")
    if (count := pipeline * microbatches * chunks) > MOST_FORWARDS:
        raise ScheduleError(
            f"{family} of {pipeline} ranks × {microbatches} micro-batches × {chunks} chunks has {count:,} forwards; "
            f"at most {MOST_FORWARDS:,} are built. Use fewer of one of them."
        )
    return FAMILIES[family](pipeline, microbatches, chunks)


def gpipe(pipeline: int, microbatches: int, _chunks: int = 1) -> Schedule:
    """All forwards, then all backwards (Huang et al. 2019, figure 2)."""
    return _rows("gpipe", pipeline, lambda rank: _one_stage(rank, microbatches, microbatches))


def one_forward_one_backward(pipeline: int, microbatches: int, _chunks: int = 1) -> Schedule:
    """One forward, one backward after P − r − 1 forwards of warm-up (PipeDream-flush; Narayanan et al. 2021, §2.2)."""
    return _rows("1f1b", pipeline, lambda rank: _one_stage(rank, microbatches, pipeline - rank - 1))


def interleaved(pipeline: int, microbatches: int, chunks: int = 1) -> Schedule:
    """1F1B over V stages a rank, in groups of P micro-batches (Narayanan et al. 2021, §2.2.2, figure 4)."""
    p, m, v = pipeline, microbatches, chunks
    if m % p:
        problem = f"interleaved needs a multiple of the pipeline ranks: got {m} micro-batches for {p} ranks."
        raise MicrobatchError(problem, tuple(n for n in (m // p * p, (m // p + 1) * p) if n))
    # every P micro-batches of one chunk, then the next chunk's; backwards with the chunks in reverse
    base, chunk, index = (axis.ravel() for axis in np.meshgrid(range(0, m, p), range(v), range(p), indexing="ij"))

    def of(rank: int) -> Row:
        forward = _codes(Kind.FORWARD, chunk * p + rank, base + index)
        backward = _codes(Kind.BACKWARD, (v - 1 - chunk) * p + rank, base + index)
        return _weave(forward, backward, warmup=min(2 * (p - rank - 1) + (v - 1) * p, m * v))

    return _rows("interleaved", p, of)


def zb_h1(pipeline: int, microbatches: int, _chunks: int = 1) -> Schedule:
    """1F1B with split backwards: W fills the bubble, in 1F1B's memory (Qi et al. 2023, Zero Bubble, §3.1, ZB-H1)."""
    p, m = pipeline, microbatches
    return _rows("zb-h1", p, lambda rank: _split(rank, m, warmup=p - 1 - rank, delay=rank))


def zb_h2(pipeline: int, microbatches: int, _chunks: int = 1) -> Schedule:
    """ZB-H1 warmed up twice as long: no bubble at TF = TI = TW, twice the memory (Qi et al. 2023, §3.2, ZB-H2)."""
    p, m = pipeline, microbatches
    return _rows("zb-h2", p, lambda rank: _split(rank, m, warmup=2 * (p - 1 - rank), delay=2 * rank))


def zb_v(pipeline: int, microbatches: int, _chunks: int = 2) -> Schedule:
    """No bubble at TF = TI = TW in 1F1B's memory: two stages a rank, in a V (Qi et al. 2023, §6, ZB-V).

    The last rank turns a micro-batch round with no message, so backwards begin early where most activations wait.
    """
    p = pipeline
    long = max(microbatches, 2 * p - 1)  # fewer micro-batches are a longer schedule with the later ones left out

    def of(rank: int) -> Row:
        down, up = rank, 2 * p - 1 - rank  # the rank's stage on either arm of the V
        full_down = [(kind, down) for kind in (Kind.FORWARD, Kind.INPUT_BACKWARD, Kind.WEIGHT_BACKWARD)]
        full_up = [(kind, up) for kind in (Kind.FORWARD, Kind.INPUT_BACKWARD, Kind.WEIGHT_BACKWARD)]
        turns = [(Kind.FORWARD, down)] * (2 * (p - rank) - 1)
        turns += [(Kind.FORWARD, up), (Kind.FORWARD, down)] * rank
        turns += full_up * (p - rank)
        turns += (full_down + full_up) * (long - p)
        turns += [(Kind.INPUT_BACKWARD, down), (Kind.INPUT_BACKWARD, up)] * rank
        turns += full_down[1:] * (p - rank)
        turns += [(Kind.WEIGHT_BACKWARD, up)] * rank + [(Kind.WEIGHT_BACKWARD, down)] * rank
        return _numbered(turns, microbatches)

    return _rows("zb-v", p, of)


def pipedream(pipeline: int, microbatches: int, _chunks: int = 1) -> Schedule:
    """1F1B without flush: every micro-batch is a batch, and updates at once (Narayanan et al. 2019, §3.2, §3.3).

    `USE` names the weight version: a forward takes the stage's newest, the backward of its micro-batch the same one,
    stashed. Version v is the one after v backwards of the stage.
    """

    def newest(plain: Row) -> Column:
        backward = plain.of(Kind.BACKWARD)
        return (np.cumsum(backward) - backward)[plain.of(Kind.FORWARD)]

    rows = one_forward_one_backward(pipeline, microbatches).rows
    return Schedule("pipedream", tuple(_stashing(plain, newest(plain)) for plain in rows))


def pipedream_2bw(pipeline: int, microbatches: int, _chunks: int = 1) -> Schedule:
    """PipeDream with a new version only every P micro-batches: two are kept (Narayanan et al. 2021, 2BW, §3.1).

    Batch b, of P micro-batches, computes with version b − 1 on every stage: W(b+1) = W(b) − ν∇f(W(b−1)). Fewer
    micro-batches a batch would need a third version, since the first stage has P of them in flight.
    """
    versions = np.maximum(np.arange(microbatches) // pipeline - 1, 0)
    rows = one_forward_one_backward(pipeline, microbatches).rows
    return Schedule("pipedream-2bw", tuple(_stashing(plain, versions) for plain in rows))


def bpipe(pipeline: int, microbatches: int, _chunks: int = 1) -> Schedule:
    """1F1B in evener memory: rank r lends activations to P − 1 − r (Kim et al. 2023, BPipe, §3).

    No rank holds more than K = ⌈(P + 2) / 2⌉: rank r < P / 2 has P − r in flight, of which at most P − r + 1 − K are
    away, and its partner at most r + 1 of its own. What is evicted is what is needed last, the newest.
    """
    rows = one_forward_one_backward(pipeline, microbatches).rows
    return Schedule("bpipe", tuple(_evicting(plain, (pipeline + 3) // 2) for plain in rows))


def forward_only(schedule: Schedule) -> Schedule:
    """Evaluation: every micro-batch forward through every stage, each on its rank; no backward.

    P micro-batches go through a stage before the rank takes them through its next, as in an interleaved schedule. All
    ranks follow one order (group, stage, micro-batch), in which what is needed comes first: they cannot deadlock.
    """
    p, m = schedule.num_ranks, schedule.num_microbatches
    groups = [range(base, min(base + p, m)) for base in range(0, m, p)]

    def of(rank: int) -> Row:
        stages = schedule.stages(rank)
        return row(Action(Kind.FORWARD, stage, i) for group in groups for stage in stages for i in group)

    return _rows("forward-only", p, of)


FAMILIES: dict[str, Callable[[int, int, int], Schedule]] = {
    "gpipe": gpipe,
    "1f1b": one_forward_one_backward,
    "interleaved": interleaved,
    "zb-h1": zb_h1,
    "zb-h2": zb_h2,
    "zb-v": zb_v,
    "pipedream": pipedream,
    "pipedream-2bw": pipedream_2bw,
    "bpipe": bpipe,
}
# stages a rank of the families that leave no choice
CHUNKS = {name: 2 if name == "zb-v" else 1 for name in FAMILIES if name != "interleaved"}


def _rows(name: str, pipeline: int, of: Callable[[int], Row]) -> Schedule:
    return Schedule(name, tuple(of(rank) for rank in range(pipeline)))


def _codes(kind: Kind, stages: Column, microbatches: Column) -> Column:
    return pack(NUMBERS[kind], stages, microbatches)


def _one_stage(stage: int, microbatches: int, warmup: int) -> Row:
    stages, every = np.full(microbatches, stage), np.arange(microbatches)
    forward, backward = (_codes(kind, stages, every) for kind in (Kind.FORWARD, Kind.BACKWARD))
    return _weave(forward, backward, min(warmup, microbatches))


def _weave(forward: Column, backward: Column, warmup: int) -> Row:
    """`warmup` forwards, then one forward and one backward in turn, then the backwards that are left."""
    steady = len(forward) - warmup
    turns = np.stack([forward[warmup:], backward[:steady]], axis=1).ravel()
    return Row(np.concatenate([forward[:warmup], turns, backward[steady:]]))


def _split(stage: int, microbatches: int, *, warmup: int, delay: int) -> Row:
    """`warmup` forwards, then in turn a forward, an I and, once `delay` of those are done, a W; then what is left."""
    forward, give, weigh = ((kind, stage) for kind in (Kind.FORWARD, Kind.INPUT_BACKWARD, Kind.WEIGHT_BACKWARD))
    turns = [forward] * warmup
    for index in range(microbatches):
        turns += [forward, give, weigh] if index >= delay else [forward, give]
    return _numbered([*turns, *[weigh] * delay], microbatches)


def _numbered(turns: Sequence[tuple[Kind, int]], microbatches: int) -> Row:
    """Turns of (kind, stage) as actions: the n-th of each takes micro-batch n; those past the last are left out."""
    kinds, stages = np.array([NUMBERS[kind] for kind, _ in turns]), np.array([stage for _, stage in turns])
    alike = pack(kinds, stages, np.zeros_like(kinds))
    order = np.argsort(alike, kind="stable")
    first = np.searchsorted(alike[order], alike)  # where the like of each turn begin among the ordered ones
    nth = np.empty_like(order)
    nth[order] = np.arange(len(turns))
    nth -= first
    return Row(pack(kinds, stages, nth)[nth < microbatches])


def _stashing(plain: Row, versions: Column) -> Row:
    """The row with a USE wherever the weight version changes; `versions`: [M], that of each micro-batch."""
    wanted = versions[plain.microbatches]
    changes = np.flatnonzero(np.diff(wanted, prepend=-1))
    uses = _codes(Kind.USE, plain.stages[changes], wanted[changes])
    return Row(np.insert(plain.codes, changes, uses))


def _evicting(plain: Row, most: int) -> Row:
    """The row with an EVICT of the newest activations wherever there would be more than `most`."""
    here: list[int | None] = []  # micro-batches whose activations are on the rank, the oldest first
    new: list[Action] = []
    for action in plain:
        index = action.microbatch
        takes = action.kind is Kind.FORWARD or index not in here
        if takes and len(here) == most:
            new.append(Action(Kind.EVICT, action.stage, here.pop()))
        if takes and action.kind is Kind.BACKWARD:
            new.append(Action(Kind.RESTORE, action.stage, index))
        new.append(action)
        if action.kind is Kind.FORWARD:
            here.append(index)
        elif not takes:
            here.remove(index)
    return row(new)
