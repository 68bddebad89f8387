"""Samples: which tokens a data rank reads at a step, in training and in validation."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.data.shuffle import permutation
from headway.data.stream import Stream

IGNORE = -100  # a target that no loss counts, as in torch's cross_entropy
MAX_VALIDATION_BATCHES = 4


@dataclass(frozen=True, slots=True)
class Slice:
    """One data rank's part of a global batch: `num_microbatches` times `microbatch` sequences."""

    data_rank: int
    data_size: int
    microbatch: int
    num_microbatches: int

    @property
    def global_batch(self) -> int:
        """Sequences of all data ranks together."""
        return self.data_size * self.microbatch * self.num_microbatches

    def places(self) -> NDArray[np.int64]:
        """[M, b]: places in the global batch; micro-batch j of data rank d is global micro-batch j·D + d.

        >>> Slice(data_rank=1, data_size=2, microbatch=2, num_microbatches=2).places().tolist()
        [[2, 3], [6, 7]]
        """
        shape = (self.num_microbatches, self.data_size, self.microbatch)
        return np.arange(self.global_batch, dtype=np.int64).reshape(shape)[:, self.data_rank]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """`tokens` and `targets`, each [M, b, s] int64: the target of a token is the one that follows it, or IGNORE."""

    tokens: NDArray[np.int64]
    targets: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """A stream of tokens cut into samples of s + 1 tokens; neighbours share one, so that every token is a target once.

    Sample i begins at token i·s; a last one that would be too short is dropped.
    """

    tokens: Stream
    sequence_length: int
    seed: int

    @property
    def num_samples(self) -> int:
        """Samples of one epoch: N = (tokens − 1) // s."""
        return max(0, len(self.tokens) - 1) // self.sequence_length

    def sample_ids(self, step: int, global_batch: int) -> NDArray[np.int64]:
        """[global_batch]: the samples of a step (counted from 0), in the order of the global batch.

        Number k of all samples ever read belongs to epoch k // N; each epoch has an order of its own.
        """
        first, n = step * global_batch, self.num_samples
        numbers = np.arange(first, first + global_batch, dtype=np.int64)
        ids = np.empty_like(numbers)
        for epoch in range(first // n, (first + global_batch - 1) // n + 1):
            here = numbers // n == epoch
            ids[here] = permutation(n, self.seed, epoch)[numbers[here] % n]
        return ids

    def train_batch(self, step: int, part: Slice) -> Batch:
        """What one data rank trains on at `step`."""
        return self._read(self.sample_ids(step, part.global_batch)[part.places()])

    def num_validation_batches(self, global_batch: int) -> int:
        """Batches of one evaluation: what there is, four at most."""
        return min(MAX_VALIDATION_BATCHES, -(-self.num_samples // global_batch))

    def validation_batch(self, index: int, part: Slice) -> Batch:
        """Batch `index` of the samples in file order; where they run out, rows whose targets are all IGNORE."""
        ids = index * part.global_batch + part.places()
        missing = ids >= self.num_samples
        batch = self._read(np.where(missing, 0, ids))
        batch.tokens[missing], batch.targets[missing] = 0, IGNORE
        return batch

    def _read(self, ids: NDArray[np.int64]) -> Batch:
        inside = np.arange(self.sequence_length + 1)
        window = self.tokens.read(ids[..., None] * self.sequence_length + inside)
        return Batch(window[..., :-1].copy(), window[..., 1:].copy())
