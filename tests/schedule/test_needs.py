"""Needs: the one statement of dependency, read out."""

import pytest

from headway.schedule import families, passes
from headway.schedule.needs import meetings, needs
from headway.schedule.operation import Lane, Part, Parts
from headway.schedule.program import Program
from headway.schedule.schedule import from_csv

PARTS = Parts(("a", "b"), (Part("a", ("a",)), Part("b", ("b",))))
BARE = families.build("1f1b", pipeline=3, microbatches=4)
FULL = passes.add_steps(passes.add_reductions(passes.add_messages(BARE), frozenset(range(3))))


def _needs(schedule, rank, text, parts=()):
    program = Program(schedule, parts)
    every = [str(op) for op in program.operations]
    place = next(i for i, op in enumerate(every) if op == text and program.ranks[i] == rank)
    return [every[i] for i in needs(program).of(place)]


def _keys(schedule, parts=()):
    """Rank and operation → the key of its meeting."""
    program = Program(schedule, parts)
    ranks, keys = program.ranks.tolist(), meetings(program.operations).tolist()
    return {(rank, str(op)): key for rank, op, key in zip(ranks, program.operations, keys, strict=True)}


@pytest.mark.parametrize(
    ("rank", "operation", "expected"),
    [
        (0, "0F0", []),
        (1, "1F2", ["0F2"]),
        (1, "1B2", ["1F2", "2B2"]),
        (2, "2B2", ["2F2"]),
    ],
)
def test_without_messages_a_stage_needs_its_neighbour(rank, operation, expected):
    assert _needs(BARE, rank, operation) == expected


@pytest.mark.parametrize(
    ("rank", "operation", "expected"),
    [
        (0, "0F1", []),
        (0, "0F2", ["0SEND_F0"]),
        (1, "1F0", ["1RECV_F0"]),
        (1, "1F3", ["1RECV_F3", "1SEND_F1"]),
        (1, "1B1", ["1F1", "1RECV_B1"]),
        (1, "1B2", ["1F2", "1RECV_B2", "1SEND_B0"]),
        (2, "2B0", ["2F0", "BEGIN"]),
        (1, "1SEND_F2", ["1F2"]),
        (1, "1RECV_F2", []),  # it meets its send
        (1, "1SEND_B2", ["1B2"]),
        (2, "BEGIN", []),
    ],
)
def test_with_messages_a_stage_needs_them_and_room_for_the_next(rank, operation, expected):
    """At most two messages of a stage and direction may be under way before it makes a third."""
    assert _needs(FULL, rank, operation, (PARTS,) * 3) == expected


@pytest.mark.parametrize(
    ("rank", "operation", "expected"),
    [
        (1, "1B3/b", ["1F3", "1RECV_B3", "1SEND_B1"]),
        (1, "1B3/a", ["1B3/b"]),
        (2, "2B3/b", ["2F3", "BEGIN", "2SEND_B1"]),
        (1, "1REDUCE_GRAD/b", ["1B3/b"]),
        (1, "1REDUCE_GRAD/a", ["1B3/a"]),
        (1, "1SEND_B3", ["1B3/a"]),
        (1, "STEP/total", ["1REDUCE_GRAD/b", "1REDUCE_GRAD/a"]),
        (2, "STEP/total", ["BEGIN", "2REDUCE_GRAD/b", "2REDUCE_GRAD/a"]),
        (1, "STEP/update", ["STEP/total"]),
    ],
)
def test_the_expanded_backward_goes_unit_by_unit_and_the_step_needs_every_reduction(rank, operation, expected):
    assert _needs(FULL, rank, operation, (PARTS,) * 3) == expected


SPLIT = from_csv(
    "0F0,0F1,0F2,0I0,0I1,0W0,0I2,0W1,0W2\n1F0,1I0,1F1,1I1,1W0,1F2,1B2,1W1\n", "split"
)  # and one full backward
SPLIT_FULL = passes.add_steps(passes.add_reductions(passes.add_messages(SPLIT), frozenset({0, 1})))


@pytest.mark.parametrize(
    ("rank", "operation", "bare", "full"),
    [
        (0, "0I1", ["0F1", "1I1"], ["0F1", "0RECV_B1"]),
        (0, "0I2", ["0F2", "1B2"], ["0F2", "0RECV_B2"]),
        (0, "0W1", ["0I1"], ["0I1"]),
        (1, "1I0", ["1F0"], ["1F0", "BEGIN"]),
        (1, "1B2", ["1F2"], ["1F2", "BEGIN", "1SEND_B0"]),
    ],
)
def test_an_input_backward_needs_what_a_full_one_would_and_a_weight_backward_only_its_input_backward(
    rank, operation, bare, full
):
    assert _needs(SPLIT, rank, operation) == bare
    assert _needs(SPLIT_FULL, rank, operation, (PARTS,) * 2) == full


