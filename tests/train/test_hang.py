"""The verdict on a job that stands still, from positions alone."""

from dataclasses import replace

import pytest

from headway.schedule import schedule as schedules
from headway.train.hang import Position, Standstill

LIMIT = 5.0
STEP = 12  # the turn of the step that stands still
# rank 0 wants the gradient of micro-batch 0 before it sends 1, rank 1 wants micro-batch 1 before it sends that gradient
CIRCLE = (
    "0F0,0SEND_F0,0RECV_B0,0B0,0F1,0SEND_F1,0RECV_B1,0B1,STEP",
    "BEGIN,1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1,STEP",
)


def _plan(plan_of, pipeline, microbatches):
    return plan_of(
        model={
            "layers": 4,
            "hidden": 32,
            "heads": 2,
            "feed_forward": 64,
            "vocabulary": 256,
            "positions": 64,
            "tied": False,
        },
        parallel={"pipeline": pipeline, "data": 1},
        data={"sequence_length": 32},
        train={"global_batch": 4 * microbatches, "microbatch": 4},
    )


@pytest.fixture(scope="module")
def plan(plan_of):
    return _plan(plan_of, 4, 4)


def _at(rank, operation, *, awaited="", peers=(), age=5.1, turn=STEP, what="step 4", **changed):
    return Position(rank, "node", 100 + rank, turn, what, operation, awaited, tuple(peers), age, LIMIT, **changed)


def _stands(plan, *positions, silent=()):
    return Standstill(plan, {each.rank: each for each in positions}, dict.fromkeys(silent, 4.0))


def _waiting(plan, cause):
    """Ranks 0, 2 and 3 where they end up when rank 1 does not leave its forward of micro-batch 1."""
    return [
        _at(0, "0RECV_B1", awaited="0RECV_B0", peers=[1], age=5.0),
        cause,
        _at(2, "2RECV_B0", awaited="2RECV_F1", peers=[1], age=5.0),
        _at(3, "3SEND_B0", awaited="3RECV_F1", peers=[2], age=4.9),
    ]


def test_a_rank_that_computes_for_ever_is_the_cause(plan):
    found = _stands(plan, *_waiting(plan, _at(1, "1F1", age=5.2)))
    assert found.causes == (1,)
    first, remedy, *ranks = str(found).splitlines()
    assert first == (
        "rank 1 has made no progress for 5 s: it is in step 4 at 1F1 (forward, stage 1, micro-batch 1) and waits for "
        "nobody; ranks 0, 2, 3 wait for it."
    )
    assert remedy == "If it only needs longer, raise train.hang_after above 5 seconds."
    assert ranks == [
        "  rank 0: step 4 · 0RECV_B0, waits 5.0 s for rank 1, which is in 1F1 since 5.2 s",
        "  rank 1: step 4 · 1F1 for 5.2 s",
        "  rank 2: step 4 · 2RECV_F1, waits 5.0 s for rank 1, which is in 1F1 since 5.2 s",
        "  rank 3: step 4 · 3RECV_F1, waits 4.9 s for rank 2, which waits in 2RECV_F1 since 5.0 s",
    ]


def test_a_rank_that_does_not_answer_is_the_cause_whatever_it_said_last(plan):
    last = _at(1, "1RECV_F2", awaited="1RECV_F1", peers=[0], age=0.1)
    found = _stands(plan, *_waiting(plan, last), silent=[1])
    assert found.causes == (1,)
    text = str(found)
    assert text.startswith(
        "rank 1 (process 101 on node) has not answered for 4.0 s or more: it was last in step 4 at 1R"
    )
    assert "ranks 0, 2, 3 wait for it." in text
    assert "raise train.hang_after" not in text


def test_a_rank_that_never_joined_is_the_cause(plan):
    joining = [_at(r, "starting", awaited="all ranks to join", peers=range(4), turn=0, what="start") for r in (0, 1, 3)]
    found = _stands(plan, *joining)
    assert found.causes == (2,)
    assert str(found).startswith("rank 2 has not joined the job; ranks 0, 1, 3 wait for it.")


def test_ranks_that_wait_for_each_other_are_a_circle(plan_of):
    made = _plan(plan_of, 2, 2)
    plan = replace(made, schedule=schedules.parse("# circle\n" + "\n".join(CIRCLE)))
    found = _stands(
        plan,
        _at(0, "0RECV_B0", awaited="0RECV_B0", peers=[1]),
        _at(1, "1RECV_F1", awaited="1RECV_F1", peers=[0]),
    )
    assert found.causes == (0, 1)
    assert str(found).startswith(
        "ranks 0, 1 wait for each other in a circle: rank 0 (0RECV_B0) for rank 1, rank 1 (1RECV_F1) for rank 0."
    )


def test_who_waits_for_a_save_does_not_hang(plan):
    saving = Position(0, "node", 1, STEP, "step 4", "writing a checkpoint", "", (), 500.0, None)
    others = [_at(r, "STEP/total", awaited="STEP/total", peers=range(4), age=400.0) for r in (1, 2, 3)]
    assert _stands(plan, saving, *others).causes == ()
    assert _stands(plan, saving, *others, silent=[0]).causes == (), "a save may keep Python's lock"


