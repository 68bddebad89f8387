"""Expectation: the same lives in closed form, and the checkpoint interval that loses least."""

import math
from dataclasses import dataclass

import numpy as np

from headway.advise.assumptions import MONTH, Assumptions
from headway.advise.exposure import Exposure
from headway.advise.failures import fatal
from headway.errors import PlanError
from headway.units import Seconds

_MOST = 300.0  # crashes within one interval, on average; with more, goodput is 0 to all digits
_GOLDEN = (math.sqrt(5) - 1) / 2
_FINE = 512  # points at which the share of time with a halved card is averaged


@dataclass(frozen=True, slots=True)
class Pace:
    """Rates of a job on a fabric: per second where they are rates.

    `network`, `other`: crashes. `moving`: moves off a host. `delay`: mean seconds from a network crash to when it is
    noticed and hosts are there; `other_delay` of others. `stalling`: mean number of stalls under way, were they not
    merged. `halved`: share of time in which some card has half its ports.
    """

    network: float
    other: float
    delay: Seconds
    other_delay: Seconds
    stalling: float
    halved: float
    moving: float = 0.0

    @property
    def crashes(self) -> float:
        """Crashes a second of a job that is up."""
        return self.network + self.other


@dataclass(frozen=True, slots=True)
class Expected:
    """Shares of time, which add up to 1, crashes and moves a second; names as in life.Lives.

    `crash`: seconds that one network crash takes from all GPUs.
    """

    useful: float
    rework: float
    restart: float
    checkpoints: float
    degraded: float
    stalls: float
    network_crashes: float
    other_crashes: float
    moves: float
    crash: Seconds

    @property
    def lost(self) -> float:
        """All that is not useful."""
        return 1 - self.useful


def pace(job: Exposure, given: Assumptions, horizon: Seconds) -> Pace:
    """The rates of `job`: one ToR makes crashes and stalls of outages, two make slow times of them."""
    spare = given.spare_hosts(job.hosts)
    other = (job.gpus * given.gpu_rate + job.hosts * given.host_rate) / MONTH
    other_delay = Seconds(0.0 if spare >= 1 else given.host_repair)
    timeout = given.collective_timeout
    kinds = (  # outages a second, mean repair, whether hosts are there at once
        (job.links * given.link_rate / MONTH, given.link_repair, spare >= 1),
        (job.tors * given.tor_rate / MONTH, given.tor_repair, spare >= job.hosts_under_tor),
    )
    if job.homes == 1:
        rates = [rate * math.exp(-timeout / repair) for rate, repair, _ in kinds]
        delays = [timeout if at_once else timeout + repair for _, repair, at_once in kinds]
        # the mean of those repairs that end before the timeout, times their chance
        short = [repair - (timeout + repair) * math.exp(-timeout / repair) for _, repair, _ in kinds]
        stalling = sum(rate * each for (rate, _, _), each in zip(kinds, short, strict=True))
        stalling += job.links * given.flap_rate / MONTH * given.flap_stall
        halved = 0.0
    else:
        rates = _doubles(job, given, kinds)
        delays = [
            timeout if at_once else timeout + repair * math.exp(-timeout / repair) for _, repair, at_once in kinds
        ]
        stalling = 0.0
        halved = _halved(job, given, horizon)
    network = sum(rates)
    delay = sum(rate * each for rate, each in zip(rates, delays, strict=True)) / network if network else timeout
    moving = 0.0
    if job.homes == 2 and given.move_after is not None and given.moves(job.hosts):
        moving = kinds[0][0] * math.exp(-given.move_after / given.link_repair)
    return Pace(network, other, Seconds(delay), other_delay, stalling, halved, moving)


def expected(of: Pace, given: Assumptions, interval: Seconds, horizon: Seconds) -> Expected:
    """What becomes of a life of `horizon` seconds, many intervals long, that saves after each `interval` of work.

    Daly 2006 (FGCS 22) with a restart that may fail, and a delay during which nothing more counts (Bougeret et al.
    2011): with crashes at rate λ, a restart R, a mean delay D and a period S of work and checkpoint, a period is
    through after e^{λR} (1/λ + D) (e^{λS} − 1) seconds. Stalls stretch the work by e^{their mean number}: merged, they
    leave a share e^{−number} of time free (M/G/∞). Halved cards slow work down, whatever else happens. Moves take their
    share off all that, and save between checkpoints.
    """
    rate, save = of.crashes, given.checkpoint_seconds if interval < horizon else 0.0
    period, stretch = interval + save, _stretch(of)
    felt = rate * stretch  # crashes by second of running, stalls in between included
    failed = math.expm1(min(felt * period, _MOST))  # runs that a crash ends, by period that is through
    ran, saved = _grown(felt, period), _grown(felt, save)  # those that a crash cuts short included
    starting, crashes = failed * _grown(rate, given.restart), failed * math.exp(min(rate * given.restart, _MOST))
    waited = crashes * (of.network * of.delay + of.other * of.other_delay) / rate if rate else 0.0
    wall = ran * stretch + starting + waited
    again = ran - saved - interval
    move = _grown(rate, save + given.restart)
    moves = of.moving * ran / wall / (1 + of.moving * ran / wall * move)
    wall /= 1 - moves * move
    kept = again / wall * (1 - _unsaved(of.moving * interval))
    late = min(saved / wall, _late(rate, interval, save, horizon / stretch) / horizon)
    speed = 1 - of.halved * given.slowdown
    crashed = crashes / rate / wall + moves * move if rate else 0.0  # the share of time in which one counts
    return Expected(
        useful=(interval / wall + kept + late) * speed,
        rework=(again / wall - kept) * speed,
        restart=(starting + waited) / wall + moves * move,
        checkpoints=saved / wall - late,
        degraded=((ran - saved) / wall + late) * (1 - speed),
        stalls=ran * (stretch - 1) / wall,
        network_crashes=of.network * crashed,
        other_crashes=of.other * crashed,
        moves=moves,
        crash=Seconds((again / failed if failed else period / 2) + of.delay + _grown(rate, given.restart)),
    )


