"""The engine: lanes in order, meetings, shared cores, and nothing that depends on luck."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import ScheduleError
from headway.schedule import families, graph, passes
from headway.schedule.action import Kind
from headway.schedule.operation import LANES, Lane
from headway.schedule.program import Program
from headway.schedule.schedule import from_csv
from headway.sim.engine import Shared, play

_SCHEDULES = st.sampled_from(
    [
        families.build("gpipe", pipeline=3, microbatches=4),
        families.build("1f1b", pipeline=3, microbatches=5),
        families.build("interleaved", pipeline=2, microbatches=4, chunks=2),
        families.forward_only(families.build("1f1b", pipeline=3, microbatches=2)),
    ]
)


def _rows(schedule, replicas=1):
    return graph.build(Program(passes.add_steps(passes.add_messages(schedule))), replicas=replicas)


def _makespan(rows, seconds, cores=None):
    return float(max(play(rows, np.array(seconds), cores)[1]))


def _cores(rows, node, num):
    """The cores of nodes, `num` each, shared by what computes; `node` of a rank."""
    nodes = np.array([node(rank) for rank in rows.ranks.tolist()])
    return Shared(np.where(rows.lanes == LANES.index(Lane.COMPUTE), nodes, -1), np.full(nodes.max() + 1, float(num)))


def test_a_deadlock_names_the_ranks_and_what_they_wait_for():
    rows = graph.build(Program(from_csv("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n")))
    with pytest.raises(ScheduleError) as error:
        play(rows, np.ones(len(rows)))
    assert str(error.value).splitlines()[:3] == [
        "deadlock: the rows wait for each other.",
        "  rank 0  0F0 [0B0] 0F1 0B1  0B0 waits for 1B0 of rank 1",
        "  rank 1  1F0 [1F1] 1B0 1B1  1F1 waits for 0F1 of rank 0",
    ]


def test_two_stages_by_hand():
    """F 1 s, message 0.5 s, B 2 s: the last forward starts at 1.5, its gradient is back at 5."""
    rows = graph.build(Program(passes.add_messages(families.build("1f1b", pipeline=2, microbatches=1))))
    times = {Kind.FORWARD: 1.0, Kind.BACKWARD: 2.0}
    starts, ends = play(rows, np.array([times.get(op.action.kind, 0.5) for op in rows.operations]))
    found = {str(op): (a, b) for op, a, b in zip(rows.operations, starts, ends, strict=True)}
    assert found == {
        "0F0": (0.0, 1.0),
        "0SEND_F0": (1.0, 1.5),
        "1RECV_F0": (1.0, 1.5),
        "1F0": (1.5, 2.5),
        "1B0": (2.5, 4.5),
        "1SEND_B0": (4.5, 5.0),
        "0RECV_B0": (4.5, 5.0),
        "0B0": (5.0, 7.0),
    }


def test_a_meeting_waits_for_all_and_takes_as_long_as_its_slowest_member():
    rows = graph.build(Program(from_csv("0F0,0SEND_F0\n1RECV_F0,1F0\n")))
    seconds = {"0F0": 3.0, "0SEND_F0": 1.0, "1RECV_F0": 2.0, "1F0": 1.0}
    starts, ends = play(rows, np.array([seconds[str(op)] for op in rows.operations]))
    assert (starts.tolist(), ends.tolist()) == ([0.0, 3.0, 3.0, 5.0], [3.0, 5.0, 5.0, 6.0])


def test_two_ranks_on_one_core_take_twice_as_long():
    rows = graph.build(Program(families.build("gpipe", pipeline=1, microbatches=3)), replicas=2)
    seconds = [1.0] * len(rows.ranks)
    alone = _makespan(rows, seconds)
    assert alone == _makespan(rows, seconds, _cores(rows, lambda rank: 0, 2)) == 6.0
    assert _makespan(rows, seconds, _cores(rows, lambda rank: 0, 1)) == 2 * alone


def test_ranks_on_different_nodes_do_not_share_cores():
    rows = graph.build(Program(families.build("gpipe", pipeline=1, microbatches=3)), replicas=2)
    assert _makespan(rows, [1.0] * len(rows.ranks), _cores(rows, lambda rank: rank, 1)) == 6.0


def test_three_ranks_share_two_cores_without_leaving_one_idle():
    rows = graph.build(Program(families.build("gpipe", pipeline=1, microbatches=3)), replicas=3)
    assert _makespan(rows, [1.0] * len(rows.ranks), _cores(rows, lambda rank: 0, 2)) == 9.0


def test_communicating_takes_no_core():
    rows = graph.build(Program(from_csv("0F0,0SEND_F0,0F1\n1RECV_F0,1F0,1F1\n")))
    seconds = {"0F0": 1.0, "0SEND_F0": 1.0, "1RECV_F0": 1.0, "0F1": 1.0, "1F0": 1.0, "1F1": 1.0}
    cores = _cores(rows, lambda rank: 0, 1)
    assert _makespan(rows, [seconds[str(op)] for op in rows.operations], cores) == 4.0


@given(_SCHEDULES, st.integers(1, 3), st.integers(0, 3), st.data())
def test_the_same_play_gives_the_same_times_bit_for_bit(schedule, replicas, num, data):
    rows = _rows(schedule, replicas)
    count = len(rows.ranks)
    seconds = data.draw(st.lists(st.floats(0, 10), min_size=count, max_size=count))
    cores = _cores(rows, lambda rank: rank // 2, num) if num else None
    first, second = (play(rows, np.array(seconds), cores) for _ in range(2))
    assert [times.tobytes() for times in first] == [times.tobytes() for times in second]


@given(_SCHEDULES, st.integers(-8, 8), st.data())
def test_scaling_all_times_scales_the_step(schedule, power, data):
    """By a power of two, so that floating point changes nothing."""
    rows = _rows(schedule)
    count = len(rows.ranks)
    seconds = data.draw(st.lists(st.integers(0, 50).map(float), min_size=count, max_size=count))
    assert _makespan(rows, [each * 2.0**power for each in seconds]) == _makespan(rows, seconds) * 2.0**power


@given(_SCHEDULES, st.data())
def test_nothing_that_takes_longer_makes_the_step_shorter(schedule, data):
    rows = _rows(schedule)
    count = len(rows.ranks)
    seconds = data.draw(st.lists(st.integers(0, 9).map(float), min_size=count, max_size=count))
    slower = list(seconds)
    slower[data.draw(st.integers(0, count - 1))] += data.draw(st.integers(1, 9))
    assert _makespan(rows, slower) >= _makespan(rows, seconds)


@given(_SCHEDULES, st.integers(1, 2), st.data())
def test_no_operation_starts_before_what_it_waits_for_has_ended(schedule, replicas, data):
    rows = _rows(schedule, replicas)
    count = len(rows.ranks)
    seconds = data.draw(st.lists(st.floats(0, 5), min_size=count, max_size=count))
    starts, ends = play(rows, np.array(seconds), _cores(rows, lambda rank: 0, 2))
    for i, before in enumerate(rows.before):
        assert all(ends[j] <= starts[i] for j in before)
        assert ends[i] >= starts[i] + seconds[i] - 1e-9  # shared cores add up fractions of seconds
    for members in rows.members:
        assert len({(starts[i], ends[i]) for i in members}) == 1


def test_transfers_share_the_network_card_of_their_node():
    """Copy 0 sends twice 1 s, copy 1 twice 2 s: both at half the rate, until copy 1's last goes alone."""
    rows = graph.build(Program(from_csv("0F0,0SEND_F0,0F1,0SEND_F1\n1RECV_F0,1F0,1RECV_F1,1F1\n")), replicas=2)
    sends = np.array(["SEND" in str(op) for op in rows.operations])
    card = Shared(np.where(sends, 0, -1), np.ones(1))
    _, ends = play(rows, np.where(sends, 1.0 + rows.ranks % 2, 0.0), card)
    found = {(str(op), rank): end for op, rank, end in zip(rows.operations, rows.ranks.tolist(), ends, strict=True)}
    assert [found["0SEND_F0", 0], found["0SEND_F1", 0], found["0SEND_F0", 1], found["0SEND_F1", 1]] == [2, 4, 4, 6]


