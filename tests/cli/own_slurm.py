"""A Slurm of one's own on this machine: munge, a controller and virtual nodes, which end with the tests."""

import contextlib
import os
import shutil
import socket
import subprocess
import time

import pytest


@contextlib.contextmanager
def running(folder, num_nodes):
    """The environment in which srun and sbatch reach it; its nodes node1, node2 … have four cores each.

    Jobs of the partition `urgent` pre-empt those of `all`, the default, which are sent their signal then.
    Skips where Slurm is not installed. Jobs that are left at the end are cancelled before the daemons end.
    """
    programs = ("munged", "slurmctld", "slurmd", "srun", "sbatch")
    found = {name: shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in programs}
    missing = [name for name, path in found.items() if path is None]
    if missing or os.geteuid():
        why = f"there is no {missing[0]}" if missing else "it starts daemons that only root may start"
        pytest.skip(f"needs Slurm (apt-get install slurm-wlm munge) and root: {why}")
    config = folder / "slurm.conf"
    config.write_text(_config(folder, num_nodes))
    (folder / "munge").mkdir(mode=0o700)
    (folder / "munge" / "key").write_bytes(os.urandom(64))
    (folder / "munge" / "key").chmod(0o600)
    variables = {**os.environ, "SLURM_CONF": str(config)}
    socket_file = folder / "munge.socket"
    munge = [f"--{name}={folder / 'munge' / name}" for name in ("pid-file", "log-file", "seed-file")]
    commands = [
        ["munged", "--foreground", "--force", f"--key-file={folder}/munge/key", f"--socket={socket_file}", *munge],
        ["slurmctld", "-D", "-f", str(config)],
        *(["slurmd", "-D", "-f", str(config), "-N", f"node{i}"] for i in range(1, num_nodes + 1)),
    ]
    daemons = []
    try:
        for name, *words in commands:
            with (folder / f"{name}{len(daemons)}.out").open("wb") as out:
                daemons.append(subprocess.Popen([found[name], *words], env=variables, stdout=out, stderr=out))
        _wait_until_it_runs_jobs(variables, folder, num_nodes)
        yield variables
    finally:
        if daemons:
            _cancel_all(variables)
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(timeout=30)


def _config(folder, num_nodes):
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(num_nodes + 1)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        control, *ports = [probe.getsockname()[1] for probe in probes]
    host = socket.gethostname().partition(".")[0]
    nodes = "\n".join(
        f"NodeName=node{i} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=4 State=UNKNOWN"
        for i, port in enumerate(ports, 1)
    )
    return f"""
ClusterName=headway
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={control}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_min_interval=0,bf_interval=1
SlurmdParameters=config_overrides
{nodes}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
PartitionName=all Nodes=ALL Default=YES State=UP GraceTime=300
PartitionName=urgent Nodes=ALL State=UP PriorityTier=2
"""


def _wait_until_it_runs_jobs(variables, folder, num_nodes):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        words = ["timeout", "5", "srun", "--immediate=1", f"--nodes={num_nodes}", "true"]
        if subprocess.run(words, env=variables, capture_output=True, check=False, timeout=20).returncode == 0:
            return
        time.sleep(0.3)
    logs = "\n".join(f"{path.name}: {path.read_text()[-500:]}" for path in sorted(folder.glob("*.out")))
    pytest.fail(f"Slurm runs no job:\n{logs}")


def _cancel_all(variables):
    """A job's processes would outlive the daemons."""
    words = ["timeout", "10", "scancel", "--user=root"]
    subprocess.run(words, env=variables, capture_output=True, check=False, timeout=20)
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        words = ["timeout", "10", "squeue", "--noheader"]
        left = subprocess.run(words, env=variables, capture_output=True, check=False, timeout=20)
        if not left.stdout.strip():
            return
        time.sleep(0.3)
