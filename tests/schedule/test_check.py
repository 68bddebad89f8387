"""The check: what no schedule may lack, and the text of a deadlock."""

from pathlib import Path

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from headway.errors import ScheduleError
from headway.schedule import families, passes
from headway.schedule.check import check, with_messages
from headway.schedule.row import row
from headway.schedule.schedule import Schedule, from_csv, parse
from tests.train.cases import TURNED

GOLDEN = Path(__file__).parent.parent / "golden"

TINY = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"
WITH_MESSAGES = (
    "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n"
)


def _refusal(text):
    with pytest.raises(ScheduleError) as error:
        check(parse(text))
    return str(error.value)


@pytest.mark.parametrize("text", [TINY, WITH_MESSAGES])
def test_a_sound_schedule_comes_back_as_it_is(text):
    schedule = from_csv(text)
    assert check(schedule) is schedule


def test_the_check_accepts_a_schedule_after_every_pass():
    schedule = families.build("1f1b", pipeline=2, microbatches=4)
    for add in (passes.add_messages, lambda s: passes.add_reductions(s, frozenset({0, 1})), passes.add_steps):
        schedule = check(add(schedule))


def test_the_check_accepts_the_schedules_of_a_plan(plan_of):
    plan = plan_of(parallel={"pipeline": 2, "data": 2})
    check(plan.schedule)
    check(plan.evaluation)


@pytest.mark.parametrize(
    ("cut", "named"), [(",0F1", "0F1"), (",1B0", "1B0"), (",0B0,0B1", "0B0")], ids=["forward", "backward", "two"]
)
def test_a_missing_action_is_named(cut, named):
    said = _refusal("# mine\n" + TINY.replace(cut, ""))
    assert "mine: " in said
    assert f"missing for 2 stages and 2 micro-batches, the first {named}." in said


def test_a_missing_stage_is_missing_actions():
    assert "the first 1" in _refusal("0F0,0B0\n2F0,2B0\n")


def test_an_action_twice_is_refused_with_its_rank():
    assert "rank 1 has 1F1 2 times; once is right." in _refusal(TINY.replace("1F1", "1F1,1F1"))


def test_a_stage_on_two_ranks_is_refused_with_both():
    said = _refusal("0F0,0B0,1F1\n1F0,1B0,1B1,0F1,0B1\n")
    assert "sits on rank 1, but rank 0 has" in said
    assert "Put all actions of a stage into one row." in said


@pytest.mark.parametrize(
    ("gone", "left", "partner"),
    [
        ("0SEND_F1,", "1RECV_F1", "0SEND_F1"),
        ("1RECV_F1,", "0SEND_F1", "1RECV_F1"),
        ("0RECV_B1,", "1SEND_B1", "0RECV_B1"),
        (",1SEND_B1", "0RECV_B1", "1SEND_B1"),
    ],
)
def test_a_message_without_its_partner_is_refused_by_both_names(gone, left, partner):
    assert f"{left} has no {partner} to meet." in _refusal(WITH_MESSAGES.replace(gone, ""))


def test_a_deadlock_names_the_ranks_and_what_they_wait_for():
    said = _refusal("# circle\n0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n")
    assert said.splitlines()[:3] == [
        "circle cannot finish: its rows wait for each other.",
        "  rank 0  0F0 [0B0] 0F1 0B1  0B0 waits for 1B0 of rank 1",
        "  rank 1  1F0 [1F1] 1B0 1B1  1F1 waits for 0F1 of rank 0",
    ]


def test_a_backward_before_its_forward_cannot_finish():
    assert "0B0 waits for 0F0 of rank 0" in _refusal("0B0,0F0\n")


def test_receives_in_another_order_than_the_sends_are_a_deadlock():
    """pytorch#172668: fine where a send completes by itself, but not where it completes only with its receive."""
    crossed = WITH_MESSAGES.replace("0SEND_F0", "x").replace("0SEND_F1", "0SEND_F0").replace("x", "0SEND_F1")
    said = _refusal(crossed)
    assert "cannot finish" in said
    assert "[0SEND_F1]" in said
    assert "1RECV_F1 of rank 1 to meet it" in said


def test_a_receive_behind_what_needs_it_cannot_finish():
    late = "0F0,0SEND_F0,0B0,0RECV_B0\n1RECV_F0,1F0,1B0,1SEND_B0\n"
    assert "0B0 waits for 0RECV_B0 of rank 0" in _refusal(late)


@pytest.mark.parametrize(
    "text", ["0F0,0I0,0W0\n", "0F0,0F1,0I0,0B1,0W0\n", "0F0,0F1,0B0,0I1,0W1\n1F0,1I0,1F1,1B1,1W0\n"]
)
def test_a_backward_is_full_or_split_and_a_schedule_may_have_both(text):
    check(from_csv(text))


@pytest.mark.parametrize(
    ("text", "missing"), [("0F0,0I0\n", "0W0"), ("0F0,0W0\n", "0I0"), ("0F0,0F1,0I1,0W1\n", "0B0")]
)
def test_half_a_backward_is_refused_with_the_half_that_is_missing(text, missing):
    assert f"1 actions are missing for 1 stages and {text.count('F')} micro-batches, the first {missing}." in _refusal(
        text
    )


