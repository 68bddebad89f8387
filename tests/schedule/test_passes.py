"""Passes: what each adds, and where."""

import pytest

from headway.schedule import families, passes
from headway.schedule.action import COMPUTE, Action, Kind
from headway.schedule.schedule import to_csv

SCHEDULES = [
    families.build("gpipe", pipeline=4, microbatches=6),
    families.build("1f1b", pipeline=4, microbatches=8),
    families.build("1f1b", pipeline=1, microbatches=3),
    families.build("interleaved", pipeline=3, microbatches=6, chunks=2),
    families.build("interleaved", pipeline=1, microbatches=2, chunks=3),
    families.forward_only(3, 4, 2),
]
# of a tensor between stage s and the next: which messages, of stage s + …
KINDS = {
    False: [(Kind.SEND_F, 0), (Kind.RECV_F, 1)],
    True: [(Kind.SEND_F, 0), (Kind.RECV_F, 1), (Kind.SEND_B, 1), (Kind.RECV_B, 0)],
}
each = pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: f"{s.name} {s.num_stages}/{s.num_ranks}")


def test_messages_as_text():
    bare = families.build("1f1b", pipeline=2, microbatches=2)
    assert to_csv(passes.add_messages(bare)) == (
        "0F0,0SEND_F0,0RECV_B0,0F1,0SEND_F1,0RECV_B1,0B0,0B1\n1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n"
    )


@each
def test_messages_leave_the_compute_rows_as_they_are(schedule):
    with_messages = passes.add_messages(schedule)
    assert [with_messages.compute(rank) for rank in range(schedule.num_ranks)] == list(schedule.rows)


@each
def test_a_message_goes_wherever_a_tensor_changes_ranks_and_nowhere_else(schedule):
    stages, m = schedule.num_stages, schedule.num_microbatches
    trains = any(a.kind is Kind.BACKWARD for a in schedule.actions)
    apart = [s for s in range(stages - 1) if schedule.ranks[s] != schedule.ranks[s + 1]]
    expected = {Action(kind, s + step, i) for s in apart for i in range(m) for kind, step in KINDS[trains]}
    found = [a for row in passes.add_messages(schedule).rows for a in row if a.kind not in COMPUTE]
    assert len(found) == len(set(found))
    assert set(found) == expected


@each
def test_a_send_follows_what_makes_its_tensor_and_a_receive_is_posted_one_action_ahead(schedule):
    for row in passes.add_messages(schedule).rows:
        computes = [a for a in row if a.kind in COMPUTE]
        for place, action in enumerate(row):
            done = sum(a.kind in COMPUTE for a in row[:place])  # compute actions issued before it
            if action.kind in {Kind.SEND_F, Kind.SEND_B}:
                maker = Kind.FORWARD if action.kind is Kind.SEND_F else Kind.BACKWARD
                assert computes[done - 1] == Action(maker, action.stage, action.microbatch)
            if action.kind in {Kind.RECV_F, Kind.RECV_B}:
                user = Kind.FORWARD if action.kind is Kind.RECV_F else Kind.BACKWARD
                needed = computes.index(Action(user, action.stage, action.microbatch))
                assert needed == done + 1 or needed == done == 0


@each
def test_reductions_follow_the_last_backward_of_their_stage(schedule):
    wanted = frozenset(range(0, schedule.num_stages, 2))
    for before, row in zip(schedule.rows, passes.add_reductions(schedule, wanted).rows, strict=True):
        reductions = [a for a in row if a.kind is Kind.REDUCE_GRAD]
        assert tuple(a for a in row if a.kind is not Kind.REDUCE_GRAD) == before
        trained = {a.stage for a in before if a.kind is Kind.BACKWARD}
        assert sorted(a.stage for a in reductions) == sorted(trained & wanted)
        for reduction in reductions:
            last = max(i for i, a in enumerate(row) if a.kind is Kind.BACKWARD and a.stage == reduction.stage)
            assert row[last + 1] == reduction


@each
def test_every_row_ends_with_a_step_and_the_one_with_the_last_stage_begins(schedule):
    stepped = passes.add_steps(schedule)
    for rank, (before, row) in enumerate(zip(schedule.rows, stepped.rows, strict=True)):
        begins = (Action(Kind.BEGIN),) if rank == schedule.ranks[schedule.num_stages - 1] else ()
        assert row == (*begins, *before, Action(Kind.STEP))


def test_passes_are_pure():
    schedule = families.build("1f1b", pipeline=2, microbatches=2)
    before = str(schedule)
    passes.add_steps(passes.add_reductions(passes.add_messages(schedule), frozenset({0})))
    assert str(schedule) == before
