"""Costs: the formulas of the papers, and what grows with what."""

import dataclasses
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.model.block import blocks, num_parameters
from headway.model.cost import cost
from headway.model.pieces import total
from headway.model.sizes import Sizes
from headway.model.spec import PRESETS, ModelSpec
from headway.units import Dtype

TINY, LLAMA = PRESETS["gpt-tiny"], PRESETS["llama-tiny"]
both = pytest.mark.parametrize("spec", [TINY, LLAMA], ids=["gpt", "llama"])
_SPECS = st.builds(
    lambda heads, width, layers: ModelSpec(
        layers, heads * width, heads, 4 * heads * width, 256, 64, key_value_heads=heads
    ),
    st.integers(1, 8),
    st.integers(1, 16),
    st.integers(1, 3),
)
SC21 = ["1.7b", "3.6b", "7.5b", "18.4b", "39.1b", "76.1b", "145.6b", "310.1b", "529.6b", "1t"]


def _cost(spec, block, batch=2, sequence=32, dtype=Dtype.FLOAT32, tensor=1, *, cut=False):
    return cost(spec, block, Sizes(batch, sequence, dtype, tensor, sequence_parallel=cut))


def _forward(spec, batch, sequence):
    return total(_cost(spec, block, batch, sequence) for block in blocks(spec)).flops


@given(_SPECS, st.integers(1, 8), st.integers(1, 64))
def test_a_layer_takes_24bsh2_and_4bs2h_flops(spec, batch, sequence):
    """Narayanan et al. 2021, appendix: forward, with a feed-forward of 4h."""
    h = spec.hidden
    layer = _cost(spec, blocks(spec)[1], batch, sequence)
    assert layer.flops == 24 * batch * sequence * h**2 + 4 * batch * sequence**2 * h


@given(_SPECS, st.integers(1, 8), st.integers(1, 64))
def test_the_head_takes_2bshv_flops_and_the_embedding_none(spec, batch, sequence):
    embedding, head = blocks(spec)[0], blocks(spec)[-1]
    assert _cost(spec, embedding, batch, sequence).flops == 0
    assert _cost(spec, head, batch, sequence).flops == 2 * batch * sequence * spec.hidden * spec.vocabulary


@pytest.mark.parametrize("name", SC21)
def test_sc21s_flops_are_ours_and_one_more_forward_of_the_layers(name):
    """F = 96Bslh²(1 + s/(6h) + V/(16lh)), Narayanan et al. 2021, equation 3, recomputes the layers.

    So the layers count four forwards there and three here, the head three in both. Three quarters of F are ours within
    the head's share of that difference, which is V/(16lh) of it: 2.9 % in the smallest model, 0.1 % in the largest.
    """
    spec, batch = PRESETS[f"gpt-{name}"], 8
    l, h, s, v = spec.layers, spec.hidden, spec.positions, spec.vocabulary  # noqa: E741
    published = 96 * batch * s * l * h * h + 16 * batch * s * s * l * h + 6 * batch * s * h * v
    ours = 3 * _forward(spec, batch, s)
    layers = l * _cost(spec, blocks(spec)[1], batch, s).flops
    assert published == ours + layers
    assert ours / (0.75 * published) - 1 == pytest.approx(v / (48 * l * h) / (1 + s / (6 * h) + v / (16 * l * h)))


@pytest.mark.parametrize("name", SC21)
def test_model_flops_are_those_of_korthikanti(name):
    """72BLsh²(1 + s/(6h) + v/(12hL)): Korthikanti et al. 2022, equation 7, without recompute."""
    spec = PRESETS[f"gpt-{name}"]
    layers, h, s, v = spec.layers, spec.hidden, spec.positions, spec.vocabulary
    assert 3 * _forward(spec, 1, s) == 72 * layers * s * h * h + 12 * layers * s * s * h + 6 * s * h * v


