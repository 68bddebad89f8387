"""The model's arithmetic in torch: one plain function for each kind of block.

Shapes: b micro-batch, s sequence, h hidden, n heads of width d, m key-value heads, f feed-forward, v vocabulary.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 -- the field's name for it

from headway.model.block import Block
from headway.model.spec import ModelSpec
from headway.train.dropout import Cut, Draw, dropout
from headway.train.functions import EPSILON, dropped_attention, rms_norm, rotate_, swiglu, wide
from headway.train.tensor_axis import ALONE, TensorAxis

Leaves = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class Labels:
    """What the head is to predict: `targets` [b, s], a share `smoothing` of each spread evenly over the vocabulary."""

    targets: Tensor
    smoothing: float = 0.0


def forward(
    spec: ModelSpec,
    block: Block,
    p: Leaves,
    x: Tensor,
    labels: Labels | None = None,
    draw: Draw | None = None,
    axis: TensorAxis = ALONE,
) -> Tensor:
    """The block's output for its input: tokens [b, s] or activations [b, s, h] → [b, s, h] (or a part of the sequence).

    The head gives the summed loss (a scalar) where there are labels, else the logits [b, s, v]. Without a draw there
    is no dropout. `p` are this rank's parts along `axis`.
    """
    match block.kind:
        case "embedding":
            return embedding(spec, p, x, draw, axis)
        case "layer":
            return layer(spec, block.name, p, x, draw, axis)
        case "head":
            return head(spec, p, x, labels, axis)
        case _:
            assert_never(block.kind)


def embedding(spec: ModelSpec, p: Leaves, tokens: Tensor, draw: Draw | None, axis: TensorAxis) -> Tensor:
    """The tokens' rows, plus those of their positions where they are learned."""
    x = axis.lookup(tokens, p["tokens"])
    if "positions" in p:
        x = x + axis.positions(p["positions"], tokens.shape[1])
    return dropout(x, spec.hidden_dropout, draw, "embedding", axis.outside)


def layer(spec: ModelSpec, name: str, p: Leaves, x: Tensor, draw: Draw | None, axis: TensorAxis) -> Tensor:
    """A transformer layer, normalised before attention and before the feed-forward."""
    qkv = _product(p, "attention.qkv", _norm(p, "attention_norm", x), axis)
    added = _summed(p, "attention.output", attention(spec, name, qkv, draw, axis), axis)
    x = x + dropout(added, spec.hidden_dropout, draw, f"{name}.attention", axis.outside)
    added = _summed(p, "feed_forward.down", _gated(p, _norm(p, "feed_forward_norm", x), axis), axis)
    return x + dropout(added, spec.hidden_dropout, draw, f"{name}.feed_forward", axis.outside)


def attention(spec: ModelSpec, name: str, qkv: Tensor, draw: Draw | None, axis: TensorAxis) -> Tensor:
    """Causal attention: [b, s, (n + 2m)·d], the heads of queries, keys and values in a row, → [b, s, n·d].

    n and m are the heads of this rank.
    """
    b, s, _ = qkv.shape
    n, m, d = spec.heads // axis.size, spec.key_value_heads // axis.size, spec.head_width
    if spec.rope_theta:
        qkv = rotate_(qkv, n + m, d, spec.rope_theta)
    q, k, v = (part.transpose(1, 2) for part in qkv.view(b, s, n + 2 * m, d).split_with_sizes((n, m, m), 2))
    if draw and spec.attention_dropout:
        key, heads = draw.key(f"{name}.attention.probabilities"), Cut(1, axis.index, axis.size)
        attended = dropped_attention(q, k, v, spec.attention_dropout, key, heads)
    else:
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=n != m)
    return attended.transpose(1, 2).flatten(2)


def head(spec: ModelSpec, p: Leaves, x: Tensor, labels: Labels | None, axis: TensorAxis) -> Tensor:
    """Final norm and vocabulary projection; the loss is summed over targets that are not IGNORE.

    The loss of 16-bit logits is computed in float32.
    """
    logits = axis.product(_norm(p, "norm", x), p["output"] if "output" in p else p["tokens"], None)
    if labels is None:
        return logits
    rows = wide(logits).flatten(0, 1)
    return axis.cross_entropy(rows, labels.targets.flatten(), spec.vocabulary, labels.smoothing)


def _gated(p: Leaves, x: Tensor, axis: TensorAxis) -> Tensor:
    """What the feed-forward's last product takes: [b, s, h] → [b, s, f], by SwiGLU where there is a gate, else GELU."""
    if "feed_forward.gate_up.weight" in p:
        return swiglu(_product(p, "feed_forward.gate_up", x, axis))
    return F.gelu(_product(p, "feed_forward.up", x, axis), approximate="tanh")


def _product(p: Leaves, name: str, x: Tensor, axis: TensorAxis) -> Tensor:
    """A product whose outputs the ranks have parts of."""
    return axis.product(x, p[f"{name}.weight"], p.get(f"{name}.bias"))


def _summed(p: Leaves, name: str, x: Tensor, axis: TensorAxis) -> Tensor:
    """A product whose inputs the ranks have parts of; the bias is added once, to the sum."""
    weight, bias = p[f"{name}.weight"], p.get(f"{name}.bias")
    if axis.size == 1:
        return F.linear(x, weight, bias)
    y = axis.leave(F.linear(x, weight))
    return y if bias is None else y + bias


def _norm(p: Leaves, name: str, x: Tensor) -> Tensor:
    """Layer norm, or RMS norm where there is no bias."""
    weight, bias = p[f"{name}.weight"], p.get(f"{name}.bias")
    return rms_norm(x, weight) if bias is None else F.layer_norm(x, x.shape[-1:], weight, bias, EPSILON)


def initial(shape: tuple[int, ...], init: str, layers: int, generator: torch.Generator) -> Tensor:
    """First values of a parameter, float32: GPT-2's normal(0, 0.02), residual projections scaled by 1/√(2·layers)."""
    match init:
        case "zeros":
            return torch.zeros(shape)
        case "ones":
            return torch.ones(shape)
        case "residual":
            return torch.randn(shape, generator=generator) * (0.02 / math.sqrt(2 * layers))
        case _:
            return torch.randn(shape, generator=generator) * 0.02
