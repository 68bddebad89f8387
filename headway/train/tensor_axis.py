"""TensorAxis: what the ranks that share each layer exchange inside its arithmetic, forward and backward."""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, embedding, linear

from headway.data.samples import IGNORE
from headway.plan.meeting import group_edge
from headway.train.comm import Comm, Transfer
from headway.train.dropout import WHOLE, Context, Cut
from headway.train.stage import Done
from headway.units import Bytes


class TensorAxis:
    """This rank's place among those that cut each layer (Shoeybi et al. 2019, §3); alone, nothing is exchanged.

    With `cuts_sequence`, activations between a sum and the next product are a rank's part of the sequence (Korthikanti
    et al. 2022, §4.2.2): `outside` says which. Each method is a step of the arithmetic with its own backward. A
    collective has ended when the step has.
    """

    def __init__(
        self, comm: Comm | None = None, ranks: tuple[int, ...] = (0,), index: int = 0, *, cuts_sequence: bool = False
    ) -> None:
        self.ranks, self.index, self.size = ranks, index, len(ranks)
        self.cuts_sequence = cuts_sequence
        self.outside = Cut(1, index, self.size) if cuts_sequence else WHOLE
        self._comm = comm
        self._moved = 0

    def taken(self) -> Done:
        """What was exchanged since it was last asked: the edge and the bytes of all collectives together."""
        moved, self._moved = self._moved, 0
        return Done(group_edge(self.ranks), Bytes(moved)) if moved else Done()

    def sum_(self, x: Tensor, *, largest: bool = False) -> Tensor:
        """`x` summed over the ranks in place (or the largest of each element), outside autograd."""
        assert self._comm is not None
        self._end(self._comm.all_reduce(x, self.ranks, largest=largest))
        return x

    def gather(self, x: Tensor) -> Tensor:
        """[b, s/t, h] of each rank → [b, s, h] on all, outside autograd."""
        assert self._comm is not None
        whole = x.new_empty((self.size, *x.shape))
        self._end(self._comm.all_gather(whole, x.contiguous(), self.ranks))
        return whole.transpose(0, 1).flatten(1, 2)

    def scatter(self, x: Tensor) -> Tensor:
        """[b, s, h], summed over the ranks → this rank's [b, s/t, h], outside autograd."""
        assert self._comm is not None
        parts = x.reshape(len(x), self.size, -1, x.shape[-1]).transpose(0, 1).contiguous()
        part = torch.empty_like(parts[0])
        self._end(self._comm.reduce_scatter(part, parts, self.ranks))
        return part

    def product(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """A column-parallel product: of what all ranks have (or have parts of) with this rank's rows of a weight."""
        if self.cuts_sequence:
            return _gathered_product(x, weight, bias, self)
        return linear(x if self.size == 1 else _enter(x, self), weight, bias)

    def leave(self, x: Tensor) -> Tensor:
        """The sum of the ranks' `x`, which is overwritten, or this rank's part of the sum."""
        if self.size == 1:
            return x
        return _scatter(x, self) if self.cuts_sequence else _leave(x, self)

    def lookup(self, tokens: Tensor, rows: Tensor) -> Tensor:
        """The tokens' rows of the vocabulary, of which this rank has `rows`: [b, s] → [b, s, h]."""
        if self.size == 1:
            return embedding(tokens, rows)
        local = tokens - self.index * len(rows)
        others = (local < 0) | (local >= len(rows))
        return self.leave(embedding(local.masked_fill_(others, 0), rows).masked_fill(others[..., None], 0.0))

    def positions(self, rows: Tensor, length: int) -> Tensor:
        """The rows of a sequence's positions that are outside: all, or this rank's part."""
        each = length // self.outside.count
        return rows[self.outside.index * each : (self.outside.index + 1) * each]

    def cross_entropy(self, logits: Tensor, targets: Tensor, vocabulary: int, smoothing: float = 0.0) -> Tensor:
        """The loss summed over targets [N] that are not IGNORE, of this rank's part of the logits [N, v] (overwritten).

        `vocabulary` is the true size, beyond which logits are padding and count nowhere. `smoothing` is the share of
        each target that is spread evenly over the vocabulary (Szegedy et al. 2016, §7).
        """
        if self.size == 1:
            return cross_entropy(logits, targets, ignore_index=IGNORE, reduction="sum", label_smoothing=smoothing)
        return _cross_entropy(logits, targets, self, vocabulary, smoothing)

    def _end(self, transfer: Transfer) -> None:
        transfer.wait()
        self._moved += transfer.bytes


class _Exchanging(Context, Protocol):
    axis: TensorAxis
    biased: bool


class _Enter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _Exchanging, x: Tensor, axis: TensorAxis) -> Tensor:
        ctx.axis = axis
        return x.view_as(x)

    @staticmethod
    def backward(ctx: _Exchanging, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.axis.sum_(gradient.contiguous()), None  # the products behind have made it, for nobody else


class _Leave(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _Exchanging, x: Tensor, axis: TensorAxis) -> Tensor:
        ctx.mark_dirty(x)
        return axis.sum_(x)

    @staticmethod
    def backward(ctx: _Exchanging, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


class _Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _Exchanging, x: Tensor, axis: TensorAxis) -> Tensor:
        ctx.axis = axis
        return axis.scatter(x)

    @staticmethod
    def backward(ctx: _Exchanging, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.axis.gather(gradient), None


class _GatheredProduct(torch.autograd.Function):
    """Keeps this rank's part of its input, and gathers the rest once more for the backward."""

    @staticmethod
    def forward(ctx: _Exchanging, x: Tensor, weight: Tensor, bias: Tensor | None, axis: TensorAxis) -> Tensor:
        ctx.axis = axis
        ctx.save_for_backward(x, weight)
        ctx.biased = bias is not None
        return linear(axis.gather(x), weight, bias)

    @staticmethod
    def backward(ctx: _Exchanging, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        rows = gradient.flatten(0, 1)
        of_weight = rows.T @ ctx.axis.gather(x).flatten(0, 1)
        of_bias = rows.sum(0) if ctx.biased else None
        return ctx.axis.scatter(gradient @ weight), of_weight, of_bias, None


class _Smoothing(_Exchanging, Protocol):
    vocabulary: int
    smoothing: float


class _CrossEntropy(torch.autograd.Function):
    """Keeps the softmax of its part of the vocabulary, which the backward makes its gradient of, and the targets.

    No rank sees all logits of a token.
    """

    @staticmethod
    def forward(
        ctx: _Smoothing, logits: Tensor, targets: Tensor, axis: TensorAxis, vocabulary: int, smoothing: float
    ) -> Tensor:
        ctx.axis, ctx.vocabulary, ctx.smoothing = axis, vocabulary, smoothing
        # overwritten unmarked (torch lets only outputs be marked dirty): the product that made them does not keep them
        first, size = axis.index * logits.shape[1], logits.shape[1]
        columns = logits[:, : max(0, vocabulary - first)]
        logits[:, columns.shape[1] :] = float("-inf")
        logits -= axis.sum_(logits.amax(1), largest=True)[:, None]
        place, here = _places(targets, first, size)
        # of each token the sum of the exponentials, the target's logit, which one rank has, and the sum of all logits
        mine = [logits.gather(1, place).squeeze(1).where(here, 0.0), *([columns.sum(1)] if smoothing else [])]
        softmax = logits.exp_()
        total, wanted, *every = axis.sum_(torch.stack([softmax.sum(1), *mine]))
        softmax /= total[:, None]
        ctx.save_for_backward(softmax, targets)
        if smoothing:
            wanted = (1 - smoothing) * wanted + smoothing / vocabulary * every[0]
        loss: Tensor = ((total.log_() - wanted) * (targets != IGNORE)).sum()
        return loss

    @staticmethod
    def backward(ctx: _Smoothing, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        slope, targets = ctx.saved_tensors
        first = ctx.axis.index * slope.shape[1]
        place, here = _places(targets, first, slope.shape[1])
        slope.scatter_add_(1, place, (ctx.smoothing - 1) * here.to(slope.dtype)[:, None])
        if ctx.smoothing:
            slope[:, : max(0, ctx.vocabulary - first)] -= ctx.smoothing / ctx.vocabulary
        return slope.mul_((gradient * (targets != IGNORE))[:, None]), None, None, None, None


def _places(targets: Tensor, first: int, size: int) -> tuple[Tensor, Tensor]:
    """[N, 1]: the targets' columns here (0 where they are another rank's), and [N]: whether they are here."""
    local = targets - first
    here = (local >= 0) & (local < size)
    return local.where(here, 0)[:, None], here


_enter: Callable[[Tensor, TensorAxis], Tensor] = _Enter.apply
_leave: Callable[[Tensor, TensorAxis], Tensor] = _Leave.apply
_scatter: Callable[[Tensor, TensorAxis], Tensor] = _Scatter.apply
_gathered_product: Callable[[Tensor, Tensor, Tensor | None, TensorAxis], Tensor] = _GatheredProduct.apply
_cross_entropy: Callable[[Tensor, Tensor, TensorAxis, int, float], Tensor] = _CrossEntropy.apply

ALONE = TensorAxis()
