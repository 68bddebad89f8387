"""Whatever a user gets wrong ends with exit status 2, one message and no traceback, before any process is started."""

import os

import numpy as np
import pytest

from headway.cli.main import main
from headway.data.indexed import write
from tests.plan.wrong_jobs import WRONG_JOBS


def _refused(capsys, *words):
    status = main(list(words))
    out, err = capsys.readouterr()
    assert status == 2, err
    assert out == ""
    assert err.count("Error: ") == 1
    assert "Traceback" not in err
    return err


@pytest.mark.parametrize(("text", "fragment"), [pytest.param(t, f, id=name) for name, t, f in WRONG_JOBS])
@pytest.mark.parametrize("verb", ["train", "plan", "doctor"])
def test_a_wrong_job_file_ends_with_status_2_and_one_message(tmp_path, capsys, verb, text, fragment):
    job = tmp_path / "job.yaml"
    job.write_text(text)
    assert fragment in _refused(capsys, verb, str(job))


@pytest.mark.parametrize(
    ("make", "fragment"),
    [
        (lambda folder: folder / "missing", "there is no file or folder"),
        (lambda folder: _folder(folder / "empty"), "no text"),
        (lambda folder: _folder(folder / "binary", b"\0\1\2\3" * 100), "no text"),
        (lambda folder: _folder(folder / "short", b"too short"), "data.sequence_length 256 needs at least 257"),
        (lambda folder: _pair(folder, cut=("idx", 70)), "pair.idx is damaged: it has 70 bytes, but its header"),
        (lambda folder: _pair(folder, cut=("idx", 20)), "it ends after 20 bytes, within the header of 34"),
        (lambda folder: _pair(folder, cut=("bin", 100)), "pair.bin is cut short: it has 100 bytes, but pair.idx says"),
    ],
)
def test_data_that_cannot_be_trained_on_is_refused_before_anything_is_made(tmp_path, capsys, make, fragment):
    runs = tmp_path / "runs"
    job = tmp_path / "job.yaml"
    job.write_text(f"data: {{path: {make(tmp_path)}}}\nrun: {{directory: {runs}}}\n")
    assert fragment in _refused(capsys, "train", str(job))
    assert not runs.exists()


@pytest.mark.parametrize("step", ["0", "-1", "4"])
def test_a_step_to_trace_that_the_run_does_not_have_is_refused_for_a_job_and_for_a_plan(tmp_path, capsys, step):
    job, plan = tmp_path / "job.yaml", tmp_path / "plan.json"
    job.write_text(f"train: {{steps: 3}}\nrun: {{directory: {tmp_path}/run}}\noptimizer: {{warmup_steps: 1}}\n")
    assert main(["plan", str(job), "--output", str(plan), "--json"]) == 0
    capsys.readouterr()
    for file in (job, plan):
        said = _refused(capsys, "train", str(file), "--profile", step)
        assert f"run.profile is step {step}, but the run has the steps 1 to 3 (train.steps)." in said
    assert not (tmp_path / "run").exists()


def test_restarts_under_torchrun_are_its_own(tmp_path, capsys, monkeypatch):
    names = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    job = tmp_path / "job.yaml"
    job.write_text(f"run: {{directory: {tmp_path}/run}}\n")
    assert "Use torchrun --max-restarts N, without this option." in _refused(
        capsys, "train", str(job), "--max-restarts", "1"
    )


@pytest.mark.parametrize("made", [False, True])
def test_a_path_without_checkpoints_to_go_on_from_is_refused(tmp_path, capsys, made):
    job, path = tmp_path / "job.yaml", tmp_path / "there"
    if made:
        path.mkdir()
    job.write_text(f"run: {{directory: {tmp_path}/run}}\ntrain: {{steps: 30}}\n")
    said = "holds no checkpoint. Name a step-" if made else "there is no checkpoint"
    assert said in _refused(capsys, "train", str(job), "--resume", str(path))
    assert not (tmp_path / "run").exists()


def test_an_empty_word_to_go_on_from_does_not_start_a_new_training(tmp_path, capsys):
    """As a shell's unset variable gives it."""
    job = tmp_path / "job.yaml"
    job.write_text(f"run: {{directory: {tmp_path}/run}}\ntrain: {{steps: 30}}\n")
    assert "checkpoint.resume (--resume) is empty. Name a checkpoint" in _refused(
        capsys, "train", str(job), "--resume", ""
    )
    assert not (tmp_path / "run").exists()


def test_a_run_directory_that_cannot_be_made_is_refused_with_its_path(tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    job = tmp_path / "job.yaml"
    job.write_text(f"run: {{directory: {tmp_path}/file/run}}\n")
    said = _refused(capsys, "train", str(job))
    assert f"run.directory {tmp_path}/file/run cannot be written (Not a directory)" in said


def test_a_run_directory_that_holds_a_run_is_left_alone(tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").write_text("{}")
    job = tmp_path / "job.yaml"
    job.write_text(f"run: {{directory: {tmp_path}/run}}\n")
    assert "holds files already" in _refused(capsys, "train", str(job))
    assert os.listdir(tmp_path / "run") == ["metrics.jsonl"]


def _folder(path, content=None):
    path.mkdir()
    if content is not None:
        (path / "data").write_bytes(content)
    return path


def _pair(folder, cut):
    """The prefix of a token file of which one file has lost its end."""
    write(folder / "pair", [np.zeros(400, np.uint16)] * 3, np.dtype(np.uint16))
    ending, size = cut
    os.truncate(folder / f"pair.{ending}", size)
    return folder / "pair"


@pytest.mark.parametrize("wanted", ["full", "selective", "{mode: full, layers: 2}"])
def test_recompute_is_planned_and_simulated_but_refused_by_name_before_anything_is_trained(tmp_path, capsys, wanted):
    job, plan = tmp_path / "job.yaml", tmp_path / "plan.json"
    job.write_text(f"parallel: {{recompute: {wanted}}}\nrun: {{directory: {tmp_path / 'run'}}}\n")
    assert main(["plan", str(job), "--output", str(plan)]) == 0
    assert "recompute" in capsys.readouterr().out
    assert main(["simulate", str(job), "--explain"]) == 0
    assert "computed again" in capsys.readouterr().out
    for each in (job, plan):
        said = _refused(capsys, "train", str(each))
        assert f"parallel.recompute {'selective' if wanted == 'selective' else 'full'} is predicted" in said
        assert "but not trained yet. Train with parallel.recompute none." in said
    assert not (tmp_path / "run").exists()
