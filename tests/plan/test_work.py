"""Work: FLOPs, bytes and memory of each operation, exactly."""

from collections import Counter
from dataclasses import replace

import pytest

from headway.plan.meeting import group_edge
from headway.plan.work import message_bytes, model_flops_per_token, on_copy, work
from headway.schedule.operation import parse

B, S, H, V, LAYERS, M = 4, 256, 128, 256, 4, 4
FORWARD = LAYERS * (24 * B * S * H**2 + 4 * B * S**2 * H) + 2 * B * S * H * V  # FLOPs of one micro-batch

LAYOUTS = [
    {"pipeline": 1, "data": 1},
    {"pipeline": 3, "data": 1},
    {"pipeline": 2, "data": 2},
    {"pipeline": 2, "data": 2, "schedule": "gpipe", "unit_bytes": 1},
    {"pipeline": 2, "data": 2, "schedule": "interleaved", "chunks": 2},
    {"pipeline": 1, "data": 2, "schedule": "interleaved", "chunks": 3, "unit_bytes": 1},
    {"pipeline": 4, "data": 2, "split": "E|||t*4L"},
    {"pipeline": 2, "data": 1, "schedule": "interleaved", "chunks": 3, "split": "E||t*4|||L", "unit_bytes": 1},
    {"pipeline": 2, "data": 2, "zero": 1, "whole_below": 0},
    {"pipeline": 2, "data": 3, "zero": 2, "whole_below": 0, "unit_bytes": 1},
    {"pipeline": 1, "data": 2, "zero": 3, "whole_below": 0, "unit_bytes": 1},
    {"pipeline": 2, "data": 2, "zero": 3, "schedule": "interleaved", "chunks": 2, "prefetch": 2},
]
each = pytest.mark.parametrize("parallel", LAYOUTS, ids=str)


def _plan(plan_of, parallel, **sections):
    return plan_of(parallel=parallel, train={"global_batch": B * M * parallel["data"], "microbatch": B}, **sections)


def _works(plan, rank, program=None):
    program = program or plan.program
    row = program.rows[plan.layout.coord(rank)["pipeline"]]
    return [(op, work(plan, program, rank, op)) for op in row]


def _work(plan, rank, text):
    return work(plan, plan.program, rank, parse(text))


@each
def test_a_step_takes_three_times_the_forward_flops_of_its_microbatches(plan_of, parallel):
    """Backward does twice the products of forward; no layout changes the sum."""
    plan = _plan(plan_of, parallel)
    for data in range(parallel["data"]):
        ranks = [plan.layout.rank({"pipeline": p, "data": data}) for p in range(parallel["pipeline"])]
        assert sum(done.flops for rank in ranks for _, done in _works(plan, rank)) == 3 * FORWARD * M


@each
def test_an_evaluation_takes_the_forward_flops_alone(plan_of, parallel):
    plan = _plan(plan_of, parallel)
    ranks = [plan.layout.rank({"pipeline": p}) for p in range(parallel["pipeline"])]
    works = [done for rank in ranks for _, done in _works(plan, rank, plan.evaluation_program)]
    assert sum(done.flops for done in works) == FORWARD * M
    assert not any("activations" in done.takes for done in works)


def test_an_evaluation_drops_nothing(plan_of):
    alone, rates = {"pipeline": 1, "data": 1}, {"hidden_dropout": 0.1, "attention_dropout": 0.1}
    plain = _plan(plan_of, alone, model={"preset": "gpt-tiny"})
    dropping = _plan(plan_of, alone, model={"preset": "gpt-tiny", **rates})
    assert _works(dropping, 0, dropping.evaluation_program) == _works(plain, 0, plain.evaluation_program)
    assert _work(dropping, 0, "0F0").traffic > _work(plain, 0, "0F0").traffic
    assert _work(dropping, 0, "0F0").flops == _work(plain, 0, "0F0").flops


@each
def test_model_flops_are_those_of_a_token_under_every_layout(plan_of, parallel):
    assert model_flops_per_token(_plan(plan_of, parallel)) == 3 * FORWARD / (B * S)


@each
def test_memory_that_a_step_takes_it_gives_back(plan_of, parallel):
    train = {"global_batch": B * M * parallel["data"], "microbatch": B}
    narrow = plan_of(parallel=parallel, train={**train, "precision": "bfloat16", "reduce_dtype": "bfloat16"})
    whole = _plan(plan_of, parallel)
    for plan, program in ((p, r) for p in (whole, narrow) for r in (p.program, p.evaluation_program)):
        for rank in range(plan.layout.world):
            held = Counter()
            for _, done in _works(plan, rank, program):
                held.update(done.takes)
                held.subtract(done.gives)
            assert not any(held.values()), f"rank {rank} keeps {held}"


