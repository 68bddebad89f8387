"""Jobs on two nodes that train, fail and are stopped: two agents on this machine, started here or by a stand-in of ssh."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.launch.agents import fake_ssh, processes

pytestmark = pytest.mark.dist
JOB = """
model: {layers: 2, hidden: 32, heads: 2, feed_forward: 64, vocabulary: 256, positions: 64}
parallel: {pipeline: 2, data: %d}
data: {sequence_length: 32, path: text.txt, validation: 0}
train: {steps: %d, global_batch: 8, microbatch: 1, precision: float64}
run: {directory: %s}
"""
FEW, MANY = 3, 100_000


def start(folder, *words, name="run", data=1, steps=FEW, variables=None):
    """A job in a folder of its own name, under way."""
    (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 100)
    job = folder / f"{name}.yaml"
    job.write_text(JOB % (data, steps, folder / name))
    return subprocess.Popen(
        [sys.executable, "-m", "headway", *words, str(job)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, **(variables or {})},
    )


def end(process, timeout=150):
    """Exit status and stderr; no traceback is ever shown."""
    try:
        _, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    assert "Traceback" not in err
    return process.returncode, err


def losses(folder, name):
    lines = [json.loads(line) for line in (folder / name / "metrics.jsonl").read_text().splitlines()]
    return [(line["step"], line["loss"], line["grad_norm"]) for line in lines]


def wait_for_step(process, run, timeout=120):
    until = time.monotonic() + timeout
    place = run / "log" / "rank-1.at"
    while not (place.exists() and place.read_text().startswith("step")):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until, "no step is begun"
        time.sleep(0.05)


def pid_of_rank(rank, run):
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line, variables = path.read_text(), (path.parent / "environ").read_text().split("\0")
        except OSError:
            continue
        if str(run) in line and f"RANK={rank}" in variables:
            return int(path.parent.name)
    return pytest.fail(f"no rank {rank}")


def nothing_is_left(run, timeout=30):
    until = time.monotonic() + timeout
    while (left := processes(str(run))) and time.monotonic() < until:
        time.sleep(0.1)
    return not left


LOCAL = ("launch", "--on", "local", "--nodes", "2")


@pytest.mark.parametrize("data", [1, 2])
def test_two_nodes_train_to_the_losses_of_one(tmp_path, data):
    one = end(start(tmp_path, "train", name="one", data=data))
    two = end(start(tmp_path, *LOCAL, name="two", data=data))
    assert (one[0], two[0]) == (0, 0), one[1] + two[1]
    assert losses(tmp_path, "two") == losses(tmp_path, "one")
    assert f"{data} ranks on each of 2 hosts (localhost), meeting at 127.0.0.1:" in two[1]
    assert nothing_is_left(tmp_path / "two")


def test_two_hosts_behind_ssh_train_and_are_told_no_secret_in_the_open(tmp_path):
    (tmp_path / "hosts").write_text("a slots=1\nroot@b slots=1\n")
    words = ("launch", "--on", "ssh", "--hostfile", "hosts", "--address", "127.0.0.1", "--interface", "lo")
    variables = {**fake_ssh(tmp_path), "HF_TOKEN": "hush"}
    status, err = end(start(tmp_path, *words, "--env", "HF_TOKEN", variables=variables))
    assert status == 0, err
    assert [step for step, _, _ in losses(tmp_path, "run")] == [1, 2, 3]
    lines = (tmp_path / "lines").read_text()
    assert re.findall(r"^(\S+): exec sh", lines, re.MULTILINE) == ["a", "root@b"]
    assert "hush" not in lines + err
    assert nothing_is_left(tmp_path / "run")


def test_a_rank_that_is_killed_ends_all_hosts_in_seconds_and_is_named(tmp_path):
    process = start(tmp_path, *LOCAL, steps=MANY)
    wait_for_step(process, tmp_path / "run")
    os.kill(pid_of_rank(1, tmp_path / "run"), signal.SIGKILL)
    killed = time.monotonic()
    status, err = end(process)
    assert time.monotonic() - killed < 15
    assert status == 1
    assert re.search(r"Error: rank 1 was killed by SIGKILL at step \d+ · ", err)
    assert nothing_is_left(tmp_path / "run")


def test_an_agent_that_is_killed_ends_the_other_host_too(tmp_path):
    process = start(tmp_path, *LOCAL, steps=MANY)
    wait_for_step(process, tmp_path / "run")
    agent = re.search(r"^(\d+)$", "\n".join(agents(tmp_path / "run", node=1)), re.MULTILINE)
    os.kill(int(agent[1]), signal.SIGKILL)
    status, err = end(process)
    assert status == 1
    assert nothing_is_left(tmp_path / "run")


def agents(run, node):
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line, variables = path.read_text(), (path.parent / "environ").read_text().split("\0")
        except OSError:
            continue
        if "headway.train.agent" in line and str(run) in line and f"PET_NODE_RANK={node}" in variables:
            found.append(path.parent.name)
    return found


def test_ctrl_c_ends_the_step_on_all_hosts_and_keeps_the_weights(tmp_path):
    process = start(tmp_path, *LOCAL, steps=MANY)
    wait_for_step(process, tmp_path / "run")
    process.send_signal(signal.SIGINT)
    status, err = end(process)
    assert status == 130, err
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["interrupted"]
    assert nothing_is_left(tmp_path / "run")


def test_without_the_launcher_the_hosts_end_by_themselves(tmp_path):
    process = start(tmp_path, *LOCAL, steps=MANY)
    wait_for_step(process, tmp_path / "run")
    process.kill()
    process.communicate()
    assert nothing_is_left(tmp_path / "run", timeout=40)


def test_a_run_directory_that_a_host_does_not_see_is_said_before_anything_trains(tmp_path):
    (tmp_path / "hosts").write_text("a\nb\n")
    # b's part runs with another folder in place of the run's
    variables = fake_ssh(tmp_path)
    program = tmp_path / "bin" / "ssh"
    program.write_text(
        program.read_text().replace("line=$3\n", 'line=$3\n[ $host = b ] && line=$(echo "$line" | sed s:/run:/gone:)\n')
    )
    words = ("launch", "--on", "ssh", "--hostfile", "hosts", "--address", "127.0.0.1")
    status, err = end(start(tmp_path, *words, variables=variables))
    assert status == 1
    assert re.search(r"b: ended with status 2: \S+/gone/plan.json is not here: all hosts must share the run's", err)
    assert nothing_is_left(tmp_path / "run")
