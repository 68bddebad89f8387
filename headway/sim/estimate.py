"""Estimate: seconds of a step and memory of a rank from an outline, in milliseconds: stages priced, a few periods played."""

from dataclasses import dataclass

from headway.sim.outline import Outline
from headway.units import Bytes, Seconds


@dataclass(frozen=True, slots=True)
class Estimate:
    """A predicted step.

    `parts`: seconds of the slowest rank's step by what they are for ("products", "attention", "memory traffic",
    "host", "recompute", "tensor exchange", "context exchange", "gathers", "gradients", "messages", "bubble",
    "optimizer"), which add up to `seconds`. `memory`: category → bytes on the rank with the most, at its peak;
    `worst_rank` that pipeline rank; `peak` its sum, and `room` what the device has.
    """

    seconds: Seconds
    parts: dict[str, Seconds]
    memory: dict[str, Bytes]
    worst_rank: int
    room: Bytes

    @property
    def peak(self) -> Bytes:
        """Bytes of the fullest rank at its peak."""
        return Bytes(sum(self.memory.values()))

    @property
    def fits(self) -> bool:
        """Whether the fullest rank's peak fits into its device."""
        return self.peak <= self.room


def estimate(outline: Outline) -> Estimate:
    """The predicted step of `outline`."""
    raise NotImplementedError
