"""Functions with a backward of their own: their values by hand, their gradients by differences, what they keep.

torch is imported inside, so that the default tests are collected without it.
"""

import math

import pytest

pytestmark = [pytest.mark.dist, pytest.mark.usefixtures("one_thread")]


def _random(*shape):
    import torch

    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64, requires_grad=True)


def _kept(function, *inputs):
    """Shapes that autograd keeps, leaves of the graph left out."""
    import torch

    shapes, leaves = [], {each.data_ptr() for each in inputs}

    def pack(tensor):
        if tensor.data_ptr() not in leaves:
            shapes.append(tuple(tensor.shape))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        function(*inputs)
    return shapes


def test_gradients_of_the_norm_and_of_swiglu_are_those_of_differences():
    import torch

    from headway.train.functions import rms_norm, swiglu

    assert torch.autograd.gradcheck(rms_norm, (_random(2, 3, 8), _random(8)))
    assert torch.autograd.gradcheck(swiglu, (_random(2, 3, 8),))


def test_the_norm_is_torchs_and_keeps_one_number_a_token():
    import torch

    from headway.train.functions import EPSILON, rms_norm

    x, weight = _random(2, 3, 8), _random(8)
    torch.testing.assert_close(rms_norm(x, weight), torch.nn.functional.rms_norm(x, (8,), weight, EPSILON))
    assert _kept(rms_norm, x, weight) == [(2, 3, 1)]


def test_swiglu_is_a_gates_silu_times_up_and_keeps_its_input_alone():
    import torch

    from headway.train.functions import swiglu

    x = _random(2, 3, 8)
    gate, up = x[..., :4], x[..., 4:]
    torch.testing.assert_close(swiglu(x), gate * torch.sigmoid(gate) * up)
    assert _kept(swiglu, x) == []


def test_rotation_turns_pairs_half_a_head_apart_by_their_position():
    """Su et al. 2021, equation 34, in the order of Hugging Face's weights; base 100 turns by 1 and 0.1 a token."""
    import torch

    from headway.train.functions import rotate_

    x = torch.tensor([1.0, 2, 3, 4, 9, 9], dtype=torch.float64).repeat(1, 3, 1)
    turned = rotate_(x.clone(), 1, 4, 100.0)[0]
    for position in range(3):
        fast, slow = position * 1.0, position * 0.1
        expected = [
            1 * math.cos(fast) - 3 * math.sin(fast),
            2 * math.cos(slow) - 4 * math.sin(slow),
            3 * math.cos(fast) + 1 * math.sin(fast),
            4 * math.cos(slow) + 2 * math.sin(slow),
            9,  # what follows the turned heads stays
            9,
        ]
        assert turned[position].tolist() == pytest.approx(expected, abs=1e-15)
    assert turned[1].tolist() == pytest.approx([-1.9841107, 1.5906747, 2.4623779, 4.1796835, 9, 9], abs=1e-7)


def test_products_of_turned_heads_depend_on_their_distance_alone():
    import torch

    from headway.train.functions import rotate_

    q, k = (_random(1, 1, width).detach().expand(1, 9, -1)[..., :8].clone() for width in (8, 9))
    scores = rotate_(q, 1, 8, 1e4)[0] @ rotate_(k, 1, 8, 1e4)[0].T
    for distance in range(-8, 9):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))


def test_rotation_in_place_has_the_gradients_of_differences_and_keeps_nothing():
    import torch

    from headway.train.functions import rotate_

    x = _random(2, 5, 20)
    assert torch.autograd.gradcheck(lambda x: rotate_(x * 1, 3, 4, 100.0), (x,))
    assert _kept(lambda x: rotate_(x.clone(), 3, 4, 100.0), x) == []


@pytest.mark.parametrize("shared", [1, 2, 4])
def test_attention_with_dropout_has_the_gradients_of_differences(shared):
    import torch

    from headway.train.dropout import WHOLE
    from headway.train.functions import dropped_attention

    q, k, v = _random(2, 4, 5, 6), _random(2, shared, 5, 6), _random(2, shared, 5, 6)
    assert torch.autograd.gradcheck(lambda q, k, v: dropped_attention(q, k, v, 0.3, 77, WHOLE), (q, k, v))
    assert _kept(lambda *qkv: dropped_attention(*qkv, 0.3, 77, WHOLE), q, k, v) == [(2, 4, 5, 5)]


@pytest.mark.parametrize("shared", [1, 2, 4])
def test_attention_that_drops_next_to_nothing_is_the_fused_one(shared):
    import torch

    from headway.train.dropout import WHOLE
    from headway.train.functions import dropped_attention

    q, k, v = _random(2, 4, 5, 6), _random(2, shared, 5, 6), _random(2, shared, 5, 6)
    fused = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    torch.testing.assert_close(dropped_attention(q, k, v, 1e-15, 77, WHOLE), fused)


def test_a_token_attends_to_none_that_follow():
    import torch

    from headway.train.dropout import WHOLE
    from headway.train.functions import dropped_attention

    q, k, v = _random(1, 2, 5, 4), _random(1, 2, 5, 4), _random(1, 2, 5, 4)
    out = dropped_attention(q, k, v, 0.3, 77, WHOLE)
    (gradient,) = torch.autograd.grad(out[:, :, 2].sum(), v)
    assert gradient[:, :, 3:].abs().max() == 0
    assert gradient[:, :, :3].abs().max() > 0
