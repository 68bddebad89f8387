"""Goodput: the paper's arithmetic, seeds, money, and what is refused."""

import dataclasses
import json
from pathlib import Path

import pytest

from headway.advise import goodput
from headway.advise.assumptions import HOUR, MONTH, SOURCES, Assumptions
from headway.advise.goodput import Question, break_even, document, step_seconds, study
from headway.errors import PlanError
from headway.plan import build
from headway.sim.simulate import simulate

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
NETWORK = Assumptions(gpu_rate=0.0, host_rate=0.0)


def _one(given=NETWORK, fabric="single-tor", **asked):
    return study(Question(**{"gpus": 3000, "trials": 300, **asked}), given, [fabric])[0]


def test_three_thousand_gpus_with_one_link_each_crash_once_or_twice_a_month():
    job = _one().job
    assert job.links * NETWORK.link_rate == pytest.approx(1.71)
    found = _one(trials=2000).figures["network_crashes"]
    assert 1.71 < found.expected < 1.71 + job.tors * NETWORK.tor_rate
    assert found.low <= found.expected <= found.high
    assert 1 < found.low < found.high < 2


@pytest.mark.parametrize(("hours", "usd"), [(2.0, 23_000), (2.43, 27_500), (2.7, 30_000), (4.0, 43_000)])
def test_each_of_those_crashes_costs_about_thirty_thousand_dollars(hours, usd):
    found = _one(interval=hours * HOUR, trials=2000)
    a_crash = found.crash / HOUR * 3000 * NETWORK.cost
    assert a_crash == pytest.approx(usd, rel=0.02)
    figures = found.figures
    played = (figures["rework"].mean + figures["restart"].mean) / (figures["network_crashes"].mean * 6)
    assert played * NETWORK.cost == pytest.approx(a_crash, rel=0.03)
    assert found.crash / HOUR == pytest.approx(hours / 2 + 0.14, abs=0.02)


def test_the_papers_checkpoints_are_one_percent_and_not_five():
    shares = [each.checkpoints for each in _one().alone]
    assert shares == pytest.approx([0.0137, 0.0069], abs=0.0001)


def test_two_tors_a_card_go_on_where_one_crashes():
    found = {result.job.fabric.split()[0]: result for result in study(Question(gpus=3000, trials=300), NETWORK)}
    assert list(found) == list(goodput.FABRICS)
    for name in ("dcn+", "hpn"):
        assert found[name].figures["network_crashes"].expected < 0.001
        assert found[name].figures["degraded"].mean > 0
    assert found["single-tor"].figures["degraded"].mean == 0
    assert found["dcn+"].figures["stalls"].mean == 0


def test_the_same_seed_gives_the_same_numbers_and_another_one_others():
    first, again, other = (_one(seed=seed).figures for seed in (3, 3, 4))
    assert first == again
    assert first["lost"].mean != other["lost"].mean


def test_all_fabrics_see_the_same_failures_of_gpus_and_hosts():
    calm = Assumptions(link_rate=0.0, tor_rate=0.0)
    found = study(Question(gpus=3000, trials=50), calm)
    assert found[0].figures == found[1].figures == found[2].figures


def test_money_is_lost_hours_times_their_price_and_losses_add_up():
    figures = _one(Assumptions(cost=2.0)).figures
    assert figures["usd"].mean == pytest.approx(2 * figures["lost"].mean)
    assert sum(figures[name].mean for name in goodput.LOSSES) == pytest.approx(figures["lost"].mean)
    hours = 3000 * 6 * MONTH / HOUR
    assert figures["goodput"].mean == pytest.approx(1 - figures["lost"].mean / hours)


def test_more_failures_lower_the_goodput_that_is_played():
    played = [_one(Assumptions(gpu_rate=rate), interval=2 * HOUR).figures["goodput"] for rate in (0.0, 0.01, 0.03)]
    assert played[0].low > played[1].high
    assert played[1].low > played[2].high


def test_more_trials_narrow_the_interval():
    wide, narrow = (_one(trials=trials).figures["goodput"] for trials in (100, 1600))
    assert (narrow.high - narrow.low) == pytest.approx((wide.high - wide.low) / 4, rel=0.35)


def test_crashes_that_never_came_leave_room_for_rare_ones():
    found = _one(fabric="hpn", gpus=64, trials=100).figures["network_crashes"]
    assert (found.mean, found.high) == (0, 3 / 600)
    assert found.expected < found.high


def test_where_repairs_take_the_break_even_both_kinds_lose_the_same():
    asked, stays = Question(gpus=3000, trials=2), Assumptions(move_after=None)
    one, two = (result.job for result in study(asked, stays, ["single-tor", "hpn"]))
    at = break_even(one, two, asked, stays)
    given = dataclasses.replace(stays, link_repair=at)
    lost = [result.losses[1] for result in study(asked, given, ["single-tor", "hpn"])]
    assert lost[0] == pytest.approx(lost[1], rel=1e-3)
    assert break_even(one, two, asked, dataclasses.replace(stays, slowdown=0.0)) is None


def test_a_job_that_leaves_hosts_with_half_a_card_loses_less_to_them():
    stays, leaves = (_one(Assumptions(move_after=after), fabric="hpn").figures for after in (None, HOUR))
    assert leaves["degraded"].high < stays["degraded"].low
    assert leaves["moves"].mean == pytest.approx(leaves["moves"].expected, rel=0.05)
    assert leaves["goodput"].low > stays["goodput"].high


def test_a_step_takes_what_the_simulator_says():
    plan = build.from_file(EXAMPLES / "stdlib.yaml")
    assert step_seconds(plan) == simulate(plan).makespan
    large = build.from_file(EXAMPLES / "gpt-175b.yaml")
    assert step_seconds(large) == pytest.approx(19, rel=0.1)


def test_the_document_is_json_and_tells_every_assumption():
    asked = Question(gpus=3000, trials=10, interval=3 * HOUR)
    found = json.loads(json.dumps(document(asked, Assumptions(cost=1.0), study(asked, Assumptions(cost=1.0)))))
    assert [each["name"] for each in found["assumptions"]] == list(SOURCES)
    assert set(SOURCES) == {field.name for field in dataclasses.fields(Assumptions)}
    assert [each["name"] for each in found["assumptions"] if each["changed"]] == ["cost"]
    assert {each["checkpoint_every"] for each in found["fabrics"]} == {3 * HOUR}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"gpus": 0}, "the job takes 0 GPUs. Use 1 or more."),
        ({"months": 0.0}, "months is 0. Use more than 0"),
        ({"months": float("nan")}, "months is nan"),
        ({"trials": 1}, "trials is 1. Use 2 or more"),
        ({"seed": -1}, "seed is -1. Use 0 or more."),
        ({"interval": 0.0}, "the checkpoint interval is 0"),
        ({"interval": 31 * 24 * HOUR, "months": 1.0}, "a checkpoint every 31.0 d is never made in 1 months (30.4 d)."),
    ],
)
def test_wrong_questions_are_refused(asked, said):
    with pytest.raises(PlanError) as caught:
        Question(**{"gpus": 8, **asked})
    assert said in str(caught.value)
