"""Action: one thing that a rank does, spelled as torch spells it (`2F0`: stage 2, forward, micro-batch 0)."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, overload

from headway.errors import ScheduleError

if TYPE_CHECKING:
    from headway.schedule.row import Column


class Kind(StrEnum):
    """What an action does; the value is its spelling."""

    FORWARD = "F"
    BACKWARD = "B"
    INPUT_BACKWARD = "I"
    WEIGHT_BACKWARD = "W"
    SEND_F = "SEND_F"  # the stage's output, to the next stage
    RECV_F = "RECV_F"  # the stage's input, from the stage before
    SEND_B = "SEND_B"  # the gradient of the stage's input, to the stage before
    RECV_B = "RECV_B"  # the gradient of the stage's output, from the next stage
    UNSHARD = "UNSHARD"  # gather a stage's parameters: once, or for the number-th time
    RESHARD = "RESHARD"  # let go of what UNSHARD has gathered
    REDUCE_GRAD = "REDUCE_GRAD"  # of one micro-batch, or of all together
    BEGIN = "BEGIN"  # count the tokens of the global batch
    STEP = "STEP"  # global norm, loss, stop flags; then the update
    USE = "USE"  # from here on a stage computes with the weight version whose number it has
    EVICT = "EVICT"  # the stage's activations of a micro-batch, to the paired rank
    RESTORE = "RESTORE"  # and back


COMPUTE = frozenset({Kind.FORWARD, Kind.BACKWARD, Kind.INPUT_BACKWARD, Kind.WEIGHT_BACKWARD})
GIVES_INPUT_GRADIENT = frozenset({Kind.BACKWARD, Kind.INPUT_BACKWARD})  # what the stage before waits for
GIVES_WEIGHT_GRADIENT = frozenset({Kind.BACKWARD, Kind.WEIGHT_BACKWARD})  # what ends a micro-batch: its activations go
NEEDS_PARAMETERS = frozenset({Kind.FORWARD, Kind.BACKWARD, Kind.INPUT_BACKWARD})  # a W has its I's activations alone
SENDS, RECEIVES = frozenset({Kind.SEND_F, Kind.SEND_B}), frozenset({Kind.RECV_F, Kind.RECV_B})
_OF_A_STAGE = frozenset({Kind.UNSHARD, Kind.RESHARD, Kind.REDUCE_GRAD})
_OF_A_RANK = frozenset({Kind.BEGIN, Kind.STEP})
_TEXT = re.compile(rf"(\d+)?({'|'.join(sorted(Kind, key=len, reverse=True))})(\d+)?")

KINDS: tuple[Kind, ...] = tuple(Kind)
NUMBERS = {kind: number for number, kind in enumerate(KINDS)}
KIND_BITS, STAGE_BITS, MICROBATCH_BITS = 5, 20, 38  # of the 63 of an action's number


@dataclass(frozen=True, slots=True)
class Action:
    """One action of a row. `stage` is None for those of the whole rank, `microbatch` for those of all micro-batches."""

    kind: Kind
    stage: int | None = None
    microbatch: int | None = None

    def __str__(self) -> str:
        stage = "" if self.stage is None else self.stage
        return f"{stage}{self.kind}{'' if self.microbatch is None else self.microbatch}"

    @property
    def code(self) -> int:
        """The whole action as one number; `from_code` reads it back."""
        stage, microbatch = (-1 if n is None else n for n in (self.stage, self.microbatch))
        return pack(NUMBERS[self.kind], stage, microbatch)


@overload
def pack(kind: int, stage: int, microbatch: int) -> int: ...
@overload
def pack(kind: "int | Column", stage: "Column", microbatch: "Column") -> "Column": ...
def pack(kind: "int | Column", stage: "int | Column", microbatch: "int | Column") -> "int | Column":
    """Numbers of kinds, stages and micro-batches (−1: none) as one number each; of ints or of arrays."""
    return kind | (stage + 1) << KIND_BITS | (microbatch + 1) << (KIND_BITS + STAGE_BITS)


@overload
def unpack(code: int) -> tuple[int, int, int]: ...
@overload
def unpack(code: "Column") -> tuple["Column", "Column", "Column"]: ...
def unpack(code: "int | Column") -> "tuple[int | Column, int | Column, int | Column]":
    """Number of the kind, stage and micro-batch (−1: none) of codes: the inverse of `pack`.

    >>> unpack(pack(3, 2, 70))
    (3, 2, 70)
    """
    stage = (code >> KIND_BITS & (1 << STAGE_BITS) - 1) - 1
    return code & (1 << KIND_BITS) - 1, stage, (code >> (KIND_BITS + STAGE_BITS)) - 1


def from_code(code: int) -> Action:
    """The action whose `code` is this.

    >>> str(from_code(parse("2F0").code))
    '2F0'
    """
    kind, stage, microbatch = unpack(code)
    return Action(KINDS[kind], None if stage < 0 else stage, None if microbatch < 0 else microbatch)


def parse(text: str) -> Action:
    """The action whose `str` is `text`.

    >>> str(parse("2SEND_F11"))
    '2SEND_F11'
    """
    match = _TEXT.fullmatch(text.strip())
    if not match:
        raise ScheduleError(f"'{text}' is not an action. Write stage, kind, micro-batch: 2F0, 0B3, 1SEND_F2, STEP.")
    kind = Kind(match[2])
    action = Action(kind, None if match[1] is None else int(match[1]), None if match[3] is None else int(match[3]))
    if (action.stage is None) != (kind in _OF_A_RANK):
        raise ScheduleError(f"'{text}': {kind} {'belongs to no stage' if kind in _OF_A_RANK else 'needs a stage'}.")
    if kind not in _OF_A_STAGE and (action.microbatch is None) != (kind in _OF_A_RANK):
        wants = "belongs to no single micro-batch" if action.microbatch is not None else "needs a micro-batch"
        raise ScheduleError(f"'{text}': {kind} {wants}.")
    for what, number, bits in (
        ("stage", action.stage, STAGE_BITS),
        ("micro-batch", action.microbatch, MICROBATCH_BITS),
    ):
        if number is not None and number + 1 >> bits:
            raise ScheduleError(f"'{text}': the number of a {what} is at most {2**bits - 2}.")
    return action
