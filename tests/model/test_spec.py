"""Model sizes: presets and what cannot be built."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import PlanError
from headway.model.block import blocks, num_parameters, shared
from headway.model.spec import PRESETS, ModelSpec, complete

TINY, LLAMA = PRESETS["gpt-tiny"], PRESETS["llama-tiny"]


def _count(spec):
    return num_parameters([*(p for block in blocks(spec) for p in block.parameters), *shared(spec)])


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("gpt2", 124_439_808),
        ("gpt2-medium", 354_823_168),
        ("gpt2-large", 774_030_080),
        ("gpt2-xl", 1_557_611_200),
    ],
)
def test_gpt2_has_the_parameters_of_the_published_checkpoints(name, parameters):
    assert _count(PRESETS[name]) == parameters


@pytest.mark.parametrize("name", [name for name, spec in PRESETS.items() if spec.family == "gpt"])
def test_parameters_are_the_papers_formula_and_the_final_norm(name):
    """P = 12Lh²(1 + 13/(12h)) + (V + s)h: Narayanan et al. 2021, §5.1; it leaves out the final norm's 2h."""
    spec = PRESETS[name]
    layers, h = spec.layers, spec.hidden
    formula = 12 * layers * h * h + 13 * layers * h + (spec.vocabulary + spec.positions) * h
    assert _count(spec) == formula + 2 * h


def test_gpt_175b_has_the_parameters_of_its_formula():
    assert _count(PRESETS["gpt-175b"]) == 174_615_822_336 + 2 * 12288


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        # Narayanan et al. 2021, table 1
        ("gpt-1.7b", "1.7"),
        ("gpt-3.6b", "3.6"),
        ("gpt-7.5b", "7.5"),
        ("gpt-18.4b", "18.4"),
        ("gpt-39.1b", "39.1"),
        ("gpt-76.1b", "76.1"),
        ("gpt-145.6b", "145.6"),
        ("gpt-310.1b", "310.1"),
        ("gpt-529.6b", "529.6"),
        ("gpt-1t", "1008.0"),
        # Narayanan et al. 2021, table 2; Brown et al. 2020 round to 175
        ("gpt-175b", "174.6"),
        ("gpt-175b", "175"),
        # as torchtitan publishes them; Touvron et al. 2023 and Grattafiori et al. 2024 round further
        ("llama-2-7b", "6.74"),
        ("llama-2-13b", "13.0"),
        ("llama-2-70b", "69.0"),
        ("llama-3-8b", "8.03"),
        ("llama-3-70b", "70.6"),
        ("llama-3-405b", "405.9"),
    ],
)
def test_parameters_round_to_those_published(name, billions):
    digits = len(billions.partition(".")[2])
    assert f"{_count(PRESETS[name]) / 1e9:.{digits}f}" == billions


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("llama-2-7b", 6_738_415_616),
        ("llama-2-13b", 13_015_864_320),
        ("llama-2-70b", 68_976_648_192),
        ("llama-3-8b", 8_030_261_248),
        ("llama-3-70b", 70_553_706_496),
        ("llama-3-405b", 405_853_388_800),
    ],
)
def test_llama_has_the_parameters_of_the_published_checkpoints(name, parameters):
    assert _count(PRESETS[name]) == parameters


@pytest.mark.parametrize("name", PRESETS)
def test_an_untied_head_adds_one_more_vocabulary(name):
    spec = dataclasses.replace(PRESETS[name], tied=True)
    untied = dataclasses.replace(spec, tied=False)
    assert _count(untied) - _count(spec) == spec.vocabulary * spec.hidden


@pytest.mark.parametrize(
    "field", ["layers", "hidden", "heads", "feed_forward", "vocabulary", "positions", "key_value_heads"]
)
@pytest.mark.parametrize("value", [0, -3])
def test_a_size_below_one_is_refused_by_its_key(field, value):
    with pytest.raises(PlanError, match=rf"model\.{field} must be at least 1, got {value}\."):
        dataclasses.replace(TINY, **{field: value})


def test_heads_that_do_not_divide_name_heads_and_a_width_that_would():
    with pytest.raises(PlanError, match=r"128 over 5 heads leaves 3\. Use heads 4, or hidden 125\.") as error:
        dataclasses.replace(TINY, heads=5)
    assert "model.heads must divide model.hidden" in str(error.value)
    dataclasses.replace(TINY, heads=4)
    dataclasses.replace(TINY, heads=5, hidden=125, key_value_heads=5)


