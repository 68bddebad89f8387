"""Memory of a trace in words: ranks with equal peaks as one row, the recipe of states, what would help a misfit."""

from dataclasses import dataclass

from headway.layout import Axis
from headway.placement import zero
from headway.plan import memory
from headway.plan.dtypes import dtypes
from headway.plan.plan import Plan
from headway.report.makeup import BESIDES, STATES, Place
from headway.trace import Trace
from headway.units import Bytes, show_bytes


@dataclass(frozen=True, slots=True)
class Held:
    """Peak bytes by category, the same for each of `ranks`."""

    ranks: tuple[int, ...]
    peaks: dict[str, Bytes]


def collapse(trace: Trace) -> tuple[Held, ...]:
    """Ranks with equal peaks together, in the order of their first rank."""
    found: dict[tuple[tuple[str, Bytes], ...], list[int]] = {}
    for rank, peaks in sorted(trace.memory.items()):
        found.setdefault(tuple(sorted(peaks.items())), []).append(rank)
    return tuple(Held(tuple(ranks), trace.memory[ranks[0]]) for ranks in found.values())


def recipe(plan: Plan) -> str:
    """Bytes that a parameter costs: `4 parameter + 4 gradient + …`."""
    types = dtypes(plan.train)
    kept = f"{types.master} weights and two moments" if types.master else "two moments"
    grads = f", gradients added up in {types.grads}" if types.grads != types.params else ""
    reduced = f" and reduced in {types.reduced}" if types.reduced != types.grads else ""
    return f"Bytes a parameter in {types.params}: {memory.recipe(types)} (AdamW: {kept}{grads}{reduced})."


def misfit(plan: Plan, place: Place) -> str:
    """By how much a plan does not fit and what would help."""
    state = sum(size for kind, size in place.parts.items() if kind in STATES)
    besides = sum(size for kind, size in place.parts.items() if kind in BESIDES)
    rest = place.used - state - besides
    lost = f", {show_bytes(besides)} beside them" if besides else ""
    return (
        f"the plan does not fit: {place.name} needs {show_bytes(place.used)} of {show_bytes(place.room)}, "
        f"{show_bytes(-place.margin)} too much ({show_bytes(state)} of parameters, gradients and optimizer "
        f"state, {show_bytes(rest)} of activations and buffers{lost}{place.moment}). "
        f"What would help: {'; '.join(_remedies(plan, too_many_activations=rest > state))}."
    )


def _remedies(plan: Plan, *, too_many_activations: bool) -> list[str]:
    train, shared = plan.train, plan.cluster.shared_cores
    activations = []
    if train.microbatch > 1:
        activations.append(f"a smaller train.microbatch (now {train.microbatch})")
    if plan.schedule.name == "gpipe":
        activations.append("parallel.schedule 1f1b, which keeps fewer micro-batches in flight")
    if plan.num_microbatches >= plan.layout.size("pipeline") > 1:
        activations.append(
            f"fewer micro-batches in flight (train.global_batch, for fewer than the {plan.num_microbatches} of a step)"
        )
    if plan.layout.size("tensor") > 1 and not plan.sequence_parallel:
        activations.append("parallel.sequence_parallel true")
    activations.append(f"a shorter data.sequence_length (now {plan.data.sequence_length})")
    axis: Axis = "data" if shared else "pipeline"  # ranks of a node that shares its memory add to each other's
    size = plan.layout.size(axis)
    states = (
        [f"{'fewer' if shared else 'more'} ranks along parallel.{axis} (now {size})"] if size > 1 or not shared else []
    )
    if not shared:
        states.append(f"more tensor ranks (parallel.tensor, now {plan.layout.size('tensor')})")
    if axis == "pipeline" and size >= plan.model.layers:
        states = states[1:]  # more stages than layers hold nothing
    if (data := plan.layout.size("data")) > 1 and not plan.placement.params.cut:
        stage = next(stage for stage in range(3) if zero(stage) == plan.placement)
        states.insert(0, f"a higher parallel.zero (now {stage}; 3 cuts all states over the {data} data ranks)")
    first, then = (activations, states) if too_many_activations else (states, activations)
    return [*first, *then, "a smaller model, or devices with more memory"]
