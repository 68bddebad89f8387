"""Building a plan: what is derived, and arithmetic that must come out even."""

import dataclasses

import pytest

from headway.cluster.presets import preset
from headway.errors import PlanError
from headway.model.spec import PRESETS
from headway.plan import plan as plans
from headway.plan.build import build, from_file
from headway.plan.job import Job
from headway.schedule.action import Kind


def test_the_world_is_the_product_of_the_axes(plan_of):
    plan = plan_of(parallel={"pipeline": 4, "data": 2})
    assert str(plan.layout) == "tensor=1 context=1 data=2 pipeline=4"
    assert plan.layout.world == 8


@pytest.mark.parametrize(("global_batch", "microbatch", "expected"), [(32, 16, 1), (32, 8, 2), (32, 4, 4), (32, 1, 16)])
def test_the_batch_is_microbatch_times_data_times_microbatches(plan_of, global_batch, microbatch, expected):
    plan = plan_of(train={"global_batch": global_batch, "microbatch": microbatch}, parallel={"data": 2})
    assert plan.num_microbatches == plan.schedule.num_microbatches == plan.evaluation.num_microbatches == expected
    assert plan.tokens_per_step == global_batch * 256


@pytest.mark.parametrize(
    ("global_batch", "microbatch", "legal"),
    [(33, 17, "34"), (32, 18, "36"), (33, 16, "32 or 64"), (100, 8, "96 or 112")],
)
def test_a_batch_that_does_not_divide_names_the_nearest_that_do(plan_of, global_batch, microbatch, legal):
    """DeepSpeed #17, #3228, #3982: its users could not tell which number to change."""
    with pytest.raises(PlanError) as error:
        plan_of(train={"global_batch": global_batch, "microbatch": microbatch}, parallel={"data": 2})
    assert f"train.global_batch {global_batch} is not a multiple of train.microbatch {microbatch}" in str(error.value)
    assert f"Use train.global_batch {legal}, or another train.microbatch" in str(error.value)
    for number in map(int, legal.split(" or ")):
        plan_of(train={"global_batch": number, "microbatch": microbatch}, parallel={"data": 2})


def test_broken_groups_name_the_global_batches_that_work(plan_of):
    sections = {"pipeline": 4, "data": 2, "schedule": "interleaved"}
    with pytest.raises(PlanError, match=r"Use 4 or 8 \(train\.global_batch 32 or 64\)"):
        plan_of(train={"global_batch": 48, "microbatch": 4}, parallel=sections)


@pytest.mark.parametrize(("schedule", "chunks"), [("gpipe", 1), ("1f1b", 1), ("interleaved", 2)])
@pytest.mark.parametrize("pipeline", [1, 2, 3])
def test_stages_hold_every_block_once_in_order(plan_of, schedule, chunks, pipeline):
    plan = plan_of(
        parallel={"pipeline": pipeline, "data": 1, "schedule": schedule, "chunks": chunks},
        train={"global_batch": 24, "microbatch": 4},
    )
    assert len(plan.stages) == pipeline * chunks
    names = [name for stage in plan.stages for name in stage]
    assert names == ["embedding", "layers.0", "layers.1", "layers.2", "layers.3", "head"]


@pytest.mark.parametrize(
    ("parallel", "tied", "stages"),
    [
        ({"pipeline": 1, "data": 1}, True, set()),
        ({"pipeline": 4, "data": 1}, True, {0, 3}),
        ({"pipeline": 4, "data": 1}, False, set()),
        ({"pipeline": 4, "data": 2}, True, {0, 1, 2, 3}),
        ({"pipeline": 1, "data": 2}, True, {0}),
    ],
)
def test_gradients_are_reduced_where_other_ranks_share_them(plan_of, parallel, tied, stages):
    plan = plan_of(parallel=parallel, model={"preset": "gpt-tiny", "tied": tied})
    reduced = {a.stage for row in plan.schedule.rows for a in row if a.kind is Kind.REDUCE_GRAD}
    assert reduced == stages
    assert {op.action.stage for row in plan.program.rows for op in row if op.action.kind is Kind.REDUCE_GRAD} == stages


