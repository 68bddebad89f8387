"""headway container against a real Docker engine: an Ascend container's whole life, and a training run."""

import json
import os
import pty
import site
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

from tests.launch.container.own_engine import IMAGE, ascend_tree

pytestmark = pytest.mark.docker
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def run(docker_engine, tmp_path):
    """A function that runs `headway container …` and returns what it printed; its containers go at the end."""
    variables = {**docker_engine, "COLUMNS": "120", "PYTHONPATH": str(ROOT)}

    def call(*words, status=0):
        command = [sys.executable, "-m", "headway", "container", *map(str, words)]
        done = subprocess.run(
            command,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout if status == 0 else done.stderr

    yield call
    for each in json.loads(call("list", "--json"))["containers"]:
        call("remove", "--force", each["name"])


def test_an_ascend_container_lives_from_create_to_remove(run, tmp_path):
    root, work = ascend_tree(tmp_path / "host"), tmp_path / "work"
    work.mkdir()
    (work / "train.py").write_text("print('train')\n")
    assert IMAGE in run("images")
    assert "Headway has no container here" in run("list")
    asked = ("--profile", "ascend", "--image", IMAGE, "--name", "job", "--host-root", root)
    created = run("create", *asked, "--mount", f"{work}:/work", "--workdir", "/work")
    assert created.startswith("job was created (")
    assert "Start it: headway container start job" in created
    (found,) = json.loads(run("list", "--json"))["containers"]
    assert (found["name"], found["state"], found["profile"], found["devices"]) == ("job", "created", "ascend", "0-7")
    assert "job exists already (created; Headway made it)" in run("create", *asked, status=2)
    assert run("start", "job") == "job was started.\n"
    assert run("start", "job") == "job runs already.\n"
    inside = run("exec", "job", "--", "ls", "/dev").split()
    assert {f"davinci{each}" for each in range(8)} | {"davinci_manager", "devmm_svm", "hisi_hdc"} <= set(inside)
    assert "davinci8" not in inside
    assert run("exec", "job", "--", "pwd") == "/work\n"
    assert run("exec", "job", "--", "cat", "train.py") == "print('train')\n"
    for path in (
        "usr/local/Ascend/driver/version.info",
        "usr/local/bin/npu-smi",
        "etc/hccn.conf",
        "etc/ascend_install.info",
    ):
        assert run("exec", "job", "--", "cat", f"/{path}") == f"{path}\n"
    refused = run("exec", "job", "--", "touch", "/usr/local/Ascend/driver/version.info", status=1)
    assert "Read-only file system" in refused
    assert "touch ended with status 1 in job." in refused
    run("exec", "job", "--", "sh", "-c", "echo done > /dev/davinci0 && echo result > /work/result")
    assert (work / "result").read_text() == "result\n"
    assert "running" in run("list")
    assert "job is running. Stop it first" in run("remove", "job", status=2)
    assert run("stop", "job", "--grace", "60") == "job was stopped.\n"
    assert run("stop", "job") == "job does not run.\n"
    assert "job is exited, not running. Start it" in run("exec", "job", "--", "true", status=2)
    assert "exited (0)" in run("list")
    assert run("remove", "job") == "job was removed.\n"
    assert "there is no container called 'job'" in run("remove", "job", status=2)


def test_a_missing_device_is_refused_by_name_and_an_optional_part_left_out(run, tmp_path):
    root = ascend_tree(tmp_path, 4, without=("hccn.conf",))
    asked = ("create", "--profile", "ascend", "--image", IMAGE, "--name", "job", "--host-root", root)
    said = run(*asked, "--devices", "0-7", status=2)
    assert f"this host has no {root}/dev/davinci4, {root}/dev/davinci5" in said
    made = json.loads(run(*asked, "--json", "--start"))
    assert (made["absent"], made["started"]) == (["hccn.conf"], True)
    (root / "dev" / "hisi_hdc").unlink()
    assert f"{root}/dev/hisi_hdc (host to device communication)" in run(*asked, status=2)


def test_an_image_that_is_absent_is_told_with_how_to_get_it(run):
    said = run("create", "--profile", "cpu", "--image", "headway-test/busybox:2", "--name", "job", status=2)
    assert f"Did you mean '{IMAGE}'? To get it: docker pull headway-test/busybox:2." in said


def test_what_the_command_wrote_is_in_the_logs_and_a_json_document_holds_what_exec_said(run):
    run(
        "create",
        "--profile",
        "cpu",
        "--image",
        IMAGE,
        "--name",
        "job",
        "--start",
        "--",
        "sh",
        "-c",
        "trap exit TERM; echo one; echo two; sleep 60 & wait",
    )
    deadline = time.monotonic() + 30
    while (said := run("logs", "job")) != "one\ntwo\n":
        assert time.monotonic() < deadline, said
    assert run("logs", "job", "--tail", "1") == "two\n"
    assert json.loads(run("logs", "job", "--json")) == {"name": "job", "text": "one\ntwo\n"}
    for verb, changed in (("start", False), ("stop", True), ("start", True)):
        assert json.loads(run(verb, "job", "--json")) == {"containers": [{"name": "job", "changed": changed}]}
    found = json.loads(run("exec", "job", "--json", "--", "sh", "-c", "echo out; echo err >&2"))
    assert (found["status"], found["stdout"], found["stderr"]) == (0, "out\n", "err\n")


def test_at_a_terminal_exec_is_a_shell(run, docker_engine):
    run("create", "--profile", "cpu", "--image", IMAGE, "--name", "job", "--start")
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "headway", "container", "exec", "job"]
    with open(ours, "r+b", buffering=0) as typed, open(its, "r+b", buffering=0) as end:
        with subprocess.Popen(
            command, stdin=end, stdout=end, stderr=end, env={**docker_engine, "PYTHONPATH": str(ROOT)}
        ) as shell:
            typed.write(b"test -t 0 && echo at a $((40 + 2)) terminal; exit\n")
            assert shell.wait(timeout=60) == 0
        assert b"at a 42 terminal" in os.read(typed.fileno(), 65_536)


