"""Boxes: ranges of flat buffers as rectangles of the model's tensors, each element once and padding never."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.model.block import Parameter, blocks
from headway.model.boxes import boxes, pieces
from headway.model.cut import held, part
from headway.model.spec import PRESETS
from headway.model.unit import Unit, units
from headway.units import Bytes, Dtype

SIZES = {"layers": 2, "hidden": 8, "heads": 4, "feed_forward": 12, "vocabulary": 97, "positions": 8}
MODELS = {
    "gpt": replace(PRESETS["gpt-tiny"], **SIZES, key_value_heads=4),
    "llama": replace(PRESETS["llama-tiny"], **SIZES, key_value_heads=4),
}


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_a_range_is_at_most_2n_minus_1_boxes_that_hold_its_elements_in_order(sizes, data):
    shape = tuple(sizes)
    start = data.draw(st.integers(0, math.prod(shape)))
    stop = data.draw(st.integers(start, math.prod(shape)))
    found = boxes(shape, start, stop)
    numbers = np.arange(math.prod(shape)).reshape(shape)
    inside = [numbers[tuple(slice(o, o + n) for o, n in zip(box.offset, box.shape, strict=True))] for box in found]
    assert [n for box in inside for n in box.ravel()] == list(range(start, stop))
    assert all(box.numel > 0 for box in found)
    assert len(found) <= 2 * len(shape) - 1


@pytest.mark.parametrize("rows", [1, 3, 6])
@pytest.mark.parametrize("ranks", [4, 5])
@pytest.mark.parametrize("columns", [(), (7,), (2, 3)])
def test_few_rows_over_more_ranks_are_each_held_once(rows, ranks, columns):
    shape = (rows, *columns)
    size, seen = math.prod(shape), np.zeros(shape, int)
    for rank in range(ranks):
        for box in boxes(shape, size * rank // ranks, size * (rank + 1) // ranks):
            seen[tuple(slice(o, o + n) for o, n in zip(box.offset, box.shape, strict=True))] += 1
    assert (seen == 1).all()


def _flat(unit, index, whole):
    """A rank's flat buffer, filled from the whole tensors; padding is -1."""
    parts = []
    for parameter in unit.parameters:
        mine = np.full(held(parameter, unit.tensor), -1)
        values = whole[parameter.name][part(parameter, unit.tensor, index)]
        mine[tuple(map(slice, values.shape))] = values
        parts.append(mine.ravel())
    return np.concatenate([*parts, np.full(5, -1)])  # a tail, as buffers that are cut evenly have


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("tensor", [1, 2, 4])
@pytest.mark.parametrize("ranks", [1, 3, 4])
@pytest.mark.parametrize("unit_bytes", [0, 10**6])
def test_windows_of_flat_buffers_give_every_element_of_every_tensor_and_no_padding(model, tensor, ranks, unit_bytes):
    spec = MODELS[model]
    made = units(spec, [blocks(spec)], unit_bytes=Bytes(unit_bytes), dtype=Dtype.FLOAT32, tensor=tensor)
    for unit in made:
        numbers = iter(range(10**9))
        whole = {p.name: np.array([next(numbers) for _ in range(p.numel)]).reshape(p.shape) for p in unit.parameters}
        seen = {name: np.zeros(values.shape, int) for name, values in whole.items()}
        for index in range(tensor):
            flat = _flat(unit, index, whole)
            for rank in range(ranks):
                window = slice(len(flat) * rank // ranks, len(flat) * (rank + 1) // ranks)
                for piece in pieces(unit, index, window):
                    assert window.start <= piece.at
                    assert piece.at + piece.box.numel <= window.stop
                    values = flat[piece.at : piece.at + piece.box.numel].reshape(piece.box.shape)
                    places = zip(piece.box.offset, piece.box.shape, strict=True)
                    where = tuple(slice(offset, offset + size) for offset, size in places)
                    assert np.array_equal(values, whole[piece.parameter.name][where])
                    seen[piece.parameter.name][where] += 1
        for parameter in unit.parameters:
            copies = tensor if parameter.cut is None else 1
            assert (seen[parameter.name] == copies).all(), parameter.name


def test_names_are_the_models_and_shapes_without_padding():
    fused = Parameter("tokens", (97, 8), "tokens", decayed=True, init="normal", cut=0)
    unit = Unit("tokens", (0,), (), (fused,), tensor=4)  # 25 rows each: the last has 22 and 3 of padding
    (last,) = pieces(unit, 3, slice(0, unit.numel))
    assert (last.box.offset, last.box.shape, last.at) == ((75, 0), (22, 8), 0)
    assert pieces(unit, 3, slice(22 * 8, unit.numel)) == ()
