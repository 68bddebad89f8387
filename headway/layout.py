"""Layout: named axes → ranks, coordinates and groups."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from headway.errors import PlanError

Axis = Literal["tensor", "context", "data", "pipeline"]
AXES: tuple[Axis, ...] = get_args(Axis)  # fastest first: Megatron's order


@dataclass(frozen=True, slots=True)
class Layout:
    """Who sits where: the size of each axis, fastest first. Rank r's coordinates are its digits in that mixed base."""

    sizes: tuple[tuple[Axis, int], ...]

    def __post_init__(self) -> None:
        if sorted(axis for axis, _ in self.sizes) != sorted(AXES):
            raise PlanError(f"a layout names each axis once ({', '.join(AXES)}), got '{self}'.")
        for axis, size in self.sizes:
            if size < 1:
                raise PlanError(f"parallel.{axis} must be at least 1, got {size}.")

    def __str__(self) -> str:
        return " ".join(f"{axis}={size}" for axis, size in self.sizes)

    @property
    def world(self) -> int:
        """Number of ranks: the product of the sizes."""
        return math.prod(size for _, size in self.sizes)

    def size(self, axis: Axis) -> int:
        """Number of ranks along `axis`."""
        return dict(self.sizes)[axis]

    def coord(self, rank: int) -> dict[Axis, int]:
        """Coordinates of `rank`, one for each axis.

        >>> layout(data=2, pipeline=2).coord(3)
        {'tensor': 0, 'context': 0, 'data': 1, 'pipeline': 1}
        """
        coords: dict[Axis, int] = {}
        for axis, size in self.sizes:
            rank, coords[axis] = divmod(rank, size)
        return coords

    def rank(self, coord: dict[Axis, int]) -> int:
        """The rank at `coord` (axes that are not named are 0): the inverse of `coord`.

        >>> layout(data=2, pipeline=2).rank({"pipeline": 1})
        2
        """
        rank, stride = 0, 1
        for axis, size in self.sizes:
            rank += coord.get(axis, 0) * stride
            stride *= size
        return rank

    def group(self, rank: int, *axes: Axis) -> tuple[int, ...]:
        """Ranks that differ from `rank` only along `axes`, in rank order, `rank` included."""
        return self.along(rank, {axis: range(self.size(axis)) for axis in axes})

    def along(self, rank: int, places: Mapping[Axis, Sequence[int]]) -> tuple[int, ...]:
        """Ranks at `places` (rising) of some axes and where `rank` is on the others, in rank order.

        >>> layout(data=2, pipeline=3).along(1, {"pipeline": (0, 2)})
        (1, 5)
        """
        base, stride, offsets = 0, 1, [0]
        for axis, size in self.sizes:
            rank, place = divmod(rank, size)
            if axis in places:
                offsets = [each * stride + offset for each in places[axis] for offset in offsets]
            else:
                base += place * stride
            stride *= size
        return tuple(base + offset for offset in offsets)

    def groups(self, *axes: Axis) -> tuple[tuple[int, ...], ...]:
        """All groups along `axes`: a partition of the world, in order of their first rank.

        >>> layout(data=2, pipeline=2).groups("data")
        ((0, 1), (2, 3))
        """
        seen: dict[tuple[int, ...], list[int]] = {}
        for rank in range(self.world):
            key = tuple(index for axis, index in self.coord(rank).items() if axis not in axes)
            seen.setdefault(key, []).append(rank)
        return tuple(tuple(group) for group in seen.values())


def layout(*, tensor: int = 1, context: int = 1, data: int = 1, pipeline: int = 1) -> Layout:
    """A layout in the usual order of the axes."""
    return Layout((("tensor", tensor), ("context", context), ("data", data), ("pipeline", pipeline)))


def parse(text: str) -> Layout:
    """The layout whose `str` is `text`.

    >>> parse("tensor=1 context=1 data=2 pipeline=4").world
    8
    """
    sizes: list[tuple[Axis, int]] = []
    for word in text.split():
        match = re.fullmatch(rf"({'|'.join(AXES)})=(\d+)", word)
        if not match:
            raise PlanError(f"'{word}' is not an axis with its size. Write them like data=2; known: {', '.join(AXES)}.")
        axis: Axis = next(axis for axis in AXES if axis == match[1])
        sizes.append((axis, int(match[2])))
    return Layout(tuple(sizes))