@pytest.mark.parametrize(("text", "half"), [("0F0,0B0,0W0\n", "0W0"), ("0F0,0I0,0B0\n", "0I0")])
def test_a_backward_that_is_both_full_and_split_is_refused(text, half):
    assert f"0B0 and {half}. A backward is full (B) or split (I and W)." in _refusal(text)


def test_a_weight_backward_before_its_input_backward_cannot_finish():
    assert "0W0 waits for 0I0 of rank 0" in _refusal("0F0,0W0,0I0\n")


def test_an_input_backward_waits_for_the_one_of_the_next_stage():
    said = _refusal("0F0,0I0,0W0,0F1,0I1,0W1\n1F0,1F1,1I0,1W0,1I1,1W1\n")
    assert "0I0 waits for 1I0 of rank 1" in said


def test_a_message_or_a_reduction_of_nothing_is_refused():
    assert "1SEND_B0 has no 1B0 to follow." in _refusal("0F0,0RECV_B0\n1F0,1SEND_B0\n")
    assert "0SEND_F7 has no 0F7 to follow." in _refusal("0F0,0SEND_F7\n1F0,1RECV_F7\n")
    assert "0REDUCE_GRAD has no 0B0 to follow." in _refusal("0F0,0REDUCE_GRAD\n")


def test_a_weight_version_may_be_used_again_but_activations_move_once_and_come_back():
    check(from_csv("0USE0,0F0,0F1,0B0,0USE1,0F2,0USE0,0B1,0USE1,0B2\n"))
    check(from_csv("0F0,0EVICT0,0F1,0B1,0RESTORE0,0B0\n"))
    assert "0EVICT0 has no 0RESTORE0 to meet." in _refusal("0F0,0EVICT0,0B0\n")
    assert "0RESTORE0 has no 0EVICT0 to meet." in _refusal("0F0,0RESTORE0,0B0\n")
    assert "0EVICT1 has no 0F1 to follow." in _refusal("0F0,0EVICT1,0RESTORE1,0B0\n")
    assert "rank 0 has 0EVICT0 2 times" in _refusal("0F0,0EVICT0,0EVICT0,0RESTORE0,0B0\n")
    assert "0B0 waits for 0RESTORE0 of rank 0" in _refusal("0F0,0EVICT0,0B0,0RESTORE0\n")


def test_a_huge_number_is_refused_at_once():
    assert "more than 10000 actions are missing" in _refusal("0F0,0B0,0F99999999999\n")
    assert "more than 10000 actions are missing" in _refusal("0F0,0B0,7F99999999999\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
            "0SEND_F0 of rank 0, which waits for 0F0 of rank 0, which waits for 0SEND_F0",
        ),
        (
            "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1SEND_B0,1B0\n",
            "1SEND_B0 of rank 1, which waits for 1B0 of rank 1, which waits for 1SEND_B0",
        ),
        ("0F0,0REDUCE_GRAD,0B0\n", "0REDUCE_GRAD waits for 0B0 of rank 0"),
        ("STEP,0F0,0B0\n", "rank 0 goes on behind its STEP. Put that last."),
        ("0F0,STEP,0B0\n", "rank 0 goes on behind its STEP."),
    ],
)
def test_what_the_lanes_could_sort_out_but_no_player_from_left_to_right_is_refused(text, said):
    assert said in _refusal(text)


@st.composite
def _moved(draw):
    """Rows of two stages a rank, some of whose actions are done earlier or later than the family does them."""
    p = draw(st.integers(2, 4))
    schedule = families.build(draw(st.sampled_from(["interleaved", "zb-v"])), pipeline=p, microbatches=p, chunks=2)
    rows = [list(each) for each in schedule.rows]
    for _ in range(draw(st.integers(0, 8))):
        mine = draw(st.sampled_from(rows))
        at = draw(st.integers(0, len(mine) - 1))
        mine.insert(max(0, at + draw(st.integers(-3, 3))), mine.pop(at))
    return Schedule("moved", tuple(map(row, rows)))


@given(_moved())
def test_what_can_finish_without_messages_can_finish_with_them(schedule):
    try:
        check(schedule)
    except ScheduleError:
        reject()
    for full in (check(passes.add_messages_as_made(schedule)), with_messages(schedule)):
        assert [full.compute(rank) for rank in range(full.num_ranks)] == list(schedule.rows)


@pytest.mark.parametrize("text", [TURNED, (GOLDEN / "torch_interleaved_zero_bubble.csv").read_text()])
def test_rows_whose_receives_may_not_be_posted_ahead_get_them_as_they_are_made(text):
    """The second: what torch's ScheduleInterleavedZeroBubble writes for 4 ranks, 2 stages each, 8 micro-batches."""
    schedule = check(from_csv(text))
    with pytest.raises(ScheduleError, match="cannot finish"):
        check(passes.add_messages(schedule))
    full = with_messages(schedule)
    assert {a for each in full.rows for a in each} == {a for each in passes.add_messages(schedule).rows for a in each}


def test_of_rows_that_cannot_finish_with_messages_either_way_the_check_says_why():
    with pytest.raises(ScheduleError, match="1B0 waits for 1F0 of rank 1"):
        with_messages(from_csv("0F0,0B0,0F1,0B1\n1B0,1F0,1F1,1B1\n"))
