"""The control files of a run: how a script or a person asks it to stop, and the run's answer, without any signal."""

import contextlib
from pathlib import Path

FOLDER = "control"  # in the run's directory
STOP = "stop"  # whoever makes it asks the run to stop at the end of its step; its first line may say why
STOPPED = "stopped"  # the same file, once the run has ended for it, with a checkpoint to go on from
_READ = 1024  # bytes of a reason that are read
_SHOWN = 200  # characters of it that are shown


def stop_file(directory: Path) -> Path:
    """The file that asks the run in `directory` to stop."""
    return directory / FOLDER / STOP


def stopped_file(directory: Path) -> Path:
    """The file that says that the run has ended as it was asked to, and can go on."""
    return directory / FOLDER / STOPPED


def asked(directory: Path) -> str | None:
    """Why the run is asked to stop; None if it is not. One look at the file system if not.

    What is no printable character in the first line is left out; an empty file asks too.
    """
    path = stop_file(directory)
    try:
        with path.open("rb") as file:
            said = file.read(_READ).decode(errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:  # it may be there, and cannot be read: somebody has made it
        return f"{path} is there ({error.strerror})" if path.exists() else None
    line = "".join(sign for sign in said.partition("\n")[0] if sign.isprintable()).strip()[:_SHOWN]
    return f"{path} says: {line}" if line else f"{path} is there"


def answer(directory: Path, *, can_go_on: bool) -> None:
    """The run has ended as it was asked to: the file is `stopped` from now on, or gone if no step is left to do."""
    with contextlib.suppress(OSError):  # nobody has asked (any more), or a full disk: the next start clears it
        if can_go_on:
            stop_file(directory).replace(stopped_file(directory))
        else:
            stop_file(directory).unlink()


def clear(directory: Path) -> None:
    """Take away what was asked of, or answered by, an earlier start of the run."""
    for path in (stop_file(directory), stopped_file(directory)):
        path.unlink(missing_ok=True)
