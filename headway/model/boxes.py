"""Boxes: a range of a flat buffer as rectangular pieces of the model's named tensors."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from headway.model.block import Parameter
from headway.model.cut import held, part
from headway.model.unit import Unit


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle of a tensor: where it begins along each dim, and its size along each dim."""

    offset: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Piece:
    """A box of a whole parameter, whose elements lie one after another in a unit's flat buffer from `at` on."""

    parameter: Parameter
    box: Box
    at: int


def boxes(shape: tuple[int, ...], start: int, stop: int) -> tuple[Box, ...]:
    """Elements `start` to `stop` - 1 of a row-major tensor of N dims as at most 2N - 1 boxes, in their order.

    The first row that is cut, the whole rows, the last row that is cut; and so on inside a row.

    >>> [(box.offset, box.shape) for box in boxes((4, 5), 3, 17)]
    [((0, 3), (1, 2)), ((1, 0), (2, 5)), ((3, 0), (1, 2))]
    """
    if start >= stop:
        return ()
    if len(shape) == 1:
        return (Box((start,), (stop - start,)),)
    row, inside = math.prod(shape[1:]), shape[1:]
    first, last = start // row, stop // row  # the row of `start`, and that of `stop`
    if first == last:
        return _in_row(first, boxes(inside, start - first * row, stop - first * row))
    found: tuple[Box, ...] = ()
    if start % row:
        found += _in_row(first, boxes(inside, start % row, row))
        first += 1
    if first < last:
        found += (Box((first, *(0 for _ in inside)), (last - first, *inside)),)
    return found + _in_row(last, boxes(inside, 0, stop % row))


def pieces(unit: Unit, index: int, window: slice) -> tuple[Piece, ...]:
    """What a window of tensor rank `index`'s flat buffer of a unit holds of the model's tensors, in its order.

    Padding belongs to no tensor, so it is in no piece: neither the rows that tensor ranks pad a parameter with, nor
    what lies behind the unit's last element.
    """
    return tuple(_pieces(unit, index, window))


def _pieces(unit: Unit, index: int, window: slice) -> Iterator[Piece]:
    shapes = [held(parameter, unit.tensor) for parameter in unit.parameters]
    offsets = accumulate(map(math.prod, shapes), initial=0)
    for parameter, shape, offset in zip(unit.parameters, shapes, offsets, strict=False):
        start, stop = max(window.start - offset, 0), min(window.stop - offset, math.prod(shape))
        whole = part(parameter, unit.tensor, index)
        for box in boxes(shape, start, stop):
            at, start = offset + start, start + box.numel
            real = tuple(
                min(begin + size, where.stop - where.start) - begin
                for begin, size, where in zip(box.offset, box.shape, whole, strict=True)
            )
            # only what is cut by rows is ever padded, and fewer rows of a box still lie one after another
            assert real[1:] == box.shape[1:]
            if real[0] > 0:
                placed = tuple(begin + where.start for begin, where in zip(box.offset, whole, strict=True))
                yield Piece(parameter, Box(placed, real), at)


def _in_row(row: int, inside: tuple[Box, ...]) -> tuple[Box, ...]:
    return tuple(Box((row, *box.offset), (1, *box.shape)) for box in inside)