@pytest.mark.parametrize(("precision", "size"), [("float32", 4), ("float64", 8), ("bfloat16", 2)])
def test_a_message_is_microbatch_times_sequence_times_hidden(plan_of, precision, size):
    reduced = {"reduce_dtype": "float64"} if precision == "float64" else {}
    plan = plan_of(train={"microbatch": 2, "precision": precision, **reduced})
    assert message_bytes(plan) == 2 * 256 * 128 * size


def test_both_ends_of_a_message_name_the_same_edge_and_bytes(plan_of):
    plan = _plan(plan_of, {"pipeline": 3, "data": 2})
    size = B * S * H * 4
    pairs = [(1, "0SEND_F3", 3, "1RECV_F3", "1→3"), (4, "2SEND_B3", 2, "1RECV_B3", "4→2")]
    for sender, send, receiver, receive, edge in pairs:
        sent, received = _work(plan, sender, send), _work(plan, receiver, receive)
        assert (sent.edge, sent.bytes, sent.group) == (received.edge, received.bytes, received.group)
        assert (sent.edge, sent.bytes) == (edge, size)


def test_a_message_between_chunks_goes_round_from_the_last_rank_to_the_first(plan_of):
    plan = _plan(plan_of, {"pipeline": 2, "data": 2, "schedule": "interleaved", "chunks": 2})
    assert _work(plan, 3, "1SEND_F0").edge == _work(plan, 1, "2RECV_F0").edge == "3→1"


def test_a_reduction_moves_the_units_gradients_among_all_who_hold_them(plan_of):
    plan = _plan(plan_of, {"pipeline": 2, "data": 2, "unit_bytes": 1})
    named = {unit.name: unit for unit in plan.units}
    layer = _work(plan, 1, "0REDUCE_GRAD/layers.0")
    assert (layer.edge, layer.bytes) == ("{0,1}", named["layers.0"].numel * 4)
    for rank, text in ((0, "0REDUCE_GRAD/tokens"), (3, "1REDUCE_GRAD/tokens")):
        shared = _work(plan, rank, text)
        assert (shared.edge, shared.bytes) == ("{0,1,2,3}", V * H * 4)


def test_gradients_reduced_in_a_narrower_type_send_half_and_hold_a_buffer_until_the_total(plan_of):
    def plan(reduced):
        train = {"global_batch": 8, "microbatch": 1, "precision": "bfloat16", "reduce_dtype": reduced}
        return plan_of(parallel={"pipeline": 2, "data": 2, "unit_bytes": 1}, train=train)

    wide, narrow = plan("float32"), plan("bfloat16")
    for unit in narrow.units_of_rank(0):
        text = f"0REDUCE_GRAD/{unit.name}"
        whole, half = _work(wide, 0, text), _work(narrow, 0, text)
        assert (whole.bytes, whole.takes, whole.traffic) == (4 * unit.numel, {}, 0)
        assert (half.bytes, half.takes) == (2 * unit.numel, {"reductions": 2 * unit.numel})
        assert half.traffic == 2 * (4 + 2) * unit.numel  # there and back
    held = sum(unit.numel for unit in narrow.units_of_rank(0))
    assert _work(narrow, 0, "STEP/total").gives == {"reductions": 2 * held}
    assert _work(wide, 0, "STEP/total").gives == {}


@pytest.mark.parametrize(("precision", "each"), [("float32", 28), ("bfloat16", 34)])
def test_an_update_moves_weights_gradients_and_moments_and_rounds_master_weights(plan_of, precision, each):
    """Reads weight, gradient and two moments, writes all but the gradient; a master is read again, and 2 written."""
    plan = plan_of(parallel={"pipeline": 1, "data": 1}, train={"precision": precision})
    assert _work(plan, 0, "STEP/update").traffic == each * sum(unit.numel for unit in plan.units)
    assert _work(plan, 0, "STEP/total").traffic == 4 * sum(unit.numel for unit in plan.units)


