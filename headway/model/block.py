"""Blocks: the embedding, each layer and the head as named parameters, for both families."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, assert_never

from headway.model.spec import ModelSpec

Kind = Literal["embedding", "layer", "head"]
SHARED = "tokens"  # the unit that holds a tied token embedding


@dataclass(frozen=True, slots=True)
class Parameter:
    """One named tensor of the model. Neighbours with one `leaf` are one tensor in memory, stacked along dim 0.

    `name` and `shape` are global (the same under every layout); `leaf` is the short name that the block's arithmetic
    uses. `cut` is the dim along which tensor ranks cut it (Shoeybi et al. 2019, §3), None where each holds it whole.
    """

    name: str
    shape: tuple[int, ...]
    leaf: str
    decayed: bool
    init: Literal["normal", "residual", "zeros", "ones"]
    cut: int | None = None

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of the model that is never split: the embedding, one layer or the head."""

    name: str
    kind: Kind
    parameters: tuple[Parameter, ...]


def blocks(spec: ModelSpec) -> tuple[Block, ...]:
    """The model from input to output: embedding, layers, head. A tied token embedding is in neither (see `shared`)."""
    h = spec.hidden
    learned = spec.family == "gpt"  # a llama turns its queries and keys by their positions instead
    positions = Parameter("embedding.positions.weight", (spec.positions, h), "positions", decayed=True, init="normal")
    embedding = [positions] if learned else []
    head = [*_norm("head.norm", spec)]
    if not spec.tied:
        embedding.insert(0, _tokens(spec))
        head.append(_normal("head.output.weight", (spec.vocabulary, h), "output"))
    return (
        Block("embedding", "embedding", tuple(embedding)),
        *(Block(f"layers.{i}", "layer", _layer(f"layers.{i}", spec)) for i in range(spec.layers)),
        Block("head", "head", tuple(head)),
    )


def shared(spec: ModelSpec) -> tuple[Parameter, ...]:
    """Parameters used by two blocks: the token embedding of a tied model, used by the embedding and by the head."""
    return (_tokens(spec),) if spec.tied else ()


def num_parameters(parameters: Sequence[Parameter]) -> int:
    """Elements of all the tensors together."""
    return sum(p.numel for p in parameters)


def _tokens(spec: ModelSpec) -> Parameter:
    return _normal("embedding.tokens.weight", (spec.vocabulary, spec.hidden), "tokens")


def _layer(name: str, spec: ModelSpec) -> tuple[Parameter, ...]:
    h, f = spec.hidden, spec.feed_forward
    rows = {"q": h, "k": spec.key_value_width, "v": spec.key_value_width}
    qkv = [_normal(f"{name}.attention.{x}.weight", (rows[x], h), "attention.qkv.weight") for x in "qkv"]
    output = _residual(f"{name}.attention.output.weight", (h, h), "attention.output.weight")
    down = _residual(f"{name}.feed_forward.down.weight", (h, f), "feed_forward.down.weight")
    match spec.family:
        case "gpt":
            return (
                *_norm(f"{name}.attention_norm", spec),
                *qkv,
                *(_zeros(f"{name}.attention.{x}.bias", rows[x], "attention.qkv.bias", cut=0) for x in "qkv"),
                output,
                _zeros(f"{name}.attention.output.bias", h, "attention.output.bias"),
                *_norm(f"{name}.feed_forward_norm", spec),
                _normal(f"{name}.feed_forward.up.weight", (f, h), "feed_forward.up.weight"),
                _zeros(f"{name}.feed_forward.up.bias", f, "feed_forward.up.bias", cut=0),
                down,
                _zeros(f"{name}.feed_forward.down.bias", h, "feed_forward.down.bias"),
            )
        case "llama":
            both = (f"{name}.feed_forward.{x}.weight" for x in ("gate", "up"))
            return (
                *_norm(f"{name}.attention_norm", spec),
                *qkv,
                output,
                *_norm(f"{name}.feed_forward_norm", spec),
                *(_normal(each, (f, h), "feed_forward.gate_up.weight") for each in both),
                down,
            )
        case _:
            assert_never(spec.family)


def _norm(name: str, spec: ModelSpec) -> tuple[Parameter, ...]:
    """A layer norm's weight and bias; an RMS norm has no bias."""
    leaf = name.rsplit(".", 1)[-1]
    weight = Parameter(f"{name}.weight", (spec.hidden,), f"{leaf}.weight", decayed=False, init="ones")
    bias = _zeros(f"{name}.bias", spec.hidden, f"{leaf}.bias")
    return (weight, bias) if spec.family == "gpt" else (weight,)


def _normal(name: str, shape: tuple[int, ...], leaf: str) -> Parameter:
    """A column-parallel product's weight, or an embedding: each rank has some of the rows (outputs, tokens)."""
    return Parameter(name, shape, leaf, decayed=True, init="normal", cut=0)


def _residual(name: str, shape: tuple[int, ...], leaf: str) -> Parameter:
    """A row-parallel product's weight: each rank has the columns (inputs) that the product before it makes."""
    return Parameter(name, shape, leaf, decayed=True, init="residual", cut=1)


def _zeros(name: str, size: int, leaf: str, cut: int | None = None) -> Parameter:
    """A bias: cut with the outputs that it is added to, or whole and added once, when the ranks' parts are summed."""
    return Parameter(name, (size,), leaf, decayed=False, init="zeros", cut=cut)
