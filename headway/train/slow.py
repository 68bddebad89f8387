"""Slow ranks: who needs longer for its own part of a step than the ranks with equal work."""

import statistics
import time
from collections.abc import Callable, Sequence

from headway.plan.plan import Plan
from headway.train.pulse import Pulse

WINDOW = 10  # steps between two comparisons; what is compared is their median, so that a single hiccup names nobody
SLOW = 1.5  # times the median of its peers from which a rank is a slow one


class Pace:
    """Seconds of a rank's own work in each step: all of it but the waits for others."""

    def __init__(self, pulse: Pulse, clock: Callable[[], float] = time.monotonic) -> None:
        self._pulse, self._clock = pulse, clock
        self._own: list[float] = []
        self._start = self._waited = 0.0

    def begin(self) -> None:
        """A step begins."""
        self._start, self._waited = self._clock(), self._pulse.waited

    def end(self) -> None:
        """It has ended."""
        self._own.append(self._clock() - self._start - (self._pulse.waited - self._waited))

    def typical(self) -> float:
        """The median since this was last asked."""
        own, self._own = self._own, []
        return statistics.median(own)


def slow_ranks(plan: Plan, own: Sequence[float]) -> dict[int, float]:
    """Rank → how many times as long as its peers it needs, of those that need SLOW times as long.

    `own`: seconds of each rank. Peers are the ranks with the same stages; with one data rank only, nobody has any.
    """
    found = {}
    for rank, seconds in enumerate(own):
        peers = [own[each] for each in plan.layout.group(rank, "data") if each != rank]
        if peers and seconds > SLOW * statistics.median(peers):
            found[rank] = seconds / statistics.median(peers)
    return found
