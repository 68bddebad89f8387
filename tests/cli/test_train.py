"""headway train, for real: two or four processes, their files, and how the job ends when something ends it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headway import checkpoints, chrome
from headway.cli.main import main
from tests.cli.running import end as _end
from tests.cli.running import start as _start

pytestmark = pytest.mark.dist
JOB = """
model: {layers: 2, hidden: 32, heads: 2, feed_forward: 64, vocabulary: 256, positions: 64}
parallel: {pipeline: 2, data: %d, unit_bytes: 0}
data: {sequence_length: 32, path: %s, validation: 0.2}
optimizer: {lr: 1e-2, warmup_steps: 2}
train: {steps: %d, global_batch: 16, microbatch: 2, evaluate_every: 5}
run: {directory: %s}
"""
FOREVER = 100_000
ALONE = ("--set", "parallel.pipeline=1")


@pytest.fixture
def job(tmp_path):
    """A function: the path of a job of so many steps and ranks on some text, in a run directory of its own."""
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 300)

    def write(steps, ranks=4):
        path = tmp_path / "job.yaml"
        path.write_text(JOB % (ranks // 2, text, steps, tmp_path / "run"))
        return path

    return write


def _wait_for_step(directory, step, timeout=60):
    deadline = time.monotonic() + timeout
    metrics = directory / "metrics.jsonl"
    while time.monotonic() < deadline:
        if metrics.exists() and any(json.loads(line)["step"] >= step for line in metrics.read_text().splitlines()[:-1]):
            return
        time.sleep(0.05)
    pytest.fail(f"no step {step} after {timeout} s")


def _commands(directory):
    """(process id, command line) of this run's agent and workers."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_text().replace("\0", " ")
        except OSError:
            continue
        if str(directory / "run") in command and "headway.train" in command:
            found.append((int(path.parent.name), command))
    return found


def _pid(rank, directory):
    """The worker with this rank of the run in `directory`."""
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = dict(v.partition("=")[::2] for v in environ.read_text().split("\0"))
            command = (environ.parent / "cmdline").read_text()
        except (OSError, UnicodeDecodeError):
            continue
        if variables.get("RANK") == str(rank) and str(directory) in command:
            return int(environ.parent.name)
    pytest.fail(f"no worker of rank {rank}")


def test_a_run_leaves_its_files_and_equal_bytes_predicted_and_measured(job, tmp_path):
    status, out, _ = _end(_start(job(10), "--json"))
    assert status == 0
    summary = json.loads(out)
    assert summary["steps"] == 10
    assert summary["last_loss"] < summary["first_loss"]
    assert summary["last_validation_loss"] < summary["first_validation_loss"]
    assert summary["edges"]["predicted"] == summary["edges"]["measured"] != {}
    assert summary["measured_step_seconds"] > 0 < summary["predicted_step_seconds"]
    assert summary["tokens_per_second"] == pytest.approx(16 * 32 / summary["measured_step_seconds"])
    run = Path(summary["run_directory"])
    files = {
        "job.yaml",
        "plan.json",
        "predicted.trace.json.gz",
        "measured.trace.json.gz",
        "metrics.jsonl",
        "model.safetensors",
    }
    assert files <= set(os.listdir(run))
    steps = [line for line in map(json.loads, (run / "metrics.jsonl").read_text().splitlines()) if "loss" in line]
    assert [line["step"] for line in steps] == list(range(1, 11))
    keys = {"loss", "grad_norm", "learning_rate", "tokens_per_second", "mfu", "memory", "seconds", "predicted_seconds"}
    assert all(keys <= set(line) and all(line[key] > 0 for key in keys) for line in steps)
    predicted, measured = (chrome.read(run / f"{name}.trace.json.gz") for name in ("predicted", "measured"))
    assert measured.rows() == predicted.rows()


