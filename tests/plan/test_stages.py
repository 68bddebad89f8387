"""The stages of a job: balanced by predicted time, or by hand in either form."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.model.pipeline_layout import parse, show
from headway.plan.price import price
from headway.plan.stages import layout_text
from headway.plan.work import unit_cost
from headway.schedule.action import Kind

SMALL = {"preset": "gpt-tiny", "hidden": 32, "heads": 2}


def _layers(plan):
    return parse(layout_text(plan.stages))


def _seconds(plan, stage):
    """Forward time of a stage, one micro-batch."""
    costs = [unit_cost(plan, unit) for unit in plan.units_of_stage(stage)]
    return sum(price(plan.cluster.device, c.forward, plan.train.precision).seconds for c in costs)


@pytest.mark.parametrize("layers", [1, 2, 3, 6, 7, 8, 17, 33])
def test_any_number_of_layers_is_planned_over_any_number_of_stages(plan_of, layers):
    """Every layer once and in order. For more sizes, see tests/model/test_split.py."""
    names = ["embedding", *(f"layers.{i}" for i in range(layers)), "head"]
    for p, v in ((1, 1), (2, 1), (3, 4), (8, 1), (8, 4)):
        parallel = {"pipeline": p, "data": 1, "chunks": v, "schedule": "interleaved"}
        plan = plan_of(model={**SMALL, "layers": layers}, parallel=parallel, train={"global_batch": p, "microbatch": 1})
        assert len(plan.stages) == p * v
        assert list(itertools.chain(*plan.stages)) == names
        assert plan.stages[0][0] == "embedding"
        assert plan.stages[-1][-1] == "head"


@settings(max_examples=10)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=6).filter(any), st.booleans())
def test_a_list_and_a_layout_say_the_same(plan_of, counts, tied):
    def plan(split):
        return plan_of(
            model={**SMALL, "layers": sum(counts), "tied": tied},
            parallel={"pipeline": len(counts), "data": 2, "split": split},
        )

    listed = plan(counts)
    assert listed == plan(show(counts))
    assert _layers(listed) == tuple(counts)
    assert listed.split == "by hand"


def test_stages_of_chunks_are_listed_in_the_order_of_the_model(plan_of):
    """Stage s sits on rank s mod P."""
    parallel = {"pipeline": 2, "data": 1, "chunks": 2, "schedule": "interleaved", "split": [2, 1, 0, 1]}
    plan = plan_of(parallel=parallel)
    assert plan.stages == (("embedding", "layers.0", "layers.1"), ("layers.2",), (), ("layers.3", "head"))
    assert plan.schedule.ranks == {0: 0, 1: 1, 2: 0, 3: 1}


def test_a_balanced_split_counts_embedding_and_head_by_their_time(plan_of):
    """GPT-2's head takes as long as more than four layers on this cluster, so it gets none beside it."""
    sections = {"model": "gpt2", "data": {"sequence_length": 1024}, "train": {"microbatch": 1, "global_batch": 4}}

    def dearest(split):
        plan = plan_of(parallel={"pipeline": 4, "data": 1, "split": split}, **sections)
        return _layers(plan), max(_seconds(plan, stage) for stage in range(4))

    layers, least = dearest("balanced")
    assert layers == (4, 4, 4, 0)
    for other in ([3, 3, 3, 3], [4, 3, 3, 2], [4, 4, 3, 1], [5, 4, 3, 0]):
        assert dearest(other)[1] >= least


@pytest.mark.parametrize("data", [1, 2])
def test_an_empty_stage_sends_what_it_gets_and_reduces_and_holds_nothing(plan_of, data):
    plan = plan_of(parallel={"pipeline": 3, "data": data, "split": "Ett||ttL"})
    rank = plan.layout.rank({"pipeline": 1})
    assert plan.units_of_rank(rank) == ()
    kinds = {action.kind for action in plan.schedule.rows[1]}
    assert kinds == {
        Kind.FORWARD, Kind.BACKWARD, Kind.SEND_F, Kind.RECV_F, Kind.SEND_B, Kind.RECV_B, Kind.STEP,
    }  # fmt: skip
    assert not any(op.action.kind is Kind.REDUCE_GRAD for op in plan.program.rows[1])


def test_a_balanced_plan_says_so_and_the_digest_does_not_hang_on_who_cut(plan_of):
    from headway.plan.plan import digest

    balanced = plan_of()
    by_hand = plan_of(parallel={"split": layout_text(balanced.stages)})
    assert (balanced.split, by_hand.split) == ("balanced", "by hand")
    assert digest(balanced) == digest(by_hand)
