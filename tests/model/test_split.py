"""Splitting blocks over stages."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import PlanError
from headway.model.split import balanced

_PARTS = sorted({p * v for p in range(1, 9) for v in range(1, 5)})


@pytest.mark.parametrize("layers", [*range(1, 12), 15, 16, 17, 24, 31, 32, 33])
def test_every_block_sits_in_one_stage_in_order_and_equal_layers_spread_evenly(layers):
    """For every number of stages of P ≤ 8 ranks and V ≤ 4 chunks that the blocks can fill."""
    costs = [0, *[1] * layers, 0]
    for parts in (parts for parts in _PARTS if parts <= layers + 2):
        stages = balanced(costs, parts)
        assert len(stages) == parts
        assert all(stages)
        assert list(itertools.chain(*stages)) == list(range(layers + 2))
        if parts <= layers:
            dear = [sum(costs[i] for i in stage) for stage in stages]
            assert max(dear) - min(dear) <= 1


@given(st.lists(st.integers(0, 20), min_size=1, max_size=8), st.data())
def test_no_other_cut_has_a_cheaper_dearest_stage(costs, data):
    parts = data.draw(st.integers(1, len(costs)))
    n = len(costs)

    def runs(cuts):
        return [sum(costs[a:b]) for a, b in itertools.pairwise((0, *cuts, n))]

    every = [runs(cuts) for cuts in itertools.combinations(range(1, n), parts - 1)]
    least = min(max(run) for run in every)
    found = [sum(costs[i] for i in stage) for stage in balanced(costs, parts)]
    assert max(found) == least
    assert sum(x * x for x in found) == min(sum(x * x for x in run) for run in every if max(run) == least)


def test_a_dear_head_gets_fewer_layers_beside_it():
    assert balanced([0, 1, 1, 1, 1, 3], 2) == ((0, 1, 2, 3), (4, 5))


def test_more_stages_than_blocks_are_refused_with_the_most_that_work():
    with pytest.raises(PlanError, match=r"6 blocks \(embedding, 4 layers, head\).*8 stages\. Use at most 6 stages"):
        balanced([0, 1, 1, 1, 1, 0], 8)
