"""Finding: one thing that the doctor saw, how bad it is, its numbers, and what to do about it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

Number = int | float | str | bool | None

NOTHING = "nothing to do"


class Subject(StrEnum):
    """What a finding is about, in the order in which they are shown."""

    SOFTWARE = "software"
    DEVICES = "devices"
    NETWORK = "network"
    HOST = "host"
    JOB = "job"


class Status(StrEnum):
    """How bad a finding is: well; a job starts, but may be slow or break later; no job (or not this one) starts."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer. `name` is short and stays the same between versions; `what` says what was seen, with its numbers.

    `numbers` are those of `what` for a program, in bytes, seconds and bits a second.
    """

    subject: Subject
    name: str
    status: Status
    what: str
    remedy: str = NOTHING
    numbers: Mapping[str, Number] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.status is Status.OK or self.remedy != NOTHING, f"{self.name} says nothing of what to do"


def could_start(findings: Iterable[Finding]) -> bool:
    """Whether nothing that was found keeps a job from starting."""
    return all(each.status is not Status.FAIL for each in findings)
