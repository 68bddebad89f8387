"""The model's arithmetic in torch: one plain function for each kind of block.

Shapes: b micro-batch, s sequence, h hidden, n heads, v vocabulary.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 -- the field's name for it

from headway.data.samples import IGNORE
from headway.model.block import Block
from headway.model.spec import ModelSpec

Leaves = Mapping[str, Tensor]


def forward(spec: ModelSpec, block: Block, p: Leaves, x: Tensor, targets: Tensor | None) -> Tensor:
    """The block's output for its input: tokens [b, s] or activations [b, s, h] → [b, s, h].

    The head gives the summed loss (a scalar) where there are targets, else the logits [b, s, v].
    """
    match block.kind:
        case "embedding":
            return F.embedding(x, p["tokens"]) + p["positions"][: x.shape[1]]
        case "layer":
            return layer(p, x, spec.heads)
        case "head":
            return head(p, x, targets)


def layer(p: Leaves, x: Tensor, heads: int) -> Tensor:
    """A transformer layer, normalised before attention and before the feed-forward (GPT-2)."""
    b, s, h = x.shape
    qkv = _linear(p, "attention.qkv", _norm(p, "attention_norm", x))
    q, k, v = (part.transpose(1, 2) for part in qkv.view(b, s, 3, heads, h // heads).unbind(2))
    attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, h)
    x = x + _linear(p, "attention.output", attended)
    up = _linear(p, "feed_forward.up", _norm(p, "feed_forward_norm", x))
    return x + _linear(p, "feed_forward.down", F.gelu(up, approximate="tanh"))


def head(p: Leaves, x: Tensor, targets: Tensor | None) -> Tensor:
    """Final norm and vocabulary projection; the loss is summed over targets that are not IGNORE."""
    logits = F.linear(_norm(p, "norm", x), p["output"] if "output" in p else p["tokens"])
    if targets is None:
        return logits
    loss: Tensor = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE, reduction="sum")
    return loss


def _linear(p: Leaves, name: str, x: Tensor) -> Tensor:
    return F.linear(x, p[f"{name}.weight"], p[f"{name}.bias"])


def _norm(p: Leaves, name: str, x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], p[f"{name}.weight"], p[f"{name}.bias"])


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
