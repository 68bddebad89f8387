"""Memory that a rank holds through the step: the formula, exactly."""

import pytest

from headway.model.block import blocks, num_parameters, shared
from headway.plan.memory import states


def _parameters(plan):
    return num_parameters([*(p for block in blocks(plan.model) for p in block.parameters), *shared(plan.model)])


def test_one_rank_holds_parameters_gradients_and_two_moments(plan_of):
    plan = plan_of(parallel={"pipeline": 1, "data": 1})
    size = 4 * _parameters(plan)
    held = states(plan, 0)
    counters = 4 * sum(len({p.decayed for p in unit.parameters}) for unit in plan.units)
    assert held == {"parameters": size, "gradients": size, "optimizer": 2 * size + counters}


@pytest.mark.parametrize("unit_bytes", [1, 2**20, 2**40])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(("pipeline", "chunks", "schedule"), [(1, 1, "1f1b"), (3, 1, "1f1b"), (2, 2, "interleaved")])
def test_the_ranks_of_a_pipeline_hold_the_model_once_and_a_tied_weight_at_both_ends(
    plan_of, unit_bytes, tied, pipeline, chunks, schedule
):
    plan = plan_of(
        parallel={"pipeline": pipeline, "chunks": chunks, "schedule": schedule, "data": 2, "unit_bytes": unit_bytes},
        model={"preset": "gpt-tiny", "tied": tied},
    )
    ends = plan.model.vocabulary * plan.model.hidden if tied and pipeline > 1 else 0
    ranks = [plan.layout.rank({"pipeline": p}) for p in range(pipeline)]
    for kind in ("parameters", "gradients"):
        assert sum(states(plan, rank)[kind] for rank in ranks) == 4 * (_parameters(plan) + ends)


def test_data_ranks_hold_the_same(plan_of):
    plan = plan_of(parallel={"pipeline": 2, "data": 2})
    assert states(plan, 0) == states(plan, 1)
    assert states(plan, 2) == states(plan, 3)


def test_double_precision_doubles_everything_but_the_step_counters(plan_of):
    single = plan_of(parallel={"pipeline": 1, "data": 1, "unit_bytes": 1})
    double = plan_of(
        parallel={"pipeline": 1, "data": 1, "unit_bytes": 1},
        train={"precision": "float64", "reduce_dtype": "float64"},
    )
    one, two = states(single, 0), states(double, 0)
    assert two["parameters"] == 2 * one["parameters"]
    counters = one["optimizer"] - 2 * one["parameters"]
    assert two["optimizer"] == 2 * two["parameters"] + counters
