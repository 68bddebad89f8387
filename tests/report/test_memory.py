"""Memory in words: alike ranks as one row, and a misfit says by how much and what helps."""

from headway.report.makeup import fullest
from headway.report.memory import collapse, misfit, recipe
from headway.sim.simulate import simulate
from headway.trace import Trace, as_columns
from headway.units import Bytes


def test_data_replicas_are_one_row(plan_of):
    assert [held.ranks for held in collapse(simulate(plan_of()))] == [(0, 1), (2, 3)]


def test_a_misfit_names_the_place_the_excess_and_a_remedy(plan_of):
    data, train = {"sequence_length": 2048}, {"global_batch": 8, "microbatch": 2}
    plan = plan_of(model="gpt-22b", data=data, train=train)
    trace = simulate(plan)
    place = fullest(trace, plan.cluster)
    assert not place.fits
    message = misfit(plan, place)
    assert message.startswith("the plan does not fit: rank 0 needs ")
    assert " of 80.0 GiB, " in message
    assert "parallel.pipeline (now 2)" in message
    assert "train.microbatch (now 2)" in message


def test_a_misfit_of_states_is_helped_by_a_higher_stage_of_zero_where_there_is_one(plan_of):
    for stage, data, helps in ((0, 4, True), (2, 4, True), (3, 4, False), (0, 1, False)):
        plan = plan_of(parallel={"zero": stage, "data": data, "pipeline": 1})
        trace = Trace("predicted", as_columns([]), {0: {"parameters": Bytes(10**12)}})
        message = misfit(plan, fullest(trace, plan.cluster))
        said = f"a higher parallel.zero (now {stage}; 3 cuts all states over the {data} data ranks)"
        assert (said in message) == helps


def test_the_recipe_is_sixteen_bytes_a_parameter_in_float32(plan_of):
    assert recipe(plan_of()) == (
        "Bytes a parameter in float32: 4 parameter + 4 gradient + 8 optimizer = 16 (AdamW: two moments)."
    )


def test_the_recipe_says_where_16_bit_training_keeps_float32(plan_of):
    assert recipe(plan_of(train={"precision": "bfloat16", "reduce_dtype": "bfloat16"})) == (
        "Bytes a parameter in bfloat16: 2 parameter + 4 gradient + 12 optimizer = 18 "
        "(AdamW: float32 weights and two moments, gradients added up in float32 and reduced in bfloat16)."
    )
