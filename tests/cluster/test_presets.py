"""Clusters known by name."""

import pytest

from headway.cluster.presets import device, of_devices, preset
from headway.env import num_cores
from headway.errors import PlanError

NAMES = ["local-cpu", "a100-80gb-hdr", "h800-hpn", "ascend-910b"]


@pytest.mark.parametrize("name", NAMES)
def test_a_presets_numbers_are_physical(name):
    cluster = preset(name)
    assert cluster.name == name
    for dtype in cluster.device.peak:
        assert 0 < cluster.device.matmul[dtype] <= cluster.device.peak[dtype]
    assert cluster.device.memory > 2**30
    for link in (cluster.inside, cluster.between):
        assert link.latency > 0
        assert link.bandwidth > 0
    assert cluster.inside.bandwidth >= cluster.between.bandwidth
    assert cluster.inside.latency <= cluster.between.latency


def test_ranks_of_the_local_cluster_share_this_machines_cores():
    assert preset("local-cpu").shared_cores == num_cores()


def test_an_unknown_name_gets_the_nearest_one():
    with pytest.raises(PlanError, match=r"called 'local_cpu'\. Did you mean 'local-cpu'\?"):
        preset("local_cpu")


DEVICES = ["V100-16GB", "A100-40GB", "A100-PCIe-80GB", "H100-96GB-500W", "H200-141GB", "B200", "Ascend-910B"]


@pytest.mark.parametrize("name", DEVICES)
def test_a_devices_numbers_are_physical_and_have_sources(name):
    found = device(name)
    assert found.name == name
    assert all(0 < found.matmul[dtype] <= rate for dtype, rate in found.peak.items())
    assert found.matmul.keys() == found.peak.keys()
    assert found.processors > 0
    assert all(0.1 < share < 0.8 for share in found.attention)
    assert 0 < found.reserved < found.memory / 10
    assert 0 < found.fragmented < 0.15
    assert "peak" in found.sources


def test_a_peak_that_is_not_published_is_called_an_assumption():
    assert "assumption" in device("H100-96GB-500W").sources["peak"]


def test_a_device_has_several_spellings():
    assert device("A100-SXM4-80GB") == device("NVIDIA A100 SXM 80GB") == device("A100-80GB")


def test_an_unknown_device_gets_the_nearest_name():
    with pytest.raises(PlanError, match=r"no device is called 'A100-80G'\. Did you mean 'A100-80GB'\?"):
        device("A100-80G")


def test_a_cluster_of_devices_has_their_link_or_the_one_that_is_named():
    each, more = device("A100-80GB"), {"nodes": 2, "per_node": 8, "network": 25e9}
    own, slow = (of_devices(each, inside=inside, **more) for inside in ("", "PCIe4"))
    assert of_devices(each, inside="NVLink+NVSwitch", **more) == own
    assert slow.inside.bandwidth < own.inside.bandwidth / 5
    assert own.between.bandwidth == pytest.approx(0.65 * 25e9)
    assert own.num_devices == 16
    with pytest.raises(PlanError, match="no link inside a node is called 'smoke'"):
        of_devices(each, inside="smoke", **more)


@pytest.mark.parametrize(
    ("flags", "core"),
    [
        ({"avx2"}, "CPU-core-AVX2"),
        ({"avx2", "avx512f"}, "CPU-core"),
        ({"avx2", "avx512f", "amx_bf16"}, "CPU-core-AMX"),
        (set(), "CPU-core"),
    ],
)
def test_the_local_cluster_has_the_core_that_this_machine_has(monkeypatch, flags, core):
    monkeypatch.setattr("headway.cluster.presets.processor_flags", lambda: frozenset(flags))
    found = preset("local-cpu")
    assert found.device.name == core
    assert found.device.memory > 2**30
    assert found.inside == found.between
