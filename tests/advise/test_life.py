"""Lives: cases worked out by hand, and an own slow play of random ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.advise.jobs import HOUR, LOSSES, lived

PERIOD = 2 * HOUR + 100


def test_without_failures_a_life_is_work_and_checkpoints():
    found = lived(horizon=10 * PERIOD)
    assert found["useful"] == pytest.approx(10 * 2 * HOUR)
    assert found["checkpoints"] == pytest.approx(1000)
    assert found["rework"] == found["restart"] == found["degraded"] == found["stalls"] == 0


def test_a_crash_takes_the_work_since_the_last_checkpoint_the_time_to_notice_and_the_restart():
    found = lived((3 * PERIOD + 1000, "network", 120), horizon=4 * PERIOD)
    assert found["rework"] == pytest.approx(1000)
    assert found["restart"] == pytest.approx(120 + 400)
    assert found["network_crashes"], found["other_crashes"] == (1, 0)
    assert found["useful"] == pytest.approx(3 * 2 * HOUR + (PERIOD - 1000 - 520))
    assert found["checkpoints"] == pytest.approx(300)


def test_a_checkpoint_that_is_cut_short_saves_nothing():
    found = lived((PERIOD - 1, "other", 0), horizon=PERIOD)
    assert found["rework"] == pytest.approx(2 * HOUR)
    assert found["checkpoints"] == pytest.approx(99)
    assert found["useful"] == pytest.approx(0)


def test_a_crash_during_a_restart_begins_it_anew_and_takes_nothing_more():
    found = lived((1000, "other", 0), (1300, "other", 0))
    assert found["rework"] == pytest.approx(1000)
    assert found["restart"] == pytest.approx(300 + 400)
    assert found["other_crashes"] == 2


def test_a_crash_that_nobody_could_notice_does_not_count():
    found = lived((1000, "network", 5000), (4000, "other", 0))
    assert found["restart"] == pytest.approx(5400)
    assert found["other_crashes"] == 0


def test_a_restart_that_the_end_cuts_short_is_counted_up_to_it():
    assert lived((HOUR, "other", 0), horizon=HOUR + 50)["restart"] == pytest.approx(50)


def test_stalls_that_overlap_are_one_and_lose_no_work():
    found = lived((1000, "stall", 60), (1030, "stall", 60), (5000, "stall", 9))
    assert found["stalls"] == pytest.approx(90 + 9)
    assert found["rework"] == 0


def test_a_crash_during_a_stall_ends_it():
    found = lived((1000, "stall", 60), (1030, "other", 0))
    assert (found["stalls"], found["restart"], found["rework"]) == pytest.approx((30, 400, 1000))


def test_a_stall_during_a_restart_is_not_felt():
    found = lived((1000, "other", 0), (1100, "stall", 9))
    assert (found["stalls"], found["restart"]) == pytest.approx((0, 400))


def test_half_a_card_costs_its_slowdown_while_it_lasts():
    found = lived((1000, "slow", 0), (3000, "whole", 0))
    assert found["degraded"] == pytest.approx(0.1 * 2000)
    assert found["rework"] == 0


def test_slow_work_that_is_lost_counts_as_the_little_that_it_was():
    found = lived((1000, "slow", 0), (3000, "other", 0), horizon=3400)
    assert found["degraded"] == pytest.approx(200)
    assert found["rework"] == pytest.approx(1000 + 0.9 * 2000)
    assert found["useful"] == pytest.approx(0)


def test_a_move_takes_a_checkpoint_and_a_restart_and_loses_nothing():
    found = lived((1000, "move", 0), (3000, "other", 0))
    assert found["restart"] == pytest.approx(500 + 400)
    assert found["rework"] == pytest.approx(3000 - 1500)
    assert found["moves"] == 1


def test_what_comes_after_the_end_does_not_happen():
    assert lived((25 * HOUR, "other", 0)) == lived()


EVENTS = st.lists(
    st.tuples(
        st.floats(0, 90_000).map(lambda time: round(time, 2)),
        st.sampled_from(["network", "other", "stall", "slow", "whole", "move"]),
        st.sampled_from([0.0, 9.0, 120.0, 4000.0]),
    ),
    max_size=12,
    unique_by=lambda each: each[0],
)


@given(EVENTS)
def test_the_parts_of_a_life_add_up_to_it(events):
    found = lived(*events)
    assert found["useful"] + sum(found[name] for name in LOSSES) == pytest.approx(24 * HOUR)
    assert min(found.values()) >= -1e-6


@given(EVENTS)
def test_a_slow_play_in_small_steps_agrees(events):
    found, slow = lived(*events), _slowly(events)
    for name, seconds in slow.items():
        assert found[name] == pytest.approx(seconds, abs=1e-5), name


def _slowly(events, horizon=24 * HOUR, interval=2 * HOUR, checkpoint=100.0, restart=400.0, slowdown=0.1):
    """One life, from one moment at which anything changes to the next."""
    found = dict.fromkeys((*LOSSES, "useful", "network_crashes", "other_crashes", "moves"), 0.0)
    queue, time, speed = sorted(events), 0.0, 1.0
    state, until, deaf = "work", 0.0, 0.0  # or stall, or restart: until when
    place, unsaved = 0.0, 0.0
    while time < horizon:
        if state != "work" and time >= until:
            state = "work"
        edges = [horizon, *(each[0] for each in queue[:1])]
        if state == "work":
            edges.append(time + (interval - place if place < interval else interval + checkpoint - place))
        else:
            edges.append(until)
        then = min(edge for edge in edges)
        if state == "work" and place < interval:
            unsaved += speed * (then - time)
            found["degraded"] += (1 - speed) * (then - time)
            place = interval if then == edges[-1] else place + then - time
        elif state == "work":
            found["checkpoints"] += then - time
            place += then - time
            if then == edges[-1]:
                found["useful"] += unsaved
                place, unsaved = 0.0, 0.0
        else:
            found["stalls" if state == "stall" else "restart"] += then - time
        time = then
        while queue and queue[0][0] <= time and time < horizon:
            _, word, wait = queue.pop(0)
            back = state == "restart" and time < until
            if word in {"network", "other"} and time >= deaf:
                found["rework"] += unsaved
                found[f"{word}_crashes"] += 1
                place, unsaved, state = 0.0, 0.0, "restart"
                deaf, until = time + wait, time + wait + restart
            elif word == "stall" and wait and not back:
                state, until = "stall", max(until, time + wait)
            elif word == "move" and (state == "work" or time >= until):
                found["useful"] += unsaved
                found["moves"] += 1
                unsaved, state, until = 0.0, "restart", time + checkpoint + restart
            speed = {"slow": 1 - slowdown, "whole": 1.0}.get(word, speed)
    found["useful"] += unsaved
    return found