def test_who_sleeps_while_another_saves_is_the_cause(plan):
    saving = Position(0, "node", 1, STEP, "step 4", "writing a checkpoint", "", (), 500.0, None)
    waiting = [_at(r, "STEP/total", awaited="STEP/total", peers=range(4), age=6.0) for r in (1, 2)]
    assert _stands(plan, saving, *waiting, _at(3, "3F0")).causes == (3,)


def test_who_waits_long_for_ranks_that_make_progress_does_not_hang(plan):
    assert _stands(plan, *_waiting(plan, _at(1, "1F1", age=0.5))).causes == ()


def test_a_rank_that_is_silent_while_nobody_waits_for_it_is_no_cause(plan):
    others = [_at(r, "reading its samples", age=0.1) for r in (0, 2, 3)]
    assert _stands(plan, *others, _at(1, "1F1", age=0.1), silent=[1]).causes == ()


def test_a_message_that_both_ends_have_come_to_is_the_networks_fault(plan):
    ends = [_at(0, "0RECV_B0", awaited="0SEND_F1", peers=[1]), _at(1, "1RECV_F2", awaited="1RECV_F1", peers=[0])]
    found = _stands(plan, *ends, *_waiting(plan, ends[1])[2:])
    assert found.causes == (0, 1)
    assert (
        "rank 1 has waited 5 s in step 4 at 1RECV_F1 (input from the stage before, stage 1, micro-batch 1), and rank 0 "
        "has come to it: look at the network of node."
    ) in str(found)


def test_a_collective_waits_for_those_who_are_still_in_the_step_before(plan):
    early = [_at(r, "STEP/total", awaited="STEP/total", peers=range(4)) for r in (0, 1, 3)]
    found = _stands(plan, *early, _at(2, "STEP/update", turn=STEP - 2, what="step 3"))
    assert found.causes == (2,)
    assert found.waits == {0: (2,), 1: (2,), 2: (), 3: (2,)}


def test_an_evaluation_is_judged_by_its_own_rows(plan):
    what = "evaluation after step 4, batch 1"
    found = _stands(
        plan,
        _at(0, "STEP/total", awaited="STEP/total", peers=range(4), what=what),
        _at(1, "1F2", what=what),
        _at(2, "2RECV_F3", awaited="2RECV_F2", peers=[1], what=what),
        _at(3, "3RECV_F2", awaited="3RECV_F1", peers=[2], what=what, age=1.0),
    )
    assert found.causes == (1,)
    assert found.waits[0] == (1, 2, 3)


def test_on_an_accelerator_the_update_waits_for_those_who_have_not_come_to_the_total(plan):
    ahead = [_at(r, "STEP/update") for r in (0, 2, 3)]
    assert _stands(plan, *ahead, _at(1, "1F3")).causes == (1,)


def test_a_sleep_outside_the_steps_is_told_in_its_own_words(plan):
    step = {"what": "step 5", "turn": STEP + 2}
    found = _stands(
        plan,
        _at(0, "0RECV_B1", awaited="0RECV_B0", peers=[1], **step),
        _at(1, "1RECV_B0", awaited="1SEND_F0", peers=[2], **step),
        _at(2, "reading its samples", **step),
        _at(3, "3RECV_F0", awaited="3RECV_F0", peers=[2], **step),
    )
    assert found.causes == (2,)
    assert "it is in step 5: reading its samples and waits for nobody; ranks 0, 1, 3 wait for it." in str(found)


def test_what_ranks_do_together_around_the_steps_is_known_by_its_name(plan):
    gathering = {"what": "end", "awaited": "the trace of all ranks", "peers": range(4)}
    others = [_at(r, "gathering the trace", **gathering) for r in (0, 1, 2)]
    assert _stands(plan, *others, _at(3, "STEP/update", turn=STEP - 1)).causes == (3,)


def test_a_large_job_is_told_from_its_cause_on(plan_of):
    plan = plan_of(model="gpt-tiny", parallel={"pipeline": 2, "data": 64}, train={"global_batch": 256, "microbatch": 1})
    waiting = [_at(r, "STEP/total", awaited="STEP/total", peers=range(128)) for r in range(127)]
    text = str(_stands(plan, *waiting, _at(127, "1F3")))
    assert (
        "it is in step 4 at 1F3 (forward, stage 1, micro-batch 3) and waits for nobody; ranks 0, 1, 2 … (127)" in text
    )
    assert "  rank 127: step 4 · 1F3 for 5.1 s" in text
    assert text.endswith("… and 96 more ranks")
    assert len(text.splitlines()) == 35


def test_who_has_left_is_not_blamed_while_the_others_wait_to_leave_for_the_rank_that_saves(plan):
    leaving = {"what": "end", "awaited": "all ranks to leave", "peers": range(4), "age": 15.0}
    saving = replace(_at(0, "writing the weights", what="end"), limit=None)
    gone = replace(_at(2, "gathering", what="end"), ended=True)
    both = [_at(rank, "gathering", **leaving) for rank in (1, 3)]
    assert _stands(plan, saving, both[0], gone, both[1]).causes == ()


def test_a_gather_is_told_by_its_number_which_is_no_micro_batch(plan):
    stands = str(_stands(plan, _at(0, "0UNSHARD5/layers.0", age=5.1)))
    assert "at 0UNSHARD5/layers.0 (gather of parameters, stage 0, number 5)" in stands
