"""headway train as tasks of Slurm's srun: with a stand-in that sets its variables, and under a real Slurm."""

import json
import os
import socket
import subprocess
import sys
import time

import pytest

from headway import env
from tests.cli.own_slurm import running

JOB = """
model: {layers: 2, hidden: 32, heads: 2, feed_forward: 64, vocabulary: 256, positions: 64}
parallel: {pipeline: 2, data: 1}
data: {sequence_length: 32, path: text.txt, validation: 0}
train: {steps: 3, global_batch: 8, microbatch: 4}
run: {directory: run}
"""
TRAIN = [sys.executable, "-m", "headway", "train", "job.yaml", "--json"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 100)
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path


def _started_once(folder, outputs):
    """One of the outputs is the summary, written by rank 0, and the run directory is that of one run of three steps."""
    said = [out for out in outputs if out.strip()]
    assert len(said) == 1
    assert json.loads(said[0])["steps"] == 3
    steps = [json.loads(line)["step"] for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    assert steps == [1, 2, 3]
    assert sorted(path.name for path in (folder / "run" / "log").glob("rank-*.at")) == ["rank-0.at", "rank-1.at"]


def _free_job():
    """A job number whose port is free."""
    for job in range(625):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", env.PORTS[16 * job])):
                return job
    pytest.fail("no free port")


@pytest.mark.dist
def test_two_tasks_of_a_step_are_the_two_ranks_of_one_run(folder):
    step = {
        "SLURM_JOB_ID": str(_free_job()),
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_NODELIST": "node[7]",
    }
    tasks = [
        subprocess.Popen(
            TRAIN,
            env={**os.environ, **step, "SLURM_PROCID": str(task), "SLURM_LOCALID": str(task)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
        )
        for task in range(2)
    ]
    try:
        printed = [task.communicate(timeout=150) for task in tasks]
    finally:
        for task in tasks:
            task.kill()
            task.wait()
    assert [task.returncode for task in tasks] == [0, 0], printed
    _started_once(folder, [out for out, _ in printed])


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """The environment in which srun and sbatch reach a Slurm of one node with four cores, started for these tests."""
    with running(tmp_path_factory.mktemp("slurm"), num_nodes=1) as variables:
        yield variables


def _run(words, variables, folder):
    return subprocess.run(words, env=variables, cwd=folder, capture_output=True, text=True, timeout=150, check=False)


@pytest.mark.slurm
@pytest.mark.dist
@pytest.mark.full
def test_srun_starts_the_ranks(slurm, folder):
    done = _run(["srun", "--ntasks=2", *TRAIN], slurm, folder)
    assert done.returncode == 0, done.stderr
    _started_once(folder, [done.stdout])


@pytest.mark.full
@pytest.mark.slurm
@pytest.mark.dist
def test_a_batch_script_starts_its_own_workers(slurm, folder):
    (folder / "script").write_text(f"#!/bin/sh\n{' '.join(TRAIN)}\necho $? > status.new; mv status.new status\n")
    _run(["sbatch", "--ntasks=2", "--output=out", "--error=err", "script"], slurm, folder)
    deadline = time.monotonic() + 120
    while not (folder / "status").exists():  # sbatch --wait looks once in 40 s
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert (folder / "status").read_text() == "0\n", (folder / "err").read_text()
    _started_once(folder, [(folder / "out").read_text()])
