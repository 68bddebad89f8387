"""Memory that a rank holds through the whole step: parameters, gradients and optimizer state, exactly."""

from headway.plan.plan import Plan
from headway.units import Bytes


def states(plan: Plan, rank: int) -> dict[str, Bytes]:
    """Category → bytes of `rank`: the sum of its tensors, as the trainer allocates them.

    The recipe: parameters and gradients in `train.precision`; two moments of AdamW in it too, and its float32 step
    counter, one for each of a unit's slices (decayed or not).
    """
    held = plan.units_of_rank(rank)
    elements = sum(unit.numel for unit in held) * plan.train.precision.bytes
    counters = sum(4 * ((unit.num_decayed > 0) + (unit.num_decayed < unit.numel)) for unit in held)
    return {
        "parameters": Bytes(elements),
        "gradients": Bytes(elements),
        "optimizer": Bytes(2 * elements + counters),
    }
