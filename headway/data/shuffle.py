"""Shuffling: permutations that are a pure function of a seed and of what they are for."""

import threading
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

SPLIT = 2**64 - 1  # the purpose of the split; an epoch's number is the purpose of its order


_MAKING = threading.Lock()


def permutation(size: int, seed: int, purpose: int) -> NDArray[np.int64]:
    """0 … size − 1 in the order that `seed` and `purpose` give: the same on every rank, machine and numpy release.

    The raw words of a bit generator are sorted, because numpy keeps their stream for ever, but not that of
    `Generator.permutation` (NEP 19). Returns [size] int64, read-only.

    >>> [permutation(5, seed=0, purpose=epoch).tolist() for epoch in range(2)]
    [[0, 2, 1, 4, 3], [3, 2, 4, 1, 0]]
    """
    with _MAKING:  # threads that read ahead ask at once, and one order of many samples is large enough
        return _permutation(size, seed, purpose)


@lru_cache(maxsize=2)  # the samples of one step lie in one epoch, or in two
def _permutation(size: int, seed: int, purpose: int) -> NDArray[np.int64]:
    words = np.random.Philox(key=np.array([seed % 2**64, purpose], np.uint64)).random_raw(size)
    order = np.argsort(words, kind="stable").astype(np.int64)
    order.flags.writeable = False
    return order
