"""Timeline: what a job gets of a fabric while things break and are repaired, phase by phase, and whether it lives."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite

import numpy as np

from headway.errors import PlanError
from headway.fabric.bench import Case, Measured, choose
from headway.fabric.collectives import Algorithm
from headway.fabric.convergence import Delays
from headway.fabric.fabric import Fabric
from headway.fabric.fault import LATEST, NEVER, Fault
from headway.fabric.history import history
from headway.fabric.reactions import Phase, Reactions
from headway.fabric.ways import ways
from headway.units import BytesPerSecond, Seconds


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """The phases of a job until the end of what is looked at, or its own. `healthy`: without faults.

    `dies`: when a collective has stood still for longer than its timeout (NEVER: it goes on); that may be after the
    last phase, which is one of standing still then.
    """

    phases: tuple[Phase, ...]
    healthy: Measured
    dies: Seconds

    @property
    def goes_on(self) -> bool:
        """Whether the job lives."""
        return not isfinite(self.dies)

    @property
    def still(self) -> Seconds:
        """How long it stands still in all."""
        return Seconds(sum(each.end - each.start for each in self.phases if not each.busbw))

    @property
    def mean(self) -> BytesPerSecond:
        """Bus bandwidth on average over the phases."""
        whole = self.phases[-1].end - self.phases[0].start
        return BytesPerSecond(sum(each.busbw * (each.end - each.start) for each in self.phases) / whole)


def timeline(
    fabric: Fabric,
    case: Case,
    faults: Sequence[Fault],
    delays: Delays,
    until: Seconds,
    seed: int,
    algorithm: Algorithm | None = None,
) -> Timeline:
    """The time line of a job that repeats the case's collective, from 0 to `until`, under the hashes of `seed`.

    From a fault until others act, connections keep their ways and those over dead links carry nothing; a channel with
    such a connection stands still. Then hosts leave their own dead ports, switches choose among what remains, and
    senders elsewhere choose ports, and paths where they predict them, that reach. A job keeps its algorithm. Raises
    PlanError where a fault breaks nothing, begins after `until`, or contradicts another.
    """
    if not 0 < until <= LATEST:
        raise PlanError(f"the time line ends at {until:g} s. Use one above 0 s, up to {LATEST:,.0f}.")
    for each in faults:
        if each.at >= until:
            raise PlanError(f"'{each}' begins after the time line, which ends at {until:g} s. Look at more seconds.")
    events = history(fabric, faults, Seconds(until + delays.collective_timeout))
    play = Reactions(fabric, case, choose(ways(fabric), case, algorithm), seed, delays, events)
    healthy = play.phase(Seconds(-1.0), Seconds(0.0)).measured
    phases: list[Phase] = []
    since = NEVER  # when the collective last began to stand still
    for start, end in pairwise(play.moments()):
        if start >= until and not isfinite(since):
            break
        phase = play.phase(start, end)
        since = NEVER if phase.busbw else min(since, start)
        phases.append(phase)
        if end - since > delays.collective_timeout:
            return _ended(phases, healthy, until, Seconds(since + delays.collective_timeout))
    return _ended(phases, healthy, until, NEVER)


def _ended(phases: Sequence[Phase], healthy: Measured, until: Seconds, dies: Seconds) -> Timeline:
    """Phases until `until` or death, neighbours that do not differ in one."""
    last = min(until, dies)
    found: list[Phase] = []
    for each in phases:
        if each.start >= last:
            break
        cut = replace(each, end=min(each.end, last))
        if found and _alike(found[-1], cut):
            cut = replace(found.pop(), end=cut.end)
        found.append(cut)
    return Timeline(tuple(found), healthy, dies)


def _alike(one: Phase, other: Phase) -> bool:
    same = (one.broken, one.waiting, one.still, one.busbw, one.slowest)
    if same != (other.broken, other.waiting, other.still, other.busbw, other.slowest):
        return False
    return np.array_equal(one.measured.carried.rates, other.measured.carried.rates)
