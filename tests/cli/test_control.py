"""headway train, asked to stop by its control file: all ranks end after one step, and it goes on to the bit."""

import json
import time

import pytest

from headway import checkpoints, control
from tests.cli.running import end, start

pytestmark = pytest.mark.dist
STEPS = 120
JOB = f"""
model: {{layers: 2, hidden: 32, heads: 2, feed_forward: 64, vocabulary: 256, positions: 64}}
parallel: {{pipeline: 2, data: 1}}
data: {{sequence_length: 64, path: text.txt, validation: 0}}
train: {{steps: {STEPS}, global_batch: 32, microbatch: 4}}
run: {{directory: run}}
"""
SAME = ("loss", "grad_norm", "learning_rate")


def _folder(path):
    path.mkdir()
    (path / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 500)
    (path / "job.yaml").write_text(JOB)
    return path


def _steps(folder):
    path = folder / "run" / "metrics.jsonl"
    lines = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    return {line["step"]: tuple(line[key] for key in SAME) for line in lines if "loss" in line}


def test_a_control_file_in_mid_run_ends_it_with_status_0_and_it_goes_on_as_if_nothing_had_been(tmp_path):
    folder, undisturbed = _folder(tmp_path / "asked"), _folder(tmp_path / "whole")
    run = folder / "run"
    process = start("job.yaml", cwd=folder)
    deadline = time.monotonic() + 90
    while not _steps(folder):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    control.stop_file(run).parent.mkdir()
    control.stop_file(run).write_text("the node is wanted\n")
    status, out, err = end(process)
    assert status == 0, err
    summary = json.loads((run / "summary.json").read_text())
    stopped = summary["steps"]
    assert stopped < STEPS
    assert summary["interrupted"]
    assert summary["stopped_by"] == "run/control/stop says: the node is wanted"
    assert f"ended after step {stopped} of {STEPS}: run/control/stop says: the node is wanted" in out
    assert "to go on: the same command again" in out
    (kept,) = checkpoints.newest_first(run / "checkpoints")
    assert checkpoints.step_of(kept) == stopped == max(_steps(folder))
    assert checkpoints.damage(kept) is None
    assert [path.name for path in (run / "control").iterdir()] == ["stopped"]
    assert not list((run / "log").glob("*.error.json"))

    control.stop_file(run).touch()  # left by somebody who came too late: it asks nothing of the next start
    status, _, err = end(start("job.yaml", cwd=folder))
    assert status == 0, err
    assert f"going on from run/checkpoints/{kept.name}" in err
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["steps"], summary["resumed_at"], summary["interrupted"]) == (STEPS, stopped, False)
    assert summary["stopped_by"] is None
    assert list((run / "control").iterdir()) == []

    status, _, err = end(start("job.yaml", cwd=undisturbed))
    assert status == 0, err
    assert _steps(folder) == _steps(undisturbed)
