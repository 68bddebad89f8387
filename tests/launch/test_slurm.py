"""Slurm's programs, asked: what scontrol prints read back, jobs that are not Headway's left alone, silence bounded."""

import contextlib
import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import JobError, PlanError
from headway.launch import slurm
from headway.launch.slurm import State, Submitted, parse_job

# as Slurm 22.05 prints it, shortened
RUNNING = (
    "JobId=12 JobName=headway-tiny UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=4294901759 Nice=0 "
    "Account=(null) QOS=(null) JobState=RUNNING Reason=None Dependency=(null) Requeue=1 Restarts=1 BatchFlag=1 "
    "ExitCode=0:0 RunTime=00:00:12 TimeLimit=365-00:00:00 TimeMin=N/A NodeList=hn[0-1] BatchHost=hn0 NumNodes=2 "
    "CPUs/Task=2 ReqB:S:C:T=0:0:*:* TRES=cpu=4,node=2,billing=4 OverSubscribe=OK Command=/work/job.sbatch "
    "WorkDir=/work/a b Comment=/work/it's a JobState=FAILED run  StdErr=/work/o.out StdIn=/dev/null Power= \n\n"
)


def test_a_running_job_is_read_and_said_in_a_line():
    found = parse_job(RUNNING)
    assert found == State(
        "12", "headway-tiny", "RUNNING", "", "hn[0-1]", "00:00:12", 1, "0:0", "/work/it's a"
    )  # a comment that looks like a field is cut there, and does no harm
    assert str(found) == "job 12 (headway-tiny) is RUNNING on hn[0-1] for 00:00:12 restarted 1 times"
    assert not found.has_ended


def test_a_job_that_waits_says_why_and_one_that_has_ended_its_exit_status():
    waits = parse_job("JobId=3 JobName=headway-a JobState=PENDING Reason=Resources Restarts=0 NodeList=(null)")
    assert str(waits) == "job 3 (headway-a) is PENDING (Resources)"
    failed = parse_job("JobId=3 JobName=headway-a JobState=FAILED Reason=NonZeroExitCode ExitCode=3:0 RunTime=00:00:02")
    assert str(failed) == "job 3 (headway-a) is FAILED for 00:00:02 (NonZeroExitCode) exit status 3"
    assert failed.has_ended


@given(st.text())
def test_whatever_scontrol_prints_is_read_or_refused(text):
    with contextlib.suppress(JobError):
        assert parse_job(text).state


@given(st.text(st.characters(blacklist_categories=("Cc", "Cs", "Z"))))
def test_a_name_or_comment_never_changes_the_state(text):
    line = f"JobId=3 JobName=headway-a JobState=PENDING Reason=x Comment={text} JobState=FAILED JobName=b"
    found = parse_job(line)
    assert (found.job, found.name, found.state) == ("3", "headway-a", "PENDING")


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A function that makes one of Slurm's programs: a shell script, first in the PATH; calls are noted in `asked`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def make(name, *lines):
        asked = f'echo "{name} $*" >>{tmp_path}/asked'
        (folder / name).write_text("\n".join(["#!/bin/sh", asked, *lines]) + "\n")
        (folder / name).chmod(0o755)

    return make


def test_a_job_is_submitted_by_a_script_that_only_its_owner_reads_and_remembered(programs, tmp_path):
    programs("sbatch", "cat $2 > $2.seen; echo '17;cluster'")
    assert slurm.submitted(tmp_path) is None
    done = slurm.submit("#!/bin/bash\nexport TOKEN=x\n", tmp_path, "headway-a")
    assert done == slurm.submitted(tmp_path) == Submitted("17", "headway-a")
    script = tmp_path / "launch" / "job.sbatch"
    assert script.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "launch" / "job.sbatch.seen").read_text() == script.read_text()
    assert slurm.printed(tmp_path, done.job) == tmp_path / "launch" / "slurm-17.out"


def test_what_slurm_says_when_it_refuses_is_passed_on(programs, tmp_path):
    programs("sbatch", "echo 'sbatch: error: invalid partition' >&2; exit 1")
    with pytest.raises(JobError, match="sbatch ended with status 1: sbatch: error: invalid partition"):
        slurm.submit("", tmp_path, "headway-a")
    assert slurm.submitted(tmp_path) is None


