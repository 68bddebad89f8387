"""Operations: columns of which each is a view, and their text."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from headway.schedule.operation import Lane, Part, Parts, parse
from headway.schedule.program import Program
from headway.schedule.schedule import from_csv

PARTS = Parts(("a", "b", "c"), (Part("a", ("a",)), Part("b", ("b",)), Part("shared", ("b",), lane=Lane.SHARED)))
SCHEDULE = from_csv("BEGIN,0F0,0F1,0B0,0B1,0REDUCE_GRAD,STEP\n")
PROGRAM = Program(SCHEDULE, (PARTS,))


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
