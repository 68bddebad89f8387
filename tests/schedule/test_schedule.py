"""Schedules: what follows from the rows, their text and torch's CSV."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import ScheduleError
from headway.schedule import families, passes
from headway.schedule.action import Action, Kind
from headway.schedule.row import row
from headway.schedule.schedule import Schedule, from_csv, parse, to_csv

_SCHEDULES = st.builds(
    lambda family, p, groups, v: families.build(
        family, pipeline=p, microbatches=p * groups, chunks=families.CHUNKS.get(family, v)
    ),
    st.sampled_from(sorted(families.FAMILIES)),
    st.integers(1, 5),
    st.integers(1, 3),
    st.integers(1, 3),
)
_PASSED = _SCHEDULES.flatmap(
    lambda s: st.sampled_from(
        [
            s,
            passes.add_messages(s),
            passes.add_steps(passes.add_reductions(passes.add_messages(s), frozenset(range(s.num_stages)))),
        ]
    )
)


@given(_PASSED)
def test_the_text_of_a_schedule_reads_back(schedule):
    assert parse(str(schedule)) == schedule


@given(_PASSED)
def test_torchs_csv_reads_back(schedule):
    assert from_csv(to_csv(schedule), schedule.name) == schedule
    assert from_csv(to_csv(schedule)).rows == schedule.rows


@given(_SCHEDULES, st.data())
def test_empty_cells_of_torchs_files_are_idle_time_and_dropped(schedule, data):
    lines = []
    for line in to_csv(schedule).splitlines():
        cells = line.split(",")
        for _ in range(data.draw(st.integers(0, 4))):
            cells.insert(data.draw(st.integers(0, len(cells))), data.draw(st.sampled_from(["", " "])))
        lines.append(",".join(cells))
    assert from_csv("\r\n".join(lines)).rows == schedule.rows


def test_a_rank_that_does_nothing_keeps_its_row():
    forward, idle = row([Action(Kind.FORWARD, 0, 0)]), row([])
    for rows in ((forward, idle), (idle, forward), (forward, idle, forward)):
        assert parse(str(Schedule("idle", rows))).rows == rows


def test_text_without_a_name_is_torchs_csv():
    assert parse("0F0,0B0\n").name == "csv"
    assert parse("# mine\n0F0,0B0\n").name == "mine"


def test_what_follows_from_the_rows():
    schedule = families.build("interleaved", pipeline=2, microbatches=4, chunks=2)
    assert (schedule.num_ranks, schedule.num_stages, schedule.num_microbatches) == (2, 4, 4)
    assert schedule.ranks == {0: 0, 1: 1, 2: 0, 3: 1}
    assert [schedule.stages(rank) for rank in range(2)] == [(0, 2), (1, 3)]
    assert schedule.final[2] == Action(Kind.BACKWARD, 2, 3)
    assert schedule.kinds == {Kind.FORWARD, Kind.BACKWARD}
    assert schedule.num(Kind.FORWARD) == schedule.num(Kind.BACKWARD) == 16
    assert schedule.trains
    assert schedule.compute(0) == schedule.rows[0]
    assert Action(Kind.FORWARD, 3, 3) in schedule
    assert Action(Kind.FORWARD, 3, 4) not in schedule


def test_what_follows_from_rows_with_full_and_split_backwards():
    schedule = from_csv("0F0,0F1,0F2,0I1,0B0,0I2,0W2,0W1\n")
    assert str(schedule.final[0]) == "0W1"
    assert schedule.trains


def test_a_stage_lives_on_the_rank_whose_row_has_it():
    assert families.build("zb-v", pipeline=3, microbatches=2, chunks=2).ranks == {0: 0, 1: 1, 2: 2, 3: 2, 4: 1, 5: 0}


def test_compute_leaves_out_messages_and_steps():
    bare = families.build("1f1b", pipeline=3, microbatches=4)
    full = passes.add_steps(passes.add_messages(bare))
    assert [full.compute(rank) for rank in range(3)] == list(bare.rows)


@pytest.mark.parametrize("text", ["", "\n\n", ",,\n,", "# name\n"])
def test_an_empty_schedule_is_refused(text):
    with pytest.raises(ScheduleError, match=r"the schedule is empty\. Write one line of comma-separated actions"):
        parse(text)


def test_a_wrong_cell_is_refused_with_its_line():
    with pytest.raises(ScheduleError, match=r"line 2: '1X0' is not an action"):
        from_csv("0F0,0B0\n1F0,1X0\n")