def optimum(of: Pace, given: Assumptions, horizon: Seconds) -> Seconds:
    """The interval at which `expected` loses least: `horizon` where nothing crashes.

    A golden-section search around Young's √(2δ/λ), for a checkpoint of δ seconds (Young 1974); it is far above that
    only where moves save often. Raises PlanError where saving takes no time.
    """
    rate, save = of.crashes * _stretch(of), given.checkpoint_seconds
    if not rate:
        return horizon
    if not save:
        raise PlanError("a checkpoint that takes 0 s has no best interval. Give one, or the seconds that it takes.")
    near = young(of, given)
    low, high = math.log(min(near, 1 / rate) / 8), math.log(max(near * 2, horizon))
    while high - low > 1e-7:
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        lost = [expected(of, given, Seconds(math.exp(each)), horizon).lost for each in (left, right)]
        low, high = (low, right) if lost[0] <= lost[1] else (left, high)
    return Seconds(min(math.exp(low), horizon))


def young(of: Pace, given: Assumptions) -> Seconds:
    """Young's interval √(2δ/λ)."""
    return Seconds(math.sqrt(2 * given.checkpoint_seconds / (of.crashes * _stretch(of))))


def _stretch(of: Pace) -> float:
    """Seconds until a second of work is done, by stalls that merge where they overlap."""
    return math.exp(min(of.stalling, _MOST))


def _doubles(job: Exposure, given: Assumptions, kinds: tuple[tuple[float, Seconds, bool], ...]) -> list[float]:
    """Second outages a second that take a card's other port: of links, of ToRs; `fatal` over how many are down."""
    (links, _, _), (tors, tor_repair, _) = kinds
    mean = links * given.halved(job.hosts)
    link, tor = fatal(job, np.array(mean), np.array(tors * tor_repair))
    # the number of links that are down is Poisson: E (1 − 1/K)^n = e^{−mean/K}, where fatal had (1 − 1/K)^mean
    tor = tor + (1 - 1 / job.tors) ** mean - math.exp(-mean / job.tors)
    return [links * float(link), tors * float(tor)]


def _halved(job: Exposure, given: Assumptions, horizon: Seconds) -> float:
    """The mean share of time in which anything is down, from a start with all in order (M/G/∞)."""
    times = [(point + 0.5) / _FINE * horizon for point in range(_FINE)]
    links, tors = job.links * given.link_rate / MONTH, job.tors * given.tor_rate / MONTH
    free = (
        math.exp(
            -links * given.halved_within(job.hosts, time)
            + tors * given.tor_repair * math.expm1(-time / given.tor_repair)
        )
        for time in times
    )
    return 1 - sum(free) / _FINE


def _late(rate: float, interval: float, save: float, horizon: float) -> float:
    """Seconds of saving that a life has less than its share, because it begins with work; after a crash it is anywhere.

    Without crashes the moment at which it ends is known.
    """
    period = interval + save
    if rate:
        return save * interval / period / 2
    saves, place = divmod(horizon, period)
    return horizon * save / period - saves * save - max(0.0, place - interval)


def _unsaved(moves: float) -> float:
    """Mean work that is unsaved at a moment of an interval with so many moves, over that of one without any.

    Work of p seconds, m moves a second: (1 − e^{−mp}) / m since the last one, where it was p.
    """
    return 2 * (moves + math.expm1(-moves)) / moves**2 if moves > 1e-4 else 1 - moves / 3


def _grown(rate: float, span: float) -> float:
    """(e^{rate · span} − 1) / rate: seconds until `span` seconds in a row have passed without an event."""
    return math.expm1(min(rate * span, _MOST)) / rate if rate * span > 1e-12 else span
