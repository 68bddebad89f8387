"""Costs: products, traffic, kernels and saved bytes of each block, forward and backward, as formulas."""

from dataclasses import replace
from functools import lru_cache
from typing import assert_never

from headway.model.block import Block, Kind
from headway.model.cut import num_held, vocabulary
from headway.model.pieces import Cost, Pieces, total
from headway.model.sizes import Sizes
from headway.model.spec import ModelSpec
from headway.stack.spec import HEADWAY, Stack
from headway.units import Bytes


def cost(spec: ModelSpec, block: Block, sizes: Sizes, stack: Stack = HEADWAY) -> Cost:
    """Cost of `block` on a micro-batch, as `stack` computes it.

    Of one of t tensor ranks products, attention and what lies between them are its part, norms and what is added to
    the residual stream whole, or with `sequence_parallel` 1/t of the tokens too (Korthikanti et al. 2022, §4.2). What
    the ranks exchange is in model/exchange.py.

    Saved bytes are what torch's autograd and the trainer's own functions keep (Korthikanti et al. 2022, §4.1, with
    fused attention): of every step its input. Headway's dropout keeps nothing: its backward draws the mask again.
    """
    summed = num_held(block.parameters, sizes.tensor) if stack.accumulate_bytes else 0
    return of_kind(block.kind, summed, Pieces(spec, sizes, stack))


@lru_cache(maxsize=256)  # pure; the players ask it for every operation of every rank
def of_kind(kind: Kind, numel: int, pieces: Pieces) -> Cost:
    """Cost of a block of that kind, of whose parameters a tensor rank adds up the gradients of `numel`."""
    match kind:
        case "embedding":
            return total(_embedding(pieces))
        case "layer":
            return total([*_layer(pieces), pieces.accumulated(numel)])
        case "head":
            return total(_head(pieces))
        case _:
            assert_never(kind)


def _embedding(of: Pieces) -> list[Cost]:
    """Rows looked up, and those of the positions added."""
    h, tokens = of.spec.hidden, of.tokens
    lookup = replace(of.elements(2 * h, kernels=1), saved=Bytes(8 * tokens))
    indices = Cost(forward=replace(lookup.forward, traffic=Bytes(8 * tokens), kernels=0))
    indices = replace(indices, backward=replace(indices.forward, traffic=Bytes(16 * tokens)))
    positions = [of.outside(2 * h, kernels=2)] if of.spec.family == "gpt" else []
    # which tokens are another rank's, a byte each, and their rows set to zero
    others = [replace(of.elements(2 * h, kernels=7), saved=Bytes(tokens))] if of.sizes.tensor > 1 else []
    return [lookup, indices, *others, *positions, *of.dropout(tokens * h // of.cuts, of.spec.hidden_dropout)]


def _layer(of: Pieces) -> list[Cost]:
    """24·s·b·h² + 4·s²·b·h FLOPs with a GELU's f = 4h (Narayanan et al. 2021, appendix)."""
    spec, tensor = of.spec, of.sizes.tensor
    h, f = spec.hidden, spec.feed_forward // tensor
    queries, keys = of.queries, of.keys
    width = queries + 2 * keys  # of a token's queries, keys and values together
    gated = spec.family == "llama"
    return [
        of.norm(),
        of.gathered(h, width),
        *([of.rotation(queries, keys)] if gated else []),
        of.attention(queries, keys),
        of.product(queries, h),
        *of.added(),
        of.norm(),
        of.gathered(h, 2 * f if gated else f),
        of.activation(f),
        of.product(f, h),
        *of.added(),
    ]


def _head(of: Pieces) -> list[Cost]:
    """The final norm, the product with the vocabulary and the loss."""
    h, v = of.spec.hidden, vocabulary(of.spec, of.sizes.tensor, of.stack.pads_vocabulary)
    return [of.norm(), of.gathered(h, v, narrow=False), *of.loss(v), of.accumulated(v * h)]
