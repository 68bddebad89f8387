"""How a job ends when it hangs or is asked to stop: jobs that run side by side, each ended in its own way."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headway.launch.local import Started, ended_itself, failure
from headway.train.agent import may_help

pytestmark = pytest.mark.dist
JOB = """
model: {layers: 2, hidden: 32, heads: 2, feed_forward: 64, vocabulary: 256, positions: 64}
parallel: {pipeline: 2, data: 1, unit_bytes: 0}
data: {sequence_length: 32, path: %s, validation: %s}
train: {steps: 100000, global_batch: 256, microbatch: 1, evaluate_every: 0, hang_after: %d}
run: {directory: %s}
"""
HANG_AFTER, NEVER = 5, 300
LONG_WAIT = 9.0  # seconds that a rank waits for a peer after SIGTERM
TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "headway")


@dataclass
class Running:
    """A job under way in `folder`, and what it printed once it has ended."""

    folder: Path
    process: subprocess.Popen[str]
    ended: float = 0.0
    took: float = 0.0
    out: str = ""
    err: str = ""
    left: dict[int, str] = field(default_factory=dict)

    def at(self, rank):
        """What the rank is doing."""
        path = self.folder / "run" / "log" / f"rank-{rank}.at"
        return path.read_text().strip() if path.exists() else ""

    def wait_until(self, rank, beginning, timeout=90):
        deadline = time.monotonic() + timeout
        while not self.at(rank).startswith(beginning):
            assert time.monotonic() < deadline, f"rank {rank} is at '{self.at(rank)}', not at '{beginning}'"
            assert self.process.poll() is None, self.process.stderr.read()
            time.sleep(0.01)

    def processes(self):
        """Process id → command line of everything that this job started."""
        found = {}
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                command = path.read_text().replace("\0", " ")
            except OSError:
                continue
            if str(self.folder) in command and "headway" in command:
                found[int(path.parent.name)] = command
        return found

    def pid(self, rank):
        for pid in self.processes():
            if f"RANK={rank}" in Path(f"/proc/{pid}/environ").read_text().split("\0"):
                return pid
        return pytest.fail(f"no rank {rank}")

    def send(self, number, *, rank):
        os.kill(self.pid(rank), number)

    def end(self):
        """Kill what is left, which is nothing if all went well, and read what was printed."""
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        if not self.process.stderr.closed:
            self.out, self.err = self.process.communicate(timeout=60)

    def summary(self):
        return json.loads((self.folder / "run" / "summary.json").read_text())


def _start(folder, *, hang_after=NEVER, validation=0, words=("headway",), settings=()):
    folder.mkdir()
    text = folder / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 900)
    (folder / "job.yaml").write_text(JOB % (text, validation, hang_after, folder / "run"))
    command = [sys.executable, "-m", *words, "train", str(folder / "job.yaml")]
    command += [word for setting in settings for word in ("--set", setting)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return Running(
        folder,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment),
    )


def _end(job, since):
    job.out, job.err = job.process.communicate(timeout=120)
    job.took = time.monotonic() - since
    job.left = job.processes()


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """Name → job, ended by what its name says."""
    folder = tmp_path_factory.mktemp("jobs")
    jobs = {
        "stopped": _start(folder / "stopped", hang_after=HANG_AFTER),
        "SIGTERM to a rank that evaluates": _start(folder / "evaluates", validation=0.3),
        "SIGTERM to a rank that waits in the first step": _start(folder / "waits"),
        "SIGTERM to the launcher": _start(folder / "launcher"),
    }
    waits, evaluates = jobs["SIGTERM to a rank that waits in the first step"], jobs["SIGTERM to a rank that evaluates"]
    sent = {}
    try:
        evaluates.wait_until(1, "evaluation after step 0")
        evaluates.send(signal.SIGTERM, rank=1)
        sent[evaluates.folder] = time.monotonic()
        waits.wait_until(1, "step")
        waits.send(signal.SIGSTOP, rank=0)
        waits.send(signal.SIGTERM, rank=1)
        sent[waits.folder] = time.monotonic()
        sent[jobs["stopped"].folder] = _stop(jobs["stopped"])
        launcher = jobs["SIGTERM to the launcher"]
        launcher.wait_until(1, "step")
        launcher.process.terminate()
        sent[launcher.folder] = time.monotonic()
        _end(jobs["stopped"], sent[jobs["stopped"].folder])
        time.sleep(max(0.0, sent[waits.folder] + LONG_WAIT - time.monotonic()))
        waits.send(signal.SIGCONT, rank=0)
        for job in (evaluates, waits, launcher):
            _end(job, sent[job.folder])
    finally:
        for job in jobs.values():
            job.end()
    return jobs


def test_a_stopped_rank_is_named_in_time_and_everything_is_gone(ended):
    _named(ended["stopped"])


@pytest.mark.full
def test_a_stopped_rank_is_named_under_torchrun_too(tmp_path):
    job = _start(tmp_path / "torchrun", hang_after=HANG_AFTER, words=TORCHRUN)
    try:
        _end(job, _stop(job))
    finally:
        job.end()
    _named(job)


def _stop(job):
    """Stop rank 1 in a step; when that was."""
    job.wait_until(1, "step")
    job.send(signal.SIGSTOP, rank=1)
    return time.monotonic()


def _named(job):
    assert job.process.returncode == 1
    assert job.took < HANG_AFTER + 10
    assert "Error: rank 1 (process " in job.err
    assert "has not answered for" in job.err
    assert "it was last in step " in job.err
    assert "; rank 0 waits for it." in job.err
    assert job.left == {}


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("SIGTERM to a rank that evaluates", 0),
        ("SIGTERM to a rank that waits in the first step", 0),
        ("SIGTERM to the launcher", 130),
    ],
)
def test_sigterm_ends_the_job_with_its_weights_at_the_end_of_the_step(ended, name, status):
    job = ended[name]
    assert job.process.returncode == status, job.err
    assert "Traceback" not in job.err
    assert job.summary()["interrupted"]
    assert job.summary()["steps"] >= 1
    assert (job.folder / "run" / "model.safetensors").exists()
    assert job.left == {}


@pytest.mark.full
def test_a_slow_rank_is_named_within_ten_steps(tmp_path):
    settings = [
        "parallel.pipeline=1",
        "parallel.data=2",
        "train.global_batch=64",
        "train.microbatch=1",
        "train.steps=22",
    ]
    job = _start(tmp_path / "slow", settings=settings)
    try:
        job.wait_until(1, "step")
        slow = job.pid(1)
        while job.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(slow, signal.SIGSTOP)
                time.sleep(0.05)
                os.kill(slow, signal.SIGCONT)
            time.sleep(0.01)
    finally:
        job.end()
    assert job.process.returncode == 0, job.err
    lines = map(json.loads, (job.folder / "run" / "metrics.jsonl").read_text().splitlines())
    named = {line["step"]: set(line["slow_ranks"]) for line in lines if "slow_ranks" in line}
    assert named[20] == {"1"}, "the first comparison after a whole window of being slow"
    assert job.summary()["slow_ranks"].keys() == {"1"}
    assert "rank 1 is slow: its own work takes" in job.err


@pytest.mark.parametrize(("status", "asked"), [(128 + signal.SIGTERM, True), (1, False), (-signal.SIGKILL, False)])
def test_an_agent_that_a_signal_asked_to_end_was_no_failure(tmp_path, status, asked):
    code = f"import os, sys; sys.exit({status}) if {status} >= 0 else os.kill(os.getpid(), {-status})"
    job = Started(subprocess.Popen([sys.executable, "-c", code]), tmp_path, 2)
    job.process.wait(timeout=30)
    assert job.asked_to_stop == asked


def test_a_rank_told_to_end_waits_for_a_slow_peer(ended):
    assert ended["SIGTERM to a rank that waits in the first step"].took > LONG_WAIT


@pytest.mark.parametrize("left", ["", '{"explained": true, "lost', "\0" * 9])
def test_reports_that_are_not_whole_say_nothing_and_the_exit_status_is_told(tmp_path, left):
    """As a full disk leaves them."""
    log = tmp_path / "log"
    log.mkdir()
    for name in ("rank-0.error.json", "hang.json"):
        (log / name).write_text(left)
    (log / "rank-0.at").write_text("step 7 · 0F3")
    started = Started(subprocess.Popen(["false"]), tmp_path, 1)
    started.process.wait()
    assert str(failure(started)) == "the workers ended with status 1; rank 0 was at step 7 · 0F3"
    assert not ended_itself(started)
    (log / "failures.json").write_text('{"0": {"pid": 1, "exitcode": 1}}')
    assert str(failure(started)).startswith("rank 0 ended with status 1 at step 7 · 0F3. ")
    assert may_help(log)
