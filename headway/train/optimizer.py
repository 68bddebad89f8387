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
        groups: list[dict[str, object]] = []
        for decay in (True, False):
            slices = [(u, part) for u in units for part, decayed in u.unit.groups(u.own) if decayed is decay]
            tensors = []
            for unit, part in slices:
                tensor = unit.master[part].requires_grad_()
                tensor.grad = unit.own_grads[part]
                tensors.append(tensor)
            if tensors:
                groups.append({"params": tensors, "weight_decay": settings.weight_decay if decay else 0.0})
        # a rank of empty stages has no parameters, which torch refuses
        groups = groups or [{"params": [torch.zeros(0)]}]
        self._adamw = torch.optim.AdamW(groups, lr=settings.lr, betas=settings.betas, eps=settings.eps, fused=True)

    def step(self, rate: float) -> None:
        """Update the parameters from the gradients, at the learning rate `rate`."""
        for group in self._adamw.param_groups:
            group["lr"] = rate
        self._adamw.step()
        for unit in self._units:
            unit.round()

    def tensors(self) -> list[Tensor]:
        """The live state: both moments and the step counter of each slice, and master weights of their own."""
        states = [value for state in self._adamw.state.values() for value in state.values()]
        masters = [unit.master for unit in self._units if unit.has_master]
        return [value for value in (*states, *masters) if isinstance(value, Tensor)]
