"""Stack: what a training framework fuses, overlaps, keeps and costs the host, each entry with its reason."""

from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any, Literal

import yaml

from headway.errors import PlanError, nearest
from headway.units import Dtype, Seconds

Fusion = Literal["norm", "rotary", "activation", "residual", "softmax", "loss", "cast"]
Overlap = Literal["gradients", "gathers", "tensor"]
AttentionKernel = Literal["flash", "unfused", "explicit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The software of a job.

    `fuses`: what takes one kernel where eager torch takes one an operator. `attention`: its kernel where the job names
    none, and `attention_share` how much of the rate of the device's best flash kernel its own one reaches. `dropout`:
    whether its published runs drop activations, with masks of a byte an element. `grads` is the type in which gradients
    add up, `copies` whether it keeps the gradients of the parameters' type beside them, `reduced` what ranks sum.
    `overlaps`: collectives behind computing: gradients behind the last backward, gathers (ZeRO-3) ahead of the use,
    tensor ranks' behind their products. `gathers_alone`: its gathers use one network card of a node at a time.
    `loss_bytes`: memory traffic of the loss for one logit, forward and backward together. `loss_keeps`: bytes that live
    at its peak for one logit. `optimizer_bytes`: traffic of the update for one parameter. `host`: seconds that the host
    needs to start a kernel; `host_call`: a collective; `host_step`: what a micro-batch costs it besides.
    `pads_vocabulary`: to a multiple of this for each tensor rank. `balances`: stages are balanced by cost, else by
    numbers of layers. `reasons`: for each of these, why it is so.
    """

    name: str
    fuses: frozenset[Fusion] = frozenset()
    attention: AttentionKernel = "flash"
    attention_share: float = 1.0
    dropout: bool = False
    grads: Dtype = Dtype.FLOAT32
    copies: bool = False
    reduced: Dtype = Dtype.FLOAT32
    overlaps: frozenset[Overlap] = frozenset()
    gathers_alone: bool = False
    loss_bytes: int = 52
    loss_keeps: int = 8
    optimizer_bytes: int = 40
    host: Seconds = Seconds(0.0)
    host_call: Seconds = Seconds(0.0)
    host_step: Seconds = Seconds(0.0)
    pads_vocabulary: int = 1
    balances: bool = False
    reasons: dict[str, str] = field(default_factory=dict, compare=False)


def preset(name: str) -> Stack:
    """The stack called `name`."""
    if name not in presets():
        raise PlanError(f"no software stack is called '{name}'. {nearest(name, presets())}")
    return presets()[name]


@lru_cache(maxsize=1)
def presets() -> dict[str, Stack]:
    """All stacks known by name."""
    text = resources.files("headway.stack").joinpath("stacks.yaml").read_text(encoding="utf-8")
    return {name: _decode(name, entries) for name, entries in yaml.safe_load(text).items()}


def _decode(name: str, entries: dict[str, dict[str, Any]]) -> Stack:
    values = {key: entry["is"] for key, entry in entries.items()}
    for key in ("fuses", "overlaps"):
        values[key] = frozenset(values.get(key, ()))
    for key in ("grads", "reduced"):
        if key in values:
            values[key] = Dtype(values[key])
    return Stack(name=name, **values, reasons={key: entry["why"] for key, entry in entries.items()})
