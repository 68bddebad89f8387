"""Offload: what the lanes to host memory and disk take of a step, and what lies there (ZeRO-Offload, ZeRO-Infinity)."""

from headway.cluster.spec import Device
from headway.errors import PlanError
from headway.plan.memory import MIXED
from headway.sim.outline import Outline
from headway.units import Bytes, BytesPerSecond, Seconds

_ADAM = 28  # bytes of host memory that updating one parameter reads and writes: weight, moments, and the gradient


def sent(outline: Outline, numel: int, backwards: float) -> Seconds:
    """What of the gradients' way to the host is not behind `backwards`, the seconds of all backward passes of a rank.

    Of a part that is kept by no device every micro-batch's goes (Ren et al. 2021, §4.1), of whole gradients their sum.
    """
    times = outline.microbatches if outline.cuts("grads") > 1 else 1
    moved = times * (numel // outline.cuts("optimizer")) * MIXED.grads
    return Seconds(max(0.0, moved / _link(outline) - backwards))


def updated(outline: Outline, numel: int) -> Seconds:
    """The update in host memory, while parameters go back and states come from disk and go (Ren et al. 2021, §4.2)."""
    device, own = _checked(outline), numel // outline.cuts("optimizer")
    taken = [own * _ADAM / device.host_stream, own * MIXED.params / device.host_link]
    if outline.optimizer_on == "disk":
        taken.append(2 * own * MIXED.optimizer / device.disk)
    return Seconds(max(taken))


def fetched(outline: Outline, numel: int) -> Seconds:
    """A layer's own part of the parameters on its way to the device, for one pass (Rajbhandari et al. 2021, §5.2)."""
    if outline.params_on == "device":
        return Seconds(0.0)
    device = _checked(outline)
    rate = device.host_link if outline.params_on == "host" else min(device.host_link, device.disk)
    return Seconds(numel / outline.cuts("params") * MIXED.params / rate)


def away(outline: Outline, numel: int) -> dict[str, Bytes]:
    """Category → bytes in host memory or on disk, of a rank that holds `numel` parameters."""
    found: dict[str, int] = {}
    if outline.params_on != "device":
        found["parameters"] = numel // outline.cuts("params") * MIXED.params
    if outline.optimizer_on != "device":
        own = numel // outline.cuts("optimizer")
        found |= {"gradients": own * MIXED.grads, "optimizer": own * MIXED.optimizer}
    return {kind: Bytes(size) for kind, size in found.items()}


def _link(outline: Outline) -> BytesPerSecond:
    return _checked(outline).host_link


def _checked(outline: Outline) -> Device:
    device = outline.cluster.device
    if not (device.host_link and device.host_stream and device.disk):
        raise PlanError(
            f"{device.name} has no rates of host memory and disk, which offload needs. Add device.host_link, "
            f"host_stream and disk (bytes a second, each device's share)."
        )
    return device
