"""Units: which blocks move together, in one flat buffer."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.model.block import Parameter, blocks, num_parameters
from headway.model.cut import num_held
from headway.model.spec import PRESETS
from headway.model.unit import ALIGNED, Unit, units
from headway.units import Bytes, Dtype

SPEC = dataclasses.replace(PRESETS["gpt-tiny"], layers=6)
BLOCKS = blocks(SPEC)
LAYER = num_parameters(BLOCKS[1].parameters)


def _units(stages, size, spec=SPEC, dtype=Dtype.FLOAT32, tensor=1):
    return units(spec, stages, unit_bytes=Bytes(size), dtype=dtype, tensor=tensor)


def test_neighbouring_layers_are_merged_as_long_as_they_stay_within_the_size():
    names = [unit.name for unit in _units([BLOCKS[1:7]], 2 * LAYER * 4)]
    assert names == ["layers.0–layers.1", "layers.2–layers.3", "layers.4–layers.5", "tokens"]


def test_one_byte_less_merges_nothing():
    names = [unit.name for unit in _units([BLOCKS[1:7]], 2 * LAYER * 4 - 1)]
    assert names == [*(f"layers.{i}" for i in range(6)), "tokens"]


def test_the_size_counts_bytes_of_the_plans_precision():
    assert len(_units([BLOCKS[1:7]], 2 * LAYER * 4, dtype=Dtype.FLOAT64)) == 7


def test_a_block_larger_than_the_size_is_never_split():
    assert [unit.blocks for unit in _units([BLOCKS[1:3]], 1)][:2] == [(BLOCKS[1],), (BLOCKS[2],)]


def test_units_never_reach_over_a_stages_edge():
    assert [unit.stages for unit in _units([BLOCKS[:4], BLOCKS[4:]], 2**40)] == [(0,), (1,), (0, 1)]


@given(st.integers(1, 4 * LAYER * 4), st.integers(1, 7))
def test_every_parameter_is_in_one_unit(size, cut):
    found = _units([BLOCKS[:cut], BLOCKS[cut:]], size)
    names = [p.name for unit in found for p in unit.parameters]
    assert sorted(names) == sorted([*(p.name for b in BLOCKS for p in b.parameters), "embedding.tokens.weight"])
    assert [b for unit in found for b in unit.blocks] == list(BLOCKS)


def test_decayed_parameters_come_first_so_that_each_optimizer_group_is_one_slice():
    for unit in _units([BLOCKS], 2**40):
        decayed = [p.decayed for p in unit.parameters]
        assert decayed == sorted(decayed, reverse=True)
        assert unit.num_decayed == sum(p.numel for p in unit.parameters if p.decayed)
        assert unit.numel == sum(p.numel for p in unit.parameters)


@pytest.mark.parametrize(("num_stages", "holders"), [(1, (0,)), (2, (0, 1)), (4, (0, 3))])
def test_a_tied_weight_is_a_unit_of_its_own_held_by_the_first_and_the_last_stage(num_stages, holders):
    stages = [BLOCKS[i * 2 : i * 2 + 2] for i in range(num_stages - 1)] + [BLOCKS[num_stages * 2 - 2 :]]
    last = _units(stages, 2**40)[-1]
    assert (last.name, last.stages, last.blocks) == ("tokens", holders, ())
    assert last.numel == SPEC.vocabulary * SPEC.hidden


def test_an_untied_model_shares_nothing():
    untied = dataclasses.replace(SPEC, tied=False)
    found = _units([blocks(untied)], 2**40, spec=untied)
    assert [unit.name for unit in found] == ["embedding–head"]


@pytest.mark.parametrize("tensor", [1, 2, 4])
def test_a_tensor_ranks_buffer_is_its_part_of_what_is_cut_and_all_of_the_rest(tensor):
    for unit in _units([BLOCKS], 1, tensor=tensor):
        cut = num_parameters([p for p in unit.parameters if p.cut is not None])
        assert unit.num_parameters == num_parameters(unit.parameters)
        assert unit.numel == cut // tensor + unit.num_parameters - cut


@pytest.mark.parametrize("tensor", [2, 4])
def test_what_all_tensor_ranks_hold_alike_lies_at_both_ends_of_the_buffer(tensor):
    for unit in _units([BLOCKS], 2**40, tensor=tensor):
        slices = [each for each, _ in unit.copies]
        assert [copies for _, copies in unit.copies] == [tensor, 1, tensor]
        assert [0, *(each.stop for each in slices)] == [*(each.start for each in slices), unit.numel]
        cut = num_parameters([p for p in unit.parameters if p.cut is not None])
        assert slices[1].stop - slices[1].start == cut // tensor
        decayed = [p.decayed for p in unit.parameters]
        assert decayed == sorted(decayed, reverse=True)


def test_the_size_of_merged_layers_is_that_of_a_ranks_part():
    size = 2 * num_held(BLOCKS[1].parameters, 2) * 4
    assert next(u.name for u in _units([BLOCKS[1:7]], size, tensor=2)) == "layers.0–layers.1"
    assert next(u.name for u in _units([BLOCKS[1:7]], size - 1, tensor=2)) == "layers.0"


@given(st.integers(1, 70), st.integers(0, 70), st.integers(1, 6))
def test_the_slices_of_all_parts_are_those_of_the_whole_cut_where_parts_begin(decayed, plain, count):
    """So an element is as far from the start of its slice, in vectors, whoever updates it."""
    parameters = (
        Parameter("a", (decayed, 1), "a", decayed=True, init="normal"),
        Parameter("b", (plain,), "b", decayed=False, init="zeros"),
    )
    unit = Unit("both", (0,), (), parameters)
    assert unit.num_decayed == decayed
    whole = unit.groups(slice(0, unit.numel))
    phases = {i: ((i - each.start) % ALIGNED, on) for each, on in whole for i in range(each.start, each.stop)}
    found = {}
    for index in range(count):
        own = unit.own(index, count)
        for each, on in unit.groups(own):
            found |= {own.start + i: ((i - each.start) % ALIGNED, on) for i in range(each.start, each.stop)}
    assert found == phases
    assert {i: on for i, (_, on) in found.items()} == {i: i < decayed for i in range(decayed + plain)}
