"""Checkpoint directories: which ones are complete, with their manifests and checksums, and the latest of them."""

import contextlib
import dataclasses
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headway.errors import PlanError
from headway.units import Bytes

FOLDER = "checkpoints"  # of a run, unless the job names another
MANIFEST, PLAN = "checkpoint.json", "plan.json"
FORMAT = 1
_NAME = re.compile(r"step-(\d+)")
_LEFT = re.compile(r"step-\d+\.(partial|removed)")
LOCK = ".lock"  # in a directory that belongs to a process
_BLOCK = 2**20


class DamagedError(Exception):
    """A checkpoint that cannot be loaded from; the text says why."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of a checkpoint as it was written."""

    bytes: Bytes
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a checkpoint holds beside its tensors and its plan.

    `step`: training steps done, so also the step (from 0) that comes next; `updates`: those in which the optimizer
    moved the weights. `samples`: of one epoch of the data that were read, of which `next_sample` comes next.
    `learning_rate` is that of the last step. `files`: name → size and checksum of all others.
    """

    step: int
    updates: int
    seed: int
    samples: int
    next_sample: int
    learning_rate: float
    loss_scale: dict[str, Any]
    layout: str
    plan: str  # its digest
    written: str  # date and time
    files: dict[str, File]
    format: int = FORMAT

    @property
    def bytes(self) -> Bytes:
        """Bytes of all its files."""
        return Bytes(sum(file.bytes for file in self.files.values()))


def folder(directory: str | None, name: str, run: Path) -> Path:
    """Where a job's checkpoints are: what `checkpoint.directory` says, or the run's own folder."""
    return run / FOLDER if directory is None else Path(directory.replace("{name}", name)).expanduser()


def path_of(directory: Path, step: int) -> Path:
    """The checkpoint of a step in a directory of them."""
    return directory / f"step-{step:08d}"


def partial(directory: Path, step: int) -> Path:
    """Where it is while it is being written."""
    return directory / f"{path_of(directory, step).name}.partial"


def newest_first(directory: Path) -> tuple[Path, ...]:
    """The checkpoints in a directory, complete or not, those of late steps first."""
    if not directory.is_dir():
        return ()
    found = [path for path in directory.iterdir() if _NAME.fullmatch(path.name) and path.is_dir()]
    return tuple(sorted(found, key=step_of, reverse=True))


def step_of(path: Path) -> int:
    """The step in the name of a checkpoint, finished or not."""
    match = _NAME.match(path.name)
    assert match is not None
    return int(match[1])


def named(path: Path) -> tuple[Path, ...]:
    """The checkpoints that a user's path means, newest first: one, a directory of them, or a run's.

    PlanError where there are none.
    """
    for one in (path, path.resolve()):  # `.` in a checkpoint is that checkpoint
        if _NAME.fullmatch(one.name) and one.is_dir():
            return (one,)
    for each in (path, path / FOLDER):
        if found := newest_first(each):
            return found
    if not path.is_dir():
        raise PlanError(f"there is no checkpoint {path}. Name one, a directory of them, or a run's directory.")
    left = [each.name for each in (*unfinished(path), *unfinished(path / FOLDER))]
    more = f" (only {', '.join(left)}, which was not finished)" if left else ""
    raise PlanError(
        f"{path} holds no checkpoint{more}. Name a step-… directory, a directory of them, or a run's directory."
    )


def asked(resume: str | None) -> tuple[Path, ...]:
    """The checkpoints that a job's `checkpoint.resume` means, newest first; PlanError where it means none."""
    if resume is None:
        return ()
    if not resume.strip():
        raise PlanError("checkpoint.resume (--resume) is empty. Name a checkpoint, a directory of them, or a run's.")
    return named(Path(resume).expanduser())


def candidates(directory: Path, resume: str | None) -> tuple[Path, ...]:
    """What a job may go on from, newest first: its own checkpoints, and those that its `checkpoint.resume` means."""
    found = dict.fromkeys((*newest_first(directory), *asked(resume)))
    return tuple(sorted(found, key=step_of, reverse=True))


def unfinished(directory: Path) -> tuple[Path, ...]:
    """What writers that were killed have left in a directory of checkpoints."""
    return tuple(path for path in sorted(directory.glob("step-*")) if _LEFT.fullmatch(path.name))


