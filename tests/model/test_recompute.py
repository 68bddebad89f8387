"""Recompute: what a layer does again and what it keeps, against the papers' formulas."""

import pytest

from headway.errors import PlanError
from headway.model.block import blocks
from headway.model.cost import cost
from headway.model.pieces import Effort, Pieces
from headway.model.recompute import Recompute, again
from headway.model.sizes import Sizes
from headway.model.spec import PRESETS
from headway.stack.spec import HEADWAY
from headway.units import Dtype

B, S, SPEC = 2, 256, PRESETS["gpt-1.3b"]


def _layer(mode, attention=None, **cuts):
    sizes = Sizes(B, S, Dtype.BFLOAT16, attention=attention, **cuts)
    one = cost(SPEC, blocks(SPEC)[1], sizes)
    return one, again(mode, Pieces(SPEC, sizes, HEADWAY), one)


def test_nothing_is_done_again_where_all_is_kept():
    one, found = _layer("none")
    assert (found.effort, found.saved, found.held) == (Effort(), one.saved, 0)


@pytest.mark.parametrize(
    ("cuts", "parts"), [({}, 1), ({"tensor": 4}, 1), ({"tensor": 4, "sequence_parallel": True}, 4)]
)
def test_full_recompute_keeps_the_input_and_does_the_whole_forward_again(cuts, parts):
    """2·s·b·h bytes a layer (Korthikanti et al. 2022, table 2), of which ranks that cut it have a part each."""
    one, found = _layer("full", **cuts)
    assert found.saved == 2 * S * B * SPEC.hidden // parts
    assert found.effort == one.forward
    assert found.saved + found.held == one.saved


def test_selective_recompute_of_explicit_attention_saves_what_is_quadratic_in_the_sequence():
    """Of 5·a·s²·b bytes, those that Headway's own attention keeps: the softmax in 16 bits, 2·a·s²·b."""
    one, found = _layer("selective", attention="explicit")
    assert found.held == 2 * SPEC.heads * S**2 * B
    assert found.saved == one.saved - found.held
    assert sum(product.flops for product in found.effort.products) == 4 * B * S * S * SPEC.hidden


def test_selective_recompute_of_fused_attention_saves_its_sums_only():
    one, found = _layer("selective", attention="flash")
    assert found.held == B * S * SPEC.heads * 4
    assert found.held < 0.01 * one.saved
    assert found.effort.attention == 2 * B * S * S * SPEC.hidden


def test_none_is_of_no_layers_and_the_others_of_some():
    assert (str(Recompute()), str(Recompute("full", 3))) == ("none", "full, of the first 3 layers of each stage")
    with pytest.raises(PlanError, match="recompute full of 0 layers is neither none nor some"):
        Recompute("full")
    with pytest.raises(PlanError, match="recompute none of 2 layers"):
        Recompute("none", 2)
