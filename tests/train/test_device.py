"""The kind of device chooses the backend; an Ascend's is tested by a stand-in that torch lets one register."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.dist


def _run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


def test_each_kind_of_device_has_its_backend():
    code = "from headway.train.device import backend; print(*map(backend, ('cpu', 'cuda', 'npu')))"
    assert _run(code).stdout.split() == ["gloo", "nccl", "hccl"]


def test_an_npu_is_chosen_by_its_local_rank():
    code = """
import sys, types, torch
module = types.ModuleType("torch.npu")
module.device_count = lambda: 2
module.set_device = lambda index: print("set", index)
module.synchronize = lambda: print("synchronized")
torch.utils.rename_privateuse1_backend("npu")
torch._register_device_module("npu", module)
from headway.train import device
chosen = device.choose("npu", 1)
device.synchronize(chosen)
print(chosen)
"""
    done = _run(code)
    assert done.stdout.split() == ["set", "1", "synchronized", "npu:1"], done.stderr


def test_a_device_that_is_not_there_is_refused_with_a_remedy():
    code = """
from headway.errors import PlanError
from headway.train.device import choose
for kind in ("cuda", "npu"):
    try:
        choose(kind, 0)
    except PlanError as error:
        print(error)
"""
    lines = _run(code).stdout.splitlines()
    assert len(lines) == 2
    assert all("this machine shows 0 to local rank 0" in line and "local-cpu" in line for line in lines)
