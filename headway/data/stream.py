"""Stream: ranges of a corpus's tokens, one after another, read where they lie."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """Tokens `ranges[0]`, then tokens `ranges[1]`, and so on, of one array that is not copied.

    `tokens`: [T] of any integer type. `ranges`: [R, 2] int64, first and last + 1 of each, none empty.
    `ends`: [R] int64, the length of the stream up to the end of each range.
    """

    tokens: NDArray[np.integer[Any]]
    ranges: NDArray[np.int64]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def read(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The tokens at `positions` of the stream, int64, in their shape."""
        place = np.searchsorted(self.ends, positions, side="right")
        # a range's last + 1 lies as far behind its end in the stream as all its tokens do
        return self.tokens[positions + (self.ranges[:, 1] - self.ends)[place]].astype(np.int64)


def stream(tokens: NDArray[np.integer[Any]], *ranges: tuple[int, int]) -> Stream:
    """The ranges of `tokens` (first, last + 1) as one stream, empty ones left out.

    >>> both = stream(np.arange(10, 20), (0, 2), (7, 10))
    >>> len(both), both.read(np.arange(5)).tolist()
    (5, [10, 11, 17, 18, 19])
    """
    return _stream(tokens, np.array([pair for pair in ranges if pair[0] < pair[1]], np.int64).reshape(-1, 2))


def of_documents(tokens: NDArray[np.integer[Any]], documents: NDArray[np.int64], kept: NDArray[np.bool_]) -> Stream:
    """The documents that are `kept` ([D] bool) of those that `documents` ([D + 1]) bounds; neighbours make one range.

    >>> of_documents(np.arange(9), np.array([0, 2, 5, 6, 9]), np.array([True, True, False, True])).ranges.tolist()
    [[0, 5], [6, 9]]
    """
    edges = np.flatnonzero(np.diff(kept, prepend=False, append=False))  # first, last + 1, first, last + 1, …
    return _stream(tokens, documents[edges].reshape(-1, 2))


def _stream(tokens: NDArray[np.integer[Any]], ranges: NDArray[np.int64]) -> Stream:
    return Stream(tokens, ranges, np.cumsum(ranges[:, 1] - ranges[:, 0]))