def test_every_reduction_of_a_step_is_one_unit_of_the_rank(plan_of):
    plan = _plan(plan_of, {"pipeline": 2, "data": 2, "unit_bytes": 1})
    for rank in range(4):
        reduced = [op.part for op, done in _works(plan, rank) if str(op.action).endswith("REDUCE_GRAD") and done.bytes]
        assert sorted(reduced) == sorted(unit.name for unit in plan.units_of_rank(rank))


def test_begin_counts_over_the_data_axis_and_the_total_over_the_world(plan_of):
    plan = _plan(plan_of, {"pipeline": 2, "data": 2})
    begin, total = _work(plan, 2, "BEGIN"), _work(plan, 0, "STEP/total")
    assert (begin.edge, begin.bytes) == ("{2,3}", 8)
    assert (total.edge, total.bytes) == ("{0,1,2,3}", 32)
    assert _work(plan, 0, "STEP/update").edge == ""


def test_one_rank_alone_sends_nothing(plan_of):
    plan = _plan(plan_of, {"pipeline": 1, "data": 1})
    assert all((done.edge, done.bytes) == ("", 0) for _, done in _works(plan, 0))


def test_the_expanded_backward_does_what_the_whole_one_does(plan_of):
    plan = _plan(plan_of, {"pipeline": 2, "data": 2, "unit_bytes": 1})
    whole = _work(plan, 2, "1B0")
    parts = [done for op, done in _works(plan, 2) if str(op.action) == "1B3"]
    assert len(parts) > 1
    assert sum(done.flops for done in parts) == whole.flops
    assert sum(done.traffic for done in parts) == whole.traffic
    assert sum(done.kernels for done in parts) == whole.kernels
    for taken in ("takes", "gives"):
        together = sum((Counter(getattr(done, taken)) for done in parts), Counter())
        assert dict(together) == getattr(whole, taken)


def test_an_empty_stage_computes_nothing_and_passes_on_the_buffer_that_it_received(plan_of):
    plan = _plan(plan_of, {"pipeline": 3, "data": 1, "split": "Ett||ttL"})
    for text in ("1F0", "1B0"):
        done = _work(plan, 1, text)
        assert (done.flops, done.traffic, done.kernels) == (0, 0, 0)
        assert not any(done.takes.values())
        assert not any(done.gives.values())
    size = B * S * H * 4
    assert _work(plan, 1, "1RECV_F0").takes == _work(plan, 1, "1SEND_F0").gives == {"messages": size}
    assert _work(plan, 1, "1RECV_B0").takes == _work(plan, 1, "1SEND_B0").gives == {"messages": size}


