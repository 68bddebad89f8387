"""headway train, interrupted and gone on with: to the bit, after a kill, after SIGTERM, past damage and a full disk."""

import json
import os
import re
import resource
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from headway import checkpoints
from headway.cli.main import main
from tests.cli.running import end
from tests.cli.running import start as _start

pytestmark = pytest.mark.dist
# float16 with a scale that moves every third step, dropout, threads that read ahead, and an epoch of 5 steps
JOB = """
model: {layers: 2, hidden: 32, heads: 2, feed_forward: 64, vocabulary: 256, positions: 64, hidden_dropout: 0.1}
parallel: {pipeline: %d, data: 1, unit_bytes: 0}
data: {sequence_length: 32, path: %s, validation: 0.2, workers: 2}
optimizer: {lr: 1e-2, warmup_steps: 4}
train: {steps: %d, global_batch: 16, microbatch: 4, evaluate_every: 0, precision: %s, loss_scale_window: 3}
checkpoint: %s
run: {directory: %s}
"""
FOREVER = 100_000
SAME = ("loss", "grad_norm", "learning_rate", "loss_scale")


def _job(folder, checkpoint, *, steps=FOREVER, pipeline=2, precision="float32"):
    folder.mkdir(exist_ok=True)
    (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 75)
    path = folder / "job.yaml"
    path.write_text(JOB % (pipeline, folder / "text.txt", steps, precision, checkpoint, folder / "run"))
    return path


_end = partial(end, timeout=120)


def _lines(run):
    path = run / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _steps(run):
    """Step → its line; of a step that was done twice, the last."""
    return {line["step"]: line for line in _lines(run) if "loss" in line}


