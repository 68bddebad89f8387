"""Passes: what each adds, and where."""

import itertools

import pytest

from headway.schedule import families, passes
from headway.schedule.action import COMPUTE, GIVES_WEIGHT_GRADIENT, NEEDS_PARAMETERS, Action, Kind
from headway.schedule.needs import meetings
from headway.schedule.program import Program
from headway.schedule.schedule import to_csv

SCHEDULES = [
    families.build("gpipe", pipeline=4, microbatches=6),
    families.build("1f1b", pipeline=4, microbatches=8),
    families.build("1f1b", pipeline=1, microbatches=3),
    families.build("interleaved", pipeline=3, microbatches=6, chunks=2),
    families.build("interleaved", pipeline=1, microbatches=2, chunks=3),
    families.forward_only(families.build("zb-v", pipeline=3, microbatches=4, chunks=2)),
    families.build("zb-h1", pipeline=4, microbatches=8),
    families.build("zb-h2", pipeline=3, microbatches=7),
    families.build("zb-v", pipeline=3, microbatches=6, chunks=2),
    families.build("zb-v", pipeline=2, microbatches=5, chunks=2),
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
    apart = [s for s in range(stages - 1) if schedule.ranks[s] != schedule.ranks[s + 1]]
    expected = {Action(kind, s + step, i) for s in apart for i in range(m) for kind, step in KINDS[schedule.trains]}
    found = [a for row in passes.add_messages(schedule).rows for a in row if a.kind not in COMPUTE]
    assert len(found) == len(set(found))
    assert set(found) == expected


@each
def test_a_send_follows_what_makes_its_tensor_and_a_receive_is_posted_one_action_ahead(schedule):
    for row in passes.add_messages(schedule).rows:
        computes = [a for a in row if a.kind in COMPUTE - {Kind.WEIGHT_BACKWARD}]
        for place, action in enumerate(row):
            done = sum(a in computes for a in row[:place])  # those issued before it; a W neither sends nor receives
            if action.kind in {Kind.SEND_F, Kind.SEND_B}:
                assert computes[done - 1] == _end(schedule, action, Kind.SEND_F)
            if action.kind in {Kind.RECV_F, Kind.RECV_B}:
                needed = computes.index(_end(schedule, action, Kind.RECV_F))
                early = schedule.name == "zb-v" and needed > done  # a sender's order comes first
                assert early or needed == done + 1 or needed == done == 0


def _end(schedule, message, forward):
    if message.kind is forward:
        return Action(Kind.FORWARD, message.stage, message.microbatch)
    full = Action(Kind.BACKWARD, message.stage, message.microbatch)
    return full if full in schedule else Action(Kind.INPUT_BACKWARD, message.stage, message.microbatch)


@each
def test_messages_from_one_rank_are_received_in_the_order_in_which_it_sends_them(schedule):
    full = Program(passes.add_messages(schedule))

    def keys(rank, kinds):
        row = full.rows[rank]
        return [key for key, op in zip(meetings(row).tolist(), row, strict=True) if op.action.kind in kinds]

    for source, target in itertools.permutations(range(schedule.num_ranks), 2):
        sent = keys(source, {Kind.SEND_F, Kind.SEND_B})
        received = keys(target, {Kind.RECV_F, Kind.RECV_B})
        assert [key for key in sent if key in received] == [key for key in received if key in sent]


@each
def test_reductions_follow_the_last_b_or_w_of_their_stage(schedule):
    wanted = frozenset(range(0, schedule.num_stages, 2))
    for before, row in zip(schedule.rows, passes.add_reductions(schedule, wanted).rows, strict=True):
        reductions = [a for a in row if a.kind is Kind.REDUCE_GRAD]
        assert [a for a in row if a.kind is not Kind.REDUCE_GRAD] == list(before)
        trained = {a.stage for a in before if a.kind in GIVES_WEIGHT_GRADIENT}
        assert sorted(a.stage for a in reductions) == sorted(trained & wanted)
        for reduction in reductions:
            last = max(i for i, a in enumerate(row) if a.kind in GIVES_WEIGHT_GRADIENT and a.stage == reduction.stage)
            assert row[last + 1] == reduction


@each
def test_cut_gradients_are_reduced_after_every_b_or_w_of_their_stage(schedule):
    often = frozenset(range(0, schedule.num_stages, 2))
    every = frozenset(range(schedule.num_stages))
    for before, row in zip(schedule.rows, passes.add_reductions(schedule, every, often).rows, strict=True):
        assert [a for a in row if a.kind is not Kind.REDUCE_GRAD] == list(before)
        added = [a for a in before if a.kind in GIVES_WEIGHT_GRADIENT]
        wanted = [Action(Kind.REDUCE_GRAD, a.stage, a.microbatch) for a in added if a.stage in often]
        assert [a for a in row if a.kind is Kind.REDUCE_GRAD and a.microbatch is not None] == wanted
        for reduction in wanted:
            done = row[list(row).index(reduction) - 1]
            assert (done.stage, done.microbatch) == (reduction.stage, reduction.microbatch)


@each
def test_parameters_are_gathered_once_before_the_first_forward_or_around_all_that_needs_them(schedule):
    once, often = frozenset(range(0, schedule.num_stages, 2)), frozenset(range(1, schedule.num_stages, 2))
    for before, row in zip(schedule.rows, passes.add_gathers(schedule, once, often).rows, strict=True):
        moves = {Kind.UNSHARD, Kind.RESHARD}
        assert [a for a in row if a.kind not in moves] == list(before)
        assert len(set(row)) == len(row)
        for place, action in enumerate(row):
            needs = action.kind in NEEDS_PARAMETERS
            around = [a.kind if a.kind in moves else None for a in (row[place - 1], *list(row)[place + 1 : place + 2])]
            if needs and action.stage in often:
                assert around == [Kind.UNSHARD, Kind.RESHARD]
            elif needs:
                first = next(a for a in row if a.stage == action.stage and a.kind in NEEDS_PARAMETERS)
                assert (row[place - 1].kind is Kind.UNSHARD) == (action == first)


@each
def test_every_row_ends_with_a_step_and_the_one_with_the_last_stage_begins(schedule):
    stepped = passes.add_steps(schedule)
    for rank, (before, row) in enumerate(zip(schedule.rows, stepped.rows, strict=True)):
        begins = (Action(Kind.BEGIN),) if rank == schedule.ranks[schedule.num_stages - 1] else ()
        assert list(row) == [*begins, *before, Action(Kind.STEP)]


def test_passes_are_pure():
    schedule = families.build("1f1b", pipeline=2, microbatches=2)
    before = str(schedule)
    passes.add_steps(passes.add_reductions(passes.add_messages(schedule), frozenset({0})))
    assert str(schedule) == before
