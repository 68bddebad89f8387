"""Placement: for each kind of state, cut or whole along the data axis, and the tier it lives on."""

from dataclasses import dataclass
from typing import Literal

Tier = Literal["device", "host", "disk"]


@dataclass(frozen=True, slots=True)
class State:
    """Where one kind of state lives: `cut` over the data axis or whole on each rank, on a tier."""

    cut: bool = False
    tier: Tier = "device"

    def __str__(self) -> str:
        return f"{'cut' if self.cut else 'whole'} on {self.tier}"


@dataclass(frozen=True, slots=True)
class Placement:
    """The table that the ZeRO family is (Rajbhandari et al. 2020, figure 1): one row for each kind of state."""

    params: State
    grads: State
    optimizer: State

    @property
    def cuts(self) -> bool:
        """Whether any kind of state is cut."""
        return self.params.cut or self.grads.cut or self.optimizer.cut

    def __str__(self) -> str:
        return f"params {self.params}, grads {self.grads}, optimizer {self.optimizer}"


def zero(stage: int) -> Placement:
    """The placement of ZeRO stage 0 (plain data parallelism), 1, 2 or 3, all on the device.

    >>> print(zero(2))
    params whole on device, grads cut on device, optimizer cut on device
    """
    return Placement(State(cut=stage >= 3), State(cut=stage >= 2), State(cut=stage >= 1))
