"""Permutations: pure functions of a seed and a purpose."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.data.shuffle import SPLIT, permutation

_WORDS = st.integers(0, 2**64 - 1)


@given(st.integers(0, 200), _WORDS, _WORDS)
def test_a_permutation_has_every_index_once(size, seed, purpose):
    assert sorted(permutation(size, seed, purpose).tolist()) == list(range(size))


def test_the_order_is_the_same_for_ever():
    assert permutation(8, seed=7, purpose=3).tolist() == [2, 5, 7, 3, 0, 6, 4, 1]


def test_seed_and_purpose_both_change_the_order():
    orders = [tuple(permutation(20, seed, purpose)) for seed in range(5) for purpose in (0, 1, 2, SPLIT)]
    assert len(set(orders)) == len(orders)


@pytest.mark.parametrize("seed", [-1, 2**64, 2**70 + 3])
def test_any_whole_number_is_a_seed(seed):
    assert permutation(5, seed, 0).tolist() == permutation(5, seed % 2**64, 0).tolist()


def test_nobody_may_write_into_an_order_that_others_read():
    with pytest.raises(ValueError, match="read-only"):
        permutation(5, 0, 0)[0] = 1
