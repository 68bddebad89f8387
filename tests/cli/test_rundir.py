"""The directory of a run that goes on: what is found at the first look, before any process starts."""

import os
from dataclasses import replace

import pytest

from headway import checkpoints
from headway.checkpoints import Manifest
from headway.cli import rundir
from headway.errors import JobError, PlanError
from headway.plan import plan as plans


@pytest.fixture
def plan(tmp_path, plan_of):
    return plan_of(checkpoint={"directory": str(tmp_path / "kept")}, run={"directory": str(tmp_path / "run")})


def _save(plan, directory, step):
    """A checkpoint without tensors."""
    at = checkpoints.partial(directory, step)
    at.mkdir(parents=True)
    files = {checkpoints.PLAN: checkpoints.write(at / checkpoints.PLAN, plans.dumps(plan))}
    numbers = {"step": step, "updates": step, "seed": 0, "samples": 9, "next_sample": 32 * step, "learning_rate": 1e-3}
    return checkpoints.commit(
        directory, Manifest(**numbers, loss_scale={}, layout="", plan="", written="", files=files)
    )


def _resuming(plan, path):
    return replace(plan, checkpoint=replace(plan.checkpoint, resume=path))


def _harm(path):
    text = (path / checkpoints.PLAN).read_text()
    (path / checkpoints.PLAN).write_text(text.replace("{", "[", 1))


def test_a_checkpoint_whose_plan_is_damaged_is_passed_over_for_the_one_before(tmp_path, plan):
    kept = tmp_path / "kept"
    _save(plan, kept, 4)
    _harm(_save(plan, kept, 8))
    assert rundir.make(plan) == tmp_path / "run"


def test_where_all_are_damaged_that_is_said_and_not_that_the_directory_is_full(tmp_path, plan):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "plan.json").write_text("{}")
    path = _save(plan, tmp_path / "kept", 4)
    _harm(path)
    with pytest.raises(
        JobError, match=f"no checkpoint can be gone on from.*\n  {path}: its plan.json is not as it was"
    ):
        rundir.make(plan)


def test_a_directory_that_a_running_job_writes_into_is_refused_also_before_its_first_one_is_complete(tmp_path, plan):
    kept = tmp_path / "kept"
    kept.mkdir()
    claim = checkpoints.claim(kept)
    try:
        with pytest.raises(PlanError, match=f"{kept} is in use: a job that is running writes its checkpoints there"):
            rundir.make(plan)
    finally:
        os.close(claim)
    assert rundir.make(plan) == tmp_path / "run"