def _wait_until(condition, process, timeout=90):
    deadline = time.monotonic() + timeout
    while not condition():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _pid(rank, folder):
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = environ.read_text().split("\0")
            command = (environ.parent / "cmdline").read_text()
        except (OSError, UnicodeDecodeError):
            continue
        if f"RANK={rank}" in variables and str(folder) in command:
            return int(environ.parent.name)
    return pytest.fail(f"no worker of rank {rank}")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run of ten steps that nothing interrupts; it has kept the checkpoints of steps 4, 8 and 10."""
    folder = tmp_path_factory.mktemp("whole")
    status, _, err = _end(_start(_job(folder, "{every: 4, keep: 0}", steps=10, precision="float16")))
    assert status == 0, err
    return folder


def test_ten_steps_are_four_and_six_to_the_bit_with_dropout_and_a_moving_loss_scale(whole, tmp_path):
    run, there = whole / "run", tmp_path / "again"
    assert [checkpoints.step_of(path) for path in checkpoints.newest_first(run / "checkpoints")] == [10, 8, 4]
    words = ("--resume", str(run / "checkpoints" / "step-00000004"), "--set", f"run.directory={there}")
    status, _, err = _end(_start(whole / "job.yaml", *words))
    assert status == 0, err
    assert "going on from" in err
    first, again = _steps(run), _steps(there)
    assert sorted(again) == list(range(5, 11))
    for step, line in again.items():
        assert {key: line[key] for key in SAME} == {key: first[step][key] for key in SAME}, step
    assert len({line["loss_scale"] for line in first.values()}) > 1
    ends = [checkpoints.manifest(checkpoints.latest(each / "checkpoints")).files for each in (run, there)]
    shards = [{name: file for name, file in each.items() if name.endswith(".distcp")} for each in ends]
    assert shards[0] == shards[1] != {}, "weights and moments, by their checksums"
    (line,) = (line for line in _lines(there) if "resumed_from" in line)
    assert line["step"] == 4
    assert json.loads((there / "summary.json").read_text())["resumed_at"] == 4


def test_a_run_says_what_its_saves_cost(whole):
    saves = {line["step"]: line for line in _lines(whole / "run") if "checkpoint" in line}
    assert sorted(saves) == [4, 8, 10]
    for line in saves.values():
        assert 0 < line["checkpoint_bytes"] < 10**6
        assert line["checkpoint_seconds"] > 0 < line["checkpoint_stall_seconds"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            (),
            "has done all 10 steps (train.steps): nothing is left to train. Raise train.steps to go on, or name",
        ),
        (("train.steps=12", "train.global_batch=32"), "was written with train.global_batch 16, but the job has 32."),
        (("train.steps=12", "model.layers=3"), "was written with model.layers 2, but the job has 3."),
        (
            ("train.steps=12", "data.sequence_length=16"),
            "was written with data.sequence_length 32, but the job has 16.",
        ),
        (("train.steps=12", "train.seed=1"), "was written with train.seed 0, but the job has 1."),
    ],
)
def test_the_same_command_on_a_run_that_it_may_not_go_on_with_is_refused(whole, words, said, capsys):
    before = (whole / "run" / "summary.json").read_text()
    status = main(["train", str(whole / "job.yaml"), *(w for word in words for w in ("--set", word))])
    assert status == 2
    assert said in capsys.readouterr().err
    assert (whole / "run" / "summary.json").read_text() == before


def test_an_earlier_checkpoint_is_not_gone_on_from_where_later_ones_are(whole, capsys):
    old, new = (whole / "run" / "checkpoints" / f"step-{step:08d}" for step in (4, 10))
    words = ("--resume", str(old), "--set", "train.steps=12")
    assert main(["train", str(whole / "job.yaml"), *words]) == 2
    assert f"--resume {old} is asked for, but {new} is later" in capsys.readouterr().err


def test_a_killed_rank_brings_the_job_back_and_sigterm_saves_what_the_same_command_goes_on_with(tmp_path):
    job, run = _job(tmp_path, "{every: 2, keep: 2}"), tmp_path / "run"
    process = _start(job, "--max-restarts", "1")
    _wait_until(lambda: any("checkpoint" in line for line in _lines(run)), process)
    os.kill(_pid(1, tmp_path), signal.SIGKILL)
    _wait_until(lambda: any("resumed_from" in line for line in _lines(run)), process)
    resumed = next(line["step"] for line in _lines(run) if "resumed_from" in line)
    assert resumed >= 2
    _wait_until(lambda: max(_steps(run)) > resumed + 1 and "loss" in _lines(run)[-1], process)
    os.kill(_pid(1, tmp_path), signal.SIGTERM)
    status, out, err = _end(process)
    assert status == 0, err
    assert "to go on: the same command again" in out
    assert "rank 1 was killed by SIGKILL at " in err
    assert "starting again (1 of 1) …" in err
    assert f"going on from {run}/checkpoints/step-{resumed:08d}" in err
    summary = json.loads((run / "summary.json").read_text())
    assert summary["interrupted"]
    last, before = checkpoints.newest_first(run / "checkpoints")
    assert checkpoints.step_of(last) == summary["steps"] == max(_steps(run))
    assert checkpoints.damage(last) is None
    assert checkpoints.damage(before) is None

    shard = next(last.glob("__*.distcp"))
    shard.write_bytes(shard.read_bytes()[:-1])
    process = _start(job, "--max-restarts", "1")
    _wait_until(lambda: sum("resumed_from" in line for line in _lines(run)) > 1 and "loss" in _lines(run)[-1], process)
    process.terminate()
    status, _, err = _end(process)
    assert status == 130, err
    assert f"skipped {last.name}: its {shard.name} has " in err
    assert f"going on from {before}" in err
    steps = [line["step"] for line in _lines(run) if "loss" in line]
    assert set(steps) == set(range(1, max(steps) + 1)), "no step is left out"
    newest = checkpoints.newest_first(run / "checkpoints")[0]
    assert checkpoints.step_of(newest) == json.loads((run / "summary.json").read_text())["steps"]


LIMIT = 200_000  # bytes of a file: enough for the weights, too few for them with two moments


def _small(limit=LIMIT):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


@pytest.mark.full
def test_a_job_that_is_told_to_stop_and_cannot_save_says_so_with_status_1(tmp_path):
    process = _start(_job(tmp_path, "{every: 0}", pipeline=1), preexec_fn=_small)
    _wait_until(lambda: _steps(tmp_path / "run"), process)
    process.terminate()
    status, _, err = _end(process)
    assert status == 1
    step = json.loads((tmp_path / "run" / "summary.json").read_text())["steps"]
    assert f"no checkpoint of step {step}: {tmp_path}/run/checkpoints/" in err


@pytest.mark.parametrize("on_error", ["stop", "continue"])
@pytest.mark.full
def test_a_save_that_does_not_fit_stops_the_job_or_not_as_it_says(tmp_path, on_error):
    job = _job(tmp_path, f"{{every: 2, on_error: {on_error}}}", steps=8, pipeline=1)
    status, _, err = _end(_start(job, preexec_fn=_small))
    run = tmp_path / "run"
    assert status == 1
    assert (
        f"no checkpoint of step 2: {run}/checkpoints/step-00000002.partial cannot be written (File too large): " in err
    )
    assert " are wanted, " in err
    assert " are free. Free some space there, or name another checkpoint.directory" in err
    assert list((run / "checkpoints").glob("step-*")) == []
    assert (max(_steps(run)) < 8) == (on_error == "stop")
    assert (run / "model.safetensors").exists() == (on_error == "continue")


@pytest.mark.full
def test_a_disk_that_is_full_for_the_metrics_ends_the_job_with_the_file_and_no_restart(tmp_path):
    """Event files grow faster, so that they are the first that do not fit."""
    process = _start(_job(tmp_path, "{}", pipeline=1), "--max-restarts", "3", preexec_fn=partial(_small, 20_000))
    status, _, err = _end(process)
    run = tmp_path / "run"
    assert status == 1
    assert f"{run}/tensorboard cannot be written (File too large). Free some space there." in err
    assert "Traceback" not in err
    assert not list((run / "log").glob("attempt-*"))
    assert (run / "metrics.jsonl").read_text().endswith("}\n")
    assert len(_steps(run)) > 3


@pytest.mark.full
def test_a_job_killed_before_its_first_checkpoint_starts_again_and_while_it_runs_its_places_are_its_own(tmp_path):
    """Both its run directory and its checkpoint.directory, from before its first step."""
    kept, run = tmp_path / "kept", tmp_path / "run"
    job = _job(tmp_path, f"{{every: {FOREVER}, directory: {kept}}}", pipeline=1)
    process = _start(job)
    _wait_until(lambda: _steps(run), process)
    for more, said in (
        (f"run.directory={tmp_path}/other", f"{kept} is in use: a job that is running writes its checkpoints there"),
        (f"checkpoint.directory={tmp_path}/else", f"run.directory {run} is in use: a job is running in it"),
    ):
        status, _, err = _end(_start(job, "--set", more))
        assert status == 2
        assert said in err
    assert not (tmp_path / "other").exists()
    os.kill(_pid(0, tmp_path), signal.SIGKILL)
    assert _end(process)[0] == 1
    assert checkpoints.newest_first(kept) == ()
    done = max(_steps(run))
    process = _start(job)
    _wait_until(lambda: sum(line["step"] == 2 and "loss" in line for line in _lines(run)) > 1, process)
    process.terminate()
    status, out, err = _end(process)
    assert status == 130, err
    assert "to go on: the same command again" in out
    assert re.search(r"training loss +[\d.]+ → [\d.]+\nvalidation loss +[\d.]+  \(mean", out), "of one evaluation"
    assert len(checkpoints.newest_first(kept)) == 1
    assert max(_steps(run)) >= done > 0


@pytest.mark.full
def test_of_two_jobs_started_together_on_one_checkpoint_directory_one_trains(tmp_path):
    """Both find it free at the first look; what counts is the claim before the first step."""
    checkpoint = f"{{every: {FOREVER}, directory: {tmp_path}/kept}}"
    jobs = [_job(tmp_path / name, checkpoint, pipeline=1) for name in ("one", "other")]
    processes = [_start(job) for job in jobs]
    deadline = time.monotonic() + 90
    while all(process.poll() is None for process in processes):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    loser = next(i for i, process in enumerate(processes) if process.poll() is not None)
    status, _, err = _end(processes[loser])
    assert status == 2, err
    assert f"Error: {tmp_path}/kept is in use: a job that is running writes its checkpoints there." in err
    assert not _steps(jobs[loser].parent / "run")
    _wait_until(lambda: _steps(jobs[1 - loser].parent / "run"), processes[1 - loser])
    processes[1 - loser].terminate()
    assert _end(processes[1 - loser])[0] == 130