@pytest.mark.parametrize(
    "parallel",
    [
        {"tensor": 2, "pipeline": 2, "data": 3, "sequence_parallel": True, "split": "Ett|ttL"},
        {"tensor": 2, "pipeline": 2, "data": 2, "zero": 3, "whole_below": 0, "schedule": "interleaved", "chunks": 2},
        {"pipeline": 2, "data": 3, "zero": 1, "whole_below": 0, "unit_bytes": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("tied", [False, True])
def test_on_another_copy_an_operation_does_what_it_does_there(plan_of, parallel, tied):
    """What is derived from the first copy of a row is what is counted anew, whoever that copy's ranks are."""
    plan = plan_of(
        model={"preset": "gpt-tiny", "tied": tied}, parallel=parallel, train={"global_batch": 48, "microbatch": 4}
    )
    for program in (plan.program, plan.evaluation_program):
        operations = list(program.operations)
        for rank in range(plan.layout.world):
            first = plan.layout.along(rank, {"tensor": (0,), "data": (0,)})[0]
            row = plan.layout.coord(rank)["pipeline"]
            for operation in {op for op, place in zip(operations, program.ranks.tolist(), strict=True) if place == row}:
                here = work(plan, program, first, operation)
                assert on_copy(plan, program, operation, here, rank) == work(plan, program, rank, operation)


def test_tensor_ranks_exchange_inside_what_they_compute(plan_of):
    """gpt-tiny's four layers over two stages: 2 + 2 all-reduces of a layer, one of the embedding, the loss's two."""
    plan = _plan(plan_of, {"tensor": 2, "pipeline": 2, "data": 1, "split": "Ett|ttL"})
    one = B * S * H * 4
    by_hand = {"0F0": 5, "0B0": 4, "1F0": 4 + 3 / H, "1B0": 5}
    for rank, text in ((0, "0F0"), (1, "0B0"), (2, "1F0"), (3, "1B0")):
        done = _work(plan, rank, text)
        assert (done.edge, done.bytes) == (group_edge(done.group), by_hand[text] * one)
        assert done.group == plan.layout.group(rank, "tensor")
        assert sum(call.bytes for call in done.calls) == done.bytes
    assert [call.bytes for call in _work(plan, 2, "1F0").calls] == [one] * 4 + [4 * B * S, 8 * B * S]


def test_evaluation_exchanges_what_training_does_going_forward(plan_of):
    plan = _plan(plan_of, {"tensor": 2, "pipeline": 1, "data": 1})
    assert work(plan, plan.evaluation_program, 0, parse("0F0")).calls == _work(plan, 0, "0F0").calls


def test_smoothed_labels_add_a_number_a_token_to_the_loss_in_training_alone(plan_of):
    parallel = {"tensor": 2, "pipeline": 1, "data": 1}
    plain = _plan(plan_of, parallel)
    smoothed = replace(plain, train=replace(plain.train, label_smoothing=0.1))
    forward = _work(smoothed, 0, "0F0").calls
    assert forward[:-1] == _work(plain, 0, "0F0").calls[:-1]
    assert forward[-1].bytes == 12 * B * S
    assert _work(smoothed, 0, "0B0").calls == _work(plain, 0, "0B0").calls
    evaluated = [work(plan, plan.evaluation_program, 0, parse("0F0")) for plan in (plain, smoothed)]
    assert evaluated[0] == evaluated[1]


def test_the_flops_of_tensor_ranks_are_those_of_one_and_the_models_flops_stay(plan_of):
    plan = _plan(plan_of, {"tensor": 4, "pipeline": 2, "data": 1})
    ranks = range(plan.layout.world)
    assert sum(done.flops for rank in ranks for _, done in _works(plan, rank)) == 3 * FORWARD * M
    assert model_flops_per_token(plan) == 3 * FORWARD / (B * S)


def test_messages_pass_between_equal_tensor_coordinates_and_gradients_among_data_ranks(plan_of):
    plan = _plan(plan_of, {"tensor": 2, "pipeline": 2, "data": 2, "unit_bytes": 1})
    assert _work(plan, 1, "0SEND_F0").edge == _work(plan, 5, "1RECV_F0").edge == "1→5"
    layer = next(unit for unit in plan.units if unit.name == "layers.0")
    reduced = _work(plan, 1, "0REDUCE_GRAD/layers.0")
    assert (reduced.edge, reduced.bytes) == ("{1,3}", 4 * layer.numel)
    shared = _work(plan, 0, "0REDUCE_GRAD/tokens")
    assert (shared.edge, shared.bytes) == ("{0,2,4,6}", V * H * 4 // 2)


def test_with_the_sequence_cut_a_message_is_a_ranks_part_and_the_last_backward_sums_gradients_over_tensor(plan_of):
    """The gradients of norms, positions and added biases: of each rank's part of the sequence until then."""
    plan = _plan(
        plan_of, {"tensor": 2, "pipeline": 2, "data": 1, "sequence_parallel": True, "split": "Ett|ttL", "unit_bytes": 1}
    )
    one = B * S * H * 4
    assert message_bytes(plan) == one // 2
    assert _work(plan, 1, "0SEND_F0").bytes == one // 2
    assert [call.kind for call in _work(plan, 0, "0F0").calls] == ["reduce_scatter"] + [
        "all_gather",
        "reduce_scatter",
    ] * 4
    usual, last = _work(plan, 0, "0B0").calls, _work(plan, 0, f"0B{M - 1}").calls
    assert last[: len(usual)] == usual
    # layers: two norms of 2h, two biases of h; positions
    expected = [4 * 256 * H, 4 * 6 * H, 4 * 6 * H]
    assert [(call.kind, call.bytes) for call in last[len(usual) :]] == [("all_reduce", size) for size in expected]


def test_the_last_backward_of_each_unit_sums_its_own_gradients_over_tensor(plan_of):
    sections = {"tensor": 2, "pipeline": 1, "data": 2, "sequence_parallel": True, "unit_bytes": 1}
    plan = _plan(plan_of, sections)
    last = f"0B{M - 1}"
    each = [_work(plan, 0, f"{last}/{unit.name}") for unit in plan.units_of_stage(0)]
    assert sum(done.bytes for done in each) == _work(plan, 0, last).bytes
    layer = _work(plan, 0, f"{last}/layers.1").calls
    assert [call.bytes for call in layer] == [4 * B * S * H] * 6 + [4 * 6 * H]
