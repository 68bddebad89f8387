"""Recompute: what the backward of a layer computes again, and what is kept for that in place of all."""

from dataclasses import dataclass
from typing import Literal, assert_never

from headway.errors import PlanError
from headway.model.pieces import Cost, Effort, Pieces
from headway.units import Bytes

Mode = Literal["none", "selective", "full"]


@dataclass(frozen=True, slots=True)
class Recompute:
    """What backwards compute again: of a `full` one the first `layers` of each stage, of a `selective` one all layers.

    Selective: the core of attention, scores, softmax and their product with the values (Korthikanti et al. 2022, §5).
    """

    mode: Mode = "none"
    layers: int = 0

    def __post_init__(self) -> None:
        if (self.layers < 1) != (self.mode == "none"):
            raise PlanError(f"recompute {self.mode} of {self.layers} layers is neither none nor some. Use 1 or more.")

    def __str__(self) -> str:
        if self.mode == "full":
            return f"full, of the first {self.layers} layers of each stage"
        return self.mode if self.mode == "none" else f"{self.mode}, of every layer's attention"


@dataclass(frozen=True, slots=True)
class Again:
    """What a layer's backward does first: `effort` to make again what was not kept.

    `saved`: bytes kept from the forward all the same; `held`: those made again, which are there until it ends.
    """

    effort: Effort
    saved: Bytes
    held: Bytes


def again(mode: Mode, pieces: Pieces, cost: Cost) -> Again:
    """What a layer of that `cost` computes again, with `pieces` as its sizes.

    With nothing but its input kept, a layer's whole forward is gone through again (Chen et al. 2016); where tensor
    ranks cut the sequence the input is a rank's part.
    """
    match mode:
        case "none":
            return Again(Effort(), cost.saved, Bytes(0))
        case "full":
            inputs = pieces.tokens * pieces.spec.hidden * pieces.size // pieces.cuts
            return Again(cost.forward, Bytes(inputs), Bytes(cost.saved - inputs))
        case "selective":
            core = pieces.attention(pieces.queries, pieces.keys)
            held = max(0, core.saved - pieces.tokens * (pieces.queries + 2 * pieces.keys) * pieces.size)
            return Again(core.forward, Bytes(cost.saved - held), Bytes(held))
        case _:
            assert_never(mode)
