"""Row: what one rank does, in order, as a column of integers; its Actions are views."""

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from headway.schedule.action import NUMBERS, Action, Kind, from_code, unpack

Column = NDArray[np.int64]
Flags = NDArray[np.bool_]
Times = NDArray[np.float64]


class Coded:
    """What follows from a column of `Action.code`s, [n]."""

    __slots__ = ("codes",)

    codes: Column

    def __len__(self) -> int:
        return len(self.codes)

    def __hash__(self) -> int:
        return hash(self.codes.tobytes())

    @property
    def kinds(self) -> Column:
        """[n]: the number of each action's kind."""
        return unpack(self.codes)[0]

    @property
    def stages(self) -> Column:
        """[n]: stages, −1 for actions of the whole rank."""
        return unpack(self.codes)[1]

    @property
    def microbatches(self) -> Column:
        """[n]: micro-batches, −1 for actions of all of them."""
        return unpack(self.codes)[2]

    def of(self, *kinds: Kind) -> Flags:
        """[n]: whether each action is one of `kinds`."""
        return among(self.kinds, *kinds)


class Row(Coded, Sequence[Action]):
    """Actions in order. `codes`: [n] int64, `Action.code` of each; equal rows have equal codes."""

    __slots__ = ()

    def __init__(self, codes: Column) -> None:
        self.codes = codes

    @overload
    def __getitem__(self, place: int) -> Action: ...
    @overload
    def __getitem__(self, place: slice) -> "Row": ...
    def __getitem__(self, place: int | slice) -> "Action | Row":
        return Row(self.codes[place]) if isinstance(place, slice) else from_code(int(self.codes[place]))

    def __iter__(self) -> Iterator[Action]:
        return map(from_code, self.codes.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Row) and np.array_equal(self.codes, other.codes)

    __hash__ = Coded.__hash__

    def __repr__(self) -> str:
        return f"Row({','.join(map(str, self))})"


def row(actions: Iterable[Action]) -> Row:
    """Actions as a row.

    >>> from headway.schedule.action import parse
    >>> row([parse("0F0"), parse("0B0")])
    Row(0F0,0B0)
    """
    return Row(np.array([action.code for action in actions], np.int64))


def among(numbers: Column, *kinds: Kind) -> Flags:
    """Which of the numbers of kinds are those of `kinds`."""
    wanted = np.zeros(len(NUMBERS), bool)
    wanted[[NUMBERS[kind] for kind in kinds]] = True
    return wanted[numbers]


def last_before(places: Column, keys: Column, others: Column, theirs: Column, none: int = -1) -> Column:
    """[n]: for each place the largest of the `others` that is smaller and has its key; `none` where none has.

    `keys`: [n], numbers from −1 on; `theirs`: those of the others.

    >>> last_before(np.array([5, 9]), np.array([0, 1]), np.array([1, 4, 7]), np.array([0, 0, 0])).tolist()
    [4, -1]
    """
    if not len(others) or not len(places):
        return np.full(len(places), none)
    lowest = min(int(others.min()), int(places.min()))
    span = max(int(others.max()), int(places.max())) - lowest + 1
    ordered = np.sort(theirs * span + (others - lowest))
    wanted = keys * span + (places - lowest)
    at = np.searchsorted(ordered, wanted) - 1
    found = ordered[np.maximum(at, 0)]
    return np.where((at >= 0) & (found >= keys * span), found - keys * span + lowest, none)
