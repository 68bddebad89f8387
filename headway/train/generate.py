"""Text from a trained model: one token after another on one rank."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from headway.model.block import SHARED, blocks
from headway.model.spec import ModelSpec
from headway.model.unit import units
from headway.train import blocks as arithmetic
from headway.train.flat import FlatUnit
from headway.train.weights import leaves
from headway.units import Bytes, Dtype


def generate(
    spec: ModelSpec, weights: dict[str, Tensor], prompt: Sequence[int], *, context: int, temperature: float, seed: int
) -> Iterator[int]:
    """Tokens that follow `prompt` (at least one token), without end, each sampled after the `context` ones before it.

    `temperature` 0 takes the likeliest; the generator is its own, so equal arguments write the same on one machine.
    """
    members = blocks(spec)
    flat = [
        FlatUnit(unit, next(iter(weights.values())).dtype, torch.device("cpu"))
        for unit in units(spec, [members], unit_bytes=Bytes(0), dtype=Dtype.FLOAT32)
    ]
    for unit in flat:
        leaves(unit, weights)
    named = {unit.unit.name: unit for unit in flat}
    shared = named[SHARED].shared if SHARED in named else {}
    generator = torch.Generator().manual_seed(seed)
    tokens = list(prompt)
    while True:
        x = torch.tensor([tokens[-context:]])
        with torch.no_grad():
            for block in members:
                # only the last position's logits are wanted
                x = x[:, -1:] if block.kind == "head" else x
                x = arithmetic.forward(spec, block, {**named[block.name].leaves(block), **shared}, x)
        tokens.append(_pick(x[0, -1].float(), temperature, generator))
        yield tokens[-1]


def _pick(logits: Tensor, temperature: float, generator: torch.Generator) -> int:
    if temperature == 0:
        return int(logits.argmax())
    return int(torch.multinomial(torch.softmax(logits / temperature, dim=-1), 1, generator=generator))