@pytest.mark.full
def test_a_llama_with_dropout_trains_in_bfloat16_with_equal_bytes_predicted_and_measured(job, capsys):
    fields = {"family": "llama", "heads": 4, "key_value_heads": 2, "hidden_dropout": 0.1, "attention_dropout": 0.1}
    settings = [word for key, value in fields.items() for word in ("--set", f"model.{key}={value}")]
    settings += ["--set", "train.precision=bfloat16", "--set", "train.reduce_dtype=bfloat16"]
    status, out, err = _end(_start(job(10, ranks=2), "--json", *settings))
    assert status == 0, err
    summary = json.loads(out)
    assert summary["last_loss"] < summary["first_loss"]
    assert summary["last_validation_loss"] < summary["first_validation_loss"]
    assert summary["edges"]["predicted"] == summary["edges"]["measured"] != {}
    run = Path(summary["run_directory"])
    predicted, measured = (chrome.read(run / f"{name}.trace.json.gz") for name in ("predicted", "measured"))
    for rank, held in measured.memory.items():
        assert held.items() <= predicted.memory[rank].items()
    weights = (run / "model.safetensors").read_bytes()
    header = json.loads(weights[8 : 8 + int.from_bytes(weights[:8], "little")])
    assert {each["dtype"] for name, each in header.items() if name != "__metadata__"} == {"BF16"}
    assert main(["generate", str(run), "--prompt", "the ", "--tokens", "5", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["tokens"]) > 0


@pytest.mark.full
def test_tensor_ranks_train_and_write_what_one_rank_does(job, tmp_path):
    """A vocabulary of 259 is padded on the way, heads and feed-forward are cut, and so is the sequence."""
    from safetensors import safe_open

    runs = {}
    for name, axes in {
        "one": (),
        "two": ("parallel.tensor=2", "parallel.sequence_parallel=true"),
    }.items():
        words = (*axes, "model.vocabulary=259", f"run.directory={tmp_path / f'run-{name}'}")
        status, out, err = _end(
            _start(job(3, ranks=2), *ALONE, "--json", *(w for word in words for w in ("--set", word)))
        )
        assert status == 0, err
        runs[name] = json.loads(out)
    assert runs["two"]["edges"]["predicted"] == runs["two"]["edges"]["measured"] != {}
    for key in ("first_loss", "last_loss", "last_validation_loss"):
        assert runs["two"][key] == pytest.approx(runs["one"][key], rel=1e-5)
    one, two = (safe_open(Path(run["run_directory"]) / "model.safetensors", "np") for run in runs.values())
    with one, two:
        assert set(one.keys()) == set(two.keys())
        assert one.get_tensor("embedding.tokens.weight").shape == (259, 32)
        for name in one.keys():  # noqa: SIM118 -- it is no mapping
            assert two.get_tensor(name) == pytest.approx(one.get_tensor(name), abs=2e-3), name


@pytest.mark.full
def test_a_token_file_trains_bit_for_bit_as_the_text_it_was_made_from(job, tmp_path):
    """Whether one thread reads the batches ahead or two."""
    pair = str(tmp_path / "pair")
    made = [sys.executable, "-m", "headway", "data", "prepare", str(tmp_path / "text.txt"), "--output", pair]
    subprocess.run([*made, "--append-end"], check=True, capture_output=True, timeout=60)
    runs = []
    for name, words in {
        "text": ("data.workers=1",),
        "pair": (f"data.path={pair}", "data.tokenizer=none", "data.workers=2"),
    }.items():
        settings = [w for word in (f"run.directory={tmp_path / f'run-{name}'}", *words) for w in ("--set", word)]
        status, out, err = _end(_start(job(3, ranks=2), *ALONE, "--json", *settings))
        assert status == 0, err
        runs.append(json.loads(out))
    for key in ("first_loss", "last_loss", "first_validation_loss", "last_validation_loss", "edges"):
        assert runs[0][key] == runs[1][key]


def test_torchrun_starts_the_same_job(job):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "headway"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "train", str(job(3, ranks=2)), "--json"],
        capture_output=True,
        text=True,
        timeout=90,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["steps"] == 3


