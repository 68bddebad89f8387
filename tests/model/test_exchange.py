"""What tensor ranks exchange inside a block: calls and bytes, by hand."""

import pytest

from headway.model.block import blocks
from headway.model.exchange import Call, backward, forward
from headway.model.sizes import Sizes
from headway.model.spec import PRESETS
from headway.units import Dtype

B, S, H = 2, 32, 128
BOTH = pytest.mark.parametrize("spec", [PRESETS["gpt-tiny"], PRESETS["llama-tiny"]], ids=["gpt", "llama"])


def _calls(direction, spec, block, tensor=2, dtype=Dtype.FLOAT32, *, cut=False, smoothed=False):
    return direction(spec, block, Sizes(B, S, dtype, tensor, sequence_parallel=cut, smoothed=smoothed))


@BOTH
def test_a_layer_sums_two_activations_forward_and_two_gradients_backward(spec):
    """Shoeybi et al. 2019, §3: four all-reduces of s·b·h a layer."""
    layer, one = blocks(spec)[1], Call("all_reduce", B * S * H * 4)
    assert _calls(forward, spec, layer) == _calls(backward, spec, layer) == (one, one)


@BOTH
def test_the_embedding_sums_its_rows_and_nothing_backward(spec):
    embedding = blocks(spec)[0]
    assert _calls(forward, spec, embedding) == (Call("all_reduce", B * S * H * 4),)
    assert _calls(backward, spec, embedding) == ()


@BOTH
def test_the_loss_needs_three_numbers_a_token_and_no_logits(spec):
    head = blocks(spec)[-1]
    assert _calls(forward, spec, head) == (Call("all_reduce", B * S * 4), Call("all_reduce", 2 * B * S * 4))
    assert _calls(backward, spec, head) == (Call("all_reduce", B * S * H * 4),)


@BOTH
@pytest.mark.parametrize("dtype", [Dtype.FLOAT32, Dtype.BFLOAT16])
def test_smoothed_labels_need_a_fourth_number_a_token_in_the_same_calls(spec, dtype):
    head = blocks(spec)[-1]
    found = _calls(forward, spec, head, dtype=dtype, smoothed=True)
    assert found == (Call("all_reduce", B * S * 4), Call("all_reduce", 3 * B * S * 4))
    assert _calls(backward, spec, head, smoothed=True) == _calls(backward, spec, head)
    for block in blocks(spec)[:-1]:
        for direction in (forward, backward):
            assert _calls(direction, spec, block, smoothed=True) == _calls(direction, spec, block)


@BOTH
def test_one_rank_exchanges_nothing_and_more_ranks_no_larger_buffers(spec):
    for block in blocks(spec):
        for direction in (forward, backward):
            assert _calls(direction, spec, block, tensor=1) == ()
            assert _calls(direction, spec, block, tensor=4) == _calls(direction, spec, block, tensor=2)


@BOTH
def test_wider_elements_are_twice_the_bytes(spec):
    for block in blocks(spec):
        for direction in (forward, backward):
            single, double = (_calls(direction, spec, block, dtype=dtype) for dtype in (Dtype.FLOAT32, Dtype.FLOAT64))
            assert [2 * call.bytes for call in single] == [call.bytes for call in double]


@BOTH
def test_with_the_sequence_cut_sums_are_scattered_and_products_gather(spec):
    """Korthikanti et al. 2022, §4.2.2: an all-reduce becomes a reduce-scatter and an all-gather, of equal bytes.

    Of what a product took a rank keeps its part, so that it is gathered once more for the backward.
    """
    size = B * S * H * 4
    gather, scatter = Call("all_gather", size), Call("reduce_scatter", size)
    embedding, layer, head = blocks(spec)[0], blocks(spec)[1], blocks(spec)[-1]
    loss = (Call("all_reduce", B * S * 4), Call("all_reduce", 2 * B * S * 4))
    assert _calls(forward, spec, embedding, cut=True) == (scatter,)
    assert _calls(backward, spec, embedding, cut=True) == (gather,)
    assert _calls(forward, spec, layer, cut=True) == (gather, scatter) * 2
    assert _calls(backward, spec, layer, cut=True) == (gather, gather, scatter) * 2
    assert _calls(forward, spec, head, cut=True) == (gather, *loss)
    assert _calls(backward, spec, head, cut=True) == (gather, scatter)
