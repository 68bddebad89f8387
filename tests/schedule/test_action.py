"""Actions: torch's spelling, read and written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import ScheduleError
from headway.schedule.action import Action, Kind, from_code, parse

_OF_A_STAGE = [Kind.UNSHARD, Kind.RESHARD, Kind.REDUCE_GRAD]
_OF_A_RANK = [Kind.BEGIN, Kind.STEP]
_NUMBERS = st.integers(0, 999)
_ACTIONS = st.one_of(
    st.builds(Action, st.sampled_from([k for k in Kind if k not in _OF_A_STAGE + _OF_A_RANK]), _NUMBERS, _NUMBERS),
    st.builds(Action, st.sampled_from(_OF_A_STAGE), _NUMBERS, st.none() | _NUMBERS),
    st.builds(Action, st.sampled_from(_OF_A_RANK)),
)


@given(_ACTIONS)
def test_the_text_of_an_action_reads_back(action):
    assert parse(str(action)) == action


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("2F0", Action(Kind.FORWARD, 2, 0)),
        ("0B3", Action(Kind.BACKWARD, 0, 3)),
        ("11I12", Action(Kind.INPUT_BACKWARD, 11, 12)),
        ("0W0", Action(Kind.WEIGHT_BACKWARD, 0, 0)),
        ("1SEND_F2", Action(Kind.SEND_F, 1, 2)),
        ("1RECV_B2", Action(Kind.RECV_B, 1, 2)),
        ("3UNSHARD", Action(Kind.UNSHARD, 3)),
        ("3UNSHARD7", Action(Kind.UNSHARD, 3, 7)),
        ("3REDUCE_GRAD", Action(Kind.REDUCE_GRAD, 3)),
        ("STEP", Action(Kind.STEP)),
        (" 2F0 ", Action(Kind.FORWARD, 2, 0)),
    ],
)
def test_actions_are_spelled_as_torch_spells_them(text, action):
    assert parse(text) == action


@given(_ACTIONS)
def test_an_action_is_a_number_and_back(action):
    assert from_code(action.code) == action


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2X0", "is not an action. Write stage, kind, micro-batch: 2F0, 0B3, 1SEND_F2, STEP."),
        ("", "is not an action"),
        ("2f0", "is not an action"),
        ("-1F0", "is not an action"),
        ("2F0B1", "is not an action"),
        ("F0", "F needs a stage"),
        ("2F", "F needs a micro-batch"),
        ("REDUCE_GRAD", "REDUCE_GRAD needs a stage"),
        ("2000000F0", "the number of a stage is at most 1048574"),
        ("0STEP", "STEP belongs to no stage"),
        ("STEP0", "STEP belongs to no single micro-batch"),
    ],
)
def test_what_is_no_action_is_refused_with_what_it_lacks(text, says):
    with pytest.raises(ScheduleError) as error:
        parse(text)
    assert says in str(error.value)
    assert f"'{text}'" in str(error.value)
