"""Slow ranks are named by comparison with those that have equal work."""

import pytest

from headway.train.pulse import Pulse
from headway.train.slow import Pace, slow_ranks


@pytest.fixture(scope="module")
def plan(plan_of):
    return plan_of(model="gpt-tiny", parallel={"pipeline": 2, "data": 2}, train={"global_batch": 8, "microbatch": 1})


def test_a_rank_that_needs_longer_than_its_peer_is_named(plan):
    assert slow_ranks(plan, [0.1, 0.1, 0.05, 0.1]) == {3: 2.0}


def test_ranks_of_other_stages_are_no_measure(plan):
    assert slow_ranks(plan, [0.1, 0.1, 0.5, 0.5]) == {}


def test_a_small_difference_names_nobody(plan):
    assert slow_ranks(plan, [0.1, 0.14, 0.1, 0.1]) == {}


def test_without_peers_nobody_is_slow(plan_of):
    plan = plan_of(model="gpt-tiny", parallel={"pipeline": 2, "data": 1}, train={"global_batch": 8, "microbatch": 1})
    assert slow_ranks(plan, [0.1, 0.9]) == {}


def test_the_pace_leaves_out_what_a_rank_waited_and_single_hiccups():
    now = [0.0]
    pulse = Pulse(clock=lambda: now[0])
    pace = Pace(pulse, lambda: now[0])
    for worked, waited in ((1.0, 5.0), (1.0, 0.5), (30.0, 0.0)):
        pace.begin()
        now[0] += worked
        with pulse.waiting("a message", (1,)):
            now[0] += waited
        pace.end()
    assert pace.typical() == 1.0
