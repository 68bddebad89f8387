"""Rows: a column of integers of which every action is a view."""

from hypothesis import given
from hypothesis import strategies as st

from headway.schedule.action import Action, Kind, parse
from headway.schedule.row import row

_ACTIONS = st.lists(
    st.builds(Action, st.sampled_from([Kind.FORWARD, Kind.BACKWARD]), st.integers(0, 9), st.integers(0, 9))
)


@given(_ACTIONS, st.integers(0, 5), st.integers(0, 5))
def test_a_row_reads_like_the_actions_that_it_was_made_of(actions, first, last):
    made = row(actions)
    assert list(made) == actions
    assert [made[place] for place in range(len(made))] == actions
    assert list(made[first:last]) == actions[first:last]
    assert list(reversed(made)) == actions[::-1]


@given(_ACTIONS, _ACTIONS)
def test_rows_are_equal_when_their_actions_are(one, other):
    assert (row(one) == row(other)) == (one == other)
    assert row(one) == row(list(one))
    assert hash(row(one)) == hash(row(list(one)))


def test_the_columns_of_a_row():
    made = row(map(parse, ["BEGIN", "0F3", "2B1", "STEP"]))
    assert made.stages.tolist() == [-1, 0, 2, -1]
    assert made.microbatches.tolist() == [-1, 3, 1, -1]
    assert made.of(Kind.FORWARD, Kind.STEP).tolist() == [False, True, False, True]
    assert repr(made) == "Row(BEGIN,0F3,2B1,STEP)"
