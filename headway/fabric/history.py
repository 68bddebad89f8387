"""History: which links of a fabric are dead at any moment, and the words for it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from headway.fabric.fabric import Fabric, Flags, Rates
from headway.fabric.fault import Fault, check, effect, links
from headway.units import Seconds

TOGETHER = 1e-9  # seconds: what happens within them is one event, whatever the order of sums


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """What is dead when, up to `end`.

    `states`: [L] flags of links that are dead together, each once, the first with none; `broken`: the words for each.
    `times`: [changes] when something breaks or comes back; `which`: the state before each of them, and the last one.
    """

    end: Seconds
    states: tuple[Flags, ...]
    broken: tuple[tuple[str, ...], ...]
    times: Rates
    which: tuple[int, ...]

    def at(self, moment: float, delay: float = 0.0) -> int:
        """The state that stood `delay` before a moment."""
        return self.which[int(np.searchsorted(self.times + delay, moment, side="right"))]


def history(fabric: Fabric, faults: Sequence[Fault], end: Seconds) -> History:
    """What the faults break until `end`. Raises PlanError where one breaks nothing, or two contradict."""
    check(fabric, faults)
    dead = [links(fabric, each) for each in faults]
    words = [f"{_name(each)} is down: {effect(fabric, gone)}" for each, gone in zip(faults, dead, strict=True)]
    downs = [each.downs(end) for each in faults]
    times = apart(moment for each in downs for pair in each for moment in pair if moment < end)
    known: dict[tuple[int, ...], int] = {(): 0}  # faults that are down together → state
    which = [0]
    for now in times.tolist():
        active = (
            number
            for number, each in enumerate(downs)
            if any(start <= now and now + TOGETHER < stop for start, stop in each)
        )
        which.append(known.setdefault(tuple(active), len(known)))
    none = np.zeros(fabric.num_links, bool)
    states = tuple(np.logical_or.reduce([none, *(dead[number] for number in active)]) for active in known)
    broken = tuple(tuple(words[number] for number in active) for active in known)
    return History(end, states, broken, times, tuple(which))


def apart(moments: Iterable[float]) -> Rates:
    """Moments in order, the last one of those that are one."""
    each = np.unique(np.array(list(moments), float))
    found: Rates = each[np.diff(each, append=np.inf) > TOGETHER]
    return found


def _name(fault: Fault) -> str:
    return fault.target if fault.kind in {"tor", "agg", "core"} else f"{fault.kind} {fault.target}"
