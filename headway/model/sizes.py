"""Sizes: one micro-batch on one tensor rank, as the formulas of costs and exchanges take it."""

from dataclasses import dataclass
from typing import Literal

from headway.units import Dtype


@dataclass(frozen=True, slots=True)
class Sizes:
    """`batch` sequences of `sequence` tokens in `dtype`, on one of `tensor` ranks.

    `sequence_parallel`: the ranks cut the sequence outside of products and attention. `smoothed`: the loss is one of
    smoothed labels. `context`: as many ranks cut each sequence everywhere, attention included; `narrow`: whether the
    layers' products are taken in float8; `attention`: its kernel, where it is not the stack's own.
    """

    batch: int
    sequence: int
    dtype: Dtype
    tensor: int = 1
    sequence_parallel: bool = False
    smoothed: bool = False
    context: int = 1
    narrow: bool = False
    attention: Literal["flash", "unfused", "explicit"] | None = None

    @property
    def cuts(self) -> int:
        """Into how many parts tensor ranks cut the sequence outside of products and attention."""
        return self.tensor if self.sequence_parallel else 1

    @property
    def tokens(self) -> int:
        """Tokens of the micro-batch that a context rank has."""
        return self.batch * (self.sequence // self.context)
