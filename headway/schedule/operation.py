"""Operations: actions, or the parts of them that concern one unit; and the lanes that work through them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import overload

import numpy as np

from headway.schedule import action as actions
from headway.schedule.action import Action, from_code
from headway.schedule.row import Coded, Column

TOTAL, UPDATE = "total", "update"  # the parts of a STEP


class Lane(StrEnum):
    """The in-order queues of a rank. A lane works through its operations one at a time, in row order."""

    COMPUTE = "compute"
    SEND = "send"
    RECEIVE = "receive"
    GATHER = "gather"  # over the data axis
    REDUCE = "reduce"  # over the data axis
    PAIR = "pair"  # activations to and from the paired rank
    SHARED = "shared"  # over the ranks that hold a shared weight
    WORLD = "world"  # over all ranks


LANES: tuple[Lane, ...] = tuple(Lane)


@dataclass(frozen=True, slots=True)
class Operation:
    """An action, or the `part` of it that concerns one unit (or one phase of a STEP)."""

    action: Action
    part: str = ""

    def __str__(self) -> str:
        return f"{self.action}/{self.part}" if self.part else str(self.action)


class Operations(Coded, Sequence[Operation]):
    """Operations as columns. `codes`: [n], `Action.code` of each; `parts`: [n], the place of its part in `names`."""

    __slots__ = ("names", "parts")

    def __init__(self, codes: Column, parts: Column, names: tuple[str, ...]) -> None:
        self.codes, self.parts, self.names = codes, parts, names

    @overload
    def __getitem__(self, place: int) -> Operation: ...
    @overload
    def __getitem__(self, place: "slice | Column") -> "Operations": ...
    def __getitem__(self, place: "int | slice | Column") -> "Operation | Operations":
        if isinstance(place, int | np.integer):
            return Operation(from_code(int(self.codes[place])), self.names[self.parts[place]])
        return Operations(self.codes[place], self.parts[place], self.names)

    def __iter__(self) -> Iterator[Operation]:
        for code, part in zip(self.codes.tolist(), self.parts.tolist(), strict=True):
            yield Operation(from_code(code), self.names[part])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Operations) and len(self) == len(other) and all(map(Operation.__eq__, self, other))

    __hash__ = Coded.__hash__

    @classmethod
    def of_codes(cls, codes: Column, names: tuple[str, ...]) -> "Operations":
        """Whole actions as operations."""
        return cls(codes, np.zeros_like(codes), names)

    @classmethod
    def each(cls, operations: Iterable[Operation], names: tuple[str, ...]) -> "Operations":
        """Operations as columns; `names` has all of their parts."""
        both = [(each.action.code, names.index(each.part)) for each in operations]
        codes, parts = np.array(both, np.int64).reshape(-1, 2).T
        return cls(codes, parts, names)

    @classmethod
    def joined(cls, pieces: Sequence["Operations"]) -> "Operations":
        """One after another; all have the same names."""
        codes, parts = (np.concatenate([getattr(piece, each) for piece in pieces]) for each in ("codes", "parts"))
        return cls(codes, parts, pieces[0].names)

    def inserted(self, places: Sequence[int], added: "Operations") -> "Operations":
        """With `added[k]` before the operation at `places[k]`."""
        both = ((self.codes, added.codes), (self.parts, added.parts))
        codes, parts = (np.insert(mine, places, theirs) for mine, theirs in both)
        return Operations(codes, parts, self.names)


@dataclass(frozen=True, slots=True)
class Part:
    """A unit whose parameters or gradients other ranks share, as far as the order of one stage matters.

    `users`: the units of the stage that compute with it, in forward order. `reduces`: whether its gradients are reduced
    here, after the last of its users has gone backward; `gathers`: whether its parameters are gathered before its first
    user goes forward. With `cut_grads` they are reduced for each micro-batch, and with `cut_params` gathered for each
    action and then released. `lane`: carries both where it is not the data axis that shares it.
    """

    name: str
    users: tuple[str, ...]
    reduces: bool = True
    gathers: bool = False
    cut_grads: bool = False
    cut_params: bool = False
    lane: Lane | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """The units of one stage: those that compute, in forward order, and those that are reduced or gathered."""

    computed: tuple[str, ...] = ()
    shared: tuple[Part, ...] = ()

    def __post_init__(self) -> None:
        assert all(set(part.users) <= set(self.computed) for part in self.shared), "such a reduction would be lost"


def parse(text: str) -> Operation:
    """The operation whose `str` is `text`.

    >>> str(parse("0B7/layers.3"))
    '0B7/layers.3'
    """
    action, _, part = text.partition("/")
    return Operation(actions.parse(action), part)
