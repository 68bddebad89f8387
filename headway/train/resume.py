"""Going on from a checkpoint: all ranks look for the last complete one, and each loads its part of it."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from headway import checkpoints
from headway.checkpoints import DamagedError
from headway.errors import JobError, PlanError
from headway.plan import plan as plans
from headway.plan.plan import Plan
from headway.plan.resume import check, none_whole
from headway.train import comm, state
from headway.train.torch_stage import TorchStage


@dataclass(frozen=True, slots=True)
class Resumed:
    """The checkpoint that a job goes on from, later ones that were skipped and why, and what the job has changed."""

    step: int
    path: str
    skipped: dict[str, str] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)


def resume(
    plan: Plan,
    stage: TorchStage,
    run: Path,
    samples: int,
    reading: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Resumed | None:
    """Go on from the newest checkpoint that is as it was written: the job's own, or one that it names.

    Every rank calls it, and reads some of the files for their checksums. None where there is none: the job starts at
    its first step. `samples`: of one epoch of the training data; `reading` is entered while files are read. PlanError
    where the job does not go on from what is there, JobError where all that is there is damaged.
    """
    directory = checkpoints.folder(plan.checkpoint.directory, plan.name, run)
    names = json.loads(comm.from_rank_0(lambda: json.dumps(_candidates(directory, plan.checkpoint.resume))))
    skipped: dict[str, str] = dict(json.loads(comm.from_rank_0(lambda: json.dumps(_unfinished(directory)))))
    if not names:
        return None
    with reading():
        for path in map(Path, names):
            if not (why := _damage(plan, path, stage.rank)):
                return _load(plan, stage, path, skipped, samples)
            skipped[path.name] = why
    raise JobError(none_whole(skipped))


def _candidates(directory: Path, named: str | None) -> list[str]:
    return list(map(str, checkpoints.candidates(directory, named)))


def _unfinished(directory: Path) -> dict[str, str]:
    """What is not finished and never will be; it is removed."""
    left = {path.name: "it was not finished" for path in checkpoints.unfinished(directory)}
    checkpoints.sweep(directory)
    return {name: why for name, why in left.items() if name.endswith(".partial")}


def _damage(plan: Plan, path: Path, rank: int) -> str:
    """Why a checkpoint cannot be loaded from, on every rank; empty if it can."""
    try:
        mine = sorted(checkpoints.manifest(path).files)[rank :: plan.layout.world]
        why = checkpoints.damage(path, mine)
    except DamagedError as error:
        why = str(error)
    told = comm.to_rank_0(why)
    return comm.from_rank_0(lambda: next(filter(None, told or []), ""))


def _load(plan: Plan, stage: TorchStage, path: Path, skipped: dict[str, str], samples: int) -> Resumed:
    made = checkpoints.manifest(path)
    changed = check(plans.read(path / checkpoints.PLAN), plan, str(path))
    if made.samples != samples:
        raise PlanError(
            f"{path} was written on data of {made.samples} samples an epoch, but data.path {plan.data.path} has "
            f"{samples}, in another order. Train on the same data, or anew in another checkpoint.directory."
        )
    try:
        state.restore(stage, path, made)
    except DamagedError as error:
        raise JobError(f"{path} cannot be loaded: {error}") from None
    before = {name: why for name, why in skipped.items() if checkpoints.step_of(Path(name)) > made.step}
    return Resumed(made.step, str(path), before, changed)
