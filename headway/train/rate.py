"""The learning rate as a function of the step: warm-up, then one of four shapes (no torch here)."""

import math
from typing import assert_never

from headway.plan.job import Optimizer


def learning_rate(optimizer: Optimizer, step: int, steps: int) -> float:
    """The rate of step `step` (from 0) of `steps`.

    Linear warm-up to `lr`, so that step `warmup_steps` - 1 is the first at `lr`. Then `cosine` (half a cosine, as in
    Loshchilov and Hutter 2017, §3) and `linear` fall to `min_lr` at step `steps`; `wsd` stays at `lr` and falls
    linearly to `min_lr` over the last `decay_steps` (warm-up, stable, decay: Hu et al. 2024, MiniCPM, §4); `constant`
    stays. Nothing falls where `min_lr` is above `lr`.

    >>> wsd = Optimizer(lr=1.0, min_lr=0.0, schedule="wsd", warmup_steps=2, decay_steps=2)
    >>> [learning_rate(wsd, step, 6) for step in range(6)]
    [0.5, 1.0, 1.0, 1.0, 1.0, 0.5]
    """
    warmup, low = optimizer.warmup_steps, min(optimizer.min_lr, optimizer.lr)
    if step < warmup:
        return optimizer.lr * (step + 1) / warmup
    match optimizer.schedule:
        case "constant":
            left = 1.0
        case "linear":
            left = 1 - _progress(step, warmup, steps)
        case "cosine":
            left = 0.5 * (1 + math.cos(math.pi * _progress(step, warmup, steps)))
        case "wsd":
            left = 1 - _progress(step, max(warmup, steps - optimizer.decay_steps), steps)
        case _:
            assert_never(optimizer.schedule)
    return low + (optimizer.lr - low) * left


def _progress(step: int, first: int, end: int) -> float:
    """How far `step` is from `first` to `end`, from 0 to 1."""
    return min(1.0, max(0.0, (step - first) / max(1, end - first)))
