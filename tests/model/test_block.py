"""Blocks: their parameters, by name and in memory."""

import dataclasses

import pytest

from headway.model.block import Block, blocks, num_parameters, shared
from headway.model.spec import PRESETS

TINY = PRESETS["gpt-tiny"]
LLAMA = PRESETS["llama-tiny"]
both = pytest.mark.parametrize("spec", [TINY, LLAMA], ids=["gpt", "llama"])


def test_a_model_is_the_embedding_its_layers_and_the_head():
    names = [block.name for block in blocks(TINY)]
    assert names == ["embedding", "layers.0", "layers.1", "layers.2", "layers.3", "head"]


@both
@pytest.mark.parametrize("tied", [True, False])
def test_global_names_are_unique(spec, tied):
    spec = dataclasses.replace(spec, tied=tied)
    names = [p.name for block in blocks(spec) for p in block.parameters] + [p.name for p in shared(spec)]
    assert len(names) == len(set(names))
    assert ("head.output.weight" in names) is not tied


def test_query_key_and_value_keep_apart_by_name_and_share_one_tensor_in_memory():
    layer = blocks(TINY)[1]
    stacked = [p.name for p in layer.parameters if p.leaf == "attention.qkv.weight"]
    assert stacked == [f"layers.0.attention.{x}.weight" for x in "qkv"]


def test_shared_keys_and_values_are_narrower_than_queries():
    shapes = {p.name.split(".")[-2]: p.shape for p in blocks(LLAMA)[1].parameters if "qkv" in p.leaf}
    assert shapes == {"q": (128, 128), "k": (64, 128), "v": (64, 128)}


def test_a_llamas_layer_has_no_biases_and_its_gate_and_up_share_one_tensor_in_memory():
    layer = blocks(LLAMA)[1]
    assert [(p.name.removeprefix("layers.0."), p.shape) for p in layer.parameters if "qkv" not in p.leaf] == [
        ("attention_norm.weight", (128,)),
        ("attention.output.weight", (128, 128)),
        ("feed_forward_norm.weight", (128,)),
        ("feed_forward.gate.weight", (352, 128)),
        ("feed_forward.up.weight", (352, 128)),
        ("feed_forward.down.weight", (128, 352)),
    ]
    assert [p.leaf for p in layer.parameters].count("feed_forward.gate_up.weight") == 2


def test_a_llama_learns_no_positions():
    assert [p.name for p in blocks(LLAMA)[0].parameters] == ["embedding.tokens.weight"]
    assert blocks(dataclasses.replace(LLAMA, tied=True))[0].parameters == ()


@both
def test_neighbours_of_one_leaf_stand_together(spec):
    for block in blocks(spec):
        leaves = [p.leaf for p in block.parameters]
        runs = [leaf for i, leaf in enumerate(leaves) if i == 0 or leaves[i - 1] != leaf]
        assert len(runs) == len(set(leaves))


@both
def test_matrices_decay_and_biases_and_norms_do_not(spec):
    for block in blocks(spec):
        for parameter in block.parameters:
            assert parameter.decayed == (len(parameter.shape) == 2), parameter.name


@both
def test_the_matrices_before_a_residual_sum_start_smaller(spec):
    residual = [p.name for p in blocks(spec)[1].parameters if p.init == "residual"]
    assert residual == ["layers.0.attention.output.weight", "layers.0.feed_forward.down.weight"]


def test_a_block_without_parameters_counts_none():
    assert num_parameters(Block("head", "head", ()).parameters) == 0
