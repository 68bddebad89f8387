"""The graph of a program: lanes in order, copies apart, meetings together."""

from headway.schedule import families, graph, passes
from headway.schedule.operation import Lane, Parts, Program
from headway.schedule.schedule import from_csv

PARTS = (Parts(("a",), (("a", "a", Lane.REDUCE),)),) * 2
FULL = passes.add_steps(
    passes.add_reductions(passes.add_messages(families.build("1f1b", pipeline=2, microbatches=2)), frozenset({0, 1}))
)


def _named(rows, i):
    return f"{rows.operations[i]}@{rows.ranks[i]}"


def test_copy_d_of_row_p_is_rank_p_times_the_copies_plus_d():
    rows = graph.build(Program(FULL, PARTS), replicas=3)
    assert sorted(set(rows.ranks)) == list(range(6))
    per_rank = {
        rank: [str(o) for o, r in zip(rows.operations, rows.ranks, strict=True) if r == rank] for rank in range(6)
    }
    assert per_rank[0] == per_rank[1] == per_rank[2] != per_rank[3] == per_rank[4] == per_rank[5]


def test_messages_meet_within_a_copy_and_collectives_over_all_copies():
    rows = graph.build(Program(FULL, PARTS), replicas=2)
    meetings = [sorted(_named(rows, i) for i in members) for members in rows.members]
    assert ["0SEND_F0@0", "1RECV_F0@2"] in meetings
    assert ["0SEND_F0@1", "1RECV_F0@3"] in meetings
    assert ["BEGIN@2", "BEGIN@3"] in meetings
    assert ["STEP/total@0", "STEP/total@1", "STEP/total@2", "STEP/total@3"] in meetings
    assert all(len(members) >= 2 for members in rows.members)


def test_without_a_rendezvous_messages_meet_nobody_and_a_receive_needs_its_send():
    rows = graph.build(Program(from_csv("0F0,0SEND_F0\n1RECV_F0,1F0\n")), rendezvous=False)
    assert rows.members == []
    receive = next(i for i, op in enumerate(rows.operations) if str(op) == "1RECV_F0")
    assert [_named(rows, i) for i in rows.before[receive]] == ["0SEND_F0@0"]


def test_an_operation_waits_for_its_lane_and_for_the_compute_before_it():
    rows = graph.build(Program(FULL, PARTS))
    where = {_named(rows, i): i for i in range(len(rows.operations))}

    def waits(name):
        return {_named(rows, i) for i in rows.before[where[name]]}

    assert waits("0SEND_F1@0") == {"0F1@0", "0SEND_F0@0"}
    assert waits("1RECV_F1@1") == {"1F0@1", "1RECV_F0@1"}
    assert waits("0RECV_B1@0") == {"0F1@0", "0RECV_B0@0"}
    assert waits("1F1@1") == {"1B0@1", "1RECV_F1@1"}


def test_before_and_after_are_two_sides_of_one_thing():
    rows = graph.build(Program(FULL, PARTS), replicas=2)
    edges = {(j, i) for i, before in enumerate(rows.before) for j in before}
    assert edges == {(j, i) for j, after in enumerate(rows.after) for i in after}


def test_a_walk_finishes_a_sound_program_and_stops_where_it_cannot_go_on():
    assert all(graph.walk(graph.build(Program(FULL, PARTS), replicas=2)))
    stuck = graph.build(Program(from_csv("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n")))
    done = graph.walk(stuck)
    assert [_named(stuck, i) for i, finished in enumerate(done) if finished] == ["0F0@0", "1F0@1"]
    assert stuck.explain(done).splitlines() == [
        "  rank 0: next 0B0, waits for 1B0 of rank 1",
        "  rank 1: next 1F1, waits for 0F1 of rank 0",
    ]
