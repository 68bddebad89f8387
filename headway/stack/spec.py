"""Stack: what a training framework fuses, overlaps, keeps and costs the host, each entry with its reason."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any, Literal

import yaml

from headway.errors import PlanError, nearest
from headway.units import Dtype, Seconds

Fusion = Literal["norm", "rotary", "activation", "residual", "cast", "gather"]
Overlap = Literal["gradients", "gathers", "parameters", "tensor", "sums", "regathers"]
AttentionKernel = Literal["flash", "unfused", "explicit"]
Split = Literal["even", "balanced", "running"]
_AT_ONCE = Seconds(0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The software of a job; what is not said is as in eager torch.

    Computing. `fuses`: what takes one kernel where eager torch takes one an operator. `attention`: its kernel where the
    job names none; `attention_share` and `narrow_share`: how much of the rates of the device's best fused attention and
    of its float8 products its own kernels reach. `dropout`: whether it is trained with dropout, whose masks are kept, a
    byte an element. `loss_bytes`: memory traffic of the loss for one logit, forward and backward together (0: as
    Headway's). `accumulate_bytes`: traffic of adding one parameter's gradient to those before; `optimizer_bytes`: of
    updating one. `norms_own`: each rank takes the norm of its share of the gradients only, and casts nothing for it.
    `host`: seconds that the host takes to start a kernel, `host_call`: to call a collective, `host_piped`: besides,
    where a pipeline crosses nodes, times the collective's ranks; `host_rank`: for a micro-batch, times the job's ranks.

    Communication. `overlaps`: gradients behind the last backward, gathers (ZeRO-3) ahead of their use, parameters
    (ZeRO-1 and 2) while the first micro-batch goes forward, tensor ranks' gathers behind the products that need them
    (`sums`: their sums too), or only what is gathered once more going backward (`regathers`). `scatters_messages`:
    tensor ranks send a part of a message each (Narayanan et al. 2021, §4.1). `gathers_alone`: a gather goes through one
    network card of a node. `gathers_embedding`: for each micro-batch, like a layer, with nothing to hide it (ZeRO-3).
    `sums_tied_once`: the gradients of a tied embedding over the ranks of both ends at once, not first over data ranks.
    `reduced`: the type in which gradients are summed over ranks.

    Memory. `grads`: the type in which gradients add up; `copies`: those in the parameters' type are kept beside them.
    `params_wide`: cut parameters are kept in float32 only, and gathered in 16 bits. `keeps_unrotated`: queries, keys
    and values are kept as the product gave them, beside what attention takes. `keeps_gate`: a gated unit keeps its
    activation too. `loss_saves` and `loss_peak`: bytes of the loss for one logit that live from forward to backward,
    and at most.

    Layout. `pads_vocabulary`: to a multiple of this on each tensor rank. `splits`: stages have even numbers of layers,
    or are balanced by time, or take blocks until their running FLOPs pass their share. `reasons`: of each of these.
    """

    name: str
    fuses: frozenset[Fusion] = frozenset()
    attention: AttentionKernel = "flash"
    attention_share: float = 1.0
    dropout: bool = False
    loss_bytes: int = 0
    accumulate_bytes: int = 12
    optimizer_bytes: int = 40
    norms_own: bool = False
    host: Seconds = _AT_ONCE
    host_call: Seconds = _AT_ONCE
    host_piped: Seconds = _AT_ONCE
    host_rank: Seconds = _AT_ONCE
    narrow_share: float = 1.0
    overlaps: frozenset[Overlap] = frozenset()
    scatters_messages: bool = False
    gathers_alone: bool = False
    gathers_embedding: bool = False
    sums_tied_once: bool = False
    reduced: Dtype = Dtype.FLOAT32
    grads: Dtype = Dtype.FLOAT32
    copies: bool = False
    params_wide: bool = False
    keeps_unrotated: bool = False
    keeps_gate: bool = False
    loss_saves: int = 4
    loss_peak: int = 8
    pads_vocabulary: int = 1
    splits: Split = "even"
    reasons: dict[str, str] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        return self.name


HEADWAY = Stack(
    name="headway",
    accumulate_bytes=0,
    host=Seconds(8e-6),
    host_call=Seconds(2e-5),
    norms_own=True,
    gathers_embedding=True,
    sums_tied_once=True,
    overlaps=frozenset(("gradients", "gathers", "parameters")),
    splits="balanced",
    reasons={
        "gathers_embedding": "it is a unit like others, with little before it to compute (schedule/program.py)",
        "sums_tied_once": "a weight that two stages share is one unit of all its holders (plan/plan.py, group)",
        "norms_own": "each rank squares its share of the gradients (plan/work.py)",
        "host": "PyTorch's dispatch of an operator and the launch of its kernel, on the processors of GPU hosts",
        "host_call": "a collective of torch.distributed",
        "accumulate_bytes": "gradients are written where they add up (train/functions.py)",
        "overlaps": "reductions behind the last backward, gathers parallel.prefetch operations ahead",
        "splits": "parallel.split: balanced is the default",
    },
)


def preset(name: str) -> Stack:
    """The stack called `name`."""
    if name not in presets():
        raise PlanError(f"no software stack is called '{name}'. {nearest(name, presets())}")
    return presets()[name]


@lru_cache(maxsize=1)
def presets() -> dict[str, Stack]:
    """All stacks known by name."""
    text = resources.files("headway.stack").joinpath("stacks.yaml").read_text(encoding="utf-8")
    others = {name: _decode(name, entries) for name, entries in yaml.safe_load(text).items()}
    return {HEADWAY.name: HEADWAY, **others}


_DECODED: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("fuses", "overlaps"), frozenset),
    **dict.fromkeys(("grads", "reduced"), Dtype),
    **dict.fromkeys(
        ("host", "host_call", "host_piped", "host_rank", "attention_share", "narrow_share"), float
    ),  # YAML 1.1 reads 1e-5 as a word
}


def _decode(name: str, entries: dict[str, dict[str, Any]]) -> Stack:
    values = {key: entry["is"] for key, entry in entries.items()}
    for key, decode in _DECODED.items():
        if key in values:
            values[key] = decode(values[key])
    return Stack(name=name, **values, reasons={key: entry["why"] for key, entry in entries.items()})
