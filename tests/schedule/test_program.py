"""Programs: actions expanded to units where gathers and reductions overlap inside."""

import numpy as np
import pytest

from headway.schedule import families, graph, passes
from headway.schedule.operation import LANES, Lane, Part, Parts
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


def test_gathers_have_a_lane_and_what_they_gather_is_released_while_computing():
    program = Program(from_csv("0UNSHARD,0F0,0RESHARD,0B0\n"))
    assert [LANES[lane] for lane in program.lanes] == [Lane.GATHER, Lane.COMPUTE, Lane.COMPUTE, Lane.COMPUTE]


def _cut(name, users=(), *, cut_params=False):
    return Part(name, users or (name,), gathers=True, cut_grads=True, cut_params=cut_params)


def _texts(csv, parts, prefetch=1):
    return [str(op) for op in Program(from_csv(csv), (parts,), prefetch).rows[0]]


def test_parameters_that_stay_whole_are_all_gathered_before_the_first_unit_computes():
    schedule = passes.add_gathers(from_csv("0F0,0F1,0B0,0B1\n"), frozenset({0}))
    parts = Parts(("a", "b"), tuple(Part(name, (name,), gathers=True) for name in ("a", "b")))
    row = [str(op) for op in Program(schedule, (parts,)).rows[0]]
    assert row == ["0UNSHARD/a", "0UNSHARD/b", "0F0/a", "0F0/b", "0F1", "0B0", "0B1"]


CUT = Parts(("a", "b", "c"), tuple(_cut(name, cut_params=True) for name in "abc"))


@pytest.mark.parametrize(
    ("prefetch", "expected"),
    [
        # the last unit is needed twice in a row
        (0, "+a a -a +b b -b +c c C -c +b B -b +a A -a"),
        (1, "+a +b a -a +c b -b c +b C -c +a B -b A -a"),
        (2, "+a +b +c a -a b c +a C -c B -b A -a"),
        (9, "+a +b +c a b c C -c B -b A -a"),
    ],
)
def test_parameters_that_are_cut_are_gathered_ahead_and_released_unless_soon_needed_again(prefetch, expected):
    """+ gathers, − releases; small letters go forward, capitals backward."""
    schedule = passes.add_gathers(from_csv("0F0,0B0\n"), frozenset(), frozenset({0}))
    found = []
    for op in Program(schedule, (CUT,), prefetch).rows[0]:
        sign = {"UNSHARD": "+", "RESHARD": "-"}.get(op.action.kind, "")
        found.append(sign + (op.part.upper() if op.action.kind == "B" else op.part))
    assert " ".join(found) == expected


@pytest.mark.parametrize("prefetch", [0, 1, 2, 3])
def test_no_more_cut_units_are_whole_at_once_than_are_gathered_ahead_and_one(prefetch):
    bare = families.build("interleaved", pipeline=2, microbatches=4, chunks=2)
    schedule = passes.add_gathers(passes.add_messages(bare), frozenset(), frozenset(range(4)))
    parts = tuple(
        Parts(tuple(f"{s}.{u}" for u in range(3)), tuple(_cut(f"{s}.{u}", cut_params=True) for u in range(3)))
        for s in range(4)
    )
    for row in Program(schedule, parts, prefetch).rows:
        here = set()
        for op in row:
            if op.action.kind == "UNSHARD":
                assert op.part not in here
                here.add(op.part)
            elif op.action.kind == "RESHARD":
                here.remove(op.part)
            elif op.part:
                assert op.part in here
            assert len(here) <= prefetch + 1
        assert not here
        assert len(set(map(str, row))) == len(row)  # each gather has a number of its own


def test_a_weight_that_two_units_use_is_gathered_for_each():
    parts = Parts(("a", "b", "c"), (*CUT.shared, _cut("tied", ("a", "c"), cut_params=True)))
    schedule = passes.add_gathers(from_csv("0F0,0B0\n"), frozenset(), frozenset({0}))
    row = [str(op) for op in Program(schedule, (parts,), 0).rows[0] if op.part == "tied"]
    assert row == [f"0{kind}{number}/tied" for number in range(3) for kind in ("UNSHARD", "RESHARD")]


def test_gradients_that_are_cut_are_reduced_for_each_micro_batch_and_whole_ones_once():
    schedule = passes.add_reductions(from_csv("0F0,0F1,0B0,0B1\n"), frozenset({0}), frozenset({0}))
    row = _texts(str(schedule).partition("\n")[2], Parts(("a", "b"), (_cut("a"), Part("b", ("b",)))))
    assert row == [
        *("0F0", "0F1", "0B0/b", "0B0/a", "0REDUCE_GRAD0/a"),
        *("0B1/b", "0REDUCE_GRAD/b", "0B1/a", "0REDUCE_GRAD1/a"),
    ]


def test_a_weight_that_two_ranks_share_is_gathered_once_on_each():
    tied = [Part("tied", (user,), gathers=True, lane=Lane.SHARED) for user in ("a", "b")]
    schedule = passes.add_gathers(families.build("gpipe", pipeline=2, microbatches=2), frozenset({0, 1}))
    program = Program(schedule, tuple(Parts((user,), (part,)) for user, part in zip("ab", tied, strict=True)))
    assert [[str(op) for op in row if op.part == "tied"] for row in program.rows] == [
        ["0UNSHARD/tied"],
        ["1UNSHARD/tied"],
    ]


def test_a_shared_weight_is_gathered_before_a_rank_computes_what_the_other_must_send_first():
    """Rank 1 computes with the weight in its last stage only; its first one waits for rank 0, which waits for it."""
    tied = [Part("tied", (user,), gathers=True, lane=Lane.SHARED) for user in ("a", "d")]
    parts = (Parts(("a",), (tied[0],)), Parts(("b",)), Parts(("c",)), Parts(("d",), (tied[1],)))
    bare = passes.add_messages(families.build("interleaved", pipeline=2, microbatches=2, chunks=2))
    program = Program(passes.add_steps(passes.add_gathers(bare, frozenset({0, 3}))), parts)
    for row in program.rows:
        texts = [str(op) for op in row if op.part == "tied" or op.action.kind == "F"]
        assert texts[0].endswith("UNSHARD/tied")
    played = graph.build(program)
    assert (graph.walk(played, np.zeros(played.num_events))[1] >= 0).all(), "the rows can finish"
