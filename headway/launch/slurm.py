"""Slurm's own programs, asked with a limit of time: a job submitted, looked up, cancelled, and where it prints."""

import json
import re
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from headway import control
from headway.errors import JobError, PlanError
from headway.launch import local
from headway.launch.batch_script import FOLDER, PREFIX, output

ANSWERS_WITHIN = 60  # seconds; Slurm's programs try again for minutes where its controller is down
ENDED = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"}
)
SHOW, CANCEL = ("scontrol", "show", "job", "--oneliner"), ("scancel",)  # and the number of a job
_RECORD = "slurm.json"
_FIELD = re.compile(r"(?:^| )([A-Z][A-Za-z/:]*)=")
_UNKNOWN = "Invalid job id specified"


@dataclass(frozen=True, slots=True)
class Submitted:
    """A run's job in Slurm: its number, and its name there."""

    job: str
    name: str


@dataclass(frozen=True, slots=True)
class State:
    """How a job does, in Slurm's words. `exit_code` is status:signal of its script; `nodes`: its nodes, if any."""

    job: str
    name: str
    state: str
    reason: str
    nodes: str
    run_time: str
    restarts: int
    exit_code: str
    comment: str = ""  # the run's directory

    @property
    def has_ended(self) -> bool:
        """Whether it will run no more."""
        return self.state in ENDED

    def __str__(self) -> str:
        more = [f"on {self.nodes}"] if self.nodes else []
        more += [f"for {self.run_time}"] if self.run_time != "00:00:00" else []
        more += [f"({self.reason})"] if self.reason else []
        more += [f"exit status {self.exit_code.partition(':')[0]}"] if self.has_ended else []
        more += [f"restarted {self.restarts} times"] if self.restarts else []
        return " ".join([f"job {self.job} ({self.name}) is {self.state}", *more])


@dataclass(frozen=True, slots=True)
class Left:
    """What a job of Slurm has left in its run's directory, for `local.failure`."""

    log: Path
    num_ranks: int
    status: int


def failure(found: State, run: Path, num_ranks: int) -> str | None:
    """What ended a job that has failed, naming the rank, its step and its last action; None if no rank has begun."""
    if not found.has_ended or found.state in {"COMPLETED", "CANCELLED", "PREEMPTED"}:
        return None
    if control.stopped_file(run).exists():  # a start of its script would have taken it away
        return (
            "It stopped with a checkpoint, and Slurm has not started it since. Launched again, it goes on from there."
        )
    if not any((run / "log").glob("rank-*.at")):
        return None
    status = found.exit_code.partition(":")[0]
    return str(local.failure(Left(run / "log", num_ranks, int(status) if status.isdecimal() else 1)))


def parse_job(text: str) -> State:
    """The state in the first line of `scontrol show job --oneliner`; JobError for what is none.

    >>> parse_job("JobId=7 JobName=headway-a b JobState=PENDING Reason=Resources Restarts=0 NodeList=(null)").state
    'PENDING'
    """
    fields: dict[str, str] = {}
    line = text.strip().partition("\n")[0]
    found = list(_FIELD.finditer(line))
    ends = [*(each.start() for each in found), len(line)]
    for each, end in zip(found, ends[1:], strict=True):
        # a value may hold what looks like a field (a comment, a path): the first of a name is Slurm's
        fields.setdefault(each[1], line[each.end() : end])
    if not {"JobId", "JobName", "JobState"} <= set(fields):
        raise JobError(f"scontrol says of the job what Headway cannot read: {line[:200]!r}.")
    known = {name: "" if value in {"(null)", "None"} else value for name, value in fields.items()}
    restarts = known.get("Restarts", "0")
    return State(
        known["JobId"],
        known["JobName"],
        known["JobState"],
        known.get("Reason", ""),
        known.get("NodeList", ""),
        known.get("RunTime", "00:00:00"),
        int(restarts) if restarts.isdecimal() else 0,
        known.get("ExitCode", "0:0"),
        known.get("Comment", "").strip(),
    )


def submit(script: str, run: Path, name: str) -> Submitted:
    """Hand a batch script to sbatch; it, and the number of its job, are kept in the run's directory."""
    folder = run / FOLDER
    folder.mkdir(exist_ok=True)
    path = folder / "job.sbatch"
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)  # its variables may be nobody else's business
    path.write_text(script, encoding="utf-8")
    said = _ask("sbatch", "--parsable", str(path)).strip()
    job = said.partition(";")[0]  # NUMBER or NUMBER;CLUSTER
    if not job.isdecimal():
        raise JobError(f"sbatch says what is no number of a job: {said[:200]!r}.")
    submitted = Submitted(job, name)
    (folder / _RECORD).write_text(json.dumps(asdict(submitted)), encoding="utf-8")
    return submitted


def submitted(run: Path) -> Submitted | None:
    """The last job that a run was handed to Slurm as; None if there was none."""
    try:
        found = Submitted(**json.loads((run / FOLDER / _RECORD).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise PlanError(f"{run / FOLDER / _RECORD} is damaged ({error}). Ask by the job's number.") from None
    return Submitted(_number(found.job), found.name)


def state(job: str) -> State | None:
    """How a job of Headway does; None if Slurm does not know it (any more). PlanError if it is not Headway's."""
    try:
        found = parse_job(_ask(*SHOW, _number(job)))
    except JobError as error:
        if _UNKNOWN in str(error):
            return None
        raise
    if not found.name.startswith(PREFIX):
        raise PlanError(f"job {job} ({found.name}) was not started by headway launch. Use Slurm's own programs.")
    return found


def cancel(job: str) -> State:
    """End a job, whether it waits or runs; how it did before. PlanError where there is none to end."""
    before = state(job)
    if before is None:
        raise PlanError(f"Slurm knows no job {job}. It may have ended long ago.")
    if before.has_ended:
        raise PlanError(f"{before}: there is nothing to cancel.")
    _ask(*CANCEL, _number(job))
    return before


def printed(run: Path, job: str) -> Path:
    """Where a job's batch script prints."""
    return Path(output(run, _number(job)))


def _number(job: str) -> str:
    if not re.fullmatch(r"[0-9]{1,10}", job):
        raise PlanError(f"{job!r} is neither a run's directory nor the number of a job.")
    return job


def _ask(*words: str) -> str:
    """What one of Slurm's programs prints; PlanError if it is not there, JobError if it fails or does not answer."""
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=ANSWERS_WITHIN,
        )
    except OSError as error:
        raise PlanError(
            f"{words[0]} cannot be started ({error.strerror}). Run this where Slurm is installed."
        ) from None
    except subprocess.TimeoutExpired:
        said = f"{words[0]} gave no answer for {ANSWERS_WITHIN} s"
        raise JobError(f"{said}. Is Slurm's controller up (scontrol ping)?") from None
    if done.returncode:
        said = " ".join(done.stderr.split()) or "it said nothing"
        raise JobError(f"{words[0]} ended with status {done.returncode}: {said}")
    return done.stdout
