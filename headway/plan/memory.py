"""Memory that a rank holds through the whole step: bytes a parameter by recipe, and what a placement cuts, exactly."""

from collections.abc import Iterable
from dataclasses import dataclass

from headway.model.spec import ModelSpec
from headway.model.unit import Unit
from headway.placement import Placement, State, Tier
from headway.plan.dtypes import Dtypes, dtypes
from headway.plan.plan import Plan
from headway.units import Bytes, Dtype

NUM_STATES = 3  # that a checkpoint keeps of each parameter: its master weight and both moments
ITEM_BYTES = 2048  # more than it adds to each part of a tensor: torch.save's archive, and its place in the metadata


@dataclass(frozen=True, slots=True)
class Recipe:
    """Bytes of state that one parameter costs: itself, its gradient, and what the optimizer keeps for it.

    >>> print(MIXED)
    2 parameter + 2 gradient + 12 optimizer = 16
    """

    params: int
    grads: int
    optimizer: int

    def __str__(self) -> str:
        return f"{self.params} parameter + {self.grads} gradient + {self.optimizer} optimizer = {self.total}"

    @property
    def total(self) -> int:
        """All of them together."""
        return self.params + self.grads + self.optimizer


# 16-bit parameters and gradients; a float32 copy and two moments of Adam (Rajbhandari et al. 2020, §3.1)
MIXED = Recipe(2, 2, 12)
MIXED_FLOAT32_GRADIENTS = Recipe(2, 4, 12)  # gradients are added up in float32, as Megatron does


def single(dtype: Dtype) -> Recipe:
    """Everything in one type: parameters, gradients and two moments of Adam.

    >>> single(Dtype.FLOAT32).total
    16
    """
    return Recipe(dtype.bytes, dtype.bytes, 2 * dtype.bytes)


def recipe(types: Dtypes) -> Recipe:
    """What a job's table of types makes of AdamW: master weights, where there are any, and two moments.

    >>> from headway.plan.job import Train
    >>> recipe(dtypes(Train(precision=Dtype.BFLOAT16))) == MIXED_FLOAT32_GRADIENTS
    True
    """
    master = types.master.bytes if types.master else 0
    return Recipe(types.params.bytes, types.grads.bytes, master + 2 * types.moments.bytes)


def placed(numel: int, recipe: Recipe, placement: Placement, data: int, tier: Tier = "device") -> dict[str, Bytes]:
    """Category → bytes that one rank of `data` holds of `numel` parameters on a tier.

    ZeRO's table (Rajbhandari et al. 2020, §5). What is cut over the data axis is padded to equal parts, and what is
    whole beside it too.

    >>> from headway.placement import zero
    >>> placed(1000, MIXED, zero(1), data=8)
    {'parameters': 2000, 'gradients': 2000, 'optimizer': 1500}
    """
    rows: dict[str, tuple[State, int]] = {
        "parameters": (placement.params, recipe.params),
        "gradients": (placement.grads, recipe.grads),
        "optimizer": (placement.optimizer, recipe.optimizer),
    }
    part = -(-numel // data)
    whole = part * data if placement.cuts else numel
    held = {kind: (part if state.cut else whole) * size * (state.tier == tier) for kind, (state, size) in rows.items()}
    return {kind: Bytes(size) for kind, size in held.items()}


def states(plan: Plan, rank: int) -> dict[str, Bytes]:
    """Category → bytes of `rank`: the sum of its tensors, as the trainer allocates them."""
    return states_of(plan, rank, plan.units_of_rank(rank))


def states_of(plan: Plan, rank: int, units: Iterable[Unit]) -> dict[str, Bytes]:
    """Category → bytes of `units` on `rank`, which holds them.

    The recipe of `train.precision`, and AdamW's float32 step counter, one for each of a unit's slices (`Unit.groups`).
    """
    found = {"parameters": 0, "gradients": 0, "optimizer": 0}
    each = recipe(dtypes(plan.train))
    for unit in units:
        held, own = placed(plan.padded(unit), each, plan.placed(unit), plan.num_sharing(unit)), plan.own(rank, unit)
        held["optimizer"] = Bytes(each.optimizer * (own.stop - own.start) + 4 * len(unit.groups(own)))  # no padding
        for kind, size in held.items():
            found[kind] += size
    return {kind: Bytes(size) for kind, size in found.items()}


def checkpoint_bytes(plan: Plan) -> Bytes:
    """About what a checkpoint of the job takes on disk, all ranks together."""
    names = sum(len(unit.parameters) for unit in plan.units)
    each_rank = NUM_STATES * ITEM_BYTES * (names + plan.layout.world)
    return Bytes(NUM_STATES * plan.num_parameters * dtypes(plan.train).moments.bytes + each_rank)


def korthikanti_activations(
    spec: ModelSpec, *, batch: int, sequence: int, core: bool, tensor: int = 1, sequence_parallel: bool = False
) -> Bytes:
    """Bytes that one layer keeps in 16-bit types: s·b·h·(10 + 24/t + 5·a·s/(h·t)) (Korthikanti et al. 2022, §4, eq. 2).

    s `sequence`, b `batch`, h hidden, a heads, t `tensor`, for a feed-forward of 4h; with `sequence_parallel` the 10 is
    over t as well (eq. 4). `core` counts the part 5·a·s²·b of softmax and attention dropout, which fused attention and
    selective recompute do not keep (eq. 6). Two of the 10 are the masks of two dropouts, one byte an element, which
    Headway draws again: its own count is `model.cost.cost`.

    >>> from headway.model.spec import PRESETS
    >>> korthikanti_activations(PRESETS["gpt-tiny"], batch=2, sequence=32, core=False) == 34 * 32 * 2 * 128
    True
    """
    elements = sequence * batch * spec.hidden
    outside = 10 * elements // (tensor if sequence_parallel else 1)
    return Bytes(outside + (24 * elements + (5 * spec.heads * sequence**2 * batch if core else 0)) // tensor)
