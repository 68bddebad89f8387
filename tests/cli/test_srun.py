"""headway train as tasks of Slurm's srun: with a stand-in that sets its variables, and under a real Slurm."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headway import env

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
    programs = ("munged", "slurmctld", "slurmd", "srun", "sbatch")
    found = {name: shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in programs}
    missing = [name for name, path in found.items() if path is None]
    if missing or os.geteuid():
        why = f"there is no {missing[0]}" if missing else "it starts daemons that only root may start"
        pytest.skip(f"needs Slurm (apt-get install slurm-wlm munge) and root: {why}")
    folder = tmp_path_factory.mktemp("slurm")
    config = folder / "slurm.conf"
    config.write_text(_config(folder))
    (folder / "munge").mkdir(mode=0o700)
    (folder / "munge" / "key").write_bytes(os.urandom(64))
    (folder / "munge" / "key").chmod(0o600)
    variables = {**os.environ, "SLURM_CONF": str(config)}
    socket_file = folder / "munge.socket"
    munge = [f"--{name}={folder / 'munge' / name}" for name in ("pid-file", "log-file", "seed-file")]
    commands = [
        ["munged", "--foreground", "--force", f"--key-file={folder}/munge/key", f"--socket={socket_file}", *munge],
        ["slurmctld", "-D", "-f", str(config)],
        ["slurmd", "-D", "-f", str(config), "-N", "node1"],
    ]
    daemons = []
    try:
        for name, *words in commands:
            with (folder / f"{name}.out").open("wb") as out:
                daemons.append(subprocess.Popen([found[name], *words], env=variables, stdout=out, stderr=out))
        _wait_until_it_runs_jobs(variables, folder)
        yield variables
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(timeout=30)


def _config(folder):
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        ports = one.getsockname()[1], other.getsockname()[1]
    host = socket.gethostname().partition(".")[0]
    return f"""
ClusterName=headway
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def _wait_until_it_runs_jobs(variables, folder):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        words = ["timeout", "5", "srun", "--immediate=1", "true"]
        if subprocess.run(words, env=variables, capture_output=True, check=False, timeout=20).returncode == 0:
            return
        time.sleep(0.3)
    logs = "\n".join(f"{path.name}: {path.read_text()[-500:]}" for path in sorted(Path(folder).glob("*.out")))
    pytest.fail(f"Slurm runs no job:\n{logs}")


def _run(words, variables, folder):
    return subprocess.run(words, env=variables, cwd=folder, capture_output=True, text=True, timeout=150, check=False)


@pytest.mark.slurm
@pytest.mark.dist
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
