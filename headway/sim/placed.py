"""Placed: a plan's ranks on a fabric in one order of the axes or another, and what of a step each sends how far."""

from dataclasses import dataclass, replace

import numpy as np

from headway.fabric.connect import Connecting
from headway.fabric.fabric import Column
from headway.layout import AXES, Axis, Layout
from headway.sim import network, sent
from headway.sim.network import FREE, Network, Seated
from headway.sim.sent import Sent
from headway.sim.simulate import step_seconds
from headway.units import Seconds

_OTHER: tuple[Axis, ...] = ("tensor", "context", "pipeline", "data")  # data ranks furthest apart, a pipeline together


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A plan on a fabric: what it sends there, the step's `seconds`, and those of the closed form.

    So many `hosts` in `segments` and `pods`; `fewest`: segments and pods that as many active hosts need.
    """

    seated: Seated
    over: Network
    sent: tuple[Sent, ...]
    seconds: Seconds
    closed: Seconds
    hosts: int
    segments: int
    pods: int
    fewest: tuple[int, int]

    @property
    def order(self) -> str:
        """Axes with more than one rank, fastest first."""
        return ", ".join(axis for axis, size in self.seated.plan.layout.sizes if size > 1)


def placed(seated: Seated, how: Connecting, seeds: int) -> Placed:
    """What a plan sends where it is seated, over so many `seeds` of hashes and source ports."""
    over = network.contended(seated, how, seeds)
    fabric, cards = seated.fabric, seated.cards
    hosts = np.unique(cards // fabric.gpus_per_host)
    heads = hosts * fabric.gpus_per_host
    segments, pods = (len(np.unique(column[heads])) for column in (fabric.segment, fabric.pod))
    active = np.flatnonzero(~fabric.backup)[:: fabric.gpus_per_host]
    fewest = [_fewest(column[active], len(hosts)) for column in (fabric.segment, fabric.pod)]
    seconds, closed = (step_seconds(seated.plan, each) for each in (over, FREE))
    every = sent.sent(seated, over)
    return Placed(seated, over, every, seconds, closed, len(hosts), segments, pods, (fewest[0], fewest[1]))


def reordered(seated: Seated) -> Seated | None:
    """On the same hosts with data ranks outside of pipelines, or inside where they are outside; None: nothing moves."""
    sizes = seated.plan.layout.sizes
    apart = [axis for axis, size in sizes if size > 1 and axis in {"data", "pipeline"}]
    if len(apart) < 2:
        return None
    axes = _OTHER if apart == ["data", "pipeline"] else AXES
    layout = Layout(tuple((axis, dict(sizes)[axis]) for axis in axes))
    return replace(seated, plan=replace(seated.plan, layout=layout))


def advice(one: Placed, other: Placed | None) -> str:
    """What crosses pods, or segments where there is one pod; and the order of axes in which less would, if any."""
    if one.segments == 1:
        return "All ranks are in one segment: no byte passes an Agg."
    place = "pods" if one.pods > 1 else "segments"
    far = [each.purpose for each in one.sent if getattr(each, place)]
    said = f"Across {place}: {', '.join(far) or 'nothing'}."
    ours, theirs = (sum(getattr(each, place) for each in of.sent) if of else 0 for of in (one, other))
    if other and theirs < ours:
        said += f" In the order {other.order}, {theirs / ours:.1%} of these bytes would cross {place}."
    return said


def _fewest(of_host: Column, hosts: int) -> int:
    """How many segments (or pods) hold so many hosts, the largest first."""
    room = np.cumsum(np.sort(np.unique(of_host, return_counts=True)[1])[::-1])
    return int(np.searchsorted(room, hosts)) + 1
