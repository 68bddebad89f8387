"""NPUs and GPUs that are missing, ill, in use, far from the network or unseen by torch are told, each with a remedy."""

from dataclasses import replace

import pytest

from headway.launch.doctor.checks import devices
from headway.launch.doctor.finding import Status
from headway.launch.doctor.npu_smi import Holder, Table
from headway.launch.doctor.nvidia_smi import Topology
from tests.launch.doctor.machines import CPU, GIB, ascend, gpu, npu, nvidia, torch

CHIPS, HELD = tuple(map(npu, range(8))), (Holder(3, 0, 4711, "python"),)


def _found(machine):
    return {each.name: each for each in devices.check(machine)}


def test_a_host_without_accelerators_says_that_cores_compute():
    found = _found(CPU)
    assert list(found) == ["accelerators"]
    assert found["accelerators"].what == "no accelerator: ranks compute on the 64 cores"


def test_healthy_npus_and_gpus_are_counted_with_their_memory():
    assert _found(ascend())["NPUs"].what == "8 × 910B3 of 64.0 GiB, npu-smi 23.0.3"
    assert _found(nvidia())["GPUs"].what == "8 × NVIDIA H100 80GB HBM3 of 80.0 GiB, driver 550.54.15"


def _table(**changes):
    first, *rest = map(npu, range(8))
    return Table("23.0.3", (replace(first, **changes), *rest))


@pytest.mark.parametrize(
    ("machine", "name", "said"),
    [
        (ascend(table=None, trouble="it is not installed"), "npu-smi", "8 NPUs have device nodes, but npu-smi"),
        (ascend(table=None, trouble="it is a directory: an engine"), "npu-smi", "directory"),
        (ascend(table=Table(None, ()), trouble="it did not end within 8.00 s"), "npu-smi", "did not end within 8.00 s"),
        (ascend(trouble="another container's"), "npu-smi", "another container's"),
        (ascend(table=_table(health="Alarm")), "NPU health", "not healthy: NPU 0 chip 0 (Alarm)"),
        (ascend(nodes=(0, 1)), "NPU nodes", "2 device nodes /dev/davinciN, but npu-smi shows 8 NPUs"),
        (ascend(manager=False), "NPU manager", "without which no NPU can be opened"),
        (ascend(denied=(0, 1)), "NPU rights", "this user may not open /dev/davinci0, /dev/davinci1"),
        (ascend(links={0: True, 1: False}), "NPU ports", "the network port of NPU 1 has no link"),
        (ascend(links={0: True, 1: None}), "NPU ports", "hccn_tool does not say whether NPU 1 has a link"),
        (ascend(addresses=2), "NPU addresses", "gives 2 device addresses for 8 NPUs"),
        (ascend(table=Table("1", CHIPS, HELD)), "NPUs in use", "python (process 4711) on NPU 3"),
        (ascend(table=Table("1", CHIPS, odd=("| ? |",))), "npu-smi table", "like: | ? |"),
        (nvidia(trouble="Driver/library version mismatch", listed=()), "nvidia-smi", "Driver/library version mismatch"),
        (nvidia(nodes=(), trouble="no driver", listed=()), "nvidia-smi", "0 GPUs have device nodes"),
        (nvidia(nodes=(0, 1, 2)), "GPU nodes", "3 device nodes /dev/nvidiaN, but nvidia-smi lists 8 GPUs"),
        (nvidia(listed=(gpu(0, uncorrected=2), *map(gpu, range(1, 8)))), "GPU memory errors", "GPU 0 (2)"),
        (nvidia(listed=tuple(gpu(i, compute_mode="Prohibited") for i in range(8))), "GPU compute mode", "and 4 more"),
        (nvidia(listed=(gpu(0, mig=True), *map(gpu, range(1, 8)))), "MIG", "GPU 0 may be cut into MIG slices"),
        (nvidia(listed=(gpu(0, used=60 * GIB), *map(gpu, range(1, 8)))), "GPUs in use", "GPU 0 (60.0 GiB)"),
        (nvidia(odd=("Unable to determine",)), "nvidia-smi list", "like: Unable to determine"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_device_is_worth_a_look_and_has_a_remedy(machine, name, said):
    found = _found(machine)[name]
    assert found.status is Status.WARN
    assert said in found.what


def test_devices_that_torch_does_not_show_are_told_with_what_to_install():
    found = _found(replace(ascend(), software=replace(ascend().software, torch=torch())))["NPUs in torch"]
    assert found.what == "the host has 8 NPUs, torch 2.13.0+cpu shows 0"
    assert "torch-npu" in found.remedy
    some = torch(devices={"cuda": (80 * GIB,) * 4})
    found = _found(replace(nvidia(), software=replace(nvidia().software, torch=some)))["GPUs in torch"]
    assert found.remedy == "Look at CUDA_VISIBLE_DEVICES."


def _topology(cells, gpus=("GPU0", "GPU1", "GPU2"), nics=("NIC0",)):
    return {each.name: each for each in devices.topology(Topology(gpus, nics, cells))}


def test_some_pairs_without_nvlink_are_worth_a_look_and_no_pair_with_it_is_a_kind_of_host():
    pairs = {("GPU0", "GPU1"): "NV4", ("GPU0", "GPU2"): "SYS", ("GPU1", "GPU2"): "SYS"}
    found = _topology(pairs)["NVLink"]
    assert found.status is Status.WARN
    assert "2 of 3 pairs of GPUs have no NVLink, like GPU0 and GPU2" in found.what
    assert _topology(dict.fromkeys(pairs, "PHB"))["NVLink"].what == "no pair of GPUs has NVLink"
    assert _topology(dict.fromkeys(pairs, "NV4"))["NVLink"].what == "all pairs of GPUs have NVLink"


def test_gpus_far_from_every_card_are_told():
    cells = {("GPU0", "NIC0"): "PIX", ("GPU1", "NIC0"): "NODE", ("GPU2", "NIC0"): "SYS"}
    found = _topology(cells)["cards near GPUs"]
    assert found.status is Status.WARN
    assert found.what == "2 of 3 GPUs have no network card near them: GPU1's nearest, NIC0, is NODE"
    near = _topology(dict.fromkeys(cells, "PXB"))["cards near GPUs"]
    assert near.what == "each of 3 GPUs has a network card near it; NIC0 serves 3"


def test_a_topology_that_was_not_told_says_nothing():
    assert list(devices.topology(Topology())) == []
