"""Footprint: states by recipe and stage of ZeRO, activations in flight, the loss, and what the device takes."""

import dataclasses

import pytest

from headway.cluster.presets import preset as cluster_preset
from headway.model.block import blocks, shared
from headway.model.spec import PRESETS
from headway.sim import stages
from headway.sim.estimate import estimate
from headway.sim.outline import Outline
from headway.stack.spec import HEADWAY, Stack, preset

OUTLINE = Outline(
    model=PRESETS["gpt-7.5b"], cluster=cluster_preset("a100-80gb-hdr"), stack=HEADWAY, microbatch=1, microbatches=8,
    sequence=2048, data=8,
)  # fmt: skip
STATES = ("parameters", "gradients", "optimizer")


def _parameters(spec):
    return sum(p.numel for block in blocks(spec) for p in block.parameters) + sum(p.numel for p in shared(spec))


@pytest.mark.parametrize(("zero", "bytes_each"), [(0, 2 + 4 + 12), (1, 2 + 4 + 12 / 8), (2, 2 + 16 / 8), (3, 18 / 8)])
def test_states_are_those_of_zeros_table_with_float32_gradients(zero, bytes_each):
    """Rajbhandari et al. 2020, §5: 2 bytes of parameters, here 4 of gradients, 12 of optimizer state."""
    memory = estimate(dataclasses.replace(OUTLINE, zero=zero)).memory
    expected = _parameters(OUTLINE.model) * bytes_each
    assert sum(memory[kind] for kind in STATES) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ["gpt-7.5b", "llama-3-8b"])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("schedule", "chunks"), [("1f1b", 1), ("zb-v", 2)])
def test_every_parameter_is_on_one_pipeline_rank_but_a_tied_embedding_on_both_ends(name, tied, schedule, chunks):
    model = dataclasses.replace(PRESETS[name], tied=tied)
    outline = dataclasses.replace(OUTLINE, model=model, pipeline=4, schedule=schedule, chunks=chunks)
    twice = tied and schedule == "1f1b"  # a V has both its ends on one rank
    each = stages.stages(outline).numel
    assert sum(each) == _parameters(model) + twice * model.vocabulary * model.hidden


def test_zero_over_a_part_of_the_ranks_cuts_into_so_many_parts():
    some, all_of_them = (estimate(dataclasses.replace(OUTLINE, zero=3, zero_ranks=n)).memory for n in (4, 0))
    assert some["optimizer"] == pytest.approx(2 * all_of_them["optimizer"])


def test_1f1b_holds_as_many_micro_batches_as_stages_are_behind_and_gpipe_all():
    piped = dataclasses.replace(OUTLINE, pipeline=4, data=1, microbatches=16)
    one, every = (estimate(dataclasses.replace(piped, schedule=s)).memory["activations"] for s in ("1f1b", "gpipe"))
    assert every / one == pytest.approx(4, rel=0.15)


def test_the_loss_counts_where_the_head_is():
    stack = Stack(name="one", splits="even", loss_peak=1000, loss_saves=0)
    found = estimate(dataclasses.replace(OUTLINE, stack=stack, pipeline=2, data=1))
    assert found.worst_rank == 1
    assert found.memory["loss"] == 2048 * 51200 * 1000


def test_device_memory_counts_context_and_what_the_allocator_cannot_use():
    found, device = estimate(OUTLINE), OUTLINE.cluster.device
    assert found.memory["context"] == device.reserved
    tensors = sum(size for kind, size in found.memory.items() if kind not in {"context", "allocator"})
    assert found.memory["allocator"] == pytest.approx(tensors * device.fragmented / (1 - device.fragmented), rel=1e-6)
    assert found.peak == sum(found.memory.values())
    assert found.fits is (found.peak <= device.memory)


def test_gradients_beside_their_sums_cost_two_bytes_more():
    twice = dataclasses.replace(HEADWAY, copies=True)
    plain, more = (estimate(dataclasses.replace(OUTLINE, stack=s)).memory["gradients"] for s in (HEADWAY, twice))
    assert more == pytest.approx(1.5 * plain)


def test_what_ran_is_predicted_to_fit_and_what_did_not_is_not():
    """Llama-like models on H100s: of the Ultra-Scale Playbook's runs one that ran, and one that did not."""
    cluster, stack = cluster_preset("h800-hpn"), preset("nanotron")
    model = dataclasses.replace(PRESETS["llama-3-8b"], key_value_heads=32, vocabulary=131072, positions=4096)
    ran = Outline(
        model=model, cluster=cluster, stack=stack, microbatch=2, microbatches=4, sequence=4096, tensor=4, data=32,
        sequence_parallel=True, zero=1,
    )  # fmt: skip
    assert estimate(ran).fits
    assert not estimate(dataclasses.replace(ran, tensor=1, data=1, sequence_parallel=False)).fits
