"""A job on this machine: torchrun's agent as a subprocess, and who ended the job if it failed."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Protocol

from headway import env
from headway.errors import HeadwayError, JobError, PlanError

TOLD_TO_STOP = "told-to-stop"  # in the run's log/: the agent starts no attempt any more
START = "start"  # where a rank is before its first step
AGENT_GRACE = 30  # seconds that SIGTERM to the agent leaves workers for the end of their step; torchrun's default


class Left(Protocol):
    """What a job has left, wherever its processes were: enough to say what ended it."""

    @property
    def log(self) -> Path:
        """Where the run's output is."""
        ...

    @property
    def num_ranks(self) -> int:
        """Ranks of all hosts together."""
        ...

    @property
    def status(self) -> int:
        """The exit status of what ended first with one; 0 if nothing did."""
        ...


class Job(Left, Protocol):
    """A job under way, wherever its processes are."""

    @property
    def running(self) -> bool:
        """Whether anything of it has not ended yet."""
        ...

    @property
    def asked_to_stop(self) -> bool:
        """Whether it has ended because a signal asked it to; its workers got to the end of their step."""
        ...

    @property
    def num_restarts(self) -> int:
        """Attempts that have failed and were followed by another."""
        ...

    def interrupt(self) -> None:
        """Ask every worker to stop at the end of its step, and wait for that."""

    def end(self) -> None:
        """End the job now: nobody gets to the end of a step."""

    def failure(self) -> HeadwayError:
        """What ended the job."""
        ...


