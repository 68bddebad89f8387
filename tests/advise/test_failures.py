"""Failures: as many as their rates say, what kills with one ToR a card, and pairs of them with two."""

import dataclasses

import numpy as np
import pytest

from headway.advise.assumptions import MONTH, Assumptions, slowdown_of
from headway.advise.exposure import Exposure
from headway.advise.failures import draw
from headway.errors import PlanError
from tests.advise.jobs import ONE, TWO

NETWORK = Assumptions(gpu_rate=0.0, host_rate=0.0)
NODES = Assumptions(link_rate=0.0, tor_rate=0.0)


def _drawn(job, given, months=6.0, trials=400, seed=0):
    return draw(job, given, months * MONTH, trials, np.random.default_rng(seed))


def test_times_are_in_order_and_within_the_life():
    found = _drawn(ONE, Assumptions())
    times = found.times[np.isfinite(found.times)]
    assert (np.diff(np.nan_to_num(found.times, posinf=1e18), axis=1) >= 0).all()
    assert 0 <= times.min() <= times.max() < 6 * MONTH


def test_gpus_and_hosts_fail_at_their_rates_like_a_poisson_process():
    crashes = _drawn(TWO, NODES).crash.sum(axis=1)
    mean = 6 * (3000 * NODES.gpu_rate + 375 * NODES.host_rate)
    assert crashes.mean() == pytest.approx(mean, abs=4 * (mean / 400) ** 0.5)
    assert crashes.var() == pytest.approx(mean, rel=0.3)


def test_with_one_tor_a_link_that_is_gone_for_longer_than_the_timeout_kills():
    found = _drawn(ONE, dataclasses.replace(NETWORK, link_repair=1e6, collective_timeout=120.0))
    lost = np.isfinite(found.times)
    assert found.crash[lost].mean() > 0.999
    assert set(found.wait[found.crash]) == {120.0}
    assert found.network[found.crash].all()
    assert not found.slow.any()


def test_with_one_tor_a_link_that_is_back_within_the_timeout_stalls():
    found = _drawn(ONE, dataclasses.replace(NETWORK, link_repair=1.0, tor_repair=1.0))
    assert not found.crash.any()
    assert found.wait[np.isfinite(found.times)].mean() == pytest.approx(1.0, rel=0.1)


def test_with_two_tors_a_link_slows_until_it_is_repaired():
    found = _drawn(TWO, dataclasses.replace(NETWORK, move_after=None))
    assert found.crash.sum() < 5  # of 400 half years: pairs on one card are rare
    assert found.slow.any()
    spans = np.diff(np.minimum(found.times, 6 * MONTH), axis=1)
    share = (spans * found.slow[:, :-1]).sum() / (400 * 6 * MONTH)
    down = (6000 * NETWORK.link_rate + 48 * NETWORK.tor_rate) / MONTH * NETWORK.link_repair
    assert share == pytest.approx(1 - np.exp(-down), rel=0.05)


def test_without_a_free_host_a_job_waits_for_the_repair():
    short = dataclasses.replace(Assumptions(), spares=0.0)
    found = _drawn(ONE, short)
    assert found.wait[found.crash & ~found.network].mean() == pytest.approx(short.host_repair, rel=0.05)
    assert found.wait[found.crash & found.network].mean() == pytest.approx(short.link_repair, rel=0.05)


def test_a_tor_that_takes_more_hosts_than_are_free_is_waited_for():
    rack = dataclasses.replace(NETWORK, link_rate=0.0, tor_rate=0.1, spares=7 / 375)
    assert rack.spare_hosts(375) == 7
    assert _drawn(ONE, rack).wait.max() > 3600
    enough = dataclasses.replace(rack, spares=8 / 375)
    assert _drawn(ONE, enough).wait.max(where=_drawn(ONE, enough).crash, initial=0.0) == 120.0


def test_two_broken_links_of_a_card_kill_as_often_as_a_play_with_named_links_says():
    job = Exposure("small", gpus=64, hosts=8, segments=1, links=128, tors=16, homes=2, hosts_under_tor=8)
    days = {"link_repair": 3 * 86400.0, "tor_repair": 3 * 86400.0, "move_after": None}
    given = dataclasses.replace(NETWORK, link_rate=0.3, tor_rate=0.3, **days)
    drawn = _drawn(job, given, months=1.0, trials=600).crash.sum(axis=1)
    named = _with_names(job, given, 600, np.random.default_rng(7))
    error = (drawn.var() / len(drawn) + named.var() / len(named)) ** 0.5
    assert named.mean() > 1
    assert drawn.mean() == pytest.approx(named.mean(), abs=4 * error)


def _with_names(job, given, trials, rng):
    """[trials]: outages that meet the other port of a card, each link and ToR known by its number."""
    found = np.zeros(trials)
    for trial in range(trials):
        down = []  # of links (card, port) and ToRs (rail, port): start, end
        for kind, number in (("link", job.links), ("tor", job.tors)):
            for _ in range(rng.poisson(number * 0.3)):
                which = int(rng.integers(number))
                start = rng.random() * MONTH
                down.append((start, start + rng.exponential(3 * 86400.0), kind, which // 2, which % 2))
        down.sort()
        for place, (start, _, kind, which, port) in enumerate(down):
            cards = {which} if kind == "link" else set(range(which * 8, which * 8 + 8))
            for _, end, other, place_of, side in down[:place]:
                theirs = {place_of} if other == "link" else set(range(place_of * 8, place_of * 8 + 8))
                if end > start and side != port and cards & theirs:
                    found[trial] += 1
                    break
    return found


def test_more_failures_than_fit_are_refused_with_a_number_of_trials_that_works():
    with pytest.raises(PlanError, match=r"1,000,000 trials of 6 months have about .* Use [\d,]+ trials"):
        _drawn(ONE, Assumptions(), trials=1_000_000)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"link_rate": -0.1}, "link rate is -0.1. Use a finite number, 0 or more."),
        ({"gpu_rate": float("nan")}, "gpu rate is nan"),
        ({"cost": float("inf")}, "cost is inf"),
        ({"link_repair": 0.0}, "link repair is 0. Use a time above 0"),
        ({"slowdown": 1.0}, "slowdown is 1. Use a share below 1"),
    ],
)
def test_wrong_assumptions_are_refused(change, said):
    with pytest.raises(PlanError, match=said.replace(".", r"\.")):
        Assumptions(**change)


def test_the_published_slowdown_is_near_that_of_halved_bandwidth():
    assert slowdown_of(0.065) == pytest.approx(Assumptions().slowdown, rel=0.03)


def test_the_llama_report_counts_add_up():
    given, months = Assumptions(), 54 / (365 / 12)
    network, software, unknown = 35, 54 + 2, 7
    nodes = (given.gpu_rate * 16384 + given.host_rate * 2048) * months
    assert nodes + network + software + unknown == pytest.approx(419)
