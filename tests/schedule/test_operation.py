"""Operations: actions expanded to units where a reduction overlaps inside."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.schedule import families, passes
from headway.schedule.operation import LANES, Lane, Part, Parts, parse
from headway.schedule.program import Program
from headway.schedule.schedule import from_csv

PARTS = Parts(("a", "b", "c"), (Part("a", ("a",)), Part("b", ("b",)), Part("shared", ("b",), lane=Lane.SHARED)))
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


def test_an_evaluation_steps_without_an_update():
    program = Program(passes.add_steps(families.forward_only(SCHEDULE)), (PARTS,))
    assert not program.trains
    assert [str(op) for op in program.rows[0]] == ["BEGIN", "0F0", "0F1", "STEP/total"]


@pytest.mark.parametrize(
    ("text", "lane"),
    [
        ("BEGIN", Lane.REDUCE),
        ("0F0", Lane.COMPUTE),
        ("0B0/b", Lane.COMPUTE),
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
    program = Program(
        from_csv(
            "BEGIN,0USE0,0F0,0F1,0EVICT0,0B1,0RESTORE0,0B0,0REDUCE_GRAD,0SEND_F0,0RECV_B0,0SEND_B0,0RECV_F0,STEP\n"
        ),
        (PARTS,),
    )
    place = list(map(str, program.operations)).index(text)
    assert LANES[program.lanes[place]] is lane


def test_operations_are_columns_of_which_each_is_a_view():
    row = PROGRAM.rows[0]
    assert [row[place] for place in range(len(row))] == list(row)
    assert [str(op) for op in row[4:6]] == ["0B1/c", "0B1/b"]
    assert row.stages.tolist()[:3] == [-1, 0, 0]
    assert row.microbatches.tolist()[:3] == [-1, 0, 1]


@given(st.sampled_from(list(PROGRAM.rows[0])), st.text("abc.0123456789–", max_size=12))
def test_the_text_of_an_operation_reads_back(operation, part):
    renamed = dataclasses.replace(operation, part=part)
    assert parse(str(renamed)) == renamed
