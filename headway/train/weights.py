"""The whole model's weights by global name: gathered on rank 0, written as safetensors, read back."""

from pathlib import Path

import torch
from torch import Tensor

from headway.model.spec import ModelSpec
from headway.plan.plan import Plan
from headway.train import comm
from headway.train.flat import FlatUnit
from headway.train.pulse import Pulse
from headway.train.torch_stage import TorchStage


def gather(plan: Plan, stage: TorchStage, pulse: Pulse) -> dict[str, Tensor] | None:
    """Global name → tensor of the whole model on rank 0, None on the others. Every rank calls it."""
    found: dict[str, Tensor] = {}
    for unit in plan.units:
        owner = plan.layout.rank({"pipeline": plan.holders(unit)[0]})
        pulse(f"end, {unit.name}", "gathering its weights")
        if stage.rank not in (0, owner):
            continue
        flat = stage.units.get(unit.name) or FlatUnit(unit, stage.dtype, stage.device)
        with pulse.waiting(f"the weights of {unit.name}", (0, owner)):
            moved = comm.move_to_rank_0(flat.params.detach(), owner)
        if moved is not None:
            found |= {name: view.cpu() for name, view in flat.named(moved).items()}
    return found if stage.rank == 0 else None


def write(path: Path, weights: dict[str, Tensor], spec: ModelSpec) -> None:
    """Write safetensors; the model's numbers are in its metadata."""
    from safetensors.torch import save_file

    numbers = {name: str(getattr(spec, name)) for name in spec.__slots__}
    whole = {name: tensor.contiguous() for name, tensor in weights.items()}
    save_file(whole, path, metadata={"format": "pt", **numbers})
    path.chmod(0o644)  # safetensors makes it its owner's alone


def leaves(unit: FlatUnit, weights: dict[str, Tensor]) -> None:
    """Fill a unit's parameters from the whole model's weights."""
    with torch.no_grad():
        for name, view in unit.named(unit.params).items():
            view.copy_(weights[name])
