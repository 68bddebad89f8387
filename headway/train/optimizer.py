"""AdamW over flat buffers, and the learning rate as a function of the step."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from headway.plan.job import Optimizer
from headway.train.flat import FlatUnit


def learning_rate(optimizer: Optimizer, step: int, steps: int) -> float:
    """The rate of step `step` (from 0) of `steps`: linear warm-up to `lr`, then half a cosine down to `min_lr`."""
    warmup = optimizer.warmup_steps
    if step < warmup:
        return optimizer.lr * (step + 1) / warmup
    progress = (step - warmup) / max(1, steps - warmup)
    low = min(optimizer.min_lr, optimizer.lr)
    return low + (optimizer.lr - low) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


class AdamW:
    """torch's fused AdamW on the slices of the units' flat buffers: few tensors, whatever the number of layers."""

    def __init__(self, units: Sequence[FlatUnit], settings: Optimizer) -> None:
        self.settings = settings
        groups: list[dict[str, object]] = []
        for decay in (True, False):
            slices = [(u, part) for u in units for part, decayed in u.slices() if decayed is decay]
            tensors = []
            for unit, part in slices:
                tensor = unit.params[part].requires_grad_()
                tensor.grad = unit.grads[part]
                tensors.append(tensor)
            if tensors:
                groups.append({"params": tensors, "weight_decay": settings.weight_decay if decay else 0.0})
        # a rank of empty stages has no parameters, which torch refuses
        groups = groups or [{"params": [torch.zeros(0)]}]
        self._adamw = torch.optim.AdamW(groups, lr=settings.lr, betas=settings.betas, eps=settings.eps, fused=True)

    def step(self, step: int, steps: int) -> None:
        """Update the parameters from the gradients, at the rate of `step`."""
        for group in self._adamw.param_groups:
            group["lr"] = learning_rate(self.settings, step, steps)
        self._adamw.step()

    def tensors(self) -> list[Tensor]:
        """The live state: both moments and the step counter of each slice."""
        return [value for state in self._adamw.state.values() for value in state.values() if isinstance(value, Tensor)]