def manifest(path: Path) -> Manifest:
    """The manifest of a checkpoint whose files are all there in their sizes; DamagedError says what is not."""
    try:
        document = json.loads((path / MANIFEST).read_bytes())
    except FileNotFoundError:
        raise DamagedError(f"it has no {MANIFEST}, which is written last") from None
    except (OSError, ValueError) as error:
        raise DamagedError(f"its {MANIFEST} cannot be read ({error})") from None
    fields = {key: value for key, value in document.items() if key != "sha256"} if isinstance(document, dict) else {}
    if not fields or document.get("sha256") != _digest(fields):
        raise DamagedError(f"its {MANIFEST} is not as it was written (its own checksum differs)")
    if fields.get("format") != FORMAT:
        raise DamagedError(f"it is of format {fields.get('format')}, but this version of Headway reads {FORMAT}")
    try:
        found = Manifest(**{**fields, "files": {name: File(**each) for name, each in fields["files"].items()}})
    except (KeyError, TypeError, AttributeError):
        raise DamagedError(_foreign(set(fields))) from None
    for name, file in found.files.items():
        try:
            size = (path / name).stat().st_size
        except OSError:
            raise DamagedError(f"its {name} is missing") from None
        if size != file.bytes:
            raise DamagedError(f"its {name} has {size} bytes, but {file.bytes} were written")
    return found


def damage(path: Path, names: Iterable[str] | None = None) -> str | None:
    """Why a checkpoint cannot be loaded from, all its bytes (or those of the files `names`) read; None if it can."""
    try:
        found = manifest(path)
        for name in found.files if names is None else names:
            if sha256(path / name) != found.files[name].sha256:
                raise DamagedError(f"its {name} is not as it was written (its checksum differs)")
    except DamagedError as error:
        return str(error)
    except OSError as error:
        return f"it cannot be read ({error})"
    return None


def is_complete(path: Path) -> bool:
    """Whether all files are there in their sizes."""
    try:
        manifest(path)
    except DamagedError:
        return False
    return True


def latest(directory: Path, step: int | None = None) -> Path | None:
    """The newest one with all its files, found by looking; of a step up to `step`, if one is given."""
    found = (path for path in newest_first(directory) if step is None or step_of(path) <= step)
    return next(filter(is_complete, found), None)


def commit(directory: Path, made: Manifest) -> Path:
    """Write the manifest of a partial checkpoint whose other files are on disk, and give it its name."""
    at, final = partial(directory, made.step), path_of(directory, made.step)
    fields = asdict(made)
    write(at / MANIFEST, json.dumps({**fields, "sha256": _digest(fields)}, indent=1))
    sync(at)
    if final.exists():  # a damaged one of the same step
        remove(final)
    at.rename(final)
    sync(directory)
    return final


def claim(directory: Path) -> int:
    """Keep a directory (of checkpoints, of a run) for this process until it closes what is returned, or ends.

    BlockingIOError where another process has it.
    """
    handle = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise BlockingIOError(errno.EAGAIN, "another job that is running uses it", str(directory)) from None
    except OSError:
        pass  # a file system without locks
    return handle


def is_claimed(directory: Path) -> bool:
    """Whether a process that is alive has claimed a directory."""
    if not (directory / LOCK).exists():
        return False
    try:
        os.close(claim(directory))
    except BlockingIOError:
        return True
    except OSError:
        return False  # it may not be opened: whoever writes there will be told so
    return False


def in_use(directory: Path) -> str:
    """What is said where a directory of checkpoints is claimed."""
    return f"{directory} is in use: a job that is running writes its checkpoints there. Wait for it, or end it."


def prune(directory: Path, keep: int, damaged: Iterable[str] = ()) -> None:
    """Remove all that are older than the newest `keep` complete ones (0: none is removed).

    Those of the names `damaged` are not complete, even if they look so.
    """
    found = newest_first(directory)
    complete = [path for path in found if path.name not in damaged and is_complete(path)]
    if keep and len(complete) > keep:
        last = step_of(complete[keep - 1])
        for path in found:
            if step_of(path) < last:
                remove(path)


def sweep(directory: Path) -> None:
    """Remove what writers that were killed have left."""
    for path in unfinished(directory):
        shutil.rmtree(path, ignore_errors=True)


def remove(path: Path) -> None:
    """Remove a checkpoint, so that it is there whole or not at all."""
    gone = path.with_name(f"{path.name}.removed")
    with contextlib.suppress(OSError):
        shutil.rmtree(gone, ignore_errors=True)
        path.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def write(path: Path, text: str) -> File:
    """Write a small file, on disk when this returns."""
    content = text.encode()
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return File(Bytes(len(content)), hashlib.sha256(content).hexdigest())


def sha256(path: Path) -> str:
    """The checksum of a file, as `sha256sum` prints it."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def sync(directory: Path) -> None:
    """Have the names in a directory on disk."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _foreign(fields: set[str]) -> str:
    """What is said of a whole manifest that another version of Headway has written in other fields."""
    known = {field.name for field in dataclasses.fields(Manifest)}
    unlike = [f"{name} is unknown" for name in sorted(fields - known)]
    unlike += [f"{name} is missing" for name in sorted(known - fields)]
    of = ", ".join(unlike) or "of a file in it"
    return f"its {MANIFEST} has other fields than this version of Headway reads ({of})"


def _digest(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
