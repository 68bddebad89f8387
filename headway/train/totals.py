"""Totals: what a STEP sums over all ranks, and each rank's part of the squared norm of the gradients."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from headway.train.flat import FlatUnit


@dataclass(slots=True)
class Totals:
    """What a STEP summed over all ranks: squared gradient norm, loss, stop votes and valid tokens."""

    squared_norm: float
    loss: float
    stop: bool
    tokens: float

    @property
    def finite(self) -> bool:
        """Whether neither the loss nor any gradient is NaN or infinite."""
        return self.squared_norm < float("inf") and abs(self.loss) < float("inf")


def squared_norm(units: Iterable[FlatUnit], device: torch.device) -> Tensor:
    """A rank's part of the squared norm, [] in float64: each parameter once, cut over the ranks that share it.

    Of what all tensor ranks hold, each counts its share, so that a NaN on any of them is seen by all ranks.
    """
    square = torch.zeros((), dtype=torch.float64, device=device)
    for unit in units:
        for held, copies in unit.unit.copies:
            first, end = max(unit.share.start, held.start), min(unit.share.stop, held.stop)
            if end > first:
                part = unit.own_grads[first - unit.own.start : end - unit.own.start]
                square += torch.linalg.vector_norm(part).double() ** 2 / copies
    return square
