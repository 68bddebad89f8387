"""Pieces: products forward and backward, what stacks fuse, and what they keep."""

import dataclasses

import pytest

from headway.model.block import blocks
from headway.model.cost import cost
from headway.model.pieces import Pieces, Product
from headway.model.sizes import Sizes
from headway.model.spec import PRESETS
from headway.plan.memory import korthikanti_activations
from headway.stack.spec import HEADWAY, Stack, preset
from headway.units import Dtype

GPT, LLAMA = PRESETS["gpt-22b"], PRESETS["llama-2-7b"]
MEGATRON = preset("megatron-lm")


def _layer(spec, stack, **sizes):
    return cost(spec, blocks(spec)[1], Sizes(2, 2048, Dtype.BFLOAT16, **sizes), stack)


def test_the_backward_of_a_product_gives_the_gradients_of_both_factors():
    product = Product(m=30, n=20, k=10, batch=3)
    left, right = product.backward
    assert (left.m, left.n, left.k) == (30, 10, 20)  # [m, n] times [n, k]
    assert (right.m, right.n, right.k) == (10, 20, 30)  # [k, m] times [m, n]
    assert product.flops == left.flops == right.flops == 2 * 3 * 30 * 20 * 10
    assert product.elements == left.elements == right.elements


@pytest.mark.parametrize("stack", [HEADWAY, MEGATRON, preset("nanotron"), preset("torchtitan")], ids=str)
@pytest.mark.parametrize("spec", [GPT, LLAMA], ids=["gpt", "llama"])
def test_every_stack_multiplies_alike(spec, stack):
    """Counted FLOPs are the model's; fused attention executes the causal half of its own."""
    done, ours = _layer(spec, stack, tensor=8), _layer(spec, HEADWAY, tensor=8)
    assert done.flops == ours.flops
    assert sum(p.flops for p in done.forward.products) + 2 * done.forward.attention == done.flops


@pytest.mark.parametrize(("tensor", "cut"), [(1, False), (8, False), (8, True)])
def test_megatrons_layer_keeps_what_korthikanti_says_masks_and_core_included(tensor, cut):
    """s·b·h·(10 + 24/t + 5·a·s/(h·t)), or all of it over t (Korthikanti et al. 2022, eq. 2 and 4), and statistics."""
    spec = GPT
    saved = _layer(spec, MEGATRON, tensor=tensor, sequence_parallel=cut).saved
    formula = korthikanti_activations(spec, batch=2, sequence=2048, core=True, tensor=tensor, sequence_parallel=cut)
    statistics = 2 * 2 * 2 * 2 * 2048 // (tensor if cut else 1)  # mean and deviation of two norms, in 16 bits
    assert saved - statistics == formula


def test_what_a_stack_fuses_takes_fewer_kernels_and_moves_less():
    eager = Stack(name="eager", loss_bytes=36)
    fused = dataclasses.replace(eager, fuses=frozenset(("norm", "rotary", "activation", "residual")))
    plain, less = _layer(LLAMA, eager), _layer(LLAMA, fused)
    assert less.forward.kernels < plain.forward.kernels
    assert less.forward.traffic < plain.forward.traffic
    assert less.backward.traffic < plain.backward.traffic
    assert less.forward.products == plain.forward.products


def test_the_backward_of_fused_attention_executes_five_products_for_two():
    forward, backward = (getattr(_layer(LLAMA, HEADWAY), way).attention for way in ("forward", "backward"))
    assert backward == 5 * forward // 2


def test_context_ranks_share_the_tokens_but_each_attends_to_all_keys():
    whole, part = _layer(LLAMA, HEADWAY), _layer(LLAMA, HEADWAY, context=4)
    assert 4 * part.forward.attention == whole.forward.attention
    assert 4 * part.flops == whole.flops
    assert 4 * part.saved == whole.saved


def test_products_in_float8_are_the_layers_alone_and_their_factors_are_rounded():
    wide, narrow = (_layer(LLAMA, preset("torchtitan"), narrow=narrow) for narrow in (False, True))
    assert all(product.narrow for product in narrow.forward.products)
    assert narrow.forward.traffic > wide.forward.traffic
    head = cost(LLAMA, blocks(LLAMA)[-1], Sizes(2, 2048, Dtype.BFLOAT16, narrow=True), preset("torchtitan"))
    assert not any(product.narrow for product in head.forward.products)


def test_a_padded_vocabulary_is_a_multiple_on_each_rank():
    odd = dataclasses.replace(GPT, vocabulary=50257)
    head = cost(odd, blocks(odd)[-1], Sizes(1, 128, Dtype.FLOAT16, tensor=8), MEGATRON)
    assert head.forward.products[0].n == 6400  # 50257 over 8 ranks, up to a multiple of 128
    assert Pieces(odd, Sizes(1, 128, Dtype.FLOAT16, tensor=8), MEGATRON).tokens == 128


def test_what_is_rounded_to_float8_is_read_twice_in_16_bits_and_written_once_in_8():
    sizes = Sizes(2, 2048, Dtype.BFLOAT16, narrow=True)
    made = Pieces(LLAMA, sizes, preset("torchtitan")).product(512, 256)
    assert made.forward.traffic == (2 + 2 + 1) * (4096 * 512 + 512 * 256)


@pytest.mark.parametrize("shared", [1, 4])
def test_queries_keys_and_values_before_their_rotation_are_kept_where_a_stack_says_so(shared):
    spec = dataclasses.replace(LLAMA, key_value_heads=LLAMA.heads // shared)
    keeps, not_kept = (
        _layer(spec, dataclasses.replace(preset("nanotron"), keeps_unrotated=kept)).saved for kept in (True, False)
    )
    assert keeps - not_kept == 2 * 2048 * 2 * (LLAMA.hidden + 2 * LLAMA.hidden // shared)