@given(_SCHEDULES, st.integers(1, 2), st.data())
def test_resources_that_are_large_enough_change_nothing(schedule, replicas, data):
    rows = _rows(schedule, replicas)
    seconds = np.array(data.draw(st.lists(st.integers(0, 9).map(float), min_size=len(rows), max_size=len(rows))))
    alone = play(rows, seconds)
    shared = play(rows, seconds, _cores(rows, lambda rank: 0, len(rows)))
    assert [times.tolist() for times in alone] == [times.tolist() for times in shared]


def _lines_run(call):
    """How many lines of Python are run: the work of a call, which no busy machine changes."""
    count = 0

    def trace(_frame, event, _argument):
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("num_cores", [0, 2])
def test_playing_is_work_in_step_with_the_number_of_operations(num_cores):
    work, size = [], []
    for microbatches in (16, 32, 64):
        rows = _rows(families.build("interleaved", pipeline=4, microbatches=microbatches, chunks=2))
        cores = _cores(rows, lambda rank: 0, num_cores) if num_cores else None
        seconds = np.ones(len(rows))
        work.append(_lines_run(lambda rows=rows, seconds=seconds, cores=cores: play(rows, seconds, cores)))
        size.append(len(rows))
    (first, second), (more, most) = np.diff(work), np.diff(size)
    assert second / first == pytest.approx(most / more, rel=0.05)
