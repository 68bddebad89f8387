"""A run's directory read back, and what is said where there is none or it has not ended."""

import json

import pytest

from headway import chrome
from headway.errors import PlanError
from headway.plan import plan as plans
from headway.report.run import read, weights
from headway.trace import Trace, as_columns


@pytest.fixture
def directory(tmp_path, plan_of):
    run = tmp_path / "run"
    run.mkdir()
    (run / "plan.json").write_text(plans.dumps(plan_of()))
    (run / "summary.json").write_text(json.dumps({"measured_step_seconds": 0.5, "traced_step": 7}))
    (run / "model.safetensors").write_bytes(b"")
    for source in ("predicted", "measured"):
        chrome.write(run / f"{source}.trace.json.gz", Trace(source, as_columns(())))
    return run


def test_a_run_is_its_plan_its_summary_and_both_traces(directory, plan_of):
    run = read(directory)
    assert run.plan == plan_of()
    assert (run.measured_step, run.traced_step) == (0.5, 7)
    assert (run.predicted.source, run.measured.source) == ("predicted", "measured")


@pytest.mark.parametrize("name", ["summary.json", "predicted.trace.json.gz", "measured.trace.json.gz"])
def test_a_run_that_has_not_ended_says_what_is_missing_and_what_to_do(directory, name):
    (directory / name).unlink()
    with pytest.raises(PlanError, match=rf"run has no {name}, which is written when a run ends\. Wait for its end"):
        read(directory)


@pytest.mark.parametrize("text", ["{", "[]", '{"measured_step_seconds": 0.5}'])
def test_a_summary_that_cannot_be_used_is_refused_by_name(directory, text):
    (directory / "summary.json").write_text(text)
    with pytest.raises(PlanError, match=r"summary\.json is not a summary that this version of Headway wrote"):
        read(directory)


def test_a_directory_that_is_no_run_is_told_from_one_that_is_not_there(directory):
    with pytest.raises(PlanError, match=r"there is no run .*/nowhere\. Name the directory that headway train made"):
        read(directory / "nowhere")
    (directory / "plan.json").unlink()
    with pytest.raises(PlanError, match=r"run is no run: it has no plan\.json"):
        read(directory)


def test_weights_are_named_by_the_run_or_by_the_file(directory):
    file = directory / "model.safetensors"
    assert weights(directory) == weights(file) == file
    file.unlink()
    with pytest.raises(PlanError, match=r"run has no model\.safetensors, which is written when a run ends\."):
        weights(directory)
    with pytest.raises(PlanError, match=r"there is no file .*model\.safetensors"):
        weights(file)
