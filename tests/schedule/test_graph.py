"""The graph of a program: lanes in order, copies apart, meetings together."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from headway.schedule import families, graph, passes
from headway.schedule.operation import Part, Parts
from headway.schedule.program import Program
from headway.schedule.row import row
from headway.schedule.schedule import Schedule, from_csv

PARTS = (Parts(("a",), (Part("a", ("a",)),)),) * 2
FULL = passes.add_steps(
    passes.add_reductions(passes.add_messages(families.build("1f1b", pipeline=2, microbatches=2)), frozenset({0, 1}))
)


def _named(rows, i):
    return f"{rows.operations[i]}@{rows.ranks[i]}"


def _meetings(rows):
    return [sorted(_named(rows, i) for i in members) for members in rows.members if len(members) > 1]


def test_copy_d_of_row_p_is_rank_p_times_the_copies_plus_d():
    rows = graph.build(Program(FULL, PARTS), replicas=3)
    assert sorted(set(rows.ranks)) == list(range(6))
    per_rank = {
        rank: [str(o) for o, r in zip(rows.operations, rows.ranks, strict=True) if r == rank] for rank in range(6)
    }
    assert per_rank[0] == per_rank[1] == per_rank[2] != per_rank[3] == per_rank[4] == per_rank[5]


def test_messages_meet_within_a_copy_and_collectives_over_all_copies():
    rows = graph.build(Program(FULL, PARTS), replicas=2)
    meetings = _meetings(rows)
    assert ["0SEND_F0@0", "1RECV_F0@2"] in meetings
    assert ["0SEND_F0@1", "1RECV_F0@3"] in meetings
    assert ["BEGIN@2", "BEGIN@3"] in meetings
    assert ["STEP/total@0", "STEP/total@1", "STEP/total@2", "STEP/total@3"] in meetings
    assert sum(map(len, rows.members)) == len(rows)


def test_an_operation_waits_for_its_lane_and_for_the_compute_before_it():
    rows = graph.build(Program(FULL, PARTS))
    where = {_named(rows, i): i for i in range(len(rows.operations))}

    def waits(name):
        return {_named(rows, i) for i in rows.before[where[name]]}

    assert waits("0SEND_F1@0") == {"0F1@0", "0SEND_F0@0"}
    assert waits("1RECV_F1@1") == {"1F0@1", "1RECV_F0@1"}
    assert waits("0RECV_B1@0") == {"0F1@0", "0RECV_B0@0"}
    assert waits("1F1@1") == {"1B0@1", "1RECV_F1@1"}


def test_events_wait_for_what_their_operations_wait_for():
    rows = graph.build(Program(FULL, PARTS), replicas=2)
    pairs = {(rows.events[j], rows.events[i]) for i, before in enumerate(rows.before) for j in before}
    assert pairs == {(one, other) for one, after in enumerate(rows.after) for other in after}
    assert rows.waits == [sum(map(len, (rows.before[i] for i in members))) for members in rows.members]


def test_a_walk_finishes_a_sound_program_at_the_earliest_times():
    rows = graph.build(Program(from_csv("0F0,0SEND_F0\n1RECV_F0,1F0\n")))
    starts, ends = graph.walk(rows, np.array([[3.0, 2.0, 1.0][event] for event in range(rows.num_events)]))
    assert (starts[rows.events] >= 0).all()
    whole = graph.build(Program(FULL, PARTS), replicas=2)
    assert (graph.walk(whole, np.ones(whole.num_events))[1] > 0).all()
    assert (ends - starts).tolist() == [3.0, 2.0, 1.0]


def test_a_walk_stops_where_it_cannot_go_on_and_the_text_shows_each_rank_and_the_circle():
    stuck = graph.build(Program(from_csv("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n")))
    done = graph.walk(stuck, np.zeros(stuck.num_events))[1][stuck.events] >= 0
    assert [_named(stuck, i) for i, finished in enumerate(done) if finished] == ["0F0@0", "1F0@1"]
    assert graph.explain(stuck, done).splitlines() == [
        "  rank 0  0F0 [0B0] 0F1 0B1  0B0 waits for 1B0 of rank 1",
        "  rank 1  1F0 [1F1] 1B0 1B1  1F1 waits for 0F1 of rank 0",
        "  The circle: 0B0 of rank 0, which waits for 1B0 of rank 1, which waits for 1F1 of rank 1, which waits for "
        "0F1 of rank 0, which waits for 0B0 of rank 0.",
    ]


def test_a_long_row_shows_what_is_near_its_next_operation():
    rows = "0F0,0F1,0F2,0F3,0B4,0F4,0B3,0B2,0B1,0B0\n1F0,1F1,1F2,1F3,1F4,1B0,1B1,1B2,1B3,1B4\n"
    stuck = graph.build(Program(from_csv(rows)))
    done = graph.walk(stuck, np.zeros(stuck.num_events))[1][stuck.events] >= 0
    assert graph.explain(stuck, done).splitlines()[0] == (
        "  rank 0  … 0F1 0F2 0F3 [0B4] 0F4 0B3 0B2 …  0B4 waits for 0F4 of rank 0 and 1B4 of rank 1"
    )


_FINE = families.build("1f1b", pipeline=3, microbatches=6)


@given(st.data())
def test_whatever_is_stuck_its_text_names_every_stuck_rank_once_and_closes_a_circle(data):
    rows = [list(row) for row in passes.add_messages(_FINE).rows]
    for _ in range(data.draw(st.integers(1, 4))):
        each = data.draw(st.sampled_from(rows))
        each.insert(data.draw(st.integers(0, len(each) - 1)), each.pop(data.draw(st.integers(0, len(each) - 1))))
    stuck = graph.build(Program(Schedule("moved", tuple(map(row, rows)))))
    done = graph.walk(stuck, np.zeros(stuck.num_events))[1][stuck.events] >= 0
    assume(not done.all())
    *lines, circle = graph.explain(stuck, done).splitlines()
    assert len(lines) == len({int(rank) for rank, finished in zip(stuck.ranks, done, strict=True) if not finished})
    names = circle.removeprefix("  The circle: ").removesuffix(".").split(", which waits for ")
    assert len(names) > 1
    assert names[0] == names[-1]
