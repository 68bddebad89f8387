"""Splitting blocks over stages."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.model.split import balanced, by_layers

_PARTS = sorted({p * v for p in range(1, 9) for v in range(1, 5)})


@pytest.mark.parametrize("layers", range(1, 34))
def test_every_block_sits_in_one_stage_in_order_and_equal_layers_spread_evenly(layers):
    """For every number of stages of P ≤ 8 ranks and V ≤ 4 chunks, also where there are more stages than blocks."""
    costs = [1, *[10] * layers, 4]
    for parts in _PARTS:
        stages = balanced(costs, parts)
        assert len(stages) == parts
        assert list(itertools.chain(*stages)) == list(range(layers + 2))
        assert 0 in stages[0]
        assert layers + 1 in stages[-1]
        dear = [sum(costs[i] for i in stage) for stage in stages]
        assert max(dear) <= 10 * -(-layers // parts) + 5
        of_layers = [sum(0 < i <= layers for i in stage) for stage in stages[1:-1]]
        if parts <= layers:
            assert not of_layers or max(of_layers) - min(of_layers) <= 1
        else:
            assert max(of_layers, default=1) <= 1


@given(st.lists(st.integers(0, 20), min_size=2, max_size=8), st.integers(1, 11))
def test_no_other_cut_has_a_cheaper_dearest_stage(costs, parts):
    n = len(costs)

    def runs(cuts):
        return [sum(costs[a:b]) for a, b in itertools.pairwise((0, *cuts, n))]

    # the first block stays in the first run and the last in the last; those between may be empty
    every = [runs(cuts) for cuts in itertools.combinations_with_replacement(range(1, n), parts - 1)]
    least = min(max(run) for run in every)
    found = [sum(costs[i] for i in stage) for stage in balanced(costs, parts)]
    assert max(found) == least
    assert sum(x * x for x in found) == min(sum(x * x for x in run) for run in every if max(run) == least)


def test_a_dear_head_gets_fewer_layers_beside_it():
    assert balanced([0, 1, 1, 1, 1, 3], 2) == ((0, 1, 2, 3), (4, 5))


def test_empty_stages_come_right_behind_the_embedding():
    assert balanced([1, 10, 10, 4], 7) == ((0,), (), (), (), (1,), (2,), (3,))
    assert balanced([1, 4], 4) == ((0,), (), (), (1,))


def test_layers_of_one_cost_are_never_told_apart_by_rounding():
    """Sums of floats would: 0.1 + 0.2 > 0.3."""
    for cost in (1, 3, 10**15 + 1):
        assert balanced([cost // 2, *[cost] * 6, cost // 2], 3) == ((0, 1, 2), (3, 4), (5, 6, 7))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_numbers_of_layers_become_runs_with_the_embedding_first_and_the_head_last(counts):
    runs = by_layers(counts)
    assert list(itertools.chain(*runs)) == list(range(sum(counts) + 2))
    ends = [(stage == 0) + (stage == len(counts) - 1) for stage in range(len(counts))]
    assert [len(run) for run in runs] == [count + end for count, end in zip(counts, ends, strict=True)]
