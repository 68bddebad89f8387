"""Costs: FLOPs, traffic, kernels and saved bytes of each block going forward, as formulas."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import assert_never

from headway.model.block import Block, Kind
from headway.model.cut import num_held, vocabulary
from headway.model.sizes import Sizes
from headway.model.spec import ModelSpec
from headway.units import Bytes, Flops


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


def cost(spec: ModelSpec, block: Block, sizes: Sizes) -> Cost:
    """Cost of `block` going forward on a micro-batch; backward does twice the FLOPs.

    Of one of t tensor ranks products, attention and what lies between them are its part, norms and what is added to
    the residual stream whole, or with `sequence_parallel` 1/t of the tokens too (Korthikanti et al. 2022, §4.2). What
    the ranks exchange is in model/exchange.py.

    Saved bytes are what torch's autograd and the trainer's own functions keep (Korthikanti et al. 2022, §4.1, with
    fused attention): of every step its input. Dropout keeps nothing: its backward draws the mask again.
    """
    head, tensor = block.kind == "head", sizes.tensor
    weights = vocabulary(spec, tensor) * spec.hidden if head else num_held(block.parameters, tensor)
    return _cost(block.kind, weights, _pieces(spec, sizes))


def total(costs: Iterable[Cost]) -> Cost:
    """All of them one after another."""
    every = list(costs)
    return Cost(
        Flops(sum(c.flops for c in every)),
        Bytes(sum(c.traffic for c in every)),
        sum(c.kernels for c in every),
        Bytes(sum(c.saved for c in every)),
    )


@lru_cache(maxsize=64)  # pure; the players ask it for every operation of every rank
def _cost(kind: Kind, weights: int, each: "_Pieces") -> Cost:
    match kind:
        case "embedding":
            return total(each.embedding())
        case "layer":
            return total([*each.layer(), each.weights(weights)])
        case "head":
            return total([*each.head(), each.weights(weights)])
        case _:
            assert_never(kind)


def _pieces(spec: ModelSpec, sizes: Sizes) -> "_Pieces":
    dtype, cuts = sizes.dtype, sizes.tensor if sizes.sequence_parallel else 1
    widths = dtype.bytes, dtype.wide.bytes
    return _Pieces(spec, sizes.batch, sizes.sequence, *widths, sizes.tensor, cuts, sizes.smoothed)


# A mask (train/dropout.py) takes 14 kernels over 8 bytes for two elements: fill, 2 in place, 3 times shift, and, xor,
# 2 in place; and the comparison of 4 bytes for each. Applying it takes 2 more: scale and select.
_MASK_BYTES, _MASK_KERNELS = (8 + 2 * 16 + 3 * (16 + 16 + 24) + 2 * 16) // 2 + 4 + 1, 15


@dataclass(frozen=True, slots=True)
class _Pieces:
    """The steps that blocks are made of, each as its cost on one of `tensor` ranks.

    `size`: bytes of an element; `wide`: of one of the loss, of attention's sums and of an RMS norm's scales. `cuts`:
    into how many parts the sequence is cut outside of products and attention.
    """

    spec: ModelSpec
    batch: int
    sequence: int
    size: int
    wide: int
    tensor: int
    cuts: int
    smoothed: bool

    def embedding(self) -> list[Cost]:
        """Rows looked up, and those of the positions added."""
        h, tokens = self.spec.hidden, self.batch * self.sequence
        lookup = replace(self._elements(2 * h, kernels=1), saved=Bytes(8 * tokens))
        indices = Cost(Flops(0), Bytes(8 * tokens), 0, Bytes(0))
        positions = [self._outside(2 * h, kernels=2)] if self.spec.family == "gpt" else []
        # which tokens are another rank's, a byte each, and their rows set to zero
        others = [replace(self._elements(2 * h, kernels=7), saved=Bytes(tokens))] if self.tensor > 1 else []
        return [lookup, indices, *others, *positions, *self._dropout(tokens * h // self.cuts, self.spec.hidden_dropout)]

    def layer(self) -> list[Cost]:
        """24·s·b·h² + 4·s²·b·h FLOPs with a GELU's f = 4h (Narayanan et al. 2021, appendix)."""
        h, f, keys = self.spec.hidden, self.spec.feed_forward // self.tensor, self.spec.key_value_width // self.tensor
        queries = h // self.tensor
        width = queries + 2 * keys  # of a token's queries, keys and values together
        added = [
            # behind the sum over the ranks, where a bias is no part of the product
            *([self._outside(2 * h, kernels=1)] if self.tensor > 1 and self.spec.family == "gpt" else []),
            *self._dropout(self.batch * self.sequence * h // self.cuts, self.spec.hidden_dropout),
            self._outside(3 * h, kernels=1),
        ]
        products = [self._gathered(h, width), self._product(queries, h), self._product(f, h)]
        common = [*products, *self._attention(queries, keys), *added, *added]
        if self.spec.family == "gpt":
            gelu = self._elements(2 * f, kernels=1, saved=f)
            return [*common, self._layer_norm(), self._layer_norm(), self._gathered(h, f), gelu]
        # turned in place by 4 kernels on halves and 2 that write them back
        rotation = self._elements(7 * (width - keys), kernels=6)
        swiglu = self._elements(5 * f, kernels=2, saved=2 * f)
        return [*common, self._rms_norm(), rotation, self._rms_norm(), self._gathered(h, 2 * f), swiglu]

    def head(self) -> list[Cost]:
        """The final norm, the product with the vocabulary and the loss."""
        h, v = self.spec.hidden, vocabulary(self.spec, self.tensor)
        norm = self._layer_norm() if self.spec.family == "gpt" else self._rms_norm()
        # softmax or its logarithm, which is kept, and the targets' entries; the count of kept targets is torch's scalar
        tokens = self.batch * self.sequence
        loss = Cost(Flops(0), Bytes(tokens * 3 * v * self.wide), 3, Bytes(tokens * v * self.wide))
        widened = [Cost(Flops(0), Bytes(tokens * v * (self.size + self.wide)), 1, Bytes(0))] * (self.wide > self.size)
        scalar = self.wide if self.tensor == 1 else 0
        targets = Cost(Flops(0), Bytes(0), 0, Bytes(8 * tokens + scalar))
        # the sum of a token's row; torch's own keeps which targets are left out, a byte each
        mask = tokens if self.tensor == 1 else 0
        smoothing = [Cost(Flops(0), Bytes(tokens * v * self.wide), 8, Bytes(mask))] * self.smoothed
        return [norm, self._gathered(h, v), *widened, loss, targets, *smoothing]

    def weights(self, numel: int) -> Cost:
        """Parameters, read once."""
        return Cost(Flops(0), Bytes(self.size * numel), 0, Bytes(0))

    def _attention(self, h: int, keys: int) -> list[Cost]:
        """Of the rank's heads, whose queries have `h` elements together, and whose keys have `keys`."""
        b, s, n = self.batch, self.sequence, self.spec.heads // self.tensor
        flops = Flops(4 * b * s * s * h)
        if not self.spec.attention_dropout:
            # queries, keys and values are one tensor; the output is kept by the projection that follows
            fused = self._elements(2 * h + 2 * keys, kernels=1, saved=h + 2 * keys)
            return [replace(fused, flops=flops), self._wide(n)]
        # explicit: two products, scale, causal mask, softmax, which is kept, and dropout; copies of queries and output
        scores = self._elements(8 * n * s + 6 * h + 2 * keys, kernels=8, saved=h + 2 * keys + n * s)
        return [replace(scores, flops=flops), *self._dropout(b * n * s * s, self.spec.attention_dropout)]

    def _dropout(self, elements: int, rate: float) -> list[Cost]:
        traffic = elements * (_MASK_BYTES + 4 * self.size + 1)
        return [Cost(Flops(0), Bytes(traffic), _MASK_KERNELS + 2, Bytes(0))] if rate else []

    def _layer_norm(self) -> Cost:
        # mean and deviation; a CPU keeps them in the input's type, CUDA 16-bit ones in float32: 8 bytes a token
        return self._outside(2 * self.spec.hidden, kernels=1, saved=self.spec.hidden + 2)

    def _rms_norm(self) -> Cost:
        scales = self._wide(1)
        scales = replace(scales, saved=Bytes(scales.saved // self.cuts))
        return total([self._outside(7 * self.spec.hidden, kernels=6, saved=self.spec.hidden), scales])

    def _wide(self, saved: int) -> Cost:
        """`saved` numbers of each token kept in the wide type."""
        return Cost(Flops(0), Bytes(0), 0, Bytes(self.batch * self.sequence * saved * self.wide))

    def _product(self, n: int, m: int) -> Cost:
        """Each token's n elements times an n × m matrix: reads n, writes m, keeps n."""
        return replace(self._elements(n + m, kernels=1, saved=n), flops=Flops(2 * self.batch * self.sequence * n * m))

    def _gathered(self, n: int, m: int) -> Cost:
        """A product of what is outside: where the sequence is cut it is gathered, and only the rank's part kept."""
        product = self._product(n, m)
        if self.cuts == 1:
            return product
        return total([replace(product, saved=Bytes(product.saved // self.cuts)), self._elements(2 * n, kernels=1)])

    def _outside(self, moved: int, *, kernels: int, saved: int = 0) -> Cost:
        """As `_elements`, of the rank's part of the sequence."""
        one = self._elements(moved, kernels=kernels, saved=saved)
        return replace(one, traffic=Bytes(one.traffic // self.cuts), saved=Bytes(one.saved // self.cuts))

    def _elements(self, moved: int, *, kernels: int, saved: int = 0) -> Cost:
        """`moved` elements of each token read and written, `saved` kept."""
        each = self.batch * self.sequence * self.size
        return Cost(Flops(0), Bytes(each * moved), kernels, Bytes(each * saved))