@pytest.mark.parametrize("name", [name for name in PRESETS if name.startswith("llama")])
def test_a_llamas_flops_are_six_for_each_weight_that_multiplies_and_its_attention(name):
    """6N + 12·L·h·s a token, torchtitan's count: N without the embedding; the norms' vectors multiply nothing."""
    spec = PRESETS[name]
    layers, h, s = spec.layers, spec.hidden, spec.positions
    parameters = num_parameters([p for block in blocks(spec) for p in block.parameters])
    multiplied = parameters - spec.vocabulary * h - (2 * layers + 1) * h
    assert 3 * _forward(spec, 1, s) == s * (6 * multiplied + 12 * layers * h * s)


@pytest.mark.parametrize(
    ("name", "tokens", "published"),
    [
        # Brown et al. 2020, table D.1 (its XL model has sizes that do not go together)
        ("gpt-2.7b", 300e9, "4.77e+21"),
        ("gpt-6.7b", 300e9, "1.20e+22"),
        ("gpt-13b", 300e9, "2.31e+22"),
        ("gpt-175b", 300e9, "3.14e+23"),
        # Grattafiori et al. 2024, §3.2.1
        ("llama-3-405b", 15.6e12, "3.8e+25"),
    ],
)
def test_the_flops_of_a_whole_training_round_to_those_published(name, tokens, published):
    """Both count six for each weight and token, and no attention: 12·L·h·s a token of ours is left out."""
    spec = PRESETS[name]
    without_attention = 3 * _forward(spec, 1, 1024) // 1024 - 12 * spec.layers * spec.hidden * 1024
    digits = len(published.partition("e")[0].partition(".")[2])
    assert f"{without_attention * tokens:.{digits}e}" == published


def test_fewer_key_value_heads_save_products_and_memory_but_no_attention():
    each = [dataclasses.replace(LLAMA, key_value_heads=m) for m in (4, 2, 1)]
    flops, saved = ([getattr(_cost(spec, blocks(spec)[1]), what) for spec in each] for what in ("flops", "saved"))
    tokens, width = 2 * 32, 32
    assert [a - b for a, b in pairwise(flops)] == [2 * tokens * 128 * 2 * m * width for m in (2, 1)]
    assert [a - b for a, b in pairwise(saved)] == [4 * tokens * 2 * m * width for m in (2, 1)]


@both
def test_dropout_of_what_is_added_keeps_nothing_for_the_backward(spec):
    dropping = dataclasses.replace(spec, hidden_dropout=0.1)
    for block in blocks(spec)[:2]:
        plain, dropped = _cost(spec, block), _cost(dropping, block)
        assert (dropped.flops, dropped.saved) == (plain.flops, plain.saved)
        assert dropped.forward.traffic > plain.forward.traffic
        assert dropped.forward.kernels > plain.forward.kernels


@both
def test_dropout_of_attention_keeps_the_probabilities_in_place_of_their_sums(spec):
    dropping = dataclasses.replace(spec, attention_dropout=0.1)
    plain, dropped = _cost(spec, blocks(spec)[1]), _cost(dropping, blocks(spec)[1])
    assert dropped.flops == plain.flops
    assert dropped.saved - plain.saved == 4 * 2 * 32 * spec.heads * (32 - 1)


@both
@pytest.mark.parametrize("kind", ["embedding", "layer"])
def test_costs_grow_in_step_with_the_batch(spec, kind):
    block = next(block for block in blocks(spec) if block.kind == kind)
    one, two = (_cost(spec, block, batch=batch) for batch in (1, 2))
    assert (two.flops, two.saved, two.forward.kernels) == (2 * one.flops, 2 * one.saved, one.forward.kernels)


@both
def test_wider_elements_double_what_a_layer_keeps_and_change_no_flops(spec):
    single, double = (_cost(spec, blocks(spec)[1], dtype=dtype) for dtype in (Dtype.FLOAT32, Dtype.FLOAT64))
    assert (double.saved, double.flops) == (2 * single.saved, single.flops)


