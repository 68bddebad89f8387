"""The error tree: whose mistake it was, and the exit status that follows.

    HeadwayError
    ├── PlanError          the user's input is wrong                      exit 2
    │   └── ScheduleError  a schedule breaks a rule or cannot finish      exit 2
    │       └── MicrobatchError  their number does not fit the schedule   exit 2
    └── JobError           the job failed, or the plan does not fit       exit 1

Broken promises inside Headway are `assert`s.
"""

import contextlib
import difflib
import errno
from collections.abc import Iterable, Iterator
from pathlib import Path

_LISTED = 32  # known names of a hint
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})  # what more space may help against


class HeadwayError(Exception):
    """Any error that Headway explains to its user: one message with the numbers and a remedy."""

    exit_status = 1


class PlanError(HeadwayError):
    """The user's input is wrong: a job file, an option, a path."""

    exit_status = 2


class ScheduleError(PlanError):
    """A schedule breaks a rule, or its rows wait for each other for ever."""


class MicrobatchError(ScheduleError):
    """A schedule cannot take this number of micro-batches; `legal` are the nearest that it can."""

    def __init__(self, problem: str, legal: tuple[int, ...], more: str = "") -> None:
        super().__init__(f"{problem} Use {' or '.join(map(str, legal))}{more}.")
        self.problem, self.legal = problem, legal


class JobError(HeadwayError):
    """The job itself failed: a rank died, the loss became NaN, the plan does not fit."""


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Inside, a file of a running job that cannot be written is a JobError: which one, why, and what helps."""
    try:
        yield
    except OSError as error:
        remedy = "Free some space there" if error.errno in FULL else "Choose a directory that stays writable"
        what = f"{error.filename or path} cannot be written ({error.strerror or error})"
        raise JobError(f"{what}. {remedy}.") from error


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint that ends an error message: the known name nearest to `word`, else all of them (of many, some).

    >>> nearest("microbach", ["microbatch", "steps"])
    "Did you mean 'microbatch'?"
    >>> nearest("x", ["microbatch", "steps"])
    'Known: microbatch, steps.'
    """
    names = list(known)
    close = difflib.get_close_matches(word, names, n=1)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"Did you mean '{close[0]}'?" if close else f"Known: {', '.join(names[:_LISTED])}{more}."
