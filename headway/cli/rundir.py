"""The directory of a run: a new one, or that of the run that the job goes on with, if it may."""

import contextlib
import errno
import os
import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headway.errors import JobError, PlanError

if TYPE_CHECKING:
    from headway.plan.plan import Plan

_RESULTS = ("summary.json", "model.safetensors")  # what a run leaves at its end
_BEGUN = frozenset({"job.yaml", "plan.json", "predicted.trace.json.gz", "log"})  # and what it has before its first step


def make(plan: "Plan", *, again: bool = False) -> Path:
    """The run's directory, made if it is not there.

    One that holds anything is left alone (with {time} in its name the next is tried), but for that of a run which this
    job goes on with: it holds the job's own checkpoints; or the same job ended in it before its first; or the job was
    started `again` in it by torchrun. PlanError where the checkpoints that are found first are not this job's to go on
    from. Nothing in the directory is changed: see `held`.
    """
    from headway import checkpoints

    wanted = named(plan)
    own = checkpoints.folder(plan.checkpoint.directory, plan.name, Path(wanted))
    goes_on = _check(plan, own) or again
    if plan.checkpoint.directory is not None:
        _make_writable(own)
    for attempt in range(1, 100):
        directory = Path(wanted if attempt == 1 else f"{wanted}-{attempt}")
        try:
            directory.mkdir(parents=True)
            return directory
        except FileExistsError:
            if "{time}" not in plan.run.directory:
                if _may_have(plan, directory, goes_on=goes_on):
                    return directory
                break
    raise _taken(directory)


def named(plan: "Plan") -> str:
    """The path of the directory that a run would get now; nothing is made."""
    unknown = set(re.findall(r"\{(\w*)\}", plan.run.directory)) - {"name", "time"}
    if unknown:
        raise PlanError(
            f"run.directory {plan.run.directory}: {{{unknown.pop()}}} is not known. Use {{name}} and {{time}}."
        )
    return plan.run.directory.replace("{name}", plan.name).replace("{time}", time.strftime("%Y%m%d-%H%M%S"))


def look(plan: "Plan") -> None:
    """Raise what `make` would, as far as that is seen without making anything."""
    from headway import checkpoints

    wanted = Path(named(plan))
    goes_on = _check(plan, checkpoints.folder(plan.checkpoint.directory, plan.name, wanted))
    if "{time}" not in plan.run.directory and wanted.exists() and not _may_have(plan, wanted, goes_on=goes_on):
        raise _taken(wanted)


@contextlib.contextmanager
def held(directory: Path) -> Iterator[None]:
    """Inside, a run's directory is this process's alone, and rid of what an earlier start would be mistaken for.

    PlanError where another process that is alive has it.
    """
    from headway import checkpoints
    from headway.launch import local

    try:
        handle = checkpoints.claim(directory)
    except BlockingIOError:
        raise PlanError(
            f"run.directory {directory} is in use: a job is running in it. Wait for it, end it, or choose another."
        ) from None
    try:
        local.clear(directory)
        yield
    finally:
        os.close(handle)


def _may_have(plan: "Plan", directory: Path, *, goes_on: bool) -> bool:
    """Whether a directory that is there already may be the job's: there is nothing in it, or a run of its own."""
    from headway import checkpoints

    if directory.is_dir():
        found = {path.name for path in directory.iterdir()} - {checkpoints.LOCK}
        # a start that came to nothing (no host answered) stands in nobody's way; only a start writes that trace
        if not found or (found <= _BEGUN and "predicted.trace.json.gz" in found):
            return True
    return (directory / "plan.json").is_file() and (goes_on or _ended_early(plan, directory))


def _taken(directory: Path) -> PlanError:
    return PlanError(f"run.directory {directory} holds files already. Choose another, or put {{time}} into its name.")


def _ended_early(plan: "Plan", directory: Path) -> bool:
    """Whether a run of the same plan ended here before its first checkpoint, with nothing that a new start replaces."""
    from headway.plan import plan as plans

    if not plan.checkpoint.saves or any((directory / name).exists() for name in _RESULTS):
        return False
    try:
        return plans.digest(plans.read(directory / "plan.json")) == plans.digest(plan)
    except PlanError:  # a file that is damaged, or another version's
        return False


def _is_in(path: Path, directory: Path) -> bool:
    """Whether a path is a checkpoint of this directory."""
    return path.is_dir() and path.resolve().parent == directory.resolve()


def _make_writable(own: Path) -> None:
    """Make a directory that the job names for its checkpoints: what is wrong with it is not heard hours later."""
    try:
        own.mkdir(parents=True, exist_ok=True)
        if not os.access(own, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(own))
    except OSError as error:
        raise PlanError(
            f"checkpoint.directory {own} cannot be written ({error.strerror}). Choose one that you may write to."
        ) from None


def _check(plan: "Plan", own: Path) -> bool:
    """Whether the job goes on from a checkpoint of its own; PlanError where it may not go on from the latest there is.

    A first look, before any process starts: the workers look again, at every byte. JobError where all are damaged.
    """
    from headway import checkpoints
    from headway.plan import plan as plans
    from headway.plan.resume import check, done, none_whole

    if checkpoints.is_claimed(own):  # also where none is complete yet: what is being written there looks left over
        raise PlanError(checkpoints.in_use(own))
    mine, named = checkpoints.latest(own), plan.checkpoint.resume
    found, damage = checkpoints.candidates(own, named), partial(checkpoints.damage, names=[checkpoints.PLAN])
    chosen = next((path for path in found if not damage(path)), None)
    if chosen is None and found:
        raise JobError(none_whole({str(path): damage(path) or "" for path in found}))
    if chosen is None:
        return False
    step = checkpoints.step_of(chosen)
    if named and _is_in(Path(named).expanduser(), own) and checkpoints.step_of(checkpoints.asked(named)[0]) < step:
        raise PlanError(
            f"--resume {named} is asked for, but {chosen} is later, and would be gone on from next time. Move it away, "
            f"or choose another checkpoint.directory or run.directory."
        )
    check(plans.read(chosen / checkpoints.PLAN), plan, str(chosen))
    if step >= plan.train.steps:
        raise PlanError(done(str(chosen), step))
    return mine is not None
