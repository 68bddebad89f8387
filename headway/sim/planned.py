"""The outline of a plan: what an estimate needs to know of it, with Headway's own stack and the plan's own stages."""

from dataclasses import replace

from headway.errors import PlanError
from headway.placement import zero
from headway.plan.dtypes import dtypes
from headway.plan.plan import Plan
from headway.plan.work import update_bytes
from headway.schedule.families import FAMILIES
from headway.sim.network import FREE, Network
from headway.sim.outline import Outline
from headway.stack.spec import HEADWAY


def outline(plan: Plan, over: Network = FREE) -> Outline:
    """The outline of `plan` `over` its network.

    Raises PlanError where its rows are of no family, since an outline names its schedule.
    """
    name = plan.schedule.name
    if name not in FAMILIES:
        raise PlanError(
            f"the schedule {name} is of no family, and only steps of a family are explained. "
            f"Use parallel.schedule {' or '.join(('1f1b', 'interleaved', 'gpipe'))}."
        )
    types, size = dtypes(plan.train), plan.layout.size
    stack = replace(HEADWAY, grads=types.grads, reduced=types.reduced, optimizer_bytes=update_bytes(types))
    return Outline(
        model=plan.model,
        cluster=plan.cluster,
        stack=stack,
        microbatch=plan.train.microbatch,
        microbatches=plan.num_microbatches,
        sequence=plan.data.sequence_length,
        tensor=size("tensor"),
        context=size("context"),
        pipeline=size("pipeline"),
        data=size("data"),
        chunks=plan.schedule.num_stages // plan.schedule.num_ranks,
        schedule=name,
        sequence_parallel=plan.sequence_parallel,
        zero=next(stage for stage in range(4) if zero(stage) == plan.placement) if size("data") > 1 else 0,
        products=plan.train.precision,
        attention="explicit" if plan.model.attention_dropout else stack.attention,
        recompute="fraction" if plan.recompute.mode == "full" else plan.recompute.mode,
        recomputed=sum(plan.again(block) == "full" for stage in plan.blocks for block in stage) / plan.model.layers,
        layers=tuple(sum(block.kind == "layer" for block in stage) for stage in plan.blocks),
        smoothed=plan.train.label_smoothing > 0,
        network=over,
    )
