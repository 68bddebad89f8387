"""Steps of a layer with a backward of their own, which keep less for it than autograd would."""

from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import silu

from headway.train import dropout
from headway.train.dropout import Context, Cut, Dropping

EPSILON = 1e-5


class _Turning(Context, Protocol):
    turn: tuple[int, int, float]


class _RmsNorm(torch.autograd.Function):
    """Keeps its input and one number for each token, in float32 where the input is narrower."""

    @staticmethod
    def forward(ctx: Context, x: Tensor, weight: Tensor) -> Tensor:
        scale = (wide(x).square().mean(-1, keepdim=True) + EPSILON).rsqrt()
        ctx.save_for_backward(x, weight, scale)
        return (x * scale * weight).to(x.dtype)

    @staticmethod
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, weight, scale = ctx.saved_tensors
        normal, weighted = x * scale, gradient * weight  # of 16-bit inputs, `normal` and all that follows is float32
        inner = (weighted * normal).mean(-1, keepdim=True)
        of_x, of_weight = scale * (weighted - normal * inner), (gradient * normal).flatten(0, -2).sum(0)
        return of_x.to(x.dtype), of_weight.to(weight.dtype)


class _Rotate(torch.autograd.Function):
    """Turns the first heads in place: nothing before it keeps what it overwrites, nothing is kept for it."""

    @staticmethod
    def forward(ctx: _Turning, x: Tensor, heads: int, width: int, theta: float) -> Tensor:
        ctx.turn = (heads, width, theta)
        ctx.mark_dirty(x)
        _turn(x, *ctx.turn, sign=1)
        return x

    @staticmethod
    def backward(ctx: _Turning, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        gradient = gradient.clone(memory_format=torch.contiguous_format)  # another may hold it
        _turn(gradient, *ctx.turn, sign=-1)
        return gradient, None, None, None


class _SwiGlu(torch.autograd.Function):
    """Keeps its input alone."""

    @staticmethod
    def forward(ctx: Context, gate_up: Tensor) -> Tensor:
        ctx.save_for_backward(gate_up)
        gate, up = gate_up.chunk(2, -1)
        return silu(gate) * up

    @staticmethod
    def backward(ctx: Context, gradient: Tensor) -> Tensor:
        (gate_up,) = ctx.saved_tensors
        gate, up = gate_up.chunk(2, -1)
        chance = gate.sigmoid()
        slope = chance * (1 + gate * (1 - chance))  # of gate · σ(gate)
        return torch.cat((gradient * up * slope, gradient * gate * chance), -1)


class _DroppedAttention(torch.autograd.Function):
    """Keeps its inputs and the probabilities before dropout."""

    @staticmethod
    def forward(ctx: Dropping, q: Tensor, k: Tensor, v: Tensor, rate: float, key: int, cut: Cut) -> Tensor:
        b, n, s, d = q.shape
        scores = (_grouped(q, k) @ k.mT).view(b, n, s, s) * d**-0.5
        future = torch.ones(s, s, dtype=torch.bool, device=q.device).triu(1)
        probabilities = scores.masked_fill_(future, float("-inf")).softmax(-1)
        ctx.save_for_backward(q, k, v, probabilities)
        ctx.rate, ctx.key, ctx.cut = rate, key, cut
        return (_grouped(dropout.apply(probabilities, rate, key, cut), k) @ v).view(b, n, s, d)

    @staticmethod
    def backward(ctx: Dropping, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None]:
        q, k, v, probabilities = ctx.saved_tensors
        b, n, s, d = q.shape
        gradient = _grouped(gradient, k)
        of_v = _grouped(dropout.apply(probabilities, ctx.rate, ctx.key, ctx.cut), k).mT @ gradient
        of_probabilities = dropout.apply((gradient @ v.mT).view(b, n, s, s), ctx.rate, ctx.key, ctx.cut)
        inner = (of_probabilities * probabilities).sum(-1, keepdim=True)
        of_scores = _grouped(probabilities * (of_probabilities - inner) * d**-0.5, k)
        return (of_scores @ k).view(b, n, s, d), of_scores.mT @ _grouped(q, k), of_v, None, None, None


def wide(x: Tensor) -> Tensor:
    """`x` itself, in float32 where it is of a 16-bit type: for sums."""
    return x.float() if x.element_size() == 2 else x


# x [..., h] over the root of its mean square, times weight [h] (Zhang and Sennrich 2019)
rms_norm: Callable[[Tensor, Tensor], Tensor] = _RmsNorm.apply
# x [b, s, ≥ heads · width], whose first heads are turned in place by their positions, of base theta (Su et al. 2021)
rotate_: Callable[[Tensor, int, int, float], Tensor] = _Rotate.apply
# gate and up side by side [..., 2f] → SiLU(gate) · up [..., f] (Shazeer 2020)
swiglu: Callable[[Tensor], Tensor] = _SwiGlu.apply
# causal attention of q [b, n, s, d] to k and v [b, m, s, d], the probabilities dropped at a rate by a mask's key
# (by its part, where q has some of the heads)
dropped_attention: Callable[[Tensor, Tensor, Tensor, float, int, Cut], Tensor] = _DroppedAttention.apply


def _turn(x: Tensor, heads: int, width: int, theta: float, *, sign: int) -> None:
    """Turn the pairs (j, j + width/2) of the first heads: halves side by side, as Hugging Face's weights have them."""
    cos, sin = _angles(x.shape[-2], width, theta, x.dtype, x.device)
    first, second = x[..., : heads * width].view(*x.shape[:-1], heads, width).chunk(2, -1)
    turned = torch.addcmul(first * cos, second, sin, value=-sign), torch.addcmul(second * cos, first, sin, value=sign)
    first.copy_(turned[0])
    second.copy_(turned[1])


@lru_cache(maxsize=4)  # the same for every layer and step
def _angles(
    positions: int, width: int, theta: float, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Cosine and sine of position · theta^(−2j/width), [s, 1, width/2] each."""
    frequencies = theta ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.outer(torch.arange(positions, dtype=torch.float64), frequencies)[:, None]
    return angles.cos().to(device, dtype), angles.sin().to(device, dtype)


def _grouped(x: Tensor, k: Tensor) -> Tensor:
    """[b, n, s, ·] → [b, m, n/m · s, ·]: the heads that share a key under one another, so that it is not repeated."""
    return x.reshape(x.shape[0], k.shape[1], -1, x.shape[-1])
