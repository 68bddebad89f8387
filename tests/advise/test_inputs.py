"""From a row to an outline: what becomes what, which empty cells have a meaning, and which are named as lacking."""

import dataclasses

import pytest

from headway.advise.inputs import Lacking, cluster_of, outline, stack_of
from headway.sim.outline import Outline
from headway.stack.spec import preset
from headway.units import Dtype
from tests.advise.rows import row_of


def outlined(folder, **changes):
    found = outline(row_of(folder, **changes))
    assert isinstance(found, Outline), found
    return found


def lacking(folder, **changes):
    found = outline(row_of(folder, **changes))
    assert isinstance(found, Lacking)
    return found.reason


def test_a_row_becomes_its_model_its_layout_and_its_batch(tmp_path):
    found = outlined(tmp_path)
    model = found.model
    assert (model.layers, model.hidden, model.heads, model.feed_forward) == (8, 1024, 16, 4096)
    assert (model.family, model.vocabulary, model.positions, model.tied) == ("gpt", 50000, 2048, True)
    assert (found.tensor, found.pipeline, found.data, found.context, found.world) == (2, 2, 2, 1, 8)
    assert (found.microbatch, found.microbatches, found.sequence, found.tokens) == (2, 4, 2048, 16 * 2048)
    assert (found.schedule, found.chunks, found.sequence_parallel) == ("1f1b", 1, True)
    assert (found.zero, found.zero_ranks, found.attention) == (1, 0, "flash")
    assert (found.products, found.recompute, found.recomputed) == (Dtype.BFLOAT16, "none", 1.0)


@pytest.mark.parametrize(
    ("changes", "family"),
    [({"mlp": "swiglu"}, "llama"), ({"kv_heads": 2}, "llama"), ({}, "gpt")],
)
def test_gated_feed_forwards_and_shared_keys_make_a_llama(tmp_path, changes, family):
    assert outlined(tmp_path, **changes).model.family == family


@pytest.mark.parametrize(("text", "dtype"), [("fp8", Dtype.FLOAT8), ("bf16", Dtype.BFLOAT16), ("fp16", Dtype.FLOAT16)])
def test_the_precision_is_that_of_matrix_products(tmp_path, text, dtype):
    assert outlined(tmp_path, gpu="H100-80GB", precision=text).products == dtype


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"vpp": ""}, "chunks", 1),
        ({"vpp": 3}, "schedule", "interleaved"),
        ({"schedule": "gpipe"}, "schedule", "gpipe"),
        ({"schedule": "zb-h1"}, "schedule", "zb-h1"),
        ({"pp": 1, "dp": 4, "gbs": 32, "schedule": "none"}, "schedule", "1f1b"),
        ({"pp": 1, "dp": 4, "gbs": 32, "schedule": ""}, "schedule", "1f1b"),
        ({"zero_group": 2, "zero_stage": 3}, "zero_ranks", 2),
        ({"dp": 1, "n_gpus": 4, "gbs": 8, "zero_stage": ""}, "zero", 0),
        ({"tp": 1, "n_gpus": 4, "seq_parallel": ""}, "sequence_parallel", False),
        ({"tp": 1, "n_gpus": 4}, "sequence_parallel", False),
        ({"cp": 2, "n_gpus": 16}, "context", 2),
        ({"recompute": "op-level"}, "recompute", "op-level"),
        ({"schedule": "GPipe"}, "schedule", "gpipe"),
        ({"pp": 1, "dp": 4, "gbs": 32, "vpp": 4}, "chunks", 1),
        ({"schedule": "zb-v", "vpp": ""}, "chunks", 2),
        ({"gbs": 17, "mbs": 8, "dp": 2, "grad_accum": ""}, None, "inconsistent batch"),
        ({"gbs": 1601, "mbs": 2, "dp": 2}, "microbatches", 400),
        ({"grad_accum": 5}, None, "inconsistent batch"),
        ({"attention": ""}, "attention", "flash"),
    ],
)
def test_cells_that_need_not_be_filled_and_those_that_must_agree(tmp_path, changes, field, value):
    if field is None:
        assert lacking(tmp_path, **changes) == value
    else:
        assert getattr(outlined(tmp_path, **changes), field) == value


