"""AdamW over flat buffers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from headway.plan.job import Optimizer
from headway.train.flat import FlatUnit


@dataclass(slots=True)
class _Group:
    """Slices of one weight decay, as columns: what the kernel takes."""

    decay: float
    weights: list[Tensor] = field(default_factory=list)
    gradients: list[Tensor] = field(default_factory=list)
    averages: list[Tensor] = field(default_factory=list)
    squares: list[Tensor] = field(default_factory=list)
    updates: list[Tensor] = field(default_factory=list)  # how often each slice was updated, one number on its device


class AdamW:
    """torch's fused AdamW on the slices of the units' flat buffers: few tensors, whatever the number of layers.

    It updates the master weights that the rank keeps, from which the parameters are rounded where they are of another
    type. The kernel is that of `torch.optim.AdamW(fused=True)`, called as it calls it: its class would import torch's
    compiler, which takes every rank 2.9 seconds of processor time at its start (decision 0028).
    """

    def __init__(self, units: Sequence[FlatUnit], settings: Optimizer) -> None:
        self._units, self._settings = units, settings
        self.updates = 0  # steps taken
        self._moments = {u.unit.name: (torch.zeros_like(u.master), torch.zeros_like(u.master)) for u in units}
        self._groups = (_Group(settings.weight_decay), _Group(0.0))
        for unit in units:
            average, square = self.moments(unit)
            for part, decayed in unit.unit.groups(unit.own):
                group = self._groups[0 if decayed else 1]
                group.weights.append(unit.master[part])
                group.gradients.append(unit.own_grads[part])
                group.averages.append(average[part])
                group.squares.append(square[part])
                group.updates.append(torch.zeros((), device=average.device))

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Update the parameters from the gradients, at the learning rate `rate`."""
        beta1, beta2 = self._settings.betas
        for group in self._groups:
            if not group.weights:  # a rank of empty stages
                continue
            torch._foreach_add_(group.updates, 1)
            torch._fused_adamw_(
                group.weights,
                group.gradients,
                group.averages,
                group.squares,
                [],
                group.updates,
                lr=rate,
                beta1=beta1,
                beta2=beta2,
                weight_decay=group.decay,
                eps=self._settings.eps,
                amsgrad=False,
                maximize=False,
            )
        self.updates += 1
        for unit in self._units:
            unit.round()

    def moments(self, unit: FlatUnit) -> tuple[Tensor, Tensor]:
        """The live averages of a unit's gradients and of their squares, each as long as its master weights."""
        return self._moments[unit.unit.name]

    def counters(self) -> Iterable[Tensor]:
        """How often each slice was updated, one number on its device."""
        return (each for group in self._groups for each in group.updates)

    def resume(self, updates: int) -> None:
        """Go on as after so many steps; weights and moments are what was put into them."""
        self.updates = updates
        for each in self.counters():
            each.fill_(updates)

    def tensors(self) -> list[Tensor]:
        """The live state: both moments and the step counter of each slice, and master weights of their own."""
        moments = [each for group in self._groups for each in (*group.averages, *group.squares)]
        masters = [unit.master for unit in self._units if unit.has_master]
        return [*moments, *self.counters(), *masters]
