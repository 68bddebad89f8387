"""Failures of many trials: when each thing breaks, whether that kills the job, and when a card has half its ports."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from headway.advise.assumptions import MONTH, Assumptions
from headway.advise.exposure import Exposure
from headway.errors import PlanError
from headway.units import Seconds

Flags = NDArray[np.bool_]
Reals = NDArray[np.float64]
NODE, LINK, TOR = 0, 1, 2  # kinds of what fails
MOST = 10_000_000  # events of all trials: half a gigabyte


@dataclass(frozen=True, eq=False)
class Events:
    """What happens in each of [trials], in order of time: [trials, events], with times of ∞ behind the last.

    `crash`: the job dies; `network`: of a link or a ToR. `wait`: seconds until a crash is noticed and hosts to go on
    with are there, or, of what is no crash, until traffic flows again. `slow`: behind it a card has half its ports.
    `move`: the job saves and starts again, without a host whose card has half its ports.
    """

    times: Reals
    crash: Flags
    network: Flags
    wait: Reals
    slow: Flags
    move: Flags


def draw(job: Exposure, given: Assumptions, horizon: Seconds, trials: int, rng: Generator) -> Events:
    """Failures of `trials` lives of `horizon` seconds.

    Each thing fails at its rate at any time (Poisson), whatever is broken already. Which of its like it is decides only
    whether it meets what is down: by symmetry that is a draw (`fatal`), and no names are kept.
    """
    _check_number(job, given, horizon, trials)
    gpus, hosts, links, tors, flaps = rng.spawn(5)  # so that one rate changes no other failure
    spare = given.spare_hosts(job.hosts)
    wait = given.host_repair if spare < 1 else 0.0
    parts = [
        _nodes(gpus, job.gpus * given.gpu_rate, horizon, trials, wait),
        _nodes(hosts, job.hosts * given.host_rate, horizon, trials, wait),
    ]
    broken = (
        _outages(LINK, links, job.links * given.link_rate, horizon, trials, given.link_repair),
        _outages(TOR, tors, job.tors * given.tor_rate, horizon, trials, given.tor_repair),
    )
    for each, needed in zip(broken, (1, job.hosts_under_tor), strict=True):
        replaced = spare >= needed
        if job.homes == 1:
            parts.append(_single(each, given.collective_timeout, replaced=replaced))
        else:
            leaves = each.kind == LINK and given.moves(job.hosts)
            parts += [
                _downs(each, given.collective_timeout, replaced=replaced),
                _ups(each, given.move_after if leaves else None),
            ]
    if job.homes == 1:
        parts.append(_flaps(_times(flaps, job.links * given.flap_rate, horizon, trials), given.flap_stall))
    return _merged(parts, job)


@dataclass(frozen=True, eq=False)
class _Part:
    """Events of one kind, [trials, n], not in order yet; `step`: of how many things more are down behind them."""

    kind: int
    times: Reals
    wait: Reals
    crash: Flags | None = None
    step: int = 0
    luck: Reals | None = None
    move: Flags | None = None


@dataclass(frozen=True, eq=False)
class _Broken:
    """Links or ToRs that break, [trials, n]: when, for how long, and a number below 1 that is drawn for each."""

    kind: int
    times: Reals
    repair: Reals
    luck: Reals


def fatal(job: Exposure, links_down: Reals, tors_down: Reals) -> tuple[Reals, Reals]:
    """The chance that a card loses its other port when a link breaks, and when a ToR does, beside what is down.

    A link's card has another link, down with links_down / links, and that goes to a ToR, down with tors_down / tors.
    A ToR's cards have as many other links, each of those that are down among them with 1 / tors.
    """
    to_tor = tors_down / job.tors
    link = np.minimum(1.0, links_down / job.links + to_tor)
    tor = np.minimum(1.0, 1 - (1 - 1 / job.tors) ** links_down + to_tor)
    return link, tor


def _merged(parts: list[_Part], job: Exposure) -> Events:
    times = np.concatenate([each.times for each in parts], axis=1)
    order = np.argsort(times, axis=1)
    which = np.repeat(np.arange(len(parts)), [each.times.shape[1] for each in parts])[order]

    def flags(columns: list[Flags | None]) -> Flags:
        full = [np.zeros_like(p.times, bool) if c is None else c for p, c in zip(parts, columns, strict=True)]
        return np.take_along_axis(np.concatenate(full, axis=1), order, axis=1)

    def reals(columns: list[Reals | None]) -> Reals:
        full = [np.ones_like(p.times) if c is None else c for p, c in zip(parts, columns, strict=True)]
        return np.take_along_axis(np.concatenate(full, axis=1), order, axis=1)

    times, kinds = np.take_along_axis(times, order, axis=1), np.array([each.kind for each in parts])[which]
    crash, wait = flags([each.crash for each in parts]), reals([each.wait for each in parts])
    slow = np.zeros_like(crash)
    if job.homes == 2:
        steps = np.array([each.step for each in parts])[which] * np.isfinite(times)
        crash |= _pairs(job, kinds, steps, reals([each.luck for each in parts]))
        wait[~crash] = 0.0
        slow = np.cumsum(steps, axis=1) > 0
    return Events(times, crash, kinds != NODE, wait, slow, flags([each.move for each in parts]))


def _pairs(job: Exposure, kinds: NDArray[np.int64], steps: NDArray[np.int64], luck: Reals) -> Flags:
    """Which of the events in order break the other port of a card whose one port is down."""
    before = [np.cumsum(each, axis=1) - each for each in (steps * (kinds == kind) for kind in (LINK, TOR))]
    of_link, of_tor = fatal(job, *(each.astype(np.float64) for each in before))
    return (steps > 0) & (luck < np.where(kinds == LINK, of_link, of_tor))


def _single(broken: _Broken, timeout: float, *, replaced: bool) -> _Part:
    """With one ToR: what is repaired before the timeout stalls, all else kills."""
    crash = (broken.repair > timeout) & np.isfinite(broken.times)
    return _Part(broken.kind, broken.times, np.where(crash & replaced, timeout, broken.repair), crash)


def _flaps(times: Reals, stall: float) -> _Part:
    return _Part(LINK, times, np.full_like(times, stall))


def _downs(broken: _Broken, timeout: float, *, replaced: bool) -> _Part:
    """With two ToRs: half a card is gone; where it is the other half, the wait is that of a crash."""
    wait = np.full_like(broken.times, timeout) if replaced else np.maximum(broken.repair, timeout)
    return _Part(broken.kind, broken.times, wait, step=1, luck=broken.luck)


def _ups(broken: _Broken, patience: float | None) -> _Part:
    """Repaired, or left behind after `patience` if that is earlier."""
    after = broken.repair if patience is None else np.minimum(broken.repair, patience)
    left = None if patience is None else broken.repair > patience
    return _Part(broken.kind, broken.times + after, np.zeros_like(broken.times), step=-1, move=left)


def _nodes(stream: Generator, rate: float, horizon: float, trials: int, wait: float) -> _Part:
    """Deaths of GPUs or hosts, seen at once; `wait`: mean seconds of the repair where no spare host is there."""
    times = _times(stream, rate, horizon, trials)
    waits = stream.exponential(wait, times.shape) if wait else np.zeros_like(times)
    return _Part(NODE, times, waits, np.isfinite(times))


def _outages(kind: int, stream: Generator, rate: float, horizon: float, trials: int, repair: float) -> _Broken:
    times = _times(stream, rate, horizon, trials)
    return _Broken(kind, times, stream.exponential(repair, times.shape), stream.random(times.shape))


def _times(stream: Generator, rate: float, horizon: float, trials: int) -> Reals:
    """[trials, most]: times of a Poisson process of `rate` a month, in no order, with ∞ where a trial has fewer."""
    counts = stream.poisson(rate * horizon / MONTH, trials)
    most = int(counts.max(initial=0))
    times = stream.random((trials, most)) * horizon
    return np.where(np.arange(most) < counts[:, None], times, np.inf)


def _check_number(job: Exposure, given: Assumptions, horizon: Seconds, trials: int) -> None:
    rates = (
        (job.links, given.link_rate + given.flap_rate * (job.homes == 1)),
        (job.tors, given.tor_rate),
        (job.gpus, given.gpu_rate),
        (job.hosts, given.host_rate),
    )
    number = sum(count * rate for count, rate in rates) * horizon / MONTH * trials
    if number > MOST:
        raise PlanError(
            f"{trials:,} trials of {horizon / MONTH:g} months have about {number:,.0f} failures on {job.fabric}; at "
            f"most {MOST:,} are drawn. Use {max(2, int(trials * MOST / number)):,} trials, fewer months or lower rates."
        )
