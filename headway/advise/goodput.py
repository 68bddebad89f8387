"""Goodput: months of a job on several fabrics, by Monte-Carlo and in closed form: crashes, lost GPU-hours, money."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from headway.advise import exposure as exposures
from headway.advise.assumptions import HOUR, MONTH, SOURCES, Assumptions
from headway.advise.expected import Expected, Pace, expected, optimum, pace
from headway.advise.exposure import Exposure
from headway.advise.failures import Reals, draw
from headway.advise.life import Lives, live
from headway.errors import PlanError
from headway.plan.plan import Plan
from headway.schedule.families import FAMILIES
from headway.units import Seconds, show_duration

FABRICS = ("single-tor", "dcn+", "hpn")
LOSSES = ("rework", "restart", "checkpoints", "degraded", "stalls")
MOST_MONTHS = 1200
_HALF = 1.96  # standard errors of half a 95 % interval
_PAPER = (Seconds(2 * HOUR), Seconds(4 * HOUR))  # HPN §2.3: how often jobs save


@dataclass(frozen=True, slots=True)
class Figure:
    """The mean over trials, the ends of its 95 % interval, and the closed form's expectation."""

    mean: float
    low: float
    high: float
    expected: float


@dataclass(frozen=True, slots=True)
class Result:
    """One fabric: what the job touches, when it saves, and what became of its time.

    `best`: the interval that loses least. `figures`: goodput; `network_crashes`, `other_crashes` and `moves` a month;
    GPU-hours of each of LOSSES and all `lost` in all months; `usd` of these. `losses`: expected lost share at half the
    interval, at it, at double. `crash`: seconds of all GPUs that one network crash takes. `alone`: what is expected of
    network failures alone, with saves every 2 h and every 4 h.
    """

    job: Exposure
    interval: Seconds
    best: Seconds
    losses: tuple[float, float, float]
    figures: dict[str, Figure]
    crash: Seconds
    alone: tuple[Expected, Expected]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked: `gpus` for `months`, in `trials` lives of `seed`. `interval`: seconds between checkpoints,
    or the best of each fabric."""

    gpus: int
    months: float = 6.0
    trials: int = 1000
    seed: int = 0
    interval: Seconds | Literal["optimum"] = "optimum"

    def __post_init__(self) -> None:
        if self.gpus < 1:
            raise PlanError(f"the job takes {self.gpus} GPUs. Use 1 or more.")
        if not 0 < self.months <= MOST_MONTHS:
            raise PlanError(f"months is {self.months:g}. Use more than 0, and at most {MOST_MONTHS}.")
        if self.trials < 2:
            raise PlanError(f"trials is {self.trials}. Use 2 or more: an interval needs a spread.")
        if self.seed < 0:
            raise PlanError(f"seed is {self.seed}. Use 0 or more.")
        if self.interval != "optimum" and not self.interval > 0:
            raise PlanError(
                "the checkpoint interval is 0: the job would do nothing but save. Use one above 0, like 2h."
            )
        if self.interval != "optimum" and self.interval >= self.horizon:
            raise PlanError(
                f"a checkpoint every {show_duration(self.interval)} is never made in {self.months:g} months "
                f"({show_duration(self.horizon)}). Use a shorter interval, or more months."
            )

    @property
    def horizon(self) -> Seconds:
        """Seconds of one life."""
        return Seconds(self.months * MONTH)


def study(asked: Question, given: Assumptions, fabrics: Sequence[str] = FABRICS) -> list[Result]:
    """The results of each fabric, with the same failures of GPUs and hosts on all of them."""
    jobs = [exposures.exposure(exposures.house(name, asked.gpus), asked.gpus) for name in fabrics]
    return [result(job, asked, given, np.random.default_rng(asked.seed)) for job in jobs]


def result(job: Exposure, asked: Question, given: Assumptions, rng: np.random.Generator) -> Result:
    """The result of one fabric."""
    horizon = asked.horizon
    of = pace(job, given, horizon)
    interval = _interval(of, asked, given)
    half, here, double = (expected(of, given, Seconds(interval * by), horizon) for by in (0.5, 1.0, 2.0))
    lives = live(
        draw(job, given, horizon, asked.trials, rng),
        horizon=horizon,
        interval=interval,
        checkpoint=given.checkpoint_seconds,
        restart=given.restart,
        slowdown=given.slowdown,
    )
    network = pace(job, dataclasses.replace(given, gpu_rate=0.0, host_rate=0.0), horizon)
    early, late = (expected(network, given, each, horizon) for each in _PAPER)
    return Result(
        job=job,
        interval=interval,
        best=interval if asked.interval == "optimum" else _best(of, given, horizon),
        losses=(half.lost, here.lost, double.lost),
        figures=_figures(job, asked, given, lives, here),
        crash=here.crash,
        alone=(early, late),
    )


def break_even(one: Exposure, two: Exposure, asked: Question, given: Assumptions) -> Seconds | None:
    """The mean repair of a link at which a job on `two` ToRs a card loses as much as on `one`; None: no such time.

    Below it two ToRs lose less.
    """

    def ahead(repair: float) -> float:
        assumed = dataclasses.replace(given, link_repair=Seconds(repair))
        lost = [_expected(job, asked, assumed).lost for job in (two, one)]
        return lost[0] - lost[1]

    low, high = 60.0, 365 * 24 * HOUR
    if ahead(low) >= 0 or ahead(high) <= 0:
        return None
    while high > 1.001 * low:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if ahead(middle) > 0 else (middle, high)
    return Seconds(low)


def step_seconds(plan: Plan) -> Seconds:
    """Predicted seconds of a step: by estimate, or played where ranks share cores or the rows are of no family."""
    if plan.cluster.shared_cores or plan.schedule.name not in FAMILIES:
        from headway.sim.simulate import simulate

        return simulate(plan).makespan
    from headway.sim.estimate import estimate
    from headway.sim.planned import outline

    return estimate(outline(plan)).seconds


def _interval(of: Pace, asked: Question, given: Assumptions) -> Seconds:
    return optimum(of, given, asked.horizon) if asked.interval == "optimum" else asked.interval


def _best(of: Pace, given: Assumptions, horizon: Seconds) -> Seconds:
    return optimum(of, given, horizon) if given.checkpoint_seconds else Seconds(0.0)


def _expected(job: Exposure, asked: Question, given: Assumptions) -> Expected:
    of = pace(job, given, asked.horizon)
    return expected(of, given, _interval(of, asked, given), asked.horizon)


def document(asked: Question, given: Assumptions, found: Sequence[Result]) -> dict[str, Any]:
    """All of it for JSON and for report/goodput.py. Rates are a month; times seconds; losses GPU-hours."""
    return {
        "gpus": asked.gpus,
        "months": asked.months,
        "month_seconds": MONTH,
        "trials": asked.trials,
        "seed": asked.seed,
        "checkpoint_every": asked.interval,
        "assumptions": [
            {"name": name, "value": getattr(given, name), "source": source, "changed": _is_changed(given, name)}
            for name, source in SOURCES.items()
        ],
        "fabrics": [_row(each, asked, given) for each in found],
        "break_even_link_repair": _break_even(found, asked, given),
    }


def _break_even(found: Sequence[Result], asked: Question, given: Assumptions) -> dict[str, Seconds | None]:
    """For each fabric of two ToRs a card, against the first of one."""
    one = next((each.job for each in found if each.job.homes == 1), None)
    twos = [each.job for each in found if each.job.homes == 2]
    return {two.fabric: break_even(one, two, asked, given) for two in twos if one and given.link_rate}


def _row(each: Result, asked: Question, given: Assumptions) -> dict[str, Any]:
    usd = asked.gpus * given.cost / HOUR
    spare = given.spare_hosts(each.job.hosts)
    return {
        **dataclasses.asdict(each.job),
        "spare_hosts": spare,
        "waits_for_tor": each.job.homes == 1 and spare < each.job.hosts_under_tor,
        "checkpoint_every": each.interval,
        "optimum": each.best,
        "lost_share_at_half": each.losses[0],
        "lost_share_here": each.losses[1],
        "lost_share_at_double": each.losses[2],
        "network_crash_seconds": each.crash,
        "network_crash_usd": each.crash * usd,
        "network_alone": [
            {
                "checkpoint_every": interval,
                "crashes": alone.network_crashes * MONTH,
                "crash_usd": alone.crash * usd,
                "checkpoints_share": alone.checkpoints,
            }
            for interval, alone in zip(_PAPER, each.alone, strict=True)
        ],
        **{name: dataclasses.asdict(figure) for name, figure in each.figures.items()},
    }


def _figures(job: Exposure, asked: Question, given: Assumptions, lives: Lives, here: Expected) -> dict[str, Figure]:
    horizon = asked.horizon
    hours = job.gpus * horizon / HOUR  # GPU-hours of a whole life
    lost = hours * (1 - lives.useful / horizon)
    return {
        "goodput": _figure(lives.useful / horizon, here.useful),
        **{
            name: _rate(getattr(lives, name) / asked.months, getattr(here, name) * MONTH, asked.months)
            for name in ("network_crashes", "other_crashes", "moves")
        },
        **{name: _figure(getattr(lives, name) / horizon * hours, getattr(here, name) * hours) for name in LOSSES},
        "lost": _figure(lost, here.lost * hours),
        "usd": _figure(lost * given.cost, here.lost * hours * given.cost),
    }


def _rate(trials: Reals, expectation: float, months: float) -> Figure:
    """Events a month. Where none came, the interval ends at 3 / time: of such Poisson processes 5 % show none."""
    found = _figure(trials, expectation)
    return found if found.mean else dataclasses.replace(found, high=3 / (len(trials) * months))


def _figure(trials: Reals, expectation: float) -> Figure:
    mean = float(trials.mean())
    half = _HALF * float(trials.std(ddof=1)) / len(trials) ** 0.5
    return Figure(mean, mean - half, mean + half, expectation)


def _is_changed(given: Assumptions, name: str) -> bool:
    return bool(getattr(given, name) != getattr(Assumptions(), name))
