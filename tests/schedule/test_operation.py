"""Operations: actions expanded to units where a reduction overlaps inside."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.schedule import families, passes
from headway.schedule.action import Action, Kind
from headway.schedule.operation import Lane, Operation, Parts, Program, parse
from headway.schedule.schedule import from_csv

PARTS = Parts(("a", "b", "c"), (("a", "a", Lane.REDUCE), ("b", "b", Lane.REDUCE), ("shared", "b", Lane.SHARED)))
SCHEDULE = from_csv("BEGIN,0F0,0F1,0B0,0B1,0REDUCE_GRAD,STEP\n")
PROGRAM = Program(SCHEDULE, (PARTS,))


def test_the_last_backward_runs_its_units_in_reverse_with_each_reduction_right_behind_its_unit():
    assert [str(op) for op in PROGRAM.rows[0]] == [
        "BEGIN",
        "0F0",
        "0F1",
        "0B0",
        "0B1/c",
        "0B1/b",
        "0REDUCE_GRAD/b",
        "0REDUCE_GRAD/shared",
        "0B1/a",
        "0REDUCE_GRAD/a",
        "STEP/total",
        "STEP/update",
    ]


def test_nothing_is_expanded_where_nothing_overlaps():
    bare = Program(from_csv("0F0,0F1,0B0,0B1\n"), (PARTS,))
    assert [str(op) for op in bare.rows[0]] == ["0F0", "0F1", "0B0", "0B1"]


def test_the_end_of_an_action_is_the_end_of_its_last_operation():
    assert PROGRAM.last(Action(Kind.BACKWARD, 0, 0)) == Operation(Action(Kind.BACKWARD, 0, 0))
    assert PROGRAM.last(Action(Kind.BACKWARD, 0, 1)) == Operation(Action(Kind.BACKWARD, 0, 1), "a")
    assert PROGRAM.last(Action(Kind.FORWARD, 0, 1)) == Operation(Action(Kind.FORWARD, 0, 1))


def test_an_evaluation_steps_without_an_update():
    program = Program(
        passes.add_steps(families.forward_only(families.build("gpipe", pipeline=1, microbatches=2))), (PARTS,)
    )
    assert not program.trains
    assert [str(op) for op in program.rows[0]] == ["BEGIN", "0F0", "0F1", "STEP/total"]


@pytest.mark.parametrize(
    ("text", "lane"),
    [
        ("BEGIN", Lane.REDUCE),
        ("0F0", Lane.COMPUTE),
        ("0B1/b", Lane.COMPUTE),
        ("0SEND_F0", Lane.SEND),
        ("0SEND_B0", Lane.SEND),
        ("0RECV_F0", Lane.RECEIVE),
        ("0RECV_B0", Lane.RECEIVE),
        ("0EVICT0", Lane.PAIR),
        ("0RESTORE0", Lane.PAIR),
        ("0USE0", Lane.COMPUTE),
        ("0REDUCE_GRAD/a", Lane.REDUCE),
        ("0REDUCE_GRAD/shared", Lane.SHARED),
        ("STEP/total", Lane.WORLD),
        ("STEP/update", Lane.COMPUTE),
    ],
)
def test_each_operation_has_its_lane(text, lane):
    assert PROGRAM.lane(parse(text)) is lane


def test_the_index_finds_each_operation_in_its_row():
    assert [PROGRAM.index[0][op] for op in PROGRAM.rows[0]] == list(range(12))


@given(st.sampled_from(list(PROGRAM.rows[0])), st.text("abc.0123456789–", max_size=12))
def test_the_text_of_an_operation_reads_back(operation, part):
    renamed = dataclasses.replace(operation, part=part)
    assert parse(str(renamed)) == renamed
