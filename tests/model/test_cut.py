"""The cut over tensor ranks: every element once, alike on all ranks, and what cannot be cut."""

import dataclasses
import itertools

import pytest

from headway.errors import PlanError
from headway.model.block import blocks, shared
from headway.model.cut import check, held, num_held, part, vocabulary
from headway.model.spec import PRESETS

TINY, LLAMA = PRESETS["gpt-tiny"], PRESETS["llama-tiny"]
ODD = dataclasses.replace(TINY, vocabulary=97)
SPECS = pytest.mark.parametrize("spec", [TINY, ODD, LLAMA], ids=["gpt", "gpt of 97 tokens", "llama"])


def _parameters(spec):
    return [*(p for block in blocks(spec) for p in block.parameters), *shared(spec)]


def _named(spec):
    return {p.name: p for p in _parameters(spec)}


@SPECS
@pytest.mark.parametrize("tensor", [1, 2, 4])
def test_the_ranks_parts_are_the_whole_tensor_each_element_once(spec, tensor):
    for parameter in _parameters(spec):
        parts = [part(parameter, tensor, i) for i in range(tensor)]
        if parameter.cut is None:
            assert parts == [tuple(slice(0, n) for n in parameter.shape)] * tensor
            continue
        ranges = [list(range(each[parameter.cut].start, each[parameter.cut].stop)) for each in parts]
        assert list(itertools.chain(*ranges)) == list(range(parameter.shape[parameter.cut]))


@SPECS
@pytest.mark.parametrize("tensor", [2, 4])
def test_all_ranks_hold_the_same_shape_and_only_a_vocabulary_is_padded(spec, tensor):
    for parameter in _parameters(spec):
        shape = held(parameter, tensor)
        for index in range(tensor):
            sizes = [each.stop - each.start for each in part(parameter, tensor, index)]
            padded = [dim for dim, (mine, n) in enumerate(zip(shape, sizes, strict=True)) if mine != n]
            assert padded in ([], [0])
            assert not padded or parameter.leaf in {"tokens", "output"}


def test_a_vocabulary_of_97_is_padded_to_a_multiple_of_the_ranks():
    tokens = shared(ODD)[0]
    assert [vocabulary(ODD, t) for t in (1, 2, 4)] == [97, 49, 25]
    assert held(tokens, 4) == (25, 128)
    assert [part(tokens, 4, i)[0] for i in range(4)] == [slice(0, 25), slice(25, 50), slice(50, 75), slice(75, 97)]
    assert num_held([tokens], 4) == 25 * 128


def test_a_rank_beyond_the_last_row_of_a_vocabulary_holds_padding_alone():
    tokens = shared(dataclasses.replace(TINY, vocabulary=5))[0]
    assert [part(tokens, 4, i)[0] for i in range(4)] == [slice(0, 2), slice(2, 4), slice(4, 5), slice(5, 5)]


def test_products_alternate_between_cut_outputs_and_cut_inputs():
    """Shoeybi et al. 2019, §3: so that one sum follows two products. Norms, positions and added biases are whole."""
    cut = {name.removeprefix("layers.0."): p.cut for name, p in _named(TINY).items() if name.startswith("layers.0.")}
    columns = [f"attention.{x}.{kind}" for x in "qkv" for kind in ("weight", "bias")]
    columns += ["feed_forward.up.weight", "feed_forward.up.bias"]
    assert {name for name, dim in cut.items() if dim == 0} == set(columns)
    assert {name for name, dim in cut.items() if dim == 1} == {"attention.output.weight", "feed_forward.down.weight"}
    assert _named(TINY)["embedding.positions.weight"].cut is None
    assert _named(TINY)["embedding.tokens.weight"].cut == _named(LLAMA)["head.output.weight"].cut == 0
    assert _named(LLAMA)["layers.0.feed_forward.gate.weight"].cut == 0


@pytest.mark.parametrize(
    ("spec", "tensor", "says"),
    [
        (TINY, 3, "parallel.tensor 3 does not divide model.heads 4 (leaves 1) and model.key_value_heads 4 (leaves 1)"),
        (TINY, 3, "Use parallel.tensor 1 or 2 or 4."),
        (LLAMA, 4, "does not divide model.key_value_heads 2 (leaves 2): each tensor rank has whole heads"),
        (LLAMA, 4, "Use parallel.tensor 1 or 2."),
        (dataclasses.replace(TINY, feed_forward=510), 4, "model.feed_forward 510 (leaves 2)"),
        (dataclasses.replace(TINY, feed_forward=510), 4, "Use parallel.tensor 1 or 2, or model.feed_forward 512."),
    ],
)
def test_what_does_not_divide_is_refused_with_the_numbers_and_what_would_work(spec, tensor, says):
    with pytest.raises(PlanError) as error:
        check(spec, tensor)
    assert says in str(error.value)


def test_what_divides_is_not_refused():
    for spec, tensor in ((TINY, 4), (LLAMA, 2), (ODD, 2), (PRESETS["gpt-175b"], 8), (PRESETS["llama-3-405b"], 8)):
        check(spec, tensor)
