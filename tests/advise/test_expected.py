"""Expectation: the best interval, what more failures do, and agreement with the Monte-Carlo."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.advise.assumptions import MONTH, Assumptions
from headway.advise.expected import expected, optimum, pace, young
from headway.advise.exposure import Exposure
from headway.advise.goodput import LOSSES, Question, result
from headway.errors import PlanError
from tests.advise.jobs import HOUR, ONE, TWO

HALF_A_YEAR = 6 * MONTH
RATES = ("link_rate", "tor_rate", "gpu_rate", "host_rate", "flap_rate")
COUNTS = ("network_crashes", "other_crashes", "moves")
NOTHING = dict.fromkeys(RATES, 0.0)
JOBS = st.sampled_from([ONE, TWO])
ASSUMED = st.builds(
    Assumptions,
    **dict.fromkeys(RATES, st.floats(0, 0.05)),
    **dict.fromkeys(("link_repair", "tor_repair", "host_repair"), st.floats(600, 1e6)),
    **dict.fromkeys(("collective_timeout", "checkpoint_seconds", "restart"), st.floats(1, 600)),
    slowdown=st.floats(0, 0.5),
    move_after=st.none() | st.floats(0, 1e5),
    spares=st.sampled_from([0.0, 0.02, 0.1]),
)


@given(JOBS, ASSUMED, st.floats(600, 20_000))
def test_shares_of_time_add_up_to_one(job, given, interval):
    found = expected(pace(job, given, HALF_A_YEAR), given, interval, HALF_A_YEAR)
    assert found.useful + sum(getattr(found, name) for name in LOSSES) == pytest.approx(1)
    assert min(getattr(found, name) for name in ("useful", *LOSSES)) >= -1e-9


@given(JOBS, ASSUMED, st.sampled_from(RATES), st.floats(1.1, 10))
def test_more_failures_never_raise_goodput(job, given, name, factor):
    given = dataclasses.replace(given, move_after=None)  # a move saves, which helps where saves are far too rare
    more = dataclasses.replace(given, **{name: getattr(given, name) * factor})
    few, many = (expected(pace(job, each, HALF_A_YEAR), each, 3 * HOUR, HALF_A_YEAR).useful for each in (given, more))
    assert many <= few + 1e-9


@given(JOBS, ASSUMED)
def test_no_interval_near_the_best_loses_less(job, given):
    of = pace(job, given, HALF_A_YEAR)
    best = optimum(of, given, HALF_A_YEAR)
    least = expected(of, given, best, HALF_A_YEAR).lost
    for factor in (0.5, 0.9, 0.999, 1.001, 1.1, 2.0):
        if best * factor <= HALF_A_YEAR:
            assert expected(of, given, best * factor, HALF_A_YEAR).lost >= least - 1e-12


def test_the_best_interval_is_youngs_where_saving_is_quick_beside_the_time_between_crashes():
    quick = dataclasses.replace(Assumptions(), checkpoint_seconds=0.01)
    of = pace(ONE, quick, HALF_A_YEAR)
    assert optimum(of, quick, HALF_A_YEAR) == pytest.approx(young(of, quick), rel=1e-3)
    slow = dataclasses.replace(Assumptions(), checkpoint_seconds=7200.0)
    of = pace(ONE, slow, HALF_A_YEAR)
    assert optimum(of, slow, HALF_A_YEAR) < 0.9 * young(of, slow)


def test_without_crashes_nothing_is_saved_for_and_a_free_checkpoint_has_no_best_interval():
    calm = Assumptions(**NOTHING)
    assert optimum(pace(ONE, calm, HALF_A_YEAR), calm, HALF_A_YEAR) == HALF_A_YEAR
    free = Assumptions(checkpoint_seconds=0.0)
    with pytest.raises(PlanError, match="a checkpoint that takes 0 s has no best interval"):
        optimum(pace(ONE, free, HALF_A_YEAR), free, HALF_A_YEAR)


def test_without_failures_goodput_is_what_checkpoints_leave():
    calm = Assumptions(**NOTHING)
    period = 2 * HOUR + 100
    found = expected(pace(TWO, calm, HALF_A_YEAR), calm, 2 * HOUR, 100 * period)
    assert found.useful == pytest.approx(2 * HOUR / period, rel=1e-15)
    asked = Question(gpus=3000, months=100 * period / MONTH, trials=2, interval=2 * HOUR)
    assert result(TWO, asked, calm, np.random.default_rng(0)).figures["goodput"].mean == pytest.approx(found.useful)


def test_a_job_that_crashes_at_every_moment_has_no_goodput_and_no_overflow():
    wild = Assumptions(gpu_rate=1e6, flap_rate=1e9)
    found = expected(pace(ONE, wild, HALF_A_YEAR), wild, 100 * HOUR, HALF_A_YEAR)
    assert found.useful < 1e-30
    assert all(math.isfinite(each) for each in dataclasses.astuple(found))


SMALL = Exposure("small", gpus=512, hosts=64, segments=4, links=1024, tors=8, homes=2, hosts_under_tor=16)
CASES = {
    "one ToR": (ONE, Assumptions()),
    "two ToRs": (TWO, Assumptions()),
    "network alone": (ONE, Assumptions(gpu_rate=0.0, host_rate=0.0)),
    "one ToR, nothing free, slow to notice": (
        ONE,
        Assumptions(spares=0.0, collective_timeout=1800.0, host_repair=7200.0),
    ),
    "one ToR, flaps": (ONE, Assumptions(flap_rate=0.02, flap_stall=300.0, gpu_rate=0.002)),
    "many pairs": (
        SMALL,
        Assumptions(link_rate=0.05, tor_rate=0.2, gpu_rate=0.0, host_rate=0.0, spares=0.5, move_after=None),
    ),
    "moves": (TWO, Assumptions(link_rate=0.002, move_after=2 * HOUR)),
}


def _figures(case, trials, seed):
    job, assumed = CASES[case]
    asked = Question(gpus=job.gpus, months=3.0, trials=trials, seed=seed)
    return result(job, asked, assumed, np.random.default_rng(seed)).figures


@pytest.mark.parametrize("case", CASES)
def test_every_mean_of_the_monte_carlo_is_within_three_standard_errors_of_the_expectation(case):
    figures = _figures(case, trials=1500, seed=1)
    often = [name for name in COUNTS if figures[name].expected * 3.0 * 1500 > 100]  # rarer ones are not normal
    shares = [name for name in LOSSES if name != "stalls" or CASES[case][1].flap_rate]
    named = [name for name in ("goodput", *often, *shares) if figures[name].expected > 0]
    assert len(named) >= 5
    for name in named:
        error = (figures[name].high - figures[name].mean) / 1.96
        assert figures[name].mean == pytest.approx(figures[name].expected, abs=3 * error), name


def test_intervals_hold_the_expectation_about_as_often_as_they_say():
    found = [_figures(case, trials=100, seed=seed)["goodput"] for case in CASES for seed in range(10)]
    assert 0.9 <= np.mean([each.low <= each.expected <= each.high for each in found]) <= 0.99
