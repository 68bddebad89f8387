"""Dropout whose masks are functions of the place in the training, not of a generator's history."""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

_INCREMENT = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


@dataclass(frozen=True, slots=True)
class Draw:
    """Where in the training masks are drawn: `microbatch` is that of the global batch, whichever rank plays it."""

    seed: int
    step: int
    microbatch: int

    def key(self, site: str) -> int:
        """64 bits for the mask of one site of the model, like `layers.3.attention`."""
        digest = hashlib.sha256(f"{self.seed}:{self.step}:{self.microbatch}:{site}".encode()).digest()
        return int.from_bytes(digest[:8], "little", signed=True)


class Context(Protocol):
    """What torch hands to the forward and the backward of a function."""

    saved_tensors: tuple[Tensor, ...]

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Keep tensors for the backward."""
        ...

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say that inputs are written in place."""
        ...


class Dropping(Context, Protocol):
    """The context of a function that drops: its mask is drawn again from these."""

    rate: float
    key: int


def dropout(x: Tensor, rate: float, draw: Draw | None, site: str) -> Tensor:
    """`x` with a share `rate` of its elements zeroed and the rest scaled by 1/(1 − rate); without a draw, `x` itself.

    Keeps nothing for the backward, which draws the mask again.
    """
    return x if draw is None or not rate else _dropout(x, rate, draw.key(site))


def keep(
    key: int, rate: float, shape: Sequence[int], device: torch.device, part: Sequence[slice] | None = None
) -> Tensor:
    """Which elements of a tensor of `shape` are kept, as booleans; of `part` of it (start and stop of each dim) alone.

    Element i is kept if the i-th output of SplitMix64 seeded with `key` (Steele, Lea and Flood 2014, figure 17), read
    as a signed integer, is not below rate · 2^64 − 2^63. 64 bits wrap around on every device, so all draw the same.
    """
    if part is None:
        z = torch.arange(1, math.prod(shape) + 1, dtype=torch.int64, device=device).view(tuple(shape))
    else:
        z = torch.ones((), dtype=torch.int64, device=device)
        stride = 1
        for dim, (size, cut) in enumerate(reversed(tuple(zip(shape, part, strict=True)))):
            places = torch.arange(cut.start, cut.stop, dtype=torch.int64, device=device) * stride
            z, stride = z + places.view(-1, *[1] * dim), stride * size
    z = z.mul_(_signed(_INCREMENT)).add_(key)
    for bits, multiplier in zip((30, 27), _MULTIPLIERS, strict=True):
        z = z.bitwise_xor_(_shifted(z, bits)).mul_(_signed(multiplier))
    z = z.bitwise_xor_(_shifted(z, 31))
    return z >= int(rate * 2**64) - 2**63


def apply(x: Tensor, rate: float, key: int) -> Tensor:
    """`x` under the whole mask of `key`, outside autograd."""
    return torch.where(keep(key, rate, x.shape, x.device), x * (1 / (1 - rate)), 0.0)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Dropping, x: Tensor, rate: float, key: int) -> Tensor:
        ctx.rate, ctx.key = rate, key
        return apply(x, rate, key)

    @staticmethod
    def backward(ctx: Dropping, gradient: Tensor) -> tuple[Tensor, None, None]:
        return apply(gradient, ctx.rate, ctx.key), None, None


_dropout: Callable[[Tensor, float, int], Tensor] = _Dropout.apply


def _shifted(z: Tensor, bits: int) -> Tensor:
    """`z` shifted right by `bits`, zeros coming in: torch's shift of signed integers brings in the sign."""
    return (z >> bits).bitwise_and_((1 << (64 - bits)) - 1)


def _signed(value: int) -> int:
    """64 bits as a signed integer."""
    return value - 2**64 if value >= 2**63 else value
