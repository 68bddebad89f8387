"""What torch is on a host, said in one line; what a plug-in broke is told with where it came from."""

import json
import subprocess
import sys

import pytest

from headway.train.about import chain

pytestmark = pytest.mark.dist


def test_torch_is_described_in_one_line():
    done = subprocess.run(
        [sys.executable, "-m", "headway.train.about"], capture_output=True, text=True, timeout=90, check=True
    )
    (line,) = done.stdout.splitlines()
    found = json.loads(line)
    assert found["gloo"] is None
    assert "gloo" in found["backends"]
    assert found["version"].startswith("2.")
    assert set(found["devices"]) <= {"cuda", "npu"}


def test_an_npu_that_a_plugin_registers_is_shown_with_its_memory():
    code = """
import json, types, torch
from headway.train.about import describe
module = types.ModuleType("torch.npu")
module.device_count = lambda: 2
module.get_device_properties = lambda index: types.SimpleNamespace(name="Ascend910B3", total_memory=2**36)
torch.utils.rename_privateuse1_backend("npu")
torch._register_device_module("npu", module)
torch.distributed.Backend.register_backend("hccl", lambda *_: None, devices=["npu"])
print(json.dumps(describe()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["devices"] == {"npu": [{"name": "Ascend910B3", "memory": 2**36}] * 2}
    assert found["backends"] == ["gloo", "hccl"]


def test_an_error_is_told_with_what_it_came_from():
    try:
        try:
            raise OSError("libhccl.so: cannot open shared object file")
        except OSError as error:
            raise RuntimeError("Failed to load the backend extension\nmore") from error
    except RuntimeError as error:
        said = chain(error)
    assert said == (
        "RuntimeError: Failed to load the backend extension, from OSError: libhccl.so: cannot open shared object file"
    )
