"""AdamW over flat buffers."""

from collections.abc import Sequence

import torch
from torch import Tensor

from headway.plan.job import Optimizer
from headway.train.flat import FlatUnit


class AdamW:
    """torch's fused AdamW on the slices of the units' flat buffers: few tensors, whatever the number of layers.

    It updates the master weights that the rank keeps, from which the parameters are rounded where they are of another
    type.
    """

    def __init__(self, units: Sequence[FlatUnit], settings: Optimizer) -> None:
        self._units = units
        self.updates = 0  # steps taken
        self._moments = {u.unit.name: (torch.zeros_like(u.master), torch.zeros_like(u.master)) for u in units}
        held: list[tuple[FlatUnit, slice, Tensor]] = []
        groups: list[dict[str, object]] = []
        for decay in (True, False):
            slices = [(u, part) for u in units for part, decayed in u.unit.groups(u.own) if decayed is decay]
            tensors = []
            for unit, part in slices:
                tensor = unit.master[part].requires_grad_()
                tensor.grad = unit.own_grads[part]
                tensors.append(tensor)
                held.append((unit, part, tensor))
            if tensors:
                groups.append({"params": tensors, "weight_decay": settings.weight_decay if decay else 0.0})
        # a rank of empty stages has no parameters, which torch refuses
        groups = groups or [{"params": [torch.zeros(0)]}]
        self._adamw = torch.optim.AdamW(groups, lr=settings.lr, betas=settings.betas, eps=settings.eps, fused=True)
        for unit, part, tensor in held:  # torch would make it at the first step, with nothing to load into before
            average, square = (moment[part] for moment in self.moments(unit))
            updates = torch.zeros((), device=tensor.device)
            self._adamw.state[tensor] = {"step": updates, "exp_avg": average, "exp_avg_sq": square}

    def step(self, rate: float) -> None:
        """Update the parameters from the gradients, at the learning rate `rate`."""
        for group in self._adamw.param_groups:
            group["lr"] = rate
        self._adamw.step()
        self.updates += 1
        for unit in self._units:
            unit.round()

    def moments(self, unit: FlatUnit) -> tuple[Tensor, Tensor]:
        """The live averages of a unit's gradients and of their squares, each as long as its master weights."""
        return self._moments[unit.unit.name]

    def resume(self, updates: int) -> None:
        """Go on as after so many steps; weights and moments are what was put into them."""
        self.updates = updates
        for state in self._adamw.state.values():
            state["step"].fill_(updates)

    def tensors(self) -> list[Tensor]:
        """The live state: both moments and the step counter of each slice, and master weights of their own."""
        states = [value for state in self._adamw.state.values() for value in state.values()]
        masters = [unit.master for unit in self._units if unit.has_master]
        return [value for value in (*states, *masters) if isinstance(value, Tensor)]
