"""Action: one thing that a rank does, spelled as torch spells it (`2F0`: stage 2, forward, micro-batch 0)."""

import re
from dataclasses import dataclass
from enum import StrEnum

from headway.errors import ScheduleError


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
    UNSHARD = "UNSHARD"
    RESHARD = "RESHARD"
    REDUCE_GRAD = "REDUCE_GRAD"
    BEGIN = "BEGIN"  # count the tokens of the global batch
    STEP = "STEP"  # global norm, loss, stop flags; then the update
    USE = "USE"  # from here on a stage computes with the weight version whose number it has
    EVICT = "EVICT"  # the stage's activations of a micro-batch, to the paired rank
    RESTORE = "RESTORE"  # and back


COMPUTE = frozenset({Kind.FORWARD, Kind.BACKWARD, Kind.INPUT_BACKWARD, Kind.WEIGHT_BACKWARD})
GIVES_INPUT_GRADIENT = frozenset({Kind.BACKWARD, Kind.INPUT_BACKWARD})  # what the stage before waits for
GIVES_WEIGHT_GRADIENT = frozenset({Kind.BACKWARD, Kind.WEIGHT_BACKWARD})  # what ends a micro-batch: its activations go
_OF_A_STAGE = frozenset({Kind.UNSHARD, Kind.RESHARD, Kind.REDUCE_GRAD})
_OF_A_RANK = frozenset({Kind.BEGIN, Kind.STEP})
_TEXT = re.compile(rf"(\d+)?({'|'.join(sorted(Kind, key=len, reverse=True))})(\d+)?")


@dataclass(frozen=True, slots=True)
class Action:
    """One action of a row. `stage` is None for those of the whole rank, `microbatch` for those of all micro-batches."""

    kind: Kind
    stage: int | None = None
    microbatch: int | None = None

    def __str__(self) -> str:
        stage = "" if self.stage is None else self.stage
        return f"{stage}{self.kind}{'' if self.microbatch is None else self.microbatch}"


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
    if (action.microbatch is None) != (kind in _OF_A_RANK | _OF_A_STAGE):
        wants = "belongs to no single micro-batch" if action.microbatch is not None else "needs a micro-batch"
        raise ScheduleError(f"'{text}': {kind} {wants}.")
    return action
