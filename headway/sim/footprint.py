"""Footprint: what a rank of an outline holds at its fullest moment, by category."""

from collections.abc import Sequence

from headway.plan.memory import MIXED
from headway.sim import offload
from headway.sim.outline import Outline
from headway.sim.stages import Stages
from headway.units import Bytes, Dtype

_MASTER = Dtype.FLOAT32.bytes  # of a parameter's copy, which is the parameter itself where none is kept in 16 bits


def memory(outline: Outline, each: Stages, held: Sequence[int], rank: int) -> dict[str, Bytes]:
    """Category → bytes of pipeline rank `rank`.

    States by the stack's recipe and ZeRO's table (Rajbhandari et al. 2020, §5); activations of the micro-batches in
    flight; what a layer that is computed again holds meanwhile; the loss where it is taken; gathered layers; and what
    the device's allocator and context take besides.
    """
    stack, numel = outline.stack, each.numel[rank]
    wide = stack.params_wide and outline.zero == 3
    found = {
        "parameters": numel * (_MASTER if wide else MIXED.params) // outline.cuts("params"),
        "gradients": numel * stack.grads.bytes // outline.cuts("grads") + (numel * MIXED.params if stack.copies else 0),
        "optimizer": numel * (MIXED.optimizer - (_MASTER if wide else 0)) // outline.cuts("optimizer"),
        "activations": held[rank],
        "recomputed": each.again,
    }
    for kind in offload.away(outline, numel):
        if kind != "gradients" or outline.cuts("grads") > 1:  # whole ones add up on the device
            found[kind] = 0
    if rank == outline.head_rank:
        sizes, h = outline.sizes, outline.model.hidden
        logits = sizes.tokens * (each.embedding // h)
        found["loss"] = logits * (stack.loss_peak - stack.loss_saves)
    if outline.sizes.sequence_parallel:
        # what a product takes, whole, and its gradient
        found["exchanged"] = 2 * outline.sizes.tokens * outline.model.hidden * outline.dtype.bytes
    if outline.zero == 3:
        # two layers, or the embedding, whole; and a layer's gradients whole
        whole = max(2 * each.layer, each.embedding)
        found["gathered"] = whole * MIXED.params + each.layer * stack.reduced.bytes
    found |= outline.cluster.device.besides(sum(found.values()))
    return {kind: Bytes(int(size)) for kind, size in found.items() if size}