@pytest.mark.full
def test_torchrun_with_another_number_of_processes_is_refused(job):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "headway"]
    done = subprocess.run([*command, "train", str(job(3))], capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode != 0
    assert "the plan has 4 ranks" in done.stderr
    assert "but 2 processes were started" in done.stderr


def test_a_killed_rank_ends_the_job_in_seconds_and_is_named(job, tmp_path):
    process = _start(job(FOREVER))
    _wait_for_step(tmp_path / "run", 3)
    os.kill(_pid(2, tmp_path), signal.SIGKILL)
    killed = time.monotonic()
    status, _, err = _end(process)
    assert time.monotonic() - killed < 15
    assert status == 1
    assert not (tmp_path / "run" / "checkpoints").exists(), "nothing is saved after a peer has died"
    assert re.search(r"rank 2 was killed by SIGKILL at (evaluation after )?step \d+(, batch \d+)? · [0-9A-Z]", err), err


def test_an_interrupt_ends_the_job_cleanly_at_a_step(job, tmp_path):
    process = _start(job(FOREVER, ranks=2))
    _wait_for_step(tmp_path / "run", 3)
    process.send_signal(signal.SIGINT)
    status, _, err = _end(process)
    assert status == 130
    assert "Stopping at the end of the step" in err
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["interrupted"]
    assert summary["steps"] >= 3
    assert summary["steps"] == checkpoints.step_of(checkpoints.latest(tmp_path / "run" / "checkpoints"))
    assert (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.parametrize("victim", ["headway.train.agent", "headway train"])
@pytest.mark.full
def test_workers_end_when_what_started_them_is_gone(job, tmp_path, victim):
    process = _start(job(FOREVER, ranks=2))
    _wait_for_step(tmp_path / "run", 3)
    agents = [pid for pid, command in _commands(tmp_path) if "headway.train.agent" in command]
    os.kill(agents[0] if victim == "headway.train.agent" else process.pid, signal.SIGKILL)
    status, _, err = _end(process)
    assert status == 1 or victim != "headway.train.agent"
    assert victim != "headway.train.agent" or "the launcher was killed by SIGKILL" in err
    deadline = time.monotonic() + 15
    while left := _commands(tmp_path):
        assert time.monotonic() < deadline, f"still running: {left}"
        time.sleep(0.1)


def test_an_interrupt_before_the_workers_have_started_ends_the_job_at_once(job, tmp_path):
    process = _start(job(FOREVER, ranks=2))
    deadline = time.monotonic() + 60
    while not any("headway.train.agent" in command for _, command in _commands(tmp_path)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    interrupted = time.monotonic()
    status, _, _ = _end(process)
    assert status == 130
    while left := _commands(tmp_path):  # on a busy machine a killed worker takes its time
        assert time.monotonic() - interrupted < 10, f"still running: {left}"
        time.sleep(0.05)


@pytest.mark.full
def test_a_loss_that_is_not_a_number_stops_all_ranks_at_one_step(job, tmp_path):
    settings = ["--set", "optimizer.lr=1e30", "--set", "optimizer.clip=0", "--set", "optimizer.warmup_steps=0"]
    status, _, err = _end(_start(job(20, ranks=2), *settings))
    assert status == 1
    assert "Lower optimizer.lr, or set train.on_nonfinite: skip" in err
    assert ", first (from the loss back) in unit " in err
    reports = [json.loads(path.read_text()) for path in sorted((tmp_path / "run" / "log").glob("rank-*.error.json"))]
    assert len(reports) == 2
    assert len({report["error"].split(":")[0] for report in reports}) == 1


@pytest.mark.full
def test_steps_that_are_not_finite_can_be_skipped(job):
    settings = ["--set", "optimizer.lr=1e30", "--set", "optimizer.clip=0", "--set", "optimizer.warmup_steps=0"]
    status, out, _ = _end(_start(job(8, ranks=2), "--json", "--set", "train.on_nonfinite=skip", *settings))
    assert status == 0
    assert json.loads(out)["skipped_steps"] > 0
