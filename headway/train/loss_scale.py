"""The loss scale of float16 training, which moves with the steps whose gradients overflow (no torch here)."""

from dataclasses import dataclass, replace

from headway.plan.job import Train
from headway.units import Dtype

INITIAL, FLOOR, HYSTERESIS = 2.0**16, 1.0, 2


@dataclass(frozen=True, slots=True)
class LossScale:
    """What the loss is multiplied by before the backward, and its gradients divided by after it.

    A `dynamic` one halves at every overflow once its `patience` is used up, and doubles after `window` steps in a row
    without one; `streak` counts those.
    """

    value: float = INITIAL
    dynamic: bool = True
    window: int = 1000
    streak: int = 0
    patience: int = HYSTERESIS

    @property
    def exhausted(self) -> bool:
        """Whether the next overflow would have to halve a scale that is at its floor."""
        return self.dynamic and self.value <= FLOOR and self.patience <= 1


def first(train: Train) -> LossScale:
    """The scale that a job starts with: 1 unless it trains in float16."""
    if train.precision is not Dtype.FLOAT16:
        return LossScale(1.0, dynamic=False)
    if train.loss_scale == "dynamic":
        return LossScale(window=train.loss_scale_window)
    return LossScale(train.loss_scale, dynamic=False)


def after(scale: LossScale, *, overflowed: bool) -> LossScale:
    """The scale of the next step: the rule that Megatron and DeepSpeed share.

    Only growth gives patience back, so overflows that come one soon after another halve the scale each.

    >>> after(after(LossScale(16.0), overflowed=True), overflowed=True).value
    8.0
    """
    if not scale.dynamic:
        return scale
    if overflowed:
        patience = max(scale.patience - 1, 0)
        value = scale.value if patience else max(scale.value / 2, FLOOR)
        return replace(scale, value=value, streak=0, patience=patience)
    if scale.streak + 1 == scale.window:
        return replace(scale, value=2 * scale.value, streak=0, patience=HYSTERESIS)
    return replace(scale, streak=scale.streak + 1)