def test_more_heads_than_hidden_still_get_a_remedy_that_works():
    with pytest.raises(PlanError, match=r"Use heads 6, or hidden 8\."):
        ModelSpec(layers=1, hidden=6, heads=8, feed_forward=4, vocabulary=4, positions=4, key_value_heads=8)


def test_key_value_heads_that_do_not_divide_name_the_nearest_that_do():
    with pytest.raises(PlanError, match=r"12 over 5 leaves 2\. Use key_value_heads 4\.") as error:
        dataclasses.replace(LLAMA, hidden=384, heads=12, key_value_heads=5)
    assert "model.key_value_heads must divide model.heads" in str(error.value)
    dataclasses.replace(LLAMA, hidden=384, heads=12, key_value_heads=4)


def test_more_key_value_heads_than_heads_are_refused():
    with pytest.raises(PlanError, match=r"Use key_value_heads 4\."):
        dataclasses.replace(LLAMA, key_value_heads=8)


def test_a_gpt_shares_no_keys_and_turns_nothing():
    with pytest.raises(PlanError, match=r"key_value_heads 2 for 4 heads.*Use key_value_heads 4, or family llama"):
        dataclasses.replace(TINY, key_value_heads=2)
    with pytest.raises(PlanError, match=r"rope_theta 10000 is for family llama.*Leave it out"):
        dataclasses.replace(TINY, rope_theta=10000.0)


@pytest.mark.parametrize("theta", [0.0, 1.0, -5.0, float("inf"), float("nan")])
def test_a_llama_needs_a_base_above_one(theta):
    with pytest.raises(PlanError, match=r"model\.rope_theta must be a number above 1.*Use 10000 as Llama 2"):
        dataclasses.replace(LLAMA, rope_theta=theta)


def test_a_head_that_is_not_made_of_pairs_names_a_width_that_is():
    with pytest.raises(PlanError, match=r"a head has 3 .*Use hidden 16, or other heads"):
        dataclasses.replace(LLAMA, hidden=12)
    dataclasses.replace(LLAMA, hidden=16)


@pytest.mark.parametrize("field", ["attention_dropout", "hidden_dropout"])
@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, float("nan"), float("inf")])
def test_a_dropout_that_is_no_share_is_refused(field, rate):
    with pytest.raises(PlanError, match=rf"model\.{field} is the share that is dropped, at least 0 and below 1"):
        dataclasses.replace(TINY, **{field: rate})


def test_an_evaluated_model_drops_nothing():
    dropping = dataclasses.replace(LLAMA, attention_dropout=0.1, hidden_dropout=0.2)
    assert dropping.without_dropout == LLAMA


@given(st.sampled_from(sorted(PRESETS)))
def test_a_preset_completed_without_changes_is_the_preset(name):
    assert ModelSpec(**complete({}, PRESETS[name])) == PRESETS[name]


def test_what_follows_from_a_presets_width_and_heads():
    wider = complete({"hidden": 2048, "heads": 16}, PRESETS["llama-3-8b"])
    assert (wider["feed_forward"], wider["key_value_heads"]) == (7168, 8)
    alike = complete({"hidden": 2048, "heads": 16}, PRESETS["llama-2-7b"])
    assert (alike["feed_forward"], alike["key_value_heads"]) == (5504, 16)
    assert complete({"heads": 8}, TINY)["key_value_heads"] == 8
    given_too = complete(
        {"hidden": 2048, "feed_forward": 100, "heads": 16, "key_value_heads": 4}, PRESETS["llama-3-8b"]
    )
    assert (given_too["feed_forward"], given_too["key_value_heads"]) == (100, 4)


def test_what_follows_from_a_family_alone():
    sizes = {"layers": 2, "hidden": 32, "heads": 4, "feed_forward": 64, "vocabulary": 256, "positions": 256}
    gpt, llama = ModelSpec(**complete(sizes)), ModelSpec(**complete({**sizes, "family": "llama"}))
    assert (gpt.tied, gpt.key_value_heads, gpt.rope_theta) == (True, 4, 0.0)
    assert (llama.tied, llama.key_value_heads, llama.rope_theta) == (False, 4, 10000.0)
    assert complete({**sizes, "family": "llama", "tied": True, "key_value_heads": 2})["tied"]
