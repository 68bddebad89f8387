"""Model sizes: presets and what cannot be built."""

import dataclasses

import pytest

from headway.errors import PlanError
from headway.model.block import blocks, num_parameters, shared
from headway.model.spec import PRESETS, ModelSpec

TINY = PRESETS["gpt-tiny"]


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


@pytest.mark.parametrize("name", PRESETS)
def test_parameters_are_the_papers_formula_and_the_final_norm(name):
    """P = 12Lh²(1 + 13/(12h)) + (V + s)h: Narayanan et al. 2021, §5.1; it leaves out the final norm's 2h."""
    spec = PRESETS[name]
    layers, h = spec.layers, spec.hidden
    formula = 12 * layers * h * h + 13 * layers * h + (spec.vocabulary + spec.positions) * h
    assert _count(spec) == formula + 2 * h


def test_gpt_175b_has_the_parameters_of_its_formula():
    assert _count(PRESETS["gpt-175b"]) == 174_615_822_336 + 2 * 12288


@pytest.mark.parametrize("name", PRESETS)
def test_an_untied_head_adds_one_more_vocabulary(name):
    spec = PRESETS[name]
    untied = dataclasses.replace(spec, tied=False)
    assert _count(untied) - _count(spec) == spec.vocabulary * spec.hidden


@pytest.mark.parametrize("field", ["layers", "hidden", "heads", "feed_forward", "vocabulary", "positions"])
@pytest.mark.parametrize("value", [0, -3])
def test_a_size_below_one_is_refused_by_its_key(field, value):
    with pytest.raises(PlanError, match=rf"model\.{field} must be at least 1, got {value}\."):
        dataclasses.replace(TINY, **{field: value})


def test_heads_that_do_not_divide_name_heads_and_a_width_that_would():
    with pytest.raises(PlanError, match=r"128 over 5 heads leaves 3\. Use heads 4, or hidden 125\.") as error:
        dataclasses.replace(TINY, heads=5)
    assert "model.heads must divide model.hidden" in str(error.value)
    dataclasses.replace(TINY, heads=4)
    dataclasses.replace(TINY, heads=5, hidden=125)


def test_more_heads_than_hidden_still_get_a_remedy_that_works():
    with pytest.raises(PlanError, match=r"Use heads 6, or hidden 8\."):
        ModelSpec(layers=1, hidden=6, heads=8, feed_forward=4, vocabulary=4, positions=4)