def test_an_evaluation_goes_forward_only(plan_of):
    kinds = {a.kind for row in plan_of().evaluation.rows for a in row}
    assert kinds == {Kind.BEGIN, Kind.FORWARD, Kind.SEND_F, Kind.RECV_F, Kind.STEP}


def test_a_presets_feed_forward_follows_its_width(plan_of):
    plan = plan_of(model={"preset": "gpt-tiny", "hidden": 64})
    assert plan.model == dataclasses.replace(PRESETS["gpt-tiny"], hidden=64, feed_forward=256)
    plan = plan_of(model={"preset": "gpt-tiny", "hidden": 64, "feed_forward": 100})
    assert plan.model.feed_forward == 100


def test_a_llama_may_be_a_preset_a_changed_one_or_all_fields(plan_of):
    data = {"tokenizer": "none", "path": "tokens"}
    assert plan_of(model="llama-3-8b", data=data).model == PRESETS["llama-3-8b"]
    four = plan_of(model={"preset": "llama-3-8b", "layers": 4}, data=data)
    assert four.model == dataclasses.replace(PRESETS["llama-3-8b"], layers=4)
    sizes = {"layers": 2, "hidden": 32, "heads": 4, "feed_forward": 64, "vocabulary": 256, "positions": 256}
    spec = plan_of(model={**sizes, "family": "llama", "key_value_heads": 2, "hidden_dropout": 0.1}).model
    assert (spec.family, spec.key_value_heads, spec.tied, spec.hidden_dropout) == ("llama", 2, False, 0.1)


def test_a_plan_of_a_llama_with_dropout_survives_its_file(plan_of):
    plan = plan_of(model={"preset": "llama-tiny", "attention_dropout": 0.1, "hidden_dropout": 0.2, "rope_theta": 5e5})
    assert plans.loads(plans.dumps(plan)) == plan
    assert plans.digest(plan) != plans.digest(plan_of(model="llama-tiny"))


def test_a_model_may_be_given_by_all_its_fields(plan_of):
    sizes = {"layers": 2, "hidden": 32, "heads": 2, "feed_forward": 64, "vocabulary": 256, "positions": 256}
    assert plan_of(model=sizes).model.hidden == 32


def test_the_default_job_plans(tmp_path):
    (tmp_path / "small.yaml").write_text("")
    plan = from_file(tmp_path / "small.yaml")
    assert (plan.name, plan.layout.world, plan.cluster.name) == ("small", 4, "local-cpu")
    assert plans.digest(plan) == plans.digest(build(Job()))


def test_a_cluster_file_is_read_beside_the_job_file(tmp_path):
    device = (
        "{name: box, kind: cpu, memory: 1000000000, peak: {float32: 1e12, float64: 1e11}, "
        "matmul: {float32: 1e12, float64: 1e11}, memory_bandwidth: 1e10, launch: 1e-6}"
    )
    link = "{name: wire, latency: 1e-6, bandwidth: 1e9}"
    (tmp_path / "box.yaml").write_text(
        f"name: box\nnodes: 1\ndevices_per_node: 4\ndevice: {device}\ninside: {link}\nbetween: {link}\n"
    )
    (tmp_path / "job.yaml").write_text("cluster: box.yaml\n")
    cluster = from_file(tmp_path / "job.yaml").cluster
    assert (cluster.name, cluster.num_devices, cluster.inside.bandwidth) == ("box", 4, 1e9)


def test_a_plan_file_is_the_plan_itself(tmp_path, plan_of):
    plan = plan_of()
    (tmp_path / "plan.json").write_text(plans.dumps(plan))
    assert from_file(tmp_path / "plan.json") == plan
    with pytest.raises(PlanError, match=r"--set changes a job file, but .*plan\.json is a plan already"):
        from_file(tmp_path / "plan.json", ("train.steps=3",))


def test_a_named_cluster_is_the_preset(plan_of):
    assert plan_of(cluster="h800-hpn").cluster == preset("h800-hpn")
