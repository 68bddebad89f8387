"""Blocks: their parameters, names and costs as formulas."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.model.block import Block, blocks, cost, num_parameters, shared
from headway.model.spec import PRESETS, ModelSpec
from headway.units import Dtype

TINY = PRESETS["gpt-tiny"]
_SPECS = st.builds(
    lambda heads, width, layers: ModelSpec(layers, heads * width, heads, 4 * heads * width, 256, 64),
    st.integers(1, 8),
    st.integers(1, 16),
    st.integers(1, 3),
)


def test_a_model_is_the_embedding_its_layers_and_the_head():
    names = [block.name for block in blocks(TINY)]
    assert names == ["embedding", "layers.0", "layers.1", "layers.2", "layers.3", "head"]


@pytest.mark.parametrize("tied", [True, False])
def test_global_names_are_unique(tied):
    spec = dataclasses.replace(TINY, tied=tied)
    names = [p.name for block in blocks(spec) for p in block.parameters] + [p.name for p in shared(spec)]
    assert len(names) == len(set(names))
    assert ("head.output.weight" in names) is not tied


def test_query_key_and_value_keep_apart_by_name_and_share_one_tensor_in_memory():
    layer = blocks(TINY)[1]
    stacked = [p.name for p in layer.parameters if p.leaf == "attention.qkv.weight"]
    assert stacked == [f"layers.0.attention.{x}.weight" for x in "qkv"]


def test_neighbours_of_one_leaf_stand_together():
    for block in blocks(TINY):
        leaves = [p.leaf for p in block.parameters]
        runs = [leaf for i, leaf in enumerate(leaves) if i == 0 or leaves[i - 1] != leaf]
        assert len(runs) == len(set(leaves))


def test_matrices_decay_and_biases_and_norms_do_not():
    for block in blocks(TINY):
        for parameter in block.parameters:
            assert parameter.decayed == (len(parameter.shape) == 2), parameter.name


def test_the_matrices_before_a_residual_sum_start_smaller():
    residual = [p.name for p in blocks(TINY)[1].parameters if p.init == "residual"]
    assert residual == ["layers.0.attention.output.weight", "layers.0.feed_forward.down.weight"]


@given(_SPECS, st.integers(1, 8), st.integers(1, 64))
def test_a_layer_takes_24bsh2_and_4bs2h_flops(spec, batch, sequence):
    """Narayanan et al. 2021, appendix: forward, with a feed-forward of 4h."""
    h = spec.hidden
    layer = cost(spec, blocks(spec)[1], batch=batch, sequence=sequence, dtype=Dtype.FLOAT32)
    assert layer.flops == 24 * batch * sequence * h**2 + 4 * batch * sequence**2 * h


@given(_SPECS, st.integers(1, 8), st.integers(1, 64))
def test_the_head_takes_2bshv_flops_and_the_embedding_none(spec, batch, sequence):
    embedding, head = blocks(spec)[0], blocks(spec)[-1]
    assert cost(spec, embedding, batch=batch, sequence=sequence, dtype=Dtype.FLOAT32).flops == 0
    assert (
        cost(spec, head, batch=batch, sequence=sequence, dtype=Dtype.FLOAT32).flops
        == 2 * batch * sequence * spec.hidden * spec.vocabulary
    )


@pytest.mark.parametrize("kind", ["embedding", "layer"])
def test_costs_grow_in_step_with_the_batch(kind):
    block = next(block for block in blocks(TINY) if block.kind == kind)
    one, two = (cost(TINY, block, batch=b, sequence=32, dtype=Dtype.FLOAT32) for b in (1, 2))
    assert (two.flops, two.saved, two.kernels) == (2 * one.flops, 2 * one.saved, one.kernels)


def test_wider_elements_double_what_a_layer_keeps_and_change_no_flops():
    layer = blocks(TINY)[1]
    single, double = (cost(TINY, layer, batch=2, sequence=32, dtype=dtype) for dtype in Dtype)
    assert (double.saved, double.flops) == (2 * single.saved, single.flops)


def test_a_block_without_parameters_counts_none():
    assert num_parameters(Block("head", "head", ()).parameters) == 0