JOB = """
model: {layers: 2, hidden: 32, heads: 2, feed_forward: 64, vocabulary: 256, positions: 64}
parallel: {pipeline: 2, data: 1}
data: {sequence_length: 32, path: text.txt, validation: 0}
train: {steps: 3, global_batch: 8, microbatch: 4}
run: {directory: run}
"""


def python_places():
    """Where this Python, what it loads, and Headway lie: each is mounted where it is here."""
    prefixes = {sys.base_prefix, sys.prefix, sysconfig.get_path("stdlib"), *site.getsitepackages(), str(ROOT)}
    prefixes |= {path for path in sys.path if path and os.path.isdir(path)}
    return sorted(path for path in prefixes if not path.startswith("/usr/"))


@pytest.mark.dist
@pytest.mark.full
def test_two_processes_train_inside_a_container_with_the_hosts_python(run, tmp_path):
    """The image has no Python: the host's is mounted read-only, and writing goes to the work directory alone."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 100)
    (work / "job.yaml").write_text(JOB)
    read_only = [*python_places(), "/usr", *(each for each in ("/lib", "/lib64") if os.path.isdir(each))]
    mounts = [word for path in read_only for word in ("--mount", f"{path}:{path}:ro")]
    run(
        *("create", "--profile", "cpu", "--image", IMAGE, "--name", "train", *mounts),
        *("--mount", f"{work}:/work", "--workdir", "/work", "--env", f"PYTHONPATH={ROOT}"),
        *("--start", "--", sys.executable, "-m", "headway", "train", "job.yaml", "--json"),
    )
    deadline = time.monotonic() + 240
    while (found := json.loads(run("list", "--json"))["containers"][0])["state"] == "running":
        assert time.monotonic() < deadline, run("logs", "train")
        time.sleep(1)
    assert (found["state"], found["exit_status"]) == ("exited", 0), run("logs", "train")
    steps = [json.loads(line)["step"] for line in (work / "run" / "metrics.jsonl").read_text().splitlines()]
    assert steps == [1, 2, 3]
    assert json.loads((work / "run" / "summary.json").read_text())["steps"] == 3
    assert sorted(path.name for path in (work / "run" / "log").glob("rank-*.at")) == ["rank-0.at", "rank-1.at"]
