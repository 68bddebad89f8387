"""The kind of device chooses the backend; an Ascend's is tested by a stand-in that torch lets one register."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headway.errors import PlanError
from tests.train.launching import run_ranks

pytestmark = pytest.mark.dist


def _run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


def test_each_kind_of_device_has_its_backend():
    from headway.train.device import backend

    assert [*map(backend, ("cpu", "cuda", "npu"))] == ["gloo", "nccl", "hccl"]


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


@pytest.mark.parametrize("kind", ["cuda", "npu"])
def test_a_device_that_is_not_there_is_refused_with_a_remedy(kind):
    from headway.train.device import choose

    with pytest.raises(PlanError, match=r"this machine shows 0 to local rank 0.*local-cpu"):
        choose(kind, 0)


JOB = """
model: {{layers: 2, hidden: 32, heads: 2, feed_forward: 64, vocabulary: 256, positions: 64}}
cluster: {cluster}
parallel: {{pipeline: 2, data: 2, zero: 3, whole_below: 0B}}
data: {{sequence_length: 32, path: {path}, validation: 0}}
train: {{steps: 3, global_batch: 4, microbatch: 1, evaluate_every: 0}}
"""


def test_an_ascend_job_talks_over_hccl_everywhere_and_learns_the_same(tmp_path):
    text = tmp_path / "text"
    text.write_text("a ring of ranks sends what the next one needs. " * 400)
    losses = {}
    for cluster in ("ascend-910b", "local-cpu"):
        directory = tmp_path / cluster
        directory.mkdir()
        job = tmp_path / f"{cluster}.yaml"
        job.write_text(JOB.format(cluster=cluster, path=text))
        run_ranks(Path(__file__).parent / "play_hccl.py", [str(job), str(directory)], 4, timeout=90)
        lines = (directory / "metrics.jsonl").read_text().splitlines()
        losses[cluster] = [line["loss"] for line in map(json.loads, lines) if "loss" in line]
    found = json.loads((tmp_path / "ascend-910b" / "backends.json").read_text())
    assert found["kinds"] == ["npu"]
    assert len(found["groups"]) >= 3
    assert set(found["groups"]) == {"hccl"}
    assert set(json.loads((tmp_path / "local-cpu" / "backends.json").read_text())["groups"]) == {"gloo"}
    assert len(losses["ascend-910b"]) == 3
    assert losses["ascend-910b"] == losses["local-cpu"]