@both
def test_16_bit_elements_halve_what_is_kept_but_sums_scales_and_the_loss_stay_in_float32(spec):
    """A head's log-softmax and count, each layer's log-sum-exp of a head and an RMS norm's scale."""
    tokens = 2 * 32
    norm = 1 if spec.family == "llama" else 0
    wide = {"layer": spec.heads + 2 * norm, "head": spec.vocabulary + norm}
    for block in blocks(spec)[1:]:
        single, half = (_cost(spec, block, dtype=dtype) for dtype in (Dtype.FLOAT32, Dtype.BFLOAT16))
        stays = 4 * tokens * wide[block.kind] + ((8 * tokens + 4) if block.kind == "head" else 0)
        assert half.saved - stays == (single.saved - stays) // 2, block.name
        assert half.flops == single.flops
    assert _cost(spec, blocks(spec)[1], dtype=Dtype.FLOAT16) == _cost(spec, blocks(spec)[1], dtype=Dtype.BFLOAT16)


@both
@pytest.mark.parametrize("tensor", [1, 2])
def test_the_ranks_of_a_tensor_group_share_the_flops(spec, tensor):
    for block in blocks(spec):
        assert tensor * _cost(spec, block, tensor=tensor).flops == _cost(spec, block).flops


def test_a_padded_vocabulary_is_computed_with_its_padding():
    odd = dataclasses.replace(TINY, vocabulary=97)
    head = blocks(odd)[-1]
    assert [_cost(odd, head, tensor=t).flops // (2 * 2 * 32 * 128) for t in (1, 2, 4)] == [97, 49, 25]


@pytest.mark.parametrize("tensor", [1, 2, 4])
def test_a_layer_of_a_tensor_rank_keeps_what_korthikanti_says_without_dropout(tensor):
    """s·b·h·(10 + 24/t) in 16-bit (Korthikanti et al. 2022, §4.2.1, eq. 2, without the core of attention).

    Two of the 10 are the masks of two dropouts. Beside it are statistics: mean and deviation of two norms, and the
    log-sum-exp of each of the rank's heads.
    """
    b, s, h = 2, 32, TINY.hidden
    saved = _cost(TINY, blocks(TINY)[1], b, s, tensor=tensor).saved
    assert saved == 2 * s * b * h * (8 + 24 // tensor) + 4 * s * b * (4 + TINY.heads // tensor)


@pytest.mark.parametrize("tensor", [2, 4])
def test_with_the_sequence_cut_a_rank_keeps_its_share_of_all_that_one_rank_keeps(tensor):
    """s·b·h·34/t (Korthikanti et al. 2022, §4.2.2, eq. 4, without the core of attention): ours, and the statistics."""
    whole = _cost(TINY, blocks(TINY)[1])
    cut = _cost(TINY, blocks(TINY)[1], tensor=tensor, cut=True)
    assert (tensor * cut.saved, tensor * cut.flops) == (whole.saved, whole.flops)


@both
def test_cutting_the_sequence_changes_no_flops_and_keeps_less(spec):
    for block in blocks(spec)[1:]:
        plain, cut = (_cost(spec, block, tensor=2, cut=cut) for cut in (False, True))
        assert cut.flops == plain.flops
        assert cut.saved < plain.saved


@both
@pytest.mark.parametrize("tensor", [1, 2])
def test_smoothed_labels_change_the_head_alone_and_keep_a_byte_of_each_target_on_one_rank(spec, tensor):
    sizes = Sizes(2, 32, Dtype.FLOAT32, tensor)
    for block in blocks(spec):
        plain, smoothed = (cost(spec, block, each) for each in (sizes, dataclasses.replace(sizes, smoothed=True)))
        if block.kind != "head":
            assert smoothed == plain
        else:
            assert (smoothed.flops, smoothed.saved) == (plain.flops, plain.saved + (2 * 32 if tensor == 1 else 0))
            assert smoothed.forward.traffic == plain.forward.traffic + 2 * 32 * 4 * spec.vocabulary // tensor
            assert smoothed.forward.kernels > plain.forward.kernels
