"""Pieces: the steps that blocks are made of, each with its products, traffic, kernels and saved bytes, by stack."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from headway.model.sizes import Sizes
from headway.model.spec import ModelSpec
from headway.stack.spec import AttentionKernel, Fusion, Stack
from headway.units import Bytes, Flops

_NO_FLOPS, _NO_BYTES = Flops(0), Bytes(0)


@dataclass(frozen=True, slots=True)
class Product:
    """`batch` products of an m × k with a k × n matrix; `narrow`: in float8."""

    m: int
    n: int
    k: int
    batch: int = 1
    narrow: bool = False

    @property
    def flops(self) -> Flops:
        """A multiplication and an addition for each term of the sums."""
        return Flops(2 * self.batch * self.m * self.n * self.k)

    @property
    def elements(self) -> int:
        """Of both factors and the result."""
        return self.batch * (self.m * self.k + self.k * self.n + self.m * self.n)

    @property
    def backward(self) -> "tuple[Product, Product]":
        """The products of its backward: the gradients of its left and of its right factor."""
        return replace(self, n=self.k, k=self.n), replace(self, m=self.k, k=self.m)


@dataclass(frozen=True, slots=True)
class Effort:
    """What a device does in one pass: matrix products, FLOPs of fused attention, bytes of all else, kernels of all.

    `attention` is what the kernel executes: the causal half of s × s.
    """

    products: tuple[Product, ...] = ()
    attention: Flops = _NO_FLOPS
    traffic: Bytes = _NO_BYTES
    kernels: int = 0


@dataclass(frozen=True, slots=True)
class Cost:
    """What a block does to one micro-batch: its efforts forward and backward.

    `flops`: going forward, as papers count them: products, attention over the full s × s. `saved`: bytes kept for the
    backward pass, parameters and the block's output left out.
    """

    flops: Flops = _NO_FLOPS
    forward: Effort = Effort()
    backward: Effort = Effort()
    saved: Bytes = _NO_BYTES


def effort(each: Iterable[Effort]) -> Effort:
    """All of them one after another."""
    every = list(each)
    return Effort(
        tuple(product for one in every for product in one.products),
        Flops(sum(one.attention for one in every)),
        Bytes(sum(one.traffic for one in every)),
        sum(one.kernels for one in every),
    )


def total(costs: Iterable[Cost]) -> Cost:
    """All of them one after another."""
    every = list(costs)
    return Cost(
        Flops(sum(c.flops for c in every)),
        effort(c.forward for c in every),
        effort(c.backward for c in every),
        Bytes(sum(c.saved for c in every)),
    )


# A mask (train/dropout.py) takes 14 kernels over 8 bytes for two elements: fill, 2 in place, 3 times shift, and, xor,
# 2 in place; and the comparison of 4 bytes for each. Applying it takes 2 more: scale and select.
_MASK_BYTES, _MASK_KERNELS = (8 + 2 * 16 + 3 * (16 + 16 + 24) + 2 * 16) // 2 + 4 + 1, 15


@dataclass(frozen=True, slots=True)
class Pieces:
    """The steps of a model's blocks on one rank, for one micro-batch, as `stack` takes them."""

    spec: ModelSpec
    sizes: Sizes
    stack: Stack

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.sizes.dtype.bytes

    @property
    def wide(self) -> int:
        """Bytes of an element of the loss, of attention's sums and of an RMS norm's scales."""
        return self.sizes.dtype.wide.bytes

    @property
    def tokens(self) -> int:
        """Of the micro-batch, of which context ranks have a part each."""
        return self.sizes.tokens

    @property
    def cuts(self) -> int:
        """Into how many parts tensor ranks cut the sequence outside of products and attention."""
        return self.sizes.cuts

    @property
    def queries(self) -> int:
        """Elements of a token's queries on the rank."""
        return self.spec.hidden // self.sizes.tensor

    @property
    def keys(self) -> int:
        """Elements of a token's keys (or values) on the rank: of one head at least."""
        return max(self.spec.head_width, self.spec.key_value_width // self.sizes.tensor)

    def product(self, n: int, m: int, *, narrow: bool = True) -> Cost:
        """Each token's n elements times an n × m matrix, of which the n are kept."""
        narrow = narrow and self.sizes.narrow
        one = Product(self.tokens, m, n, narrow=narrow)
        made = self._product(one, saved=self.tokens * n * self.size)
        if not narrow:
            return made
        # both factors are rounded from 16 bits: read once for their largest, once to be rounded, and written in 8;
        # going backward the gradient too, and the kept factor is read and written once more, transposed
        there, back = 5 * (one.m * one.k + one.k * one.n), 5 * one.m * one.n + 2 * one.m * one.k
        kernels = 2 if self.fuses("cast") else 6
        return total([made, Cost(forward=_moved(there, kernels), backward=_moved(back, kernels))])

    def gathered(self, n: int, m: int, *, narrow: bool = True) -> Cost:
        """A product of what is outside: where the sequence is cut it is gathered, and only the rank's part kept."""
        made = self.product(n, m, narrow=narrow)
        if self.cuts == 1 or self.fuses("gather"):
            return replace(made, saved=Bytes(made.saved // self.cuts))
        return total([replace(made, saved=Bytes(made.saved // self.cuts)), self.elements(2 * n, kernels=1)])

    def attention(self, queries: int, keys: int) -> Cost:
        """Of the rank's heads, whose queries have `queries` elements together, and whose keys have `keys`."""
        dropped = self.spec.attention_dropout > 0
        kernel: AttentionKernel = self.sizes.attention or ("explicit" if dropped else self.stack.attention)
        s, n = self.sizes.sequence, max(1, self.spec.heads // self.sizes.tensor)
        flops = 4 * self.tokens * s * queries
        if kernel == "flash":
            # queries, keys and values are one tensor; the output is kept by the projection that follows
            half = Flops(flops // 2)
            fused = self.elements(2 * queries + 2 * keys, kernels=1, saved=queries + 2 * keys)
            ways = replace(fused.forward, attention=half), replace(fused.backward, attention=Flops(5 * half // 2))
            return total([replace(fused, flops=Flops(flops), forward=ways[0], backward=ways[1]), self.sums(n)])
        rows, width = self.sizes.batch * n, queries // n
        queried = self.tokens // self.sizes.batch
        scores = self._product(Product(queried, s, width, rows), self._product_kept(2 * keys))
        values = self._product(Product(queried, width, s, rows), self._product_kept(queries))
        each = self.tokens * s * n * self.size
        if kernel == "unfused":  # one kernel scales, masks and takes the softmax, which is kept (Megatron)
            masked = 1 if self.stack.dropout else 0
            softmax = Cost(forward=_moved(2 * each, 1), backward=_moved(3 * each, 1), saved=Bytes(each))
            dropout = Cost(
                forward=_moved(2 * each + each // self.size, 1),
                backward=_moved(2 * each + each // self.size, 1),
                saved=Bytes(each + each // self.size),  # what is left, and a byte of mask an element
            )
            return total([scores, values, softmax, *[dropout] * masked])
        # explicit: scale, causal mask, softmax, which is kept, and dropout; copies of queries and output
        steps = self.elements(4 * n * s + 2 * queries, kernels=6, saved=n * s)
        return total([scores, values, steps, *self.dropout(self.tokens * n * s, self.spec.attention_dropout)])

    def dropout(self, elements: int, rate: float) -> list[Cost]:
        """Masks that are drawn again for the backward."""
        traffic = elements * (_MASK_BYTES + 4 * self.size + 1)
        one = _moved(traffic, _MASK_KERNELS + 2)
        return [Cost(forward=one, backward=_twice(one))] if rate else []

    def added(self) -> list[Cost]:
        """What attention or feed-forward gives to the residual stream: its bias, dropout, and the sum."""
        h = self.spec.hidden
        if self.fuses("residual"):
            mask = self.tokens * h // self.cuts if self.stack.dropout else 0  # a byte an element
            sums = self.outside(3 * h, kernels=1, back=2 * h, back_kernels=1)
            masks = Cost(forward=_moved(mask, 0), backward=_moved(mask, 0), saved=Bytes(mask))
            return [sums, masks]
        # behind the sum over the ranks, where a bias is no part of the product
        biased = self.sizes.tensor > 1 and self.spec.family == "gpt"
        dropped = self.dropout(self.tokens * h // self.cuts, self.spec.hidden_dropout)
        return [*([self.outside(2 * h, kernels=1)] if biased else []), *dropped, self.outside(3 * h, kernels=1)]

    def norm(self) -> Cost:
        """A layer norm or an RMS norm."""
        h = self.spec.hidden
        if self.spec.family == "gpt" or self.fuses("norm"):
            statistics = 2 if self.spec.family == "gpt" else 1
            if self.fuses("norm"):
                return self.outside(2 * h, kernels=1, saved=h + statistics, back=3 * h, back_kernels=2)
            # mean and deviation; a CPU keeps them in the input's type, CUDA 16-bit ones in float32: 8 bytes a token
            return self.outside(2 * h, kernels=1, saved=h + statistics)
        scales = self.sums(1)
        scales = replace(scales, saved=Bytes(scales.saved // self.cuts))
        return total([self.outside(7 * h, kernels=6, saved=h), scales])

    def rotation(self, queries: int, keys: int) -> Cost:
        """Queries and keys of so many elements turned by their positions."""
        width = queries + keys
        kept = width + keys if self.stack.keeps_unrotated else 0  # and the values
        if self.fuses("rotary"):
            return self.elements(2 * width, kernels=2, saved=kept, back=2 * width, back_kernels=2)
        # turned in place by 4 kernels on halves and 2 that write them back
        return self.elements(7 * width, kernels=6, saved=kept)

    def activation(self, f: int) -> Cost:
        """GELU of `f` elements a token, or SwiGLU of twice as many."""
        if self.spec.family == "gpt":
            return self.elements(2 * f, kernels=1, saved=f, back=3 * f if self.fuses("activation") else None)
        if self.fuses("activation"):
            return self.elements(3 * f, kernels=1, saved=2 * f, back=5 * f, back_kernels=1)
        return self.elements(5 * f, kernels=2, saved=(3 if self.stack.keeps_gate else 2) * f)

    def loss(self, v: int) -> list[Cost]:
        """Cross entropy over `v` logits a token."""
        tokens = self.tokens
        if self.stack.loss_bytes:
            moved, kept = tokens * v * self.stack.loss_bytes, tokens * v * self.stack.loss_saves
            return [Cost(forward=_moved(3 * moved // 5, 8), backward=_moved(2 * moved // 5, 6), saved=Bytes(kept))]
        # softmax or its logarithm, which is kept, and the targets' entries; the count of kept targets is torch's scalar
        loss = _both(tokens * 3 * v * self.wide, 3, tokens * v * self.wide)
        widened = [_both(tokens * v * (self.size + self.wide), 1)] * (self.wide > self.size)
        scalar = self.wide if self.sizes.tensor == 1 else 0
        targets = Cost(saved=Bytes(8 * tokens + scalar))
        # the sum of a token's row; torch's own keeps which targets are left out, a byte each
        mask = tokens if self.sizes.tensor == 1 else 0
        smoothing = [_both(tokens * v * self.wide, 8, mask)] * self.sizes.smoothed
        return [*widened, loss, targets, *smoothing]

    def accumulated(self, numel: int) -> Cost:
        """The gradients of `numel` parameters added to those of the micro-batches before."""
        return Cost(backward=_moved(numel * self.stack.accumulate_bytes, 4 if self.stack.accumulate_bytes else 0))

    def sums(self, saved: int) -> Cost:
        """`saved` numbers of each token kept in the wide type."""
        return Cost(saved=Bytes(self.tokens * saved * self.wide))

    def outside(
        self, moved: int, *, kernels: int, saved: int = 0, back: int | None = None, back_kernels: int | None = None
    ) -> Cost:
        """As `elements`, of the rank's part of the sequence."""
        one = self.elements(moved, kernels=kernels, saved=saved, back=back, back_kernels=back_kernels)
        forward, backward = (replace(w, traffic=Bytes(w.traffic // self.cuts)) for w in (one.forward, one.backward))
        return Cost(one.flops, forward, backward, Bytes(one.saved // self.cuts))

    def elements(
        self, moved: int, *, kernels: int, saved: int = 0, back: int | None = None, back_kernels: int | None = None
    ) -> Cost:
        """`moved` elements of each token read and written, twice as many going backward or `back`; `saved` kept."""
        each = self.tokens * self.size
        back, back_kernels = (
            (2 * moved if back is None else back),
            (2 * kernels if back_kernels is None else back_kernels),
        )
        return Cost(Flops(0), _moved(each * moved, kernels), _moved(each * back, back_kernels), Bytes(each * saved))

    def fuses(self, what: Fusion) -> bool:
        """Whether the stack takes one kernel for it."""
        return what in self.stack.fuses

    def _product_kept(self, elements: int) -> int:
        return self.tokens * elements * self.size

    def _product(self, one: Product, saved: int) -> Cost:
        there, back = Effort((one,), kernels=1), Effort(one.backward, kernels=2)
        return Cost(one.flops, there, back, Bytes(saved))


def _moved(traffic: int, kernels: int) -> Effort:
    return Effort(traffic=Bytes(traffic), kernels=kernels)


def _twice(one: Effort) -> Effort:
    return Effort(traffic=Bytes(2 * one.traffic), kernels=2 * one.kernels)


def _both(traffic: int, kernels: int, saved: int = 0) -> Cost:
    one = _moved(traffic, kernels)
    return Cost(Flops(0), one, _twice(one), Bytes(saved))
