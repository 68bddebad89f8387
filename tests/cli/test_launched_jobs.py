"""Jobs on two nodes that train, fail and are stopped: agents on this machine, started here or by a stand-in of ssh."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli import running
from tests.cli.test_container_life import ROOT, python_places
from tests.launch.agents import fake_ssh, processes
from tests.launch.container.own_engine import IMAGE

pytestmark = pytest.mark.dist
JOB = """
model: {layers: 2, hidden: 32, heads: 2, feed_forward: 64, vocabulary: 256, positions: 64}
parallel: {pipeline: 2, data: %d}
data: {sequence_length: 32, path: text.txt, validation: 0}
train: {steps: %d, global_batch: 8, microbatch: 1}
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


def end(process):
    """Exit status and stderr."""
    status, _, err = running.end(process, timeout=150)
    return status, err


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
    return _pid(run, f"RANK={rank}", "headway.train.worker")


def pid_of_agent(node, run):
    return _pid(run, f"PET_NODE_RANK={node}", "headway.train.agent")


def _pid(run, variable, module):
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words, variables = path.read_text().split("\0"), (path.parent / "environ").read_text().split("\0")
        except OSError:
            continue
        if str(run) in words and module in words and variable in variables:
            return int(path.parent.name)
    return pytest.fail(f"no process of {run} has {variable}")


def nothing_is_left(run, timeout=30):
    until = time.monotonic() + timeout
    while (left := processes(str(run))) and time.monotonic() < until:
        time.sleep(0.1)
    return not left


LOCAL = ("launch", "--on", "local", "--nodes", "2")


@pytest.mark.full
def test_two_nodes_train_to_the_losses_of_one(tmp_path):
    one = end(start(tmp_path, "train", name="one", data=2))
    two = end(start(tmp_path, *LOCAL, name="two", data=2))
    assert (one[0], two[0]) == (0, 0), one[1] + two[1]
    assert losses(tmp_path, "two") == losses(tmp_path, "one")
    assert "2 ranks on each of 2 hosts (localhost), meeting at 127.0.0.1:" in two[1]
    assert nothing_is_left(tmp_path / "two")


def test_two_hosts_behind_ssh_train_and_are_told_no_secret_in_the_open(tmp_path):
    (tmp_path / "hosts").write_text("a slots=1\nroot@b slots=1\n")
    words = ("launch", "--on", "ssh", "--hostfile", "hosts", "--address", "127.0.0.1", "--interface", "lo")
    variables = {**fake_ssh(tmp_path), "HF_TOKEN": "hush"}
    status, err = end(start(tmp_path, *words, "--env", "HF_TOKEN", variables=variables))
    assert status == 0, err
    assert [step for step, _, _ in losses(tmp_path, "run")] == [1, 2, 3]
    lines = (tmp_path / "lines").read_text()
    assert sorted(re.findall(r"^(\S+): exec sh", lines, re.MULTILINE)) == ["a", "root@b"]
    assert "hush" not in lines + err
    assert nothing_is_left(tmp_path / "run")


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """Name → (status, stderr, seconds since its blow, whether nothing is left, run directory) of jobs side by side."""
    folder = tmp_path_factory.mktemp("jobs")
    jobs = {name: start(folder, *LOCAL, name=name, steps=MANY) for name in ("rank", "agent", "ctrl-c", "launcher")}
    found, struck = {}, {}
    try:
        for name, process in jobs.items():
            run = folder / name
            wait_for_step(process, run)
            match name:
                case "rank":
                    os.kill(pid_of_rank(1, run), signal.SIGKILL)
                case "agent":
                    os.kill(pid_of_agent(1, run), signal.SIGKILL)
                case "ctrl-c":
                    process.send_signal(signal.SIGINT)
                case "launcher":
                    process.kill()
            struck[name] = time.monotonic()
        for name, process in jobs.items():
            status, err = end(process)
            seconds = time.monotonic() - struck[name]
            found[name] = (status, err, seconds, nothing_is_left(folder / name), folder / name)
    finally:
        for process in jobs.values():
            process.kill()
            process.communicate()
    return found


@pytest.mark.full
def test_a_rank_that_is_killed_ends_all_hosts_in_seconds_and_is_named(ended):
    status, err, seconds, nothing_left, _ = ended["rank"]
    assert (status, nothing_left) == (1, True)
    assert seconds < 30, "three other jobs are started meanwhile"
    assert re.search(r"Error: rank 1 was killed by SIGKILL at step \d+ · ", err)


@pytest.mark.full
def test_an_agent_that_is_killed_ends_the_other_host_too(ended):
    status, err, _, nothing_left, _ = ended["agent"]
    assert (status, nothing_left) == (1, True)
    assert "Error: host node1 was lost (its agent was killed by SIGKILL), and the job was ended on node0." in err


@pytest.mark.full
def test_ctrl_c_ends_the_step_on_all_hosts_and_keeps_the_weights(ended):
    status, _, _, nothing_left, run = ended["ctrl-c"]
    assert (status, nothing_left) == (130, True)
    assert json.loads((run / "summary.json").read_text())["interrupted"]


@pytest.mark.full
def test_without_the_launcher_the_hosts_end_by_themselves(ended):
    assert ended["launcher"][3]


@pytest.mark.docker
@pytest.mark.full
def test_a_container_of_a_real_engine_trains_and_is_gone(tmp_path, docker_engine):
    """The image has no Python: the host's is mounted read-only."""
    read_only = [*python_places(), "/usr", *(each for each in ("/lib", "/lib64") if Path(each).is_dir())]
    mounts = [word for path in read_only for word in ("--mount", f"{path}:{path}:ro")]
    words = ("launch", "--on", "docker", "--image", IMAGE, "--python", sys.executable, *mounts)
    process = start(tmp_path, *words, "--env", f"PYTHONPATH={ROOT}", variables=docker_engine)
    status, err = end(process)
    assert status == 0, err
    assert [step for step, _, _ in losses(tmp_path, "run")] == [1, 2, 3]
    listed = subprocess.run(["docker", "ps", "-aq"], env=docker_engine, capture_output=True, check=True, timeout=60)
    assert listed.stdout == b""


@pytest.mark.docker
def test_an_image_that_is_absent_is_told_before_anything_trains(tmp_path, docker_engine):
    words = ("launch", "--on", "docker", "--image", "headway-test/absent:1")
    status, err = end(start(tmp_path, *words, variables=docker_engine))
    assert status == 1
    assert re.search(r"the host did not start, so nothing runs:\n  localhost: ended with status 125: .*absent:1", err)


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
