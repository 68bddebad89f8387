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


@dataclass(frozen=True, slots=True)
class Cut:
    """Which part of the dropped tensor a rank has: the `index`-th of `count` equal ones along `dim`."""

    dim: int
    index: int
    count: int


WHOLE = Cut(0, 0, 1)


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
    cut: Cut


def dropout(x: Tensor, rate: float, draw: Draw | None, site: str, cut: Cut = WHOLE) -> Tensor:
    """`x` with a share `rate` of its elements zeroed and the rest scaled by 1/(1 − rate); without a draw, `x` itself.

    `cut`: which part of what is dropped `x` is.

    Keeps nothing for the backward, which draws the mask again.
    """
    return x if draw is None or not rate else _dropout(x, rate, draw.key(site), cut)


def keep(
    key: int, rate: float, shape: Sequence[int], device: torch.device, part: Sequence[slice] | None = None
) -> Tensor:
    """Which elements of a tensor of `shape` are kept, as booleans; of `part` of it (start and stop of each dim) alone.

    Elements 2i and 2i + 1 are the low and the high half of output i of SplitMix64 seeded with `key` (Steele, Lea and
    Flood 2014, figure 17); one is kept if its half, read as a signed integer, is not below rate · 2^32 − 2^31.
    Integers wrap around on every device, so all draw the same.
    """
    if part is None:
        size = math.prod(shape)
        outputs = _outputs(key, torch.arange((size + 1) // 2, dtype=torch.int64, device=device))
        halves = outputs.view(torch.int32)[:size].view(tuple(shape))  # low half first: devices are little-endian
    else:
        element = torch.zeros((), dtype=torch.int64, device=device)
        stride = 1
        for dim, (size, cut) in enumerate(reversed(tuple(zip(shape, part, strict=True)))):
            places = torch.arange(cut.start, cut.stop, dtype=torch.int64, device=device) * stride
            element, stride = element + places.view(-1, *[1] * dim), stride * size
        halves = (_outputs(key, element >> 1) >> 32 * (element & 1)).to(torch.int32)  # drops what is above
    return halves >= int(rate * 2**32) - 2**31


def apply(x: Tensor, rate: float, key: int, cut: Cut = WHOLE) -> Tensor:
    """`x` under the mask of `key`, outside autograd; under its part of the mask where `x` is cut."""
    if cut.count == 1:
        kept = keep(key, rate, x.shape, x.device)
    else:
        shape = [n * cut.count if dim == cut.dim else n for dim, n in enumerate(x.shape)]
        start = [n * cut.index if dim == cut.dim else 0 for dim, n in enumerate(x.shape)]
        part = [slice(first, first + n) for first, n in zip(start, x.shape, strict=True)]
        kept = keep(key, rate, shape, x.device, part)
    return torch.where(kept, x * (1 / (1 - rate)), 0.0)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Dropping, x: Tensor, rate: float, key: int, cut: Cut) -> Tensor:
        ctx.rate, ctx.key, ctx.cut = rate, key, cut
        return apply(x, rate, key, cut)

    @staticmethod
    def backward(ctx: Dropping, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return apply(gradient, ctx.rate, ctx.key, ctx.cut), None, None, None


_dropout: Callable[[Tensor, float, int, Cut], Tensor] = _Dropout.apply


def _outputs(seed: int, z: Tensor) -> Tensor:
    """The outputs of SplitMix64 with the numbers (from 0) in `z`, which they overwrite."""
    z = z.mul_(_signed(_INCREMENT)).add_(_signed((seed + _INCREMENT) % 2**64))
    for bits, multiplier in zip((30, 27), _MULTIPLIERS, strict=True):
        z = z.bitwise_xor_(_shifted(z, bits)).mul_(_signed(multiplier))
    return z.bitwise_xor_(_shifted(z, 31))


def _shifted(z: Tensor, bits: int) -> Tensor:
    """`z` shifted right by `bits`, zeros coming in: torch's shift of signed integers brings in the sign."""
    return (z >> bits).bitwise_and_((1 << (64 - bits)) - 1)


def _signed(value: int) -> int:
    """64 bits as a signed integer."""
    return value - 2**64 if value >= 2**63 else value
