"""The outline of a plan: its sizes and stages, and an estimate that agrees with the play of every operation."""

from pathlib import Path

import pytest

from headway.errors import PlanError
from headway.plan.read import mapping
from headway.sim.estimate import estimate
from headway.sim.planned import outline
from headway.sim.simulate import simulate
from headway.units import Dtype

LONG = {"sequence_length": 2048, "tokenizer": "none"}
EXAMPLE = Path(__file__).parents[2] / "examples/cluster.yaml"  # two nodes of eight
SLOW = mapping(EXAMPLE, "cluster file") | {"between": {"name": "slow", "latency": 1e-5, "bandwidth": 2e9}}
TOLERANCE = 0.02  # of the played step; the furthest of the plans below is off by 1.6 %


def _plan(
    plan_of, model, microbatch, microbatches, words=LONG, precision="bfloat16", cluster="a100-80gb-hdr", **parallel
):
    axes = {"pipeline": 1, "data": 1} | parallel
    batch = microbatch * microbatches * axes["data"]
    train = {"precision": precision, "global_batch": batch, "microbatch": microbatch}
    return plan_of(cluster=cluster, model=model, parallel=axes, data=words, train=train)


SAME = {
    "one device": ("gpt-1.3b", 2, 4, {}),
    "data ranks": ("gpt-1.3b", 2, 2, {"data": 8}),
    "data ranks with little to hide behind": ("gpt-1.3b", 2, 1, {"data": 8}),
    "ZeRO-1": ("gpt-1.3b", 2, 2, {"data": 16, "zero": 1}),
    "ZeRO-2": ("gpt-1.3b", 2, 2, {"data": 16, "zero": 2}),
    "ZeRO-3": ("gpt-1.3b", 2, 2, {"data": 16, "zero": 3}),
    "ZeRO-3 of an untied model over tensor ranks": ("llama-3-8b", 2, 2, {"data": 8, "tensor": 2, "zero": 3}),
    "a pipeline": ("gpt-1.3b", 2, 8, {"pipeline": 4, "data": 2}),
    "a pipeline of GPipe": ("gpt-1.3b", 2, 8, {"pipeline": 4, "schedule": "gpipe"}),
    "float32": ("gpt-1.3b", 2, 8, {"pipeline": 2, "data": 2}),
    "three axes and ZeRO-1": ("gpt-22b", 2, 8, {"tensor": 8, "pipeline": 2, "data": 2, "zero": 1}),
    "three axes, sequence parallel": (
        "gpt-22b",
        2,
        8,
        {"tensor": 8, "pipeline": 4, "data": 2, "sequence_parallel": True},
    ),
    "three axes, many data ranks": ("gpt-22b", 1, 12, {"tensor": 8, "pipeline": 6, "data": 4}),
    "interleaved": (
        "gpt-175b",
        1,
        16,
        {"tensor": 8, "pipeline": 8, "chunks": 3, "schedule": "interleaved", "sequence_parallel": True},
    ),
    "interleaved, data ranks on other nodes": (
        "gpt-22b",
        1,
        16,
        {"tensor": 8, "pipeline": 4, "chunks": 3, "schedule": "interleaved", "data": 8, "zero": 1},
    ),
    "a pipeline of which some neighbours share a node": (
        "gpt-1.3b",
        1,
        16,
        {"pipeline": 4, "data": 4, "zero": 1, "cluster": SLOW},
    ),
    "uneven stages by hand": ("gpt-1.3b", 2, 8, {"pipeline": 3, "split": [10, 9, 5]}),
}


@pytest.mark.parametrize("name", SAME)
def test_the_estimate_is_within_two_percent_of_the_play_of_every_operation(plan_of, name):
    model, microbatch, microbatches, parallel = SAME[name]
    precision = "float32" if name == "float32" else "bfloat16"
    plan = _plan(plan_of, model, microbatch, microbatches, precision=precision, **parallel)
    assert estimate(outline(plan)).seconds == pytest.approx(simulate(plan).makespan, rel=TOLERANCE)


def test_on_ranks_that_share_no_cores_the_estimate_of_a_cpu_agrees_too(plan_of):
    plan = plan_of(cluster="local-cpu", parallel={"pipeline": 1, "data": 1}, train={"global_batch": 8})
    assert estimate(outline(plan)).seconds == pytest.approx(simulate(plan).makespan, rel=TOLERANCE)


def test_the_outline_has_the_stages_and_the_sizes_of_the_plan(plan_of):
    plan = _plan(plan_of, "gpt-1.3b", 2, 8, pipeline=3, data=4, split=[10, 9, 5], zero=2)
    found = outline(plan)
    assert found.layers == (10, 9, 5)
    assert (found.pipeline, found.data, found.chunks, found.zero, found.schedule) == (3, 4, 1, 2, "1f1b")
    assert (found.world, found.tokens) == (plan.layout.world, plan.tokens_per_step)
    assert (found.products, found.stack.grads, found.stack.reduced) == (Dtype.BFLOAT16, Dtype.FLOAT32, Dtype.FLOAT32)
    # AdamW: float32 weight and moments read and written, a gradient read, the weight read again and rounded
    assert found.stack.optimizer_bytes == 6 * 4 + 4 + 4 + 2


def test_dropout_and_smoothed_labels_are_not_lost(plan_of):
    model = {"preset": "gpt-tiny", "attention_dropout": 0.1, "hidden_dropout": 0.1}
    plan = plan_of(model=model, train={"label_smoothing": 0.1})
    found = outline(plan)
    assert (found.attention, found.smoothed) == ("explicit", True)
    assert estimate(found).seconds == pytest.approx(simulate(plan).makespan, rel=TOLERANCE)


def test_rows_from_a_file_have_no_outline(plan_of, tmp_path):
    from headway.plan.build import build
    from headway.plan.job import Job
    from headway.plan.read import decode

    (tmp_path / "own.csv").write_text("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n")
    document = {
        "cluster": "a100-80gb-hdr",
        "parallel": {"schedule": "own.csv", "data": 1},
        "train": {"global_batch": 8, "microbatch": 4},
    }
    plan = build(decode(Job, document, "job"), folder=tmp_path)
    with pytest.raises(PlanError, match=r"the schedule own\.csv is of no family.*Use parallel\.schedule 1f1b"):
        outline(plan)