def test_models_need_not_say_what_their_kind_implies(tmp_path):
    found = outlined(tmp_path, kv_heads="", ffn=None).model
    assert (found.key_value_heads, found.feed_forward) == (16, 4096)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"mlp": "moe"}, "mixture of experts"),
        ({"ep": 2}, "mixture of experts"),
        ({"gpu": "TPUv3 core"}, "unknown gpu: TPUv3 core"),
        ({"gpu": "V100-32GB", "precision": "bf16"}, "no rate of V100-32GB for bf16"),
        ({"gpu": "A100-80GB", "precision": "fp8"}, "no rate of A100-80GB for fp8"),
        ({"offload": "tape"}, "unknown offload: tape"),
        ({"layers": ""}, "no layers"),
        ({"hidden": ""}, "no hidden"),
        ({"vocab": ""}, "no vocab"),
        ({"tied_embed": ""}, "no tied_embed"),
        ({"mlp": ""}, "no mlp"),
        ({"mlp": "relu"}, "unknown mlp: relu"),
        ({"mlp": "swiglu", "ffn": ""}, "no ffn"),
        ({"zero_stage": ""}, "no zero_stage"),
        ({"seq_parallel": ""}, "no seq_parallel"),
        ({"mbs": ""}, "no mbs"),
        ({"tp": "", "dp": ""}, "no tp"),
        ({"n_gpus": 16}, "tp × pp × dp × cp is not n_gpus"),
        ({"gpus_per_node": ""}, "no gpus_per_node"),
        ({"gpus_per_node": 4, "nic_gbps_per_gpu": ""}, "no nic_gbps_per_gpu"),
        ({"gpus_per_node": 4, "nic_gbps_per_gpu": 0}, "no nic_gbps_per_gpu"),
        ({"precision": "int8"}, "unknown precision: int8"),
        ({"recompute": ""}, "no recompute"),
        ({"recompute": "blocks"}, "unknown recompute: blocks"),
        ({"recompute": "fraction", "mfu_pct": 40}, "no share of recomputed layers (mfu_pct and hfu_pct)"),
        ({"schedule": "none"}, "unknown schedule: none"),
        ({"schedule": ""}, "no schedule"),
        ({"attention": "", "framework": "homemade"}, "no attention"),
        ({"iter_s": ""}, "no published time"),
        ({"missing": "vpp"}, "no vpp"),
        ({"schedule": "zb-v"}, "zb-v with vpp 1"),
        ({"schedule": "gpipe", "vpp": 2}, "gpipe with vpp 2"),
        ({"precision": "fp8"}, "no rate of A100-80GB for fp8"),
        ({"precision": "bf16", "gpu": "V100-32GB"}, "no rate of V100-32GB for bf16"),
        ({"tp": 3, "n_gpus": 12}, "tp does not divide heads"),
        ({"cp": 3, "n_gpus": 24}, "cp does not divide seq_len"),
        ({"zero_stage": 3, "zero_group": 4}, "zero_group does not divide dp × cp"),
        ({"missing": "cp", "dp": ""}, "no cp"),
        ({"missing": "inconsistent_batch"}, "inconsistent batch"),
    ],
)
def test_what_a_row_lacks_is_named_and_never_guessed(tmp_path, changes, reason):
    assert lacking(tmp_path, **changes) == reason


def test_sizes_that_make_no_model_are_a_reason_too(tmp_path):
    assert lacking(tmp_path, heads=15, kv_heads=15).startswith("no such model: model.heads must divide model.hidden")


@pytest.mark.parametrize(
    ("mfu", "hfu", "share"), [(60, 60, 0.0), (60, 70, 0.5), (60, 80, 1.0), (60, 90, 1.0), (60, 50, 0.0)]
)
def test_the_share_of_recomputed_layers_follows_from_both_utilisations(tmp_path, mfu, hfu, share):
    found = outlined(tmp_path, recompute="fraction", mfu_pct=mfu, hfu_pct=hfu)
    assert found.recomputed == pytest.approx(share, abs=1e-12)


def test_a_row_that_did_not_run_needs_no_time_and_one_with_memory_alone_is_compared_in_that(tmp_path):
    assert outlined(tmp_path, iter_s="", status="out of memory").data == 2
    assert outlined(tmp_path, iter_s="", peak_mem_gb=9, mem_unit="GB").data == 2


def test_the_cluster_has_the_nodes_that_the_ranks_fill_and_the_rows_network(tmp_path):
    cluster = cluster_of(row_of(tmp_path, gpus_per_node=3))
    assert (cluster.nodes, cluster.devices_per_node) == (3, 3)
    faster = cluster_of(row_of(tmp_path, gpus_per_node=3, nic_gbps_per_gpu=400))
    assert faster.between.bandwidth == pytest.approx(2 * cluster.between.bandwidth, rel=1e-9)
    assert 0.5 * 25e9 < cluster.between.bandwidth <= 25e9
    alone = {"tp": 1, "pp": 1, "dp": 1, "n_gpus": 1, "gbs": 2}
    single = cluster_of(row_of(tmp_path, **alone, gpus_per_node="", nic_gbps_per_gpu=""))
    assert (single.nodes, single.devices_per_node) == (1, 1)


def test_a_device_may_be_named_without_its_memory_where_the_row_says_that_apart(tmp_path):
    assert cluster_of(row_of(tmp_path, gpu="A100", gpu_mem_gb=40)).device.name == "A100-40GB"


def test_the_stack_is_that_of_the_framework_and_generic_where_it_is_unknown(tmp_path):
    assert stack_of(row_of(tmp_path, framework="Headway")) == preset("headway")
    assert stack_of(row_of(tmp_path, framework="homemade")) == preset("generic")
    assert stack_of(row_of(tmp_path, framework="")) == preset("generic")


@pytest.mark.parametrize(
    ("said", "more", "less"),
    [
        ({"notes": "torch.compile on; async TP; bf16"}, {"tensor"}, set()),
        ({"detail": "no overlap of gradient all-reduce with backward"}, set(), {"gradients"}),
        ({"notes": "no async TP; vanilla TP"}, set(), set()),
        ({"notes": "no torch.compile"}, set(), set()),  # generic has no eager stack of its own
    ],
)
def test_what_a_row_says_about_its_software_changes_its_stack(tmp_path, said, more, less):
    generic, found = preset("generic"), stack_of(row_of(tmp_path, **said))
    assert found.overlaps == (generic.overlaps | more) - less
    assert dataclasses.replace(found, overlaps=generic.overlaps) == generic
    if more or less:
        assert found.reasons["overlaps"].endswith(("the row says: async TP", "the row says: no overlap of gradients"))


@pytest.mark.parametrize(
    ("said", "zero", "optimizer", "params"),
    [
        ("none", 3, "device", "device"),
        ("cpu (optimizer+grads)", 2, "host", "device"),
        ("cpu (params+optimizer)", 3, "host", "host"),
        ("cpu", 2, "host", "device"),
        ("cpu/nvme", 3, "disk", "disk"),
    ],
)
def test_what_is_offloaded_is_read_by_state(tmp_path, said, zero, optimizer, params):
    found = outline(row_of(tmp_path, offload=said, zero_stage=zero))
    assert (found.optimizer_on, found.params_on) == (optimizer, params)
