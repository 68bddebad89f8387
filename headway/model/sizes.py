"""Sizes: one micro-batch on one tensor rank, as the formulas of costs and exchanges take it."""

from dataclasses import dataclass

from headway.units import Dtype


@dataclass(frozen=True, slots=True)
class Sizes:
    """`batch` sequences of `sequence` tokens in `dtype`, on one of `tensor` ranks.

    `sequence_parallel`: the ranks cut the sequence outside of products and attention. `smoothed`: the loss is one of
    smoothed labels.
    """

    batch: int
    sequence: int
    dtype: Dtype
    tensor: int = 1
    sequence_parallel: bool = False
    smoothed: bool = False
