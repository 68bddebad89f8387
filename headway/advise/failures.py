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
    whether it meets what is down: by symmetry that is a draw (`_fatal`), and no names are kept.
    """
    _check_number(job, given, horizon, trials)
    gpus, hosts, links, tors, flaps = rng.spawn(5)  # so that one rate changes no other failure
    spare = given.spare_hosts(job.hosts)
    nodes = [
        _nodes(stream, count * rate, horizon, trials, given.host_repair if spare < 1 else 0.0)
        for stream, count, rate in ((gpus, job.gpus, given.gpu_rate), (hosts, job.hosts, given.host_rate))
    ]
    broken = [
        _outages(links, job.links * given.link_rate, horizon, trials, given.link_repair),
        _outages(tors, job.tors * given.tor_rate, horizon, trials, given.tor_repair),
    ]
    replaced = (spare >= 1, spare >= job.hosts_under_tor)
    timeout = given.collective_timeout
    if job.homes == 1:
        flapping = _times(flaps, job.links * given.flap_rate, horizon, trials)
        parts = [_single(each, timeout, replaced=at_once) for each, at_once in zip(broken, replaced, strict=True)]
        parts.append(_still(flapping, given.flap_stall))
    else:
        parts = [_downs(each, timeout, replaced=at_once) for each, at_once in zip(broken, replaced, strict=True)]
        parts += [_ups(broken[0], given.move_after if given.moves(job.hosts) else None), _ups(broken[1], None)]
    return _merged(parts, nodes, job)


@dataclass(frozen=True, eq=False)
class _Part:
    """Events of one kind, [trials, n], not in order yet; `step`: of how many things more are down behind it."""

    times: Reals
    wait: Reals
    crash: Flags
    step: int = 0
    luck: Reals | None = None
    move: Flags | None = None


def fatal(job: Exposure, links_down: Reals, tors_down: Reals) -> tuple[Reals, Reals]:
    """The chance that a card loses its other port when a link breaks, and when a ToR does, beside what is down.

    A link's card has another link, down with links_down / links, and that goes to a ToR, down with tors_down / tors.
    A ToR's cards have as many other links, each of those that are down among them with 1 / tors.
    """
    to_tor = tors_down / job.tors
    link = np.minimum(1.0, links_down / job.links + to_tor)
    tor = np.minimum(1.0, 1 - (1 - 1 / job.tors) ** links_down + to_tor)
    return link, tor


def _merged(parts: list[_Part], nodes: list[_Part], job: Exposure) -> Events:
    every = [*parts, *nodes]
    sizes = [each.times.shape[1] for each in every]
    times = np.concatenate([each.times for each in every], axis=1)
    order = np.argsort(times, axis=1, kind="stable")

    def ordered(columns: list[NDArray[np.generic]]) -> NDArray[np.generic]:
        return np.take_along_axis(np.concatenate(columns, axis=1), order, axis=1)

    times = np.take_along_axis(times, order, axis=1)
    which = np.repeat(np.arange(len(every)), sizes)[order]
    crash = np.asarray(ordered([each.crash for each in every]), bool)
    wait = np.asarray(ordered([each.wait for each in every]), np.float64)
    slow, move = np.zeros((2, *times.shape), bool)
    if job.homes == 2:
        luck = np.asarray(ordered([np.ones_like(e.times) if e.luck is None else e.luck for e in every]), np.float64)
        steps = np.array([each.step for each in every])[which] * np.isfinite(times)
        link_steps, tor_steps = (np.where(which % 2 == kind, steps, 0) for kind in (0, 1))  # downs, then ups
        links, tors = np.cumsum(link_steps, axis=1), np.cumsum(tor_steps, axis=1)
        of_link, of_tor = fatal(job, (links - link_steps).astype(float), (tors - tor_steps).astype(float))
        crash |= luck < np.where(which == 0, of_link, np.where(which == 1, of_tor, 0.0))
        wait[~crash] = 0.0
        slow = links + tors > 0
        move = np.asarray(ordered([np.zeros_like(e.crash) if e.move is None else e.move for e in every]), bool)
    return Events(times, crash, which < len(parts), wait, slow, move)


def _single(broken: tuple[Reals, Reals, Reals], timeout: float, *, replaced: bool) -> _Part:
    """With one ToR: what is repaired before the timeout stalls, all else kills."""
    times, repair, _ = broken
    crash = (repair > timeout) & np.isfinite(times)
    return _Part(times, np.where(crash & replaced, timeout, repair), crash)


def _still(times: Reals, stall: float) -> _Part:
    return _Part(times, np.full_like(times, stall), np.zeros(times.shape, bool))


def _downs(broken: tuple[Reals, Reals, Reals], timeout: float, *, replaced: bool) -> _Part:
    """With two ToRs: half a card is gone; where it is the other half, the wait is that of a crash."""
    times, repair, luck = broken
    wait = np.full_like(times, timeout) if replaced else np.maximum(repair, timeout)
    return _Part(times, wait, np.zeros(times.shape, bool), 1, luck)


def _ups(broken: tuple[Reals, Reals, Reals], patience: float | None) -> _Part:
    """Repaired, or left behind after `patience` if that is earlier."""
    times, repair, _ = broken
    left = np.zeros(times.shape, bool) if patience is None else repair > patience
    after = repair if patience is None else np.minimum(repair, patience)
    return _Part(times + after, np.zeros_like(times), np.zeros(times.shape, bool), -1, move=left)


def _nodes(stream: Generator, rate: float, horizon: float, trials: int, wait: float) -> _Part:
    """Deaths of GPUs or hosts, seen at once; `wait`: mean seconds of the repair where no spare host is there."""
    times = _times(stream, rate, horizon, trials)
    waits = stream.exponential(wait, times.shape) if wait else np.zeros_like(times)
    return _Part(times, waits, np.isfinite(times))


def _outages(stream: Generator, rate: float, horizon: float, trials: int, repair: float) -> tuple[Reals, Reals, Reals]:
    times = _times(stream, rate, horizon, trials)
    return times, stream.exponential(repair, times.shape), stream.random(times.shape)


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