def test_a_path_to_go_on_from_may_begin_with_the_home_directory(tmp_path, plan, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    path = _save(plan, tmp_path / "kept", 4)
    there = _resuming(plan, f"~/kept/{path.name}")
    assert rundir.make(there) == tmp_path / "run"
    _save(plan, tmp_path / "kept", 8)
    with pytest.raises(PlanError, match=r"--resume ~/kept/step-00000004 is asked for, but .* is later"):
        rundir.make(there)


def test_a_job_that_began_at_anothers_checkpoint_goes_on_from_its_own_later_one(tmp_path, plan):
    """The same command again, as a requeued job is started."""
    there = _resuming(plan, str(_save(plan, tmp_path / "other", 4)))
    assert rundir.make(there) == tmp_path / "run"
    _save(plan, tmp_path / "kept", 8)
    assert rundir.make(there) == tmp_path / "run"


def test_a_directory_for_checkpoints_that_cannot_be_made_is_refused_before_any_step(tmp_path, plan):
    (tmp_path / "kept").write_text("a file")
    with pytest.raises(PlanError, match=rf"checkpoint\.directory {tmp_path}/kept cannot be written \(File exists\)\."):
        rundir.make(plan)
    assert not (tmp_path / "run").exists()


def _ended(directory, plan, *more):
    """What a run that has ended without a checkpoint leaves, and more files."""
    directory.mkdir(exist_ok=True)
    (directory / "plan.json").write_text(plans.dumps(plan))
    for name in ("metrics.jsonl", *more):
        (directory / name).touch()


def test_a_run_that_died_before_its_first_checkpoint_starts_again_in_its_directory_by_the_same_command(tmp_path, plan):
    _ended(tmp_path / "run", plan)
    again = replace(plan, name="another")  # which plays the same
    assert rundir.make(again) == tmp_path / "run"
    assert (tmp_path / "run" / "metrics.jsonl").exists()


def test_a_run_with_results_another_plans_and_one_that_never_saves_are_left_alone(tmp_path, plan):
    longer = replace(plan, train=replace(plan.train, steps=plan.train.steps + 1))
    careless = replace(plan, checkpoint=replace(plan.checkpoint, directory=None))
    for which, more in ((plan, ["summary.json"]), (plan, ["model.safetensors"]), (longer, []), (careless, [])):
        directory = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
        _ended(directory, plan, *more)
        with pytest.raises(PlanError, match="holds files already"):
            rundir.make(replace(which, run=replace(which.run, directory=str(directory))))


def test_a_directory_in_which_a_job_runs_is_nobody_elses_and_is_not_touched(tmp_path, plan):
    run = rundir.make(plan)
    _ended(run, plan)
    (run / "log").mkdir()
    (run / "log" / "rank-0.at").touch()
    with rundir.held(run):
        assert list((run / "log").iterdir()) == [], "what an earlier start has left is gone"
        (run / "log" / "rank-0.at").touch()
        with pytest.raises(PlanError, match=f"{run} is in use: a job is running in it"), rundir.held(rundir.make(plan)):
            pytest.fail("two have it")
        assert (run / "log" / "rank-0.at").exists()
    with rundir.held(rundir.make(plan)):
        pass


def test_a_directory_that_holds_a_lock_alone_is_empty(tmp_path, plan):
    with rundir.held(rundir.make(plan)):
        pass
    assert [path.name for path in (tmp_path / "run").iterdir()] == [checkpoints.LOCK]
    assert rundir.make(plan) == tmp_path / "run"


def test_a_start_that_came_to_nothing_is_followed_by_another(tmp_path, plan):
    never_saves = replace(plan, checkpoint=replace(plan.checkpoint, directory=None))
    run = rundir.make(never_saves)
    (run / "log").mkdir()
    for name in ("job.yaml", "plan.json", "predicted.trace.json.gz", "log/host-0.log"):
        (run / name).touch()
    assert rundir.make(never_saves) == run
    (run / "metrics.jsonl").touch()
    with pytest.raises(PlanError, match="holds files already"):
        rundir.make(never_saves)


def test_a_folder_with_a_job_and_a_plan_of_its_users_own_is_left_alone(tmp_path, plan):
    (tmp_path / "run").mkdir()
    for name in ("job.yaml", "plan.json"):
        (tmp_path / "run" / name).touch()
    with pytest.raises(PlanError, match="holds files already"):
        rundir.make(replace(plan, checkpoint=replace(plan.checkpoint, directory=None)))


def test_a_look_says_what_making_would_refuse_and_makes_nothing(tmp_path, plan):
    rundir.look(plan)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "run").mkdir()
    rundir.look(plan)
    (tmp_path / "run" / "notes.txt").write_text("mine")
    for refuse in (rundir.look, rundir.make):
        with pytest.raises(PlanError, match=r"run holds files already. Choose another, or put \{time\} into its name"):
            refuse(plan)
    odd = replace(plan, run=replace(plan.run, directory="runs/{nmae}"))
    with pytest.raises(PlanError, match=r"\{nmae\} is not known"):
        rundir.look(odd)


def test_a_look_sees_that_the_checkpoints_belong_to_another_job(tmp_path, plan):
    other = replace(plan, train=replace(plan.train, seed=7))
    _save(other, tmp_path / "kept", 4)
    with pytest.raises(PlanError, match=r"was written with train.seed 7, but the job has 0"):
        rundir.look(plan)