@dataclass(frozen=True, slots=True)
class Started:
    """A running job on this machine, and where its files go."""

    process: subprocess.Popen[bytes]
    directory: Path
    num_ranks: int

    @property
    def running(self) -> bool:
        """Whether the agent has not ended yet."""
        return self.process.poll() is None

    @property
    def status(self) -> int:
        """The agent's exit status."""
        return self.process.returncode or 0

    @property
    def asked_to_stop(self) -> bool:
        """Whether the agent has ended because a signal asked it to; its workers got to the end of their step."""
        return self.process.returncode in {128 + signal.SIGINT, 128 + signal.SIGTERM}

    @property
    def num_restarts(self) -> int:
        """Attempts that have failed and were followed by another."""
        return num_restarts(self.log)

    @property
    def log(self) -> Path:
        """Where the run's output is."""
        return self.directory / "log"

    def interrupt(self) -> None:
        """Ask every worker to stop at the end of its step, and wait for that, however long the step is.

        A job that has not started its workers yet ends at once.
        """
        start_no_more(self.log)
        asked: set[int] = set()
        while self.running:
            workers = set(env.children(self.process.pid))
            for pid in workers - asked:
                _signal(pid, signal.SIGINT)
            asked |= workers
            if not asked:
                self.process.terminate()
            time.sleep(0.1)

    def end(self) -> None:
        """End the job now: nobody gets to the end of a step."""
        start_no_more(self.log)
        for pid in env.children(self.process.pid):
            _signal(pid, signal.SIGKILL)
        self.process.terminate()
        try:
            self.process.wait(timeout=AGENT_GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()  # its workers end when it is gone

    def failure(self) -> HeadwayError:
        """What ended the job; see `failure`."""
        return failure(self)


def start(directory: Path, num_ranks: int, max_restarts: int = 0) -> Started:
    """Start `num_ranks` workers on the plan in `directory`. They do not see this terminal's Ctrl-C (see `interrupt`).

    If one dies, all are started again, `max_restarts` times at most, and go on from the last complete checkpoint. From
    now on SIGTERM is a KeyboardInterrupt of this process too, so that it does not leave its workers alone.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    command = agent(sys.executable, directory, num_ranks, max_restarts, str(os.getpid()))
    log = directory / "log"
    log.mkdir(parents=True, exist_ok=True)
    variables = env.for_workers() | {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(AGENT_GRACE)}
    with (log / "agent.log").open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=variables, start_new_session=True
        )
    return Started(process, directory, num_ranks)


def agent(python: str, directory: PurePath, num_ranks: int, max_restarts: int, leash: str) -> tuple[str, ...]:
    """The command that starts a host's `num_ranks` workers on the plan in `directory`; its end is the host's.

    It ends with its `leash`: a process id, `parent`, or `stdin` (train/agent.py).
    """
    return (python, "-m", "headway.train.agent", str(directory), str(num_ranks), str(max_restarts), leash)


def num_restarts(log: Path) -> int:
    """Attempts that have failed and were followed by another, by what they have left."""
    return sum(path.suffix == "" for path in log.glob("attempt-*"))


def at_start(log: Path) -> bool:
    """Whether the job's workers are still about to join each other, which they all do before any begins a step."""
    return (_text(log / "rank-0.at") or START).startswith(START)


def clear(directory: Path) -> None:
    """Take away what an earlier start of the run has left and what a new one would be mistaken for."""
    log = directory / "log"
    for name in ("failures*.json", "hang.json", TOLD_TO_STOP, "rank-*", "attempt-*"):
        for path in log.glob(name):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    (directory / "summary.json").unlink(missing_ok=True)


def ended_itself(job: Job) -> bool:
    """Whether a rank has ended the job for a reason of its own: a save that failed, a loss that is no number."""
    reports = map(_read_json, job.log.glob("rank-*.error.json"))
    return any(report.get("explained") and not report["lost_peer"] for report in reports)


def failure(job: Left, attempt: int | None = None) -> HeadwayError:
    """What ended the job (or an attempt that was followed by another), naming the rank, its step and its last action.

    A PlanError if the workers refused the plan. The first cause is a hang that a worker reported before it ended the
    job, else a rank that vanished, else one that failed by itself, else one that lost a peer.
    """
    log = job.log if attempt is None else job.log / f"attempt-{attempt}"
    hang = _read_json(log / "hang.json")
    return JobError(hang["text"]) if hang else _first_to_fail(job, log)


def _first_to_fail(job: Left, log: Path) -> HeadwayError:
    exits: dict[str, Any] = {}
    for each in sorted(log.glob("failures*.json")):  # one of each node
        exits |= _read_json(each)
    reports = {rank: _read_json(log / f"rank-{rank}.error.json") for rank in range(job.num_ranks)}
    vanished = [int(rank) for rank, each in exits.items() if not reports[int(rank)] and each["exitcode"]]
    failed = [rank for rank, report in reports.items() if report and not report["lost_peer"]]
    lost = [rank for rank, report in reports.items() if report and report["lost_peer"]]
    if vanished:
        rank = min(vanished, key=lambda r: exits[str(r)]["exitcode"] == -signal.SIGTERM)
        at = _text(log / f"rank-{rank}.at") or START
        return JobError(f"rank {rank} {_ended(exits[str(rank)]['exitcode'])} at {at}. {_logs(job.log, rank)}")
    if failed:
        report = reports[failed[0]]
        if report["status"] == PlanError.exit_status:
            return PlanError(report["error"])
        also = f" (ranks {', '.join(map(str, failed))} alike)" if len(failed) > 1 else ""
        return JobError(f"rank {failed[0]} failed at {report['at']}: {report['error']}{also}")
    if lost:
        report = reports[lost[0]]
        return JobError(f"rank {lost[0]} lost a peer at {report['at']}: {report['error']}. {_logs(job.log, lost[0])}")
    return _unexplained(job, log)


def _unexplained(job: Left, log: Path) -> JobError:
    """No rank has left a word: the agent was killed, or the disk is full, or nothing has started."""
    status, at = job.status, _text(log / "rank-0.at")  # which has its room on the disk
    if not at:
        said = job.log / "agent.log"  # of one host; several have a file each
        return JobError(f"the workers did not start (status {status}). See {said if said.exists() else job.log}.")
    if status < 0:
        return JobError(f"the launcher {_ended(status)}, and its workers ended; rank 0 was at {at}.")
    return JobError(f"the workers ended with status {status}; rank 0 was at {at}")


def start_no_more(log: Path) -> None:
    """Tell agents that they are to start no attempt any more."""
    with contextlib.suppress(OSError):  # a full disk: what is started is told to stop as well
        (log / TOLD_TO_STOP).touch()


def _ended(exitcode: int) -> str:
    if exitcode < 0:
        return f"was killed by {signal.Signals(-exitcode).name}"
    return f"ended with status {exitcode}"


def _logs(log: Path, rank: int) -> str:
    found = sorted(log.glob(f"*/attempt_0/{rank}/stderr.log"), key=lambda path: path.stat().st_mtime)
    return f"Its output is in {found[-1] if found else log}."


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _read_json(path: Path) -> dict[str, Any]:
    """What a process of the job has left in a file; nothing, if that is not there or not whole (a full disk)."""
    try:
        found: dict[str, Any] = json.loads(_text(path))
    except ValueError:
        return {}
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()  # a cut line may end within a character
    except OSError:
        return ""