@pytest.mark.parametrize(
    ("rank", "operation", "expected"),
    [
        (1, "1SEND_B1", ["1I1"]),
        (1, "1SEND_B2", ["1B2"]),
        (0, "0W2/b", ["0I2"]),
        (0, "0W2/a", ["0W2/b"]),
        (0, "0REDUCE_GRAD/b", ["0W2/b"]),
        (1, "1REDUCE_GRAD/a", ["1W1/a"]),
    ],
)
def test_an_input_backward_sends_and_the_last_weight_backward_is_reduced_unit_by_unit(rank, operation, expected):
    assert _needs(SPLIT_FULL, rank, operation, (PARTS,) * 2) == expected


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("0EVICT1", ["0F1"]),
        ("0F2", ["0EVICT1"]),
        ("0RESTORE1", ["0EVICT1"]),
        ("0B1", ["0F1", "0RESTORE1"]),
        ("0B0", ["0F0"]),
        ("0USE1", []),
    ],
)
def test_a_forward_needs_the_room_of_the_eviction_before_it_and_a_backward_its_activations_back(operation, expected):
    assert _needs(from_csv("0USE1,0F0,0F1,0EVICT1,0F2,0B0,0RESTORE1,0B1,0B2\n"), 0, operation) == expected


def test_without_messages_an_expanded_backward_needs_the_last_unit_of_the_stage_behind_it():
    schedule = passes.add_reductions(families.build("gpipe", pipeline=2, microbatches=1), frozenset({0, 1}))
    assert _needs(schedule, 0, "0B0/b", (PARTS, PARTS)) == ["0F0", "1B0/a"]


def test_a_send_meets_its_receive_and_a_collective_its_members():
    shared = Parts(("a", "b"), (Part("a", ("a",)), Part("tied", ("a",), lane=Lane.SHARED)))
    keys = _keys(FULL, (shared, PARTS, shared))
    for one, other in [
        ((0, "0SEND_F3"), (1, "1RECV_F3")),
        ((2, "2SEND_B3"), (1, "1RECV_B3")),
        ((0, "0REDUCE_GRAD/tied"), (2, "2REDUCE_GRAD/tied")),
        ((0, "STEP/total"), (2, "STEP/total")),
    ]:
        assert keys[one] == keys[other] != -1


def test_meetings_of_different_things_have_different_keys():
    texts = ["0SEND_F3", "0SEND_F2", "1SEND_F3", "1SEND_B3", "2SEND_B3", "1REDUCE_GRAD/a", "1REDUCE_GRAD/b"]
    keys = {text: key for (_, text), key in _keys(FULL, (PARTS,) * 3).items()}
    found = [keys[text] for text in [*texts, "BEGIN", "STEP/total"]]
    assert -1 not in found
    assert len(set(found)) == len(found)


def test_without_units_each_stage_reduces_apart():
    keys = _keys(FULL)
    assert len({keys[stage, f"{stage}REDUCE_GRAD"] for stage in range(3)}) == 3


def test_computing_meets_nobody():
    keys = _keys(FULL, (PARTS,) * 3)
    assert {keys[0, "0F0"], keys[0, "0B0"], keys[0, "0B3/a"], keys[0, "STEP/update"]} == {-1}


def test_stages_on_one_rank_exchange_no_messages():
    schedule = passes.add_messages(families.build("interleaved", pipeline=1, microbatches=1, chunks=2))
    assert _needs(schedule, 0, "1F0") == ["0F0"]
    assert schedule == from_csv("0F0,1F0,1B0,0B0\n", "interleaved")


CUT = Parts(("a", "b", "c"), tuple(Part(n, (n,), gathers=True, cut_grads=True, cut_params=True) for n in "abc"))
ALL = frozenset({0})
SHARDED = passes.add_reductions(passes.add_gathers(from_csv("0F0,0B0,0F1,0B1\n"), frozenset(), ALL), ALL, ALL)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("0F0/a", ["0UNSHARD0/a"]),
        ("0F0/b", ["0F0/a", "0UNSHARD0/b"]),
        ("0B0/c", ["0F0/c", "0UNSHARD0/c"]),
        # of the whole gradients before it, those of one unit may still be under way
        ("0B0/b", ["0B0/c", "0UNSHARD1/b"]),
        ("0B0/a", ["0B0/b", "0REDUCE_GRAD0/c", "0UNSHARD1/a"]),
        # and what the unit itself has added must be gone
        ("0B1/c", ["0F1/c", "0REDUCE_GRAD0/b", "0REDUCE_GRAD0/c", "0UNSHARD1/c"]),
        # (needed twice in a row, it was gathered once for F1 and B0)
        ("0B1/a", ["0B1/b", "0REDUCE_GRAD0/a", "0REDUCE_GRAD1/c", "0UNSHARD2/a"]),
        ("0REDUCE_GRAD0/b", ["0B0/b"]),
        ("0REDUCE_GRAD1/a", ["0B1/a"]),
        ("0UNSHARD1/a", []),
    ],
)
def test_a_unit_needs_its_parameters_whole_and_room_for_whole_gradients(operation, expected):
    assert sorted(_needs(SHARDED, 0, operation, (CUT,))) == sorted(expected)


def test_every_gather_and_every_reduction_of_a_unit_is_a_meeting_of_its_own():
    keys = [key for (_, text), key in _keys(SHARDED, (CUT,)).items() if "UNSHARD" in text or "REDUCE" in text]
    assert -1 not in keys
    assert len(set(keys)) == len(keys)
