"""Outline: what a prediction needs to know of a job: its sizes and what ran it, without rows or units."""

from dataclasses import dataclass
from typing import Literal

from headway.cluster.spec import Cluster
from headway.model.spec import ModelSpec
from headway.stack.spec import AttentionKernel, Stack
from headway.units import Dtype

Recompute = Literal["none", "selective", "full", "op-level", "fraction"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A job as far as its prediction asks.

    `microbatch` in sequences, `microbatches` of a step on each data rank, `sequence` in tokens. `context`: ranks that
    cut each sequence, attention included. `products`: the type of matrix products (float8 with everything else in
    bfloat16). `attention`: the kernel. `zero`: stage of ZeRO over `zero_ranks` of the data × context ranks (0: all of
    them). `recompute`: what the backward computes again; of a "fraction" the share `recomputed` of the layers.
    """

    model: ModelSpec
    cluster: Cluster
    stack: Stack
    microbatch: int
    microbatches: int
    sequence: int
    tensor: int = 1
    context: int = 1
    pipeline: int = 1
    data: int = 1
    chunks: int = 1
    schedule: str = "1f1b"
    sequence_parallel: bool = False
    zero: int = 0
    zero_ranks: int = 0
    products: Dtype = Dtype.BFLOAT16
    attention: AttentionKernel = "flash"
    recompute: Recompute = "none"
    recomputed: float = 1.0

    @property
    def world(self) -> int:
        """Ranks of the job."""
        return self.tensor * self.context * self.pipeline * self.data

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return self.microbatch * self.microbatches * self.data * self.sequence
