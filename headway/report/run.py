"""A run's directory read back: its plan, its summary and both traces, or why they are not there."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway import chrome
from headway.errors import PlanError
from headway.plan import plan as plans
from headway.plan.plan import Plan
from headway.trace import Trace
from headway.units import Seconds


@dataclass(frozen=True, slots=True)
class Run:
    """A run that has ended with its files.

    `measured` is the trace of step `traced_step` (1 is the first), `measured_step` the median of all steps' seconds.
    """

    directory: Path
    plan: Plan
    summary: dict[str, Any]
    predicted: Trace
    measured: Trace
    measured_step: Seconds
    traced_step: int


def read(directory: Path) -> Run:
    """The run in `directory`; PlanError, with what to do, where there is none or it has not ended with its files."""
    plan = plans.read(_file(directory, "plan.json"))
    path = _file(directory, "summary.json")
    predicted, measured = (chrome.read(_file(directory, f"{name}.trace.json.gz")) for name in ("predicted", "measured"))
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
        step, traced = Seconds(float(summary["measured_step_seconds"])), int(summary["traced_step"])
    except (ValueError, KeyError, TypeError) as error:
        raise PlanError(f"{path} is not a summary that this version of Headway wrote ({error!r}).") from None
    return Run(directory, plan, summary, predicted, measured, step, traced)


def weights(path: Path) -> Path:
    """The file with the weights of a run, or `path` itself if it is a .safetensors file."""
    if path.suffix == ".safetensors" and not path.is_dir():
        if not path.is_file():
            raise PlanError(f"there is no file {path}. Name a run's directory, or a model.safetensors that one left.")
        return path
    return _file(path, "model.safetensors")


def _file(directory: Path, name: str) -> Path:
    if not directory.is_dir():
        raise PlanError(f"there is no run {directory}. Name the directory that headway train made, like runs/….")
    if not (directory / "plan.json").is_file():
        raise PlanError(f"{directory} is no run: it has no plan.json. Name a directory that headway train made.")
    if not (directory / name).is_file():
        raise PlanError(
            f"the run {directory} has no {name}, which is written when a run ends. Wait for its end or stop it with "
            f"Ctrl-C, which saves; if it failed, {directory / 'log'} says why: mend that and train again."
        )
    return directory / name
