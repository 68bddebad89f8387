"""Streams: ranges of tokens as one sequence, without copying them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.data.stream import of_documents, stream


@given(st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=30), st.sampled_from(["u1", "i4"]))
def test_a_stream_of_documents_is_what_joining_them_would_be(documents, dtype):
    sizes, kept = [size for size, _ in documents], np.array([keep for _, keep in documents])
    bounds = np.cumsum([0, *sizes])
    tokens = np.arange(bounds[-1], dtype=dtype)
    found = of_documents(tokens, bounds, kept)
    joined = tokens[np.repeat(kept, sizes)]
    assert len(found) == len(joined)
    assert found.read(np.arange(len(found))).tolist() == joined.tolist()
    assert len(found.ranges) == sum(kept[i] and not (i and kept[i - 1]) for i in range(len(kept)))
    assert found.tokens is tokens


def test_positions_keep_their_shape_and_become_int64():
    read = stream(np.arange(20, dtype=np.uint16), (3, 5), (10, 14)).read(np.array([[0, 1, 2], [5, 4, 3]]))
    assert read.tolist() == [[3, 4, 10], [13, 12, 11]]
    assert read.dtype == np.int64


def test_empty_ranges_are_left_out():
    found = stream(np.arange(9), (2, 2), (4, 6), (9, 9))
    assert found.ranges.tolist() == [[4, 6]]
    assert len(stream(np.arange(9), (0, 0))) == 0


def test_nothing_behind_the_end_is_read():
    with pytest.raises(IndexError):
        stream(np.arange(9), (0, 3)).read(np.array([3]))
