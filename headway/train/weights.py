"""The whole model's weights by global name: gathered on rank 0, written as safetensors, read back."""

from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from headway.data.tokenizer import NONE
from headway.errors import JobError, PlanError
from headway.model.block import blocks, shared
from headway.model.cut import part
from headway.model.spec import ModelSpec
from headway.model.unit import Unit
from headway.plan.plan import Plan
from headway.train import comm
from headway.train.flat import FlatUnit
from headway.train.pulse import Pulse
from headway.train.torch_stage import TorchStage


def gather(plan: Plan, stage: TorchStage, pulse: Pulse) -> dict[str, Tensor] | None:
    """Global name → tensor of the whole model on rank 0, None on the others. Every rank calls it."""
    found: dict[str, Tensor] = {}
    for unit in plan.units:
        first = plan.layout.rank({"pipeline": plan.holders(unit)[0]})
        owners = plan.layout.group(first, "tensor")
        pulse(f"end, {unit.name}", "gathering its weights")
        for index, owner in enumerate(owners):
            keepers = plan.group(owner, unit) if plan.placed(unit).optimizer.cut else (owner,)
            if stage.rank not in {0, *keepers}:
                continue
            flat = _flat(plan, stage, unit, keepers)
            with pulse.waiting(f"the weights of {unit.name}", (0, *keepers)):
                moved = [comm.move_to_rank_0(flat.shard.detach(), k) for k in keepers if stage.rank in {0, k}]
            if stage.rank == 0:
                whole = torch.cat([each for each in moved if each is not None])
                _place(found, unit, index, {name: view.cpu() for name, view in flat.named(whole).items()})
    return found if stage.rank == 0 else None


def _flat(plan: Plan, stage: TorchStage, unit: Unit, keepers: tuple[int, ...]) -> FlatUnit:
    """The rank's own flat buffers of a unit, or others of that form."""
    mine = stage.units.get(unit.name)
    return mine or FlatUnit(unit, stage.dtype, stage.device, placed=plan.placed(unit), count=len(keepers))


def write(path: Path, weights: dict[str, Tensor], plan: Plan) -> None:
    """Write safetensors; in its metadata the model's numbers, and what it read: tokenizer and sequence length."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    numbers = {name: str(getattr(plan.model, name)) for name in plan.model.__slots__}
    read = {"tokenizer": plan.data.tokenizer, "sequence_length": str(plan.data.sequence_length)}
    whole = {name: tensor.contiguous() for name, tensor in weights.items()}
    try:
        save_file(whole, path, metadata={"format": "pt", **numbers, **read})
    except SafetensorError as error:  # which says what the system said
        raise JobError(f"{path} cannot be written ({error}). Free some space there.") from None
    path.chmod(0o644)  # safetensors makes it its owner's alone


@dataclass(frozen=True, slots=True)
class Trained:
    """A trained model: its numbers, its tensors by global name, and the data it has learned from."""

    spec: ModelSpec
    tensors: dict[str, Tensor]
    tokenizer: str
    sequence_length: int


def read(path: Path) -> Trained:
    """The model in a file that `write` wrote; PlanError for any other."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            spec = TypeAdapter(ModelSpec).validate_strings(about)
            names = list(file.keys())
            tensors = {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError) as error:
        raise PlanError(f"{path} cannot be read as safetensors ({error}).") from None
    except ValidationError:
        raise PlanError(
            f"{path} does not say in its metadata which model it is of. Name the model.safetensors of a run."
        ) from None
    named = [p.name for block in blocks(spec) for p in block.parameters] + [p.name for p in shared(spec)]
    if missing := [name for name in named if name not in tensors]:
        raise PlanError(f"{path} lacks {len(missing)} of the model's tensors, {missing[0]} first. Was it cut off?")
    return Trained(spec, tensors, about.get("tokenizer", NONE), int(about.get("sequence_length", spec.positions)))


def leaves(unit: FlatUnit, weights: dict[str, Tensor]) -> None:
    """Fill a unit's parameters from the whole model's weights."""
    with torch.no_grad():
        for name, view in unit.named(unit.params).items():
            view.copy_(weights[name])


def _place(found: dict[str, Tensor], unit: Unit, index: int, parts: dict[str, Tensor]) -> None:
    """Put what tensor rank `index` has of a unit where it belongs in the whole tensors, without its padding."""
    for parameter in unit.parameters:
        mine, where = parts[parameter.name], part(parameter, unit.tensor, index)
        whole = found.setdefault(parameter.name, torch.empty(parameter.shape, dtype=mine.dtype))
        whole[where] = mine[tuple(map(slice, whole[where].shape))]
