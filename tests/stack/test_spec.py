"""Stacks: what is known of frameworks, each fact with its reason."""

import dataclasses

import pytest

from headway.errors import PlanError
from headway.stack.spec import HEADWAY, Stack, preset, presets
from headway.units import Dtype

NAMES = ["generic", "megatron-lm", "megatron-deepspeed", "deepspeed", "nanotron", "torchtitan", "llm-foundry"]


@pytest.mark.parametrize("name", NAMES)
def test_every_fact_about_a_framework_has_a_reason(name):
    stack, plain = preset(name), Stack(name=name)
    said = [field.name for field in dataclasses.fields(Stack) if field.name not in {"name", "reasons"}]
    for fact in said:
        if getattr(stack, fact) != getattr(plain, fact):
            assert len(stack.reasons[fact]) > 10, fact


def test_headways_own_stack_is_one_of_them():
    assert presets()["headway"] is HEADWAY
    plain = Stack(name="headway")
    said = [field.name for field in dataclasses.fields(Stack) if field.name not in {"name", "reasons"}]
    assert set(HEADWAY.reasons) == {name for name in said if getattr(HEADWAY, name) != getattr(plain, name)}


def test_numbers_and_types_are_read_as_such():
    stack = preset("megatron-lm")
    assert stack.host == pytest.approx(1e-5)
    assert stack.grads is Dtype.FLOAT16
    assert "norm" in stack.fuses


def test_an_unknown_stack_gets_the_nearest_name():
    with pytest.raises(PlanError, match=r"no software stack is called 'nanotrn'\. Did you mean 'nanotron'\?"):
        preset("nanotrn")
