"""Explain: where an estimated step goes and at what rates, and what would change if one thing were twice as fast."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from headway.cluster.spec import Device, Link
from headway.model.pieces import Effort
from headway.sim import pipeline, stages
from headway.sim.estimate import Estimate, estimate
from headway.sim.outline import Outline
from headway.sim.stages import Stages
from headway.units import Bytes, BytesPerSecond, Dtype, FlopsPerSecond, Seconds

FASTER = 2.0


@dataclass(frozen=True, slots=True)
class Part:
    """Seconds of a step that one thing takes, and their `share`.

    `rate`: what is reached meanwhile, in `unit` a second, and `of` that the device's peak; 0 where it has none.
    """

    name: str
    seconds: Seconds
    share: float
    rate: float = 0.0
    unit: str = ""
    of: float = 0.0


@dataclass(frozen=True, slots=True)
class Gain:
    """What a step would gain if one thing were twice as fast: seconds, and their share of the step."""

    name: str
    seconds: Seconds
    share: float


@dataclass(frozen=True, slots=True)
class Explained:
    """An estimated step of so many `seconds`: its parts, which add up to it, and gains, the largest first."""

    seconds: Seconds
    parts: tuple[Part, ...]
    gains: tuple[Gain, ...]


def explain(outline: Outline) -> Explained:
    """The estimated step of `outline`, explained."""
    found = estimate(outline)
    return Explained(found.seconds, parts(outline, found), gains(outline, found))


def parts(outline: Outline, found: Estimate) -> tuple[Part, ...]:
    """Where the step of the busiest pipeline rank goes.

    What the estimate takes together is told apart here: memory traffic from what each kernel adds, and of the bubble
    what of it is the messages'.
    """
    each, device = stages.stages(outline), outline.cluster.device
    efforts = _efforts(outline, each, found.busiest)
    seconds: dict[str, float] = {}
    for name, taken in found.parts.items():
        if name == "memory traffic":
            launches = min(taken, efforts.kernels * device.launch)
            seconds |= {name: taken - launches, "kernel launches": launches}
        elif name == "bubble" and outline.pipeline > 1:
            free = pipeline.play(outline, each, message=Seconds(0.0))
            idle = max(0.0, min(taken, free.makespan - free.busy[found.busiest]))
            seconds |= {"pipeline messages": taken - idle, name: idle}
        else:
            seconds[name] = taken
    products = sum(product.flops for product in efforts.products)
    rates: dict[str, tuple[float, str, float]] = {
        "products": (products, "FLOP", device.peak[outline.products]),
        "attention": (efforts.attention, "FLOP", device.peak[outline.dtype]),
        "memory traffic": (efforts.traffic, "B", 0.0),
    }
    return tuple(_part(name, taken, found.seconds, *rates.get(name, (0.0, "", 0.0))) for name, taken in seconds.items())


def gains(outline: Outline, found: Estimate) -> tuple[Gain, ...]:
    """What would change if one thing were twice as fast, each estimated anew with all else as it is."""
    # the stages stay where they are: a faster device would balance them anew
    fixed = replace(outline, layers=stages.stages(outline).layers)
    changed = {name: estimate(change(fixed)).seconds for name, change in _CHANGES.items()}
    changed["optimizer"] = Seconds(found.seconds - found.parts.get("optimizer", 0.0) / FASTER)
    each = [(name, found.seconds - seconds) for name, seconds in changed.items()]
    every = [
        Gain(name, Seconds(gained), gained / found.seconds) for name, gained in each if gained > 1e-6 * found.seconds
    ]
    return tuple(sorted(every, key=lambda gain: -gain.seconds))


def document(found: Explained) -> dict[str, object]:
    """As `--json` prints it."""
    return {
        "seconds": found.seconds,
        "parts": [
            {"name": p.name, "seconds": p.seconds, "share": p.share}
            | ({"rate": p.rate, "unit": f"{p.unit}/s"} if p.unit else {})
            | ({"of_peak": p.of} if p.of else {})
            for p in found.parts
        ],
        "twice_as_fast": [{"name": g.name, "gain_seconds": g.seconds, "gain": g.share} for g in found.gains],
    }


def _part(name: str, taken: float, whole: float, amount: float, unit: str, peak: float) -> Part:
    rate = amount / taken if amount and taken else 0.0
    return Part(name, Seconds(taken), taken / whole, rate, unit if rate else "", rate / peak if peak else 0.0)


def _efforts(outline: Outline, each: Stages, rank: int) -> Effort:
    """All that the blocks of a pipeline rank compute in a step, both ways; what is computed again left out."""
    found = Effort()
    for stage in outline.stages_of(rank):
        for kind, count in stages.held(each.layers, stage):
            cost = stages.cost_of(outline, kind)
            for way in (cost.forward, cost.backward):
                times = count * outline.microbatches
                products = tuple(replace(product, batch=product.batch * times) for product in way.products)
                found = Effort(
                    (*found.products, *products),
                    type(way.attention)(found.attention + times * way.attention),
                    Bytes(found.traffic + times * way.traffic),
                    found.kernels + times * way.kernels,
                )
    return found


def _of_device(change: Callable[[Device], Device]) -> Callable[[Outline], Outline]:
    return lambda outline: replace(outline, cluster=replace(outline.cluster, device=change(outline.cluster.device)))


def _faster(rates: dict[Dtype, FlopsPerSecond]) -> dict[Dtype, FlopsPerSecond]:
    return {dtype: FlopsPerSecond(rate * FASTER) for dtype, rate in rates.items()}


def _link(link: Link) -> Link:
    return replace(
        link,
        bandwidth=BytesPerSecond(link.bandwidth * FASTER),
        line=BytesPerSecond(link.line * FASTER),
        latency=Seconds(link.latency / FASTER),
        call=Seconds(link.call / FASTER),
    )


def _host(outline: Outline) -> Outline:
    faster = _of_device(lambda device: replace(device, launch=Seconds(device.launch / FASTER)))(outline)
    stack = outline.stack
    each, call, piped, rank = (
        Seconds(seconds / FASTER) for seconds in (stack.host, stack.host_call, stack.host_piped, stack.host_rank)
    )
    return replace(faster, stack=replace(stack, host=each, host_call=call, host_piped=piped, host_rank=rank))


_CHANGES: dict[str, Callable[[Outline], Outline]] = {
    "matrix products": _of_device(lambda device: replace(device, matmul=_faster(device.matmul))),
    "attention kernel": _of_device(
        lambda device: replace(device, attention=(device.attention[0] * FASTER, device.attention[1] * FASTER))
    ),
    "memory bandwidth": _of_device(
        lambda device: replace(device, memory_bandwidth=BytesPerSecond(device.memory_bandwidth * FASTER))
    ),
    "kernel launches and host": _host,
    "links inside a node": lambda outline: replace(
        outline, cluster=replace(outline.cluster, inside=_link(outline.cluster.inside))
    ),
    "network between nodes": lambda outline: replace(
        outline, cluster=replace(outline.cluster, between=_link(outline.cluster.between))
    ),
}
