"""Figures of a step: tokens a second, model FLOPs a second and MFU."""

from dataclasses import dataclass

from headway.plan.plan import Plan
from headway.plan.work import model_flops_per_token
from headway.units import FlopsPerSecond, Seconds


@dataclass(frozen=True, slots=True)
class Throughput:
    """What a step time means. `peak`: the devices' FLOP/s together; `mfu`: `achieved` over it."""

    tokens_per_second: float
    achieved: FlopsPerSecond
    peak: FlopsPerSecond

    @property
    def mfu(self) -> float:
        """Model FLOPs utilisation (Chowdhery et al. 2022, appendix B)."""
        return self.achieved / self.peak


def throughput(plan: Plan, step: Seconds) -> Throughput:
    """The figures of a plan's step that takes `step` seconds."""
    tokens = plan.tokens_per_step / step
    achieved = FlopsPerSecond(model_flops_per_token(plan) * tokens)
    return Throughput(tokens, achieved, plan.cluster.peak(plan.layout.world, plan.train.precision))
