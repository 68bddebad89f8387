"""Offload: what leaves the device, and what its way to host memory and disk takes."""

import dataclasses

import pytest

from headway.cluster.presets import device
from headway.cluster.presets import preset as cluster_preset
from headway.errors import PlanError
from headway.model.spec import PRESETS
from headway.sim import offload
from headway.sim.estimate import estimate
from headway.sim.outline import Outline
from headway.stack.spec import preset

OUTLINE = Outline(
    model=PRESETS["gpt-13b"], cluster=cluster_preset("a100-80gb-hdr"), stack=preset("deepspeed"), microbatch=2,
    microbatches=4, sequence=2048, data=8, zero=2, recompute="full",
)  # fmt: skip
OFFLOADED = dataclasses.replace(OUTLINE, optimizer_on="host")
INFINITE = dataclasses.replace(OUTLINE, zero=3, optimizer_on="disk", params_on="disk")
A100 = OUTLINE.cluster.device


def test_an_offloaded_optimizer_leaves_parameters_and_no_state_on_the_device():
    """ZeRO-Offload: 2 bytes of each parameter stay, gradients and states lie in host memory (Ren et al. 2021, §3.3)."""
    here, there = estimate(OUTLINE), estimate(OFFLOADED)
    assert there.memory["parameters"] == here.memory["parameters"]
    assert "optimizer" not in there.memory
    assert "gradients" not in there.memory
    own = there.memory["parameters"] // 2 // 8
    assert there.away["optimizer"] == pytest.approx(12 * own, abs=12)
    assert there.away["gradients"] == pytest.approx(2 * own, abs=2)
    assert here.away == {}


def test_whole_gradients_stay_where_they_add_up():
    assert "gradients" in estimate(dataclasses.replace(OFFLOADED, zero=1)).memory


def test_everything_may_leave_but_the_layers_that_are_gathered():
    """ZeRO-Infinity (Rajbhandari et al. 2021, §5)."""
    found = estimate(INFINITE)
    assert found.memory.keys() & {"parameters", "gradients", "optimizer"} == set()
    assert found.memory["gathered"] > 0
    assert set(found.away) == {"parameters", "gradients", "optimizer"}


def test_the_update_takes_the_hosts_memory_or_the_disk_whichever_is_slower():
    numel = 8 * 10**9
    assert offload.updated(OFFLOADED, numel) == pytest.approx(28e9 / A100.host_stream)
    assert offload.updated(INFINITE, numel) == pytest.approx(24e9 / A100.disk)


def test_gradients_go_to_the_host_behind_the_backward_passes():
    numel = 8 * 10**9
    whole = 4 * 2e9 / A100.host_link  # of each of four micro-batches a part of two bytes a parameter
    assert offload.sent(OFFLOADED, numel, 0.0) == pytest.approx(whole)
    assert offload.sent(OFFLOADED, numel, whole / 2) == pytest.approx(whole / 2)
    assert offload.sent(OFFLOADED, numel, 2 * whole) == 0
    assert offload.sent(dataclasses.replace(OFFLOADED, zero=1), numel, 0.0) == pytest.approx(whole / 4)


@pytest.mark.parametrize(
    "tiers", [("device", "device"), ("host", "device"), ("host", "host"), ("disk", "disk")], ids=str
)
def test_a_tier_further_away_never_makes_a_step_faster(tiers):
    outline = dataclasses.replace(OUTLINE, zero=3, optimizer_on=tiers[0], params_on=tiers[1])
    nearer = dataclasses.replace(OUTLINE, zero=3)
    assert estimate(outline).seconds >= estimate(nearer).seconds
    assert estimate(outline).peak <= estimate(nearer).peak


def test_a_device_without_rates_of_its_host_cannot_offload():
    bare = dataclasses.replace(device("A100-80GB"), host_link=0.0)
    cluster = dataclasses.replace(OUTLINE.cluster, device=bare)
    with pytest.raises(PlanError, match=r"A100-80GB has no rates of host memory and disk.*Add device\.host_link"):
        estimate(dataclasses.replace(OFFLOADED, cluster=cluster))
