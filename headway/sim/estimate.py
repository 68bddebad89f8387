"""Estimate: a step's seconds and memory from an outline, in milliseconds: stages priced, a few periods played."""

from dataclasses import dataclass, field

from headway.model.exchange import Collective
from headway.model.pieces import Effort
from headway.plan.memory import MIXED
from headway.plan.price import price
from headway.sim import footprint, offload, pipeline, stages
from headway.sim.outline import Outline
from headway.sim.stages import Stages
from headway.units import Bytes, Dtype, Seconds


@dataclass(frozen=True, slots=True)
class Estimate:
    """A predicted step.

    `parts`: seconds of the `busiest` pipeline rank by what they are for, which add up to `seconds`. `memory`:
    category → bytes on pipeline rank `worst_rank`, which has the most, at its peak; `room`: what its device has;
    `away`: category → bytes of that rank in host memory or on disk.
    """

    seconds: Seconds
    parts: dict[str, Seconds]
    memory: dict[str, Bytes]
    worst_rank: int
    room: Bytes
    busiest: int = 0
    away: dict[str, Bytes] = field(default_factory=dict)

    @property
    def peak(self) -> Bytes:
        """Bytes of the fullest rank at its peak."""
        return Bytes(sum(self.memory.values()))

    @property
    def fits(self) -> bool:
        """Whether the fullest rank's peak fits into its device."""
        return self.peak <= self.room


def estimate(outline: Outline, *, whole: bool = False) -> Estimate:
    """The predicted step of `outline`; `whole` plays every micro-batch where a few periods would do."""
    each = stages.stages(outline)
    played = pipeline.play(outline, each, whole=whole)
    rank = max(range(outline.pipeline), key=lambda rank: played.busy[rank])
    parts = _parts(outline, each, rank)
    synced = max(_gradients(outline, each, rank) for rank in range(outline.pipeline))
    updated = max(_update(outline, each, rank) for rank in range(outline.pipeline))
    parts |= {
        "bubble": Seconds(max(0.0, played.makespan - played.busy[rank])),
        "gradients": synced,
        "optimizer": updated,
    }
    memory = [footprint.memory(outline, each, played.held, rank) for rank in range(outline.pipeline)]
    worst = max(range(outline.pipeline), key=lambda rank: sum(memory[rank].values()))
    seconds = Seconds(played.makespan + synced + updated)
    away = offload.away(outline, each.numel[worst])
    return Estimate(seconds, parts, memory[worst], worst, outline.cluster.device.memory, rank, away)


def _parts(outline: Outline, each: Stages, rank: int) -> dict[str, Seconds]:
    """Seconds of a rank's computing and exchanging in all micro-batches, by what they are for."""
    found: dict[str, float] = {}
    for stage in outline.stages_of(rank):
        for way in (each.forward[stage], each.backward[stage]):
            for kind, seconds in way.parts.items():
                found[kind] = found.get(kind, 0.0) + outline.microbatches * seconds
    return {kind: Seconds(seconds) for kind, seconds in found.items()}


def _gradients(outline: Outline, each: Stages, rank: int) -> Seconds:
    """What of the sums over data and context ranks is not behind the last backward, and the shared embedding's sum."""
    stack, numel = outline.stack, each.numel[rank]
    tied = outline.ties_ranks and rank in {0, outline.head_rank}
    if tied and stack.sums_tied_once:
        numel -= each.embedding
    last = each.backward[outline.stages_of(rank)[0]].seconds
    found = 0.0
    kind: Collective = "reduce_scatter" if outline.zero else "all_reduce"
    if outline.zero < 3:
        found = _left(outline, stages.exchange(outline.sharing(), kind, numel * stack.reduced.bytes), last)
        if outline.zero:
            found += _parameters(outline, each, rank, numel)
    elif stack.gathers_embedding and rank == 0 and not (tied and stack.sums_tied_once):
        # its gradients come last, and are reduced with nothing left to compute
        found = stages.exchange(outline.sharing(), "reduce_scatter", each.embedding * stack.reduced.bytes)
    if outline.copied > 1:
        part = numel // outline.sharers * stack.reduced.bytes
        found += _left(outline, stages.exchange(outline.copies(), "all_reduce", part), last)
    if tied and stack.sums_tied_once:
        # one unit of both ends, which is scattered to all its ranks where it is cut, and the first to be gathered again
        found += stages.exchange(outline.both_ends(), kind, each.embedding * stack.reduced.bytes)
        if outline.zero in {1, 2}:
            found += stages.exchange(outline.both_ends(), "all_gather", each.embedding * outline.dtype.bytes)
    elif tied:
        found += stages.exchange(outline.ends(), "all_reduce", each.embedding * stack.reduced.bytes)
    return Seconds(found)


def _left(outline: Outline, taken: float, last: float) -> float:
    """Seconds of a sum of gradients that are not behind the last backwards: those of its last unit at least.

    An interleaved rank is done with a chunk P backwards before the next (Narayanan et al. 2021, §2.2), and sums its
    gradients meanwhile.
    """
    if "gradients" not in outline.stack.overlaps:
        return taken
    chunks = _apart(outline)
    each, ended = taken / chunks, -float("inf")
    for later in reversed(range(chunks)):
        ended = max(ended, -last * (later * outline.pipeline + _OVERLAPPED)) + each
    return max(ended, taken / max(1, outline.model.layers // outline.pipeline))


def _parameters(outline: Outline, each: Stages, rank: int, numel: int) -> float:
    """What the gathers of a rank's updated parameters take, of `numel`: without a weight that both ends share.

    Behind the first forward only its first unit is waited for; an interleaved rank needs the next chunk's P forwards
    after those of one.
    """
    size, over = outline.dtype.bytes, outline.sharing()
    taken = stages.exchange(over, "all_gather", numel * size)
    if "parameters" not in outline.stack.overlaps:
        return taken
    hidden = sum(way.seconds for way in each.forward[: rank + 1])  # a later rank waits for its input anyway
    first = each.embedding if numel == each.numel[rank] else each.layer
    chunks, later = _apart(outline), outline.pipeline * each.forward[rank].seconds
    late = max((chunk + 1) * taken / chunks - hidden - chunk * later for chunk in range(chunks))
    return max(late, 0.0 if rank else stages.exchange(over, "all_gather", first * size))


def _apart(outline: Outline) -> int:
    """Chunks of a rank that are used one after another by P micro-batches each."""
    return outline.chunks if outline.schedule == "interleaved" else 1


_OVERLAPPED = 0.8  # of a backward during which gradients are ready to go: those of its first units wait for no other


def _update(outline: Outline, each: Stages, rank: int) -> Seconds:
    """The optimizer: traffic of each parameter that the rank updates, and norm and casts of those that it holds."""
    stack, device, numel = outline.stack, outline.cluster.device, each.numel[rank]
    if outline.optimizer_on != "device":
        backwards = sum(each.backward[stage].seconds for stage in outline.stages_of(rank)) * outline.microbatches
        return Seconds(offload.sent(outline, numel, backwards) + offload.updated(outline, numel))
    own = numel // outline.cuts("optimizer")
    held = own if outline.zero == 3 else numel
    summed = -(-numel // (outline.data * outline.context)) * stack.grads.bytes
    traffic = own * stack.optimizer_bytes + (summed if stack.norms_own else held * (stack.grads.bytes + MIXED.params))
    kernels = 8 * outline.model.layers // outline.pipeline
    return price(device, Effort(traffic=Bytes(traffic), kernels=kernels), Dtype.FLOAT32).seconds
