"""Lives: what many trials of a job do with their time, event after event."""

from dataclasses import dataclass

import numpy as np

from headway.advise.failures import Events, Flags, Reals
from headway.units import Seconds


@dataclass(frozen=True, eq=False)
class Lives:
    """Of [trials]: seconds by what they went into, which add up to the horizon, and the crashes.

    `useful`: work that is kept, in seconds at full speed. `rework`: work that a crash took, likewise. `degraded`: what
    was not done because a card had half its ports. `checkpoints`: standing still for them. `restart`: from a crash to
    the next step, and of moves. `stalls`: waiting for traffic to flow again. `moves`: their number.
    """

    useful: Reals
    rework: Reals
    restart: Reals
    checkpoints: Reals
    degraded: Reals
    stalls: Reals
    network_crashes: Reals
    other_crashes: Reals
    moves: Reals


def live(
    events: Events, *, horizon: Seconds, interval: Seconds, checkpoint: Seconds, restart: Seconds, slowdown: float
) -> Lives:
    """Lives of `horizon` seconds that save for `checkpoint` seconds after each `interval` of work.

    A crash takes the work since the last checkpoint that was finished. Between it and the end of its `wait` (nobody has
    noticed, or nobody has hosts) no other crash counts; one during the `restart` begins anew. A stall during another
    prolongs it; during a restart it is not felt. A move saves and starts again; a restart under way does for it.
    """
    now = _Now(len(events.times))
    period = interval + checkpoint
    columns = (events.times, events.crash, events.network, events.wait, events.slow, events.move)
    for times, crash, network, wait, slow, move in zip(*(column.T for column in columns), strict=True):
        happens = times < horizon
        if not happens.any():
            break
        now.work_until(np.minimum(times, horizon), interval, period, slowdown)
        now.slow = np.where(happens, slow, now.slow)
        now.crash(crash & happens & (now.time >= now.deaf), network, wait, restart)
        now.stall(~crash & happens & (wait > 0), wait)
        now.move(move & happens, checkpoint + restart)
    now.work_until(np.full(len(now.time), float(horizon)), interval, period, slowdown)
    parts = (now.rework, now.restart, now.saving, now.degraded, now.stalls, now.network, now.other, now.moves)
    return Lives(now.done - now.rework, *parts)


class _Now:
    """The state of all trials at `time`, changed in place: this is the inner loop."""

    def __init__(self, trials: int) -> None:
        """Every trial at the beginning of its first interval."""
        (
            self.time,
            self.ready,  # when it goes on working, if that is later
            self.deaf,  # until when crashes do not count
            self.place,  # seconds of working and saving since the last checkpoint
            self.unsaved,  # work since then, in seconds at full speed
            self.done,
            self.rework,
            self.restart,
            self.saving,
            self.degraded,
            self.stalls,
            self.network,
            self.other,
            self.moves,
        ) = np.zeros((14, trials))
        self.slow: Flags = np.zeros(trials, bool)
        self.down: Flags = np.zeros(trials, bool)  # what it waits for is a restart

    def work_until(self, times: Reals, interval: float, period: float, slowdown: float) -> None:
        """Wait as long as that lasts, then work and save."""
        waited = np.clip(self.ready - self.time, 0.0, times - self.time)
        self.restart += np.where(self.down, waited, 0.0)
        self.stalls += np.where(self.down, 0.0, waited)
        ran = times - self.time - waited
        saves, place = np.divmod(self.place + ran, period)
        had, has = np.minimum(self.place, interval), np.minimum(place, interval)
        worked = saves * interval + has - had
        missing = np.where(self.slow, slowdown, 0.0)
        self.saving += ran - worked
        self.degraded += missing * worked
        self.done += (1 - missing) * worked
        self.unsaved = np.where(saves > 0, 0.0, self.unsaved) + (1 - missing) * (has - np.where(saves > 0, 0.0, had))
        self.time, self.place = times, place

    def crash(self, hit: Flags, network: Flags, wait: Reals, restart: float) -> None:
        """Lose what is unsaved; be back after `wait` and the restart."""
        self.rework += np.where(hit, self.unsaved, 0.0)
        self.unsaved, self.place = np.where(hit, 0.0, self.unsaved), np.where(hit, 0.0, self.place)
        self.deaf = np.where(hit, self.time + wait, self.deaf)
        self.ready = np.where(hit, self.time + wait + restart, self.ready)
        self.down |= hit
        self.network += hit & network
        self.other += hit & ~network

    def stall(self, hit: Flags, wait: Reals) -> None:
        """Stand still for `wait`, unless a restart is under way."""
        hit = hit & ~(self.down & (self.time < self.ready))
        self.ready = np.where(hit, np.maximum(self.ready, self.time + wait), self.ready)
        self.down &= ~hit

    def move(self, hit: Flags, seconds: float) -> None:
        """Be away for `seconds` with nothing lost, unless a restart is under way; the next checkpoint stays due."""
        hit = hit & (self.time >= self.ready)
        self.ready = np.where(hit, self.time + seconds, self.ready)
        self.down |= hit
        self.unsaved = np.where(hit, 0.0, self.unsaved)
        self.moves += hit
