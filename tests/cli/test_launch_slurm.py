"""headway launch --on slurm, under a real Slurm of two virtual nodes: trained, pre-empted, resumed, cancelled."""

import json
import os
import subprocess
import time
from types import SimpleNamespace

import pytest

from headway import checkpoints
from headway.cli.main import main
from tests.cli.own_slurm import running

pytestmark = [pytest.mark.slurm, pytest.mark.dist]
FOREVER = 100_000
JOB = """
model: {layers: 2, hidden: 32, heads: 2, feed_forward: 64, vocabulary: 256, positions: 64}
parallel: {pipeline: 2, data: 2}
data: {sequence_length: 32, path: text.txt, validation: 0}
optimizer: {schedule: constant}
train: {steps: %d, global_batch: 16, microbatch: 4}
run: {directory: %s}
"""
SAME = ("loss", "grad_norm", "learning_rate")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A Slurm of two nodes, and a folder whose name needs quoting."""
    with running(tmp_path_factory.mktemp("slurm"), num_nodes=2) as variables:
        folder = tmp_path_factory.mktemp("jobs") / 'it\'s a "job" of 100% $HOME'
        folder.mkdir()
        (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 500)
        yield SimpleNamespace(folder=folder, conf=variables["SLURM_CONF"])


@pytest.fixture
def headway(site, monkeypatch, capsys):
    """A function that runs `headway launch --on slurm` with further words in the folder, and reads its JSON."""
    monkeypatch.setenv("SLURM_CONF", site.conf)
    monkeypatch.chdir(site.folder)

    def run(*words):
        status = main(["launch", "--on", "slurm", *words, "--json"])
        said = capsys.readouterr()
        assert status == 0, said.err
        return json.loads(said.out)

    return run


def _steps(run):
    """Step → what it computed, each line of it."""
    found = {}
    path = run / "metrics.jsonl"
    for line in map(json.loads, path.read_text().splitlines() if path.exists() else ()):
        if "loss" in line:
            found.setdefault(line["step"], []).append(tuple(line[key] for key in SAME))
    return found


def _submit(headway, site, name, steps):
    (site.folder / f"{name}.yaml").write_text(JOB % (steps, name))
    return headway(f"{name}.yaml", "--nodes", "2")["job"]


def _wait(headway, job, run, condition, timeout=120):
    deadline = time.monotonic() + timeout
    while not condition(status := headway("--status", job)):
        out = run / "launch" / f"slurm-{job}.out"
        assert time.monotonic() < deadline, f"{status} {out.read_text() if out.exists() else ''}"
        time.sleep(0.3)
    return status


def _slurm(*words):
    done = subprocess.run(["timeout", "20", *words], env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _ended(status):
    return status["state"] in {"COMPLETED", "FAILED", "CANCELLED"}


def test_a_job_of_two_nodes_by_two_ranks_is_pre_empted_resumes_with_the_same_losses_and_is_cancelled_with_a_checkpoint(
    site, headway, capsys
):
    run = site.folder / "disturbed"
    job = _submit(headway, site, "disturbed", FOREVER)
    _wait(headway, job, run, lambda _: _steps(run))
    assert main(["launch", "disturbed.yaml", "--on", "slurm", "--nodes", "2"]) == 2
    assert f"is in use: job {job} (headway-disturbed) is RUNNING on node[1-2]" in capsys.readouterr().err
    assert (run / "launch" / "job.sbatch").stat().st_mode & 0o777 == 0o600
    _slurm("sbatch", "--partition=urgent", "--nodes=2", "--exclusive", "--wrap=true", "--output=/dev/null")
    _wait(headway, job, run, lambda status: status["state"] == "PENDING" and status["restarts"] == 1)
    stopped = max(_steps(run))
    (kept,) = checkpoints.newest_first(run / "checkpoints")
    assert checkpoints.step_of(kept) == stopped
    assert checkpoints.damage(kept) is None
    summary = json.loads((run / "summary.json").read_text())
    assert summary["stopped_by"].endswith(f"/disturbed/control/stop says: Slurm sent USR1 to job {job}")
    assert not list((run / "log").glob("*.error.json")), "all ranks ended well"

    # Slurm holds the job for cred_expire, two minutes, since nodes refuse what was allowed up to the second in which
    # its first start was ended ("Job credential revoked")
    time.sleep(1.1)
    _slurm("scontrol", "update", f"JobId={job}", "StartTime=now")
    _wait(headway, job, run, lambda _: max(_steps(run)) > stopped + 3)
    headway("--cancel", str(run))
    status = _wait(headway, job, run, _ended)
    assert (status["state"], status["restarts"], status["failure"]) == ("CANCELLED", 1, None)
    deadline = time.monotonic() + 40
    while checkpoints.step_of(checkpoints.newest_first(run / "checkpoints")[0]) != (last := max(_steps(run))):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert main(["launch", "--on", "slurm", "--logs", str(run)]) == 0
    said = capsys.readouterr().out
    assert "headway: USR1 at " in said
    assert f"headway: stopped with a checkpoint; job {job} goes back in line" in said

    whole = site.folder / "whole"
    job = _submit(headway, site, "whole", last)
    status = _wait(headway, job, whole, _ended)
    assert (status["state"], status["exit_code"], status["step"]) == ("COMPLETED", "0:0", last)
    assert sorted(path.name for path in (whole / "log").glob("rank-*.at")) == [f"rank-{i}.at" for i in range(4)]
    assert sorted(_steps(whole)) == list(range(1, last + 1))
    assert _steps(run) == _steps(whole), "each step once, the same"


def test_what_slurm_refuses_or_does_not_know_is_said_in_one_line(site, headway, capsys):
    (site.folder / "refused.yaml").write_text(JOB % (FOREVER, "refused"))
    assert main(["launch", "refused.yaml", "--on", "slurm", "--nodes", "2", "--partition", "nowhere"]) == 1
    assert "sbatch ended with status 1: " in (said := capsys.readouterr().err)
    assert "invalid partition" in said
    for words in (("--status", "99999"), ("--cancel", "99999")):
        assert main(["launch", "--on", "slurm", *words]) == 2
        assert "Slurm knows no job 99999" in capsys.readouterr().err