def test_a_job_of_somebody_else_is_neither_shown_nor_cancelled(programs, tmp_path):
    programs("scontrol", "echo 'JobId=5 JobName=thesis JobState=RUNNING'")
    programs("scancel")
    for question in (slurm.state, slurm.cancel):
        with pytest.raises(PlanError, match=re.escape("job 5 (thesis) was not started by headway launch")):
            question("5")
    assert "scancel" not in (tmp_path / "asked").read_text()


def test_a_job_is_cancelled_once(programs, tmp_path):
    programs("scontrol", "echo 'JobId=5 JobName=headway-a JobState=RUNNING'")
    programs("scancel")
    assert slurm.cancel("5").state == "RUNNING"
    assert "scancel 5\n" in (tmp_path / "asked").read_text()
    programs("scontrol", "echo 'JobId=5 JobName=headway-a JobState=COMPLETED'")
    with pytest.raises(PlanError, match="there is nothing to cancel"):
        slurm.cancel("5")


def test_a_job_that_slurm_has_forgotten_is_none(programs):
    programs("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert slurm.state("5") is None
    with pytest.raises(PlanError, match="Slurm knows no job 5"):
        slurm.cancel("5")


@pytest.mark.parametrize("name", ["-u root", "--help", "5 6", "", "１２", "5\n"])
def test_what_is_no_number_is_passed_to_no_program(programs, tmp_path, name):
    programs("scontrol")
    with pytest.raises(PlanError, match="neither a run's directory nor the number of a job"):
        slurm.state(name)
    assert not (tmp_path / "asked").exists()


def test_a_damaged_record_is_said(tmp_path):
    (tmp_path / "launch").mkdir()
    for text in ("{", "[]", json.dumps({"job": "1"}), json.dumps({"job": "x", "name": "a"})):
        (tmp_path / "launch" / "slurm.json").write_text(text)
        with pytest.raises(PlanError):
            slurm.submitted(tmp_path)


def test_programs_that_are_missing_or_silent_are_named(programs, monkeypatch, tmp_path):
    path = f"{tmp_path}/bin:/usr/bin:/bin"
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    with pytest.raises(PlanError, match="scontrol cannot be started"):
        slurm.state("5")
    monkeypatch.setenv("PATH", path)
    programs("scontrol", "exec sleep 60")
    monkeypatch.setattr(slurm, "ANSWERS_WITHIN", 0.2)
    with pytest.raises(JobError, match=re.escape("scontrol gave no answer for 0.2 s. Is Slurm's controller up")):
        slurm.state("5")


def test_of_a_job_that_has_failed_the_rank_is_named_and_of_one_that_has_not_begun_nothing(tmp_path):
    failed = parse_job("JobId=3 JobName=headway-a JobState=FAILED ExitCode=1:0")
    (tmp_path / "log").mkdir()
    assert slurm.failure(failed, tmp_path, 4) is None
    (tmp_path / "log" / "rank-1.at").write_text("step 7 · 1F3")
    (tmp_path / "log" / "failures-1.json").write_text('{"1": {"pid": 5, "exitcode": -9}}')
    assert "rank 1 was killed by SIGKILL at step 7 · 1F3." in slurm.failure(failed, tmp_path, 4)
    for state in ("CANCELLED", "PREEMPTED"):
        assert slurm.failure(replace(failed, state=state), tmp_path, 4) is None


def test_a_job_that_stopped_and_was_not_started_again_blames_no_rank_of_its_last_start(tmp_path):
    for folder, name in (("log", "rank-0.at"), ("control", "stopped")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text("end")
    failed = parse_job("JobId=3 JobName=headway-a JobState=FAILED Reason=NonZeroExitCode Restarts=1 ExitCode=1:0")
    said = slurm.failure(failed, tmp_path, 1)
    assert (
        said
        == "It stopped with a checkpoint, and Slurm has not started it since. Launched again, it goes on from there."
    )
