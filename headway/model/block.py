"""Blocks: the embedding, each layer and the head as parameters and formulas of FLOPs, traffic and saved bytes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from headway.model.spec import ModelSpec
from headway.units import Bytes, Dtype, Flops

SHARED = "tokens"  # the unit that holds a tied token embedding


@dataclass(frozen=True, slots=True)
class Parameter:
    """One named tensor of the model. Neighbours with one `leaf` are one tensor in memory, stacked along dim 0.

    `name` is global (the same under every layout); `leaf` is the short name that the block's arithmetic uses.
    """

    name: str
    shape: tuple[int, ...]
    leaf: str
    decayed: bool
    init: Literal["normal", "residual", "zeros", "ones"]

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of the model that is never split: the embedding, one layer or the head."""

    name: str
    kind: Literal["embedding", "layer", "head"]
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one block does to one micro-batch going forward.

    `flops`: matrix products, attention over the full s × s. `traffic`: bytes read and written by everything else and
    by the products' operands, each kernel counted once. `kernels`: kernels started. `saved`: bytes that autograd keeps
    for the backward pass, parameters and the block's output left out.
    """

    flops: Flops
    traffic: Bytes
    kernels: int
    saved: Bytes


def blocks(spec: ModelSpec) -> tuple[Block, ...]:
    """The model from input to output: embedding, layers, head. A tied token embedding is in neither (see `shared`)."""
    h = spec.hidden
    embedding = [_normal("embedding.positions.weight", (spec.positions, h), "positions")]
    head = [*_norm("head.norm", h)]
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


def cost(spec: ModelSpec, block: Block, *, batch: int, sequence: int, dtype: Dtype) -> Cost:
    """Cost of `block` going forward on `batch` sequences of `sequence` tokens; backward does twice the FLOPs.

    Layer: 24·s·b·h² + 4·s²·b·h with f = 4h (Narayanan et al. 2021, appendix). Saved bytes follow what torch's autograd
    keeps: input, normalised input, q k v, attention output and its log-sum-exp, and so on (as Korthikanti et al. 2022,
    §4.1, counts them, without dropout and with fused attention).
    """
    tokens, h, f, size = batch * sequence, spec.hidden, spec.feed_forward, dtype.bytes
    weights = sum(p.numel for p in block.parameters)
    match block.kind:
        case "embedding":
            return Cost(Flops(0), Bytes(tokens * (8 + 4 * h * size)), 3, Bytes(tokens * 8))
        case "layer":
            flops = 2 * tokens * (4 * h * h + 2 * h * f) + 4 * tokens * sequence * h
            # norms 2×2h, qkv h+3h, attention 3h+h, projection 2h, residuals 2×3h, feed-forward 2h+2f, GELU 2f
            traffic = size * (weights + tokens * (22 * h + 4 * f))
            saved = tokens * (size * (8 * h + 2 * f + 4) + size * spec.heads)
            return Cost(Flops(flops), Bytes(traffic), 12, Bytes(saved))
        case "head":
            v = spec.vocabulary
            flops = 2 * tokens * h * v
            traffic = size * (v * h + tokens * (3 * h + 4 * v))
            saved = tokens * (size * (2 * h + 2 + v) + 8) + size  # the count of kept targets is a scalar
            return Cost(Flops(flops), Bytes(traffic), 5, Bytes(saved))


def num_parameters(parameters: Sequence[Parameter]) -> int:
    """Elements of all the tensors together."""
    return sum(p.numel for p in parameters)


def _tokens(spec: ModelSpec) -> Parameter:
    return _normal("embedding.tokens.weight", (spec.vocabulary, spec.hidden), "tokens")


def _layer(name: str, spec: ModelSpec) -> tuple[Parameter, ...]:
    h, f = spec.hidden, spec.feed_forward
    return (
        *_norm(f"{name}.attention_norm", h),
        *(_normal(f"{name}.attention.{x}.weight", (h, h), "attention.qkv.weight") for x in "qkv"),
        *(_zeros(f"{name}.attention.{x}.bias", h, "attention.qkv.bias") for x in "qkv"),
        _residual(f"{name}.attention.output.weight", (h, h), "attention.output.weight"),
        _zeros(f"{name}.attention.output.bias", h, "attention.output.bias"),
        *_norm(f"{name}.feed_forward_norm", h),
        _normal(f"{name}.feed_forward.up.weight", (f, h), "feed_forward.up.weight"),
        _zeros(f"{name}.feed_forward.up.bias", f, "feed_forward.up.bias"),
        _residual(f"{name}.feed_forward.down.weight", (h, f), "feed_forward.down.weight"),
        _zeros(f"{name}.feed_forward.down.bias", h, "feed_forward.down.bias"),
    )


def _norm(name: str, h: int) -> tuple[Parameter, Parameter]:
    leaf = name.rsplit(".", 1)[-1]
    return (
        Parameter(f"{name}.weight", (h,), f"{leaf}.weight", decayed=False, init="ones"),
        Parameter(f"{name}.bias", (h,), f"{leaf}.bias", decayed=False, init="zeros"),
    )


def _normal(name: str, shape: tuple[int, ...], leaf: str) -> Parameter:
    return Parameter(name, shape, leaf, decayed=True, init="normal")


def _residual(name: str, shape: tuple[int, ...], leaf: str) -> Parameter:
    return Parameter(name, shape, leaf, decayed=True, init="residual")


def _zeros(name: str, size: int, leaf: str) -> Parameter:
    return Parameter(name, (size,), leaf, decayed=False, init="zeros")
