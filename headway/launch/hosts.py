"""A job on several hosts: their agents as subprocesses of this one, started together and ended when one fails."""

import contextlib
import errno
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from headway import env
from headway.errors import HeadwayError, JobError, PlanError
from headway.launch import local
from headway.launch.environment import Variables
from headway.launch.remedies import NOT_THERE, remedy
from headway.units import Seconds

Show = Callable[[str, str], None]  # is told each line that a host says

# the agent's first line (train/agent.py); what a login script says may lack its own end of line
ANSWER = re.compile(rb"(.*)headway: agent (\d+) on ")
PEERS = Seconds(15.0)  # that hosts have, once one has failed, to find that out by themselves and say where they were
ENDED_WITHIN = Seconds(25.0)  # after their stdin is closed: 8 s for their step, 8 s more for what SIGTERM does not end
KILLED_WITHIN = Seconds(15.0)
TAIL = 6  # last lines of a host that an error repeats
LONGEST = 4096  # bytes: what is said without an end of line is taken in pieces
AT_ONCE = 64  # hosts that are killed side by side


@dataclass(frozen=True, slots=True)
class Command:
    """What this machine runs to start a host's agent: `words`, with `environment` beside its own, in `directory`.

    `first` goes to stdin before all else. `kill` gives the words that end the agent with a process id (0: it has told
    none) from outside, where closing its stdin has not; none if there are no such words.
    """

    host: str
    words: tuple[str, ...]
    environment: Variables = ()
    directory: str | None = None
    first: bytes = b""
    kill: Callable[[int], tuple[str, ...]] | None = None


class _Host:
    """A command under way, and what it has said."""

    def __init__(self, command: Command, log: Path, show: Show) -> None:
        self.command, self.agent, self.tail = command, 0, deque[str](maxlen=TAIL)
        variables = {**env.for_workers(), **dict(command.environment)}
        try:
            with contextlib.ExitStack() as opened:
                file = opened.enter_context(log.open("ab"))
                self.process = subprocess.Popen(
                    command.words,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env=variables,
                    cwd=command.directory,
                    start_new_session=True,
                )
                opened.pop_all()  # the reader closes it
        except OSError as error:
            raise _not_started(command, error) from None
        self.say(command.first)
        self.reader = threading.Thread(target=self._read, args=(file, show), daemon=True)
        self.reader.start()

    @property
    def name(self) -> str:
        return self.command.host

    @property
    def status(self) -> int | None:
        """The exit status; None while it runs."""
        return self.process.poll()

    def say(self, words: bytes) -> None:
        """Write to the agent's stdin, if anybody reads there."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self.process.stdin.write(words)
            self.process.stdin.flush()

    def let_go(self) -> None:
        """Close the agent's stdin, which ends it."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self.process.stdin.close()

    def last(self) -> str:
        """The last line that it has said, once all of it is read; docker's comes before a hint to its help."""
        self.reader.join(timeout=1.0)
        said = [line for line in self.tail if not line.startswith("Run 'docker ")]
        return said[-1] if said else "it said nothing"

    def _read(self, log: BinaryIO, show: Show) -> None:
        """To the end, whatever becomes of what is read: a host that nobody reads stands still when the pipe is full."""
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for said in iter(partial(output.readline, LONGEST), b""):
                line = said
                if not self.agent and (answer := ANSWER.match(said)):
                    self.agent, line = int(answer[2]), answer[1]
                with contextlib.suppress(OSError):  # a full disk
                    log.write(line)
                    log.flush()
                text = "".join(sign if sign.isprintable() else " " for sign in line.decode(errors="replace")).strip()
                if text:
                    self.tail.append(text)
                    with contextlib.suppress(OSError):  # nobody reads there any more
                        show(self.name, text)
        with contextlib.suppress(OSError):
            log.close()


class Hosts:
    """A running job on several hosts; a `local.Job`."""

    def __init__(self, hosts: Sequence[_Host], directory: Path, num_ranks: int) -> None:
        self.log, self.num_ranks = directory / "log", num_ranks
        self._hosts = hosts
        self._first: _Host | None = None  # to end with a status that is not 0
        self._doubts: list[str] = []
        self._over = threading.Event()
        self._told = self._ending = False
        self._guard = threading.Thread(target=self._watch, daemon=True)

    @property
    def running(self) -> bool:
        """Whether a host's command has not ended yet, or is being ended."""
        return not self._over.is_set()

    @property
    def status(self) -> int:
        """The exit status of the first that did not end well; 0 if all did."""
        return (self._first.status or 0) if self._first else 0

    @property
    def num_restarts(self) -> int:
        """Attempts that have failed and were followed by another; an agent that is alone starts them."""
        return local.num_restarts(self.log)

    @property
    def asked_to_stop(self) -> bool:
        """Whether a signal has ended an agent, and that host's and the others' workers got to the end of their step."""
        return self.status in {128 + signal.SIGINT, 128 + signal.SIGTERM}

    def begin(self, answer_within: Seconds) -> None:
        """Wait until every host has started its agent, and watch them from then on; JobError if one does not."""
        until = time.monotonic() + answer_within
        while any(not host.agent and host.status is None for host in self._hosts) and time.monotonic() < until:
            time.sleep(0.05)
        for host in self._hosts:
            if host.status is not None:  # it may have ended before its answer was read
                host.reader.join(timeout=1.0)
        missing = [host for host in self._hosts if not host.agent]
        if missing:
            lines = [f"{host.name}: {_why_missing(host, answer_within)}" for host in missing]
            self.end()
            count = f"{len(missing)} of {len(self._hosts)} hosts did" if len(self._hosts) > 1 else "the host did"
            raise JobError("\n  ".join([f"{count} not start, so nothing runs:", *lines, *self._doubts]))
        self._guard.start()

    def interrupt(self) -> None:
        """Ask every worker to stop at the end of its step, and wait for that, however long the step is."""
        self._told = True
        local.start_no_more(self.log)
        for host in self._hosts:
            host.say(b"stop\n")
        while self.running:
            time.sleep(0.1)

    def end(self) -> None:
        """End the job now, on every host: nobody gets to the end of a step."""
        self._told = self._ending = True
        local.start_no_more(self.log)
        for host in self._hosts:
            host.say(b"kill\n")
            host.let_go()
        self._wait(ENDED_WITHIN)
        deaf = [host for host in self._hosts if host.status is None]
        if deaf:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(self._kill, deaf))
        for host in self._hosts:
            host.reader.join(timeout=1.0)
        self._over.set()

    def failure(self) -> HeadwayError:
        """What ended the job: a host that was lost, or what its ranks have left; see `local.failure`."""
        first, doubts = self._first, "".join(f"\n{doubt}" for doubt in self._doubts)
        if first and (first.status == NOT_THERE or self.status < 0):
            others = ", ".join(host.name for host in self._hosts if host is not first)
            why = first.last() if self.status > 0 else f"its agent was killed by {signal.Signals(-self.status).name}"
            ended = f", and the job was ended on {others}" if others else ""
            return JobError(
                f"host {first.name} was lost ({why}){ended}. Start the job again when it is back: with a fixed "
                f"run.directory, or with --resume, it goes on from its last checkpoint.{doubts}"
            )
        found = local.failure(self)
        if first and not any(self.log.glob("rank-*")) and not any(self.log.glob("failures*.json")):
            found = JobError(f"host {first.name} ended with status {first.status} before its workers: {first.last()}")
        return type(found)(f"{found}{doubts}") if doubts else found

    def _watch(self) -> None:
        """Until all have ended; once one fails, the rest have a while to end by themselves."""
        failed_at: float | None = None
        while any(host.status is None for host in self._hosts):
            time.sleep(0.05)
            if failed_at is None:
                self._first = next((host for host in self._hosts if host.status), None)
                failed_at = time.monotonic() if self._first else None
            elif time.monotonic() - failed_at > PEERS and not self._ending and not self._saving():
                self.end()
                return
        self._first = self._first or next((host for host in self._hosts if host.status), None)
        for host in self._hosts:
            host.let_go()
            host.reader.join(timeout=1.0)
        self._over.set()

    def _saving(self) -> bool:
        """Whether workers that are told to stop have something to save; before their first step they have nothing."""
        return self._told and not local.at_start(self.log)

    def _wait(self, seconds: Seconds) -> None:
        until = time.monotonic() + seconds
        while any(host.status is None for host in self._hosts) and time.monotonic() < until:
            time.sleep(0.05)

    def _kill(self, host: _Host) -> None:
        """End the agent's process group from outside, then the command here."""
        said = "it never said its process id"
        words = host.command.kill(host.agent) if host.command.kill else ()
        if words:
            try:
                subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=KILLED_WITHIN, check=True)
                said = ""
            except (OSError, subprocess.SubprocessError) as error:
                said = f"{words[0]} could not end its agent {host.agent}: {error}"
        if said and host.command.kill:
            self._doubts.append(f"host {host.name} did not confirm its end ({said}). Look there before starting again.")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(host.process.pid, signal.SIGKILL)
        host.process.wait()


def check(command: Command) -> None:
    """Raise PlanError if this machine lacks the directory or the program of a command."""
    directory, program = Path(command.directory or "."), command.words[0]
    if not directory.is_dir():
        raise PlanError(f"there is no directory {directory} here. Make it, or name another with --workdir.")
    where = directory / program if os.sep in program else program
    if not shutil.which(where):
        raise _not_started(command, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))


def start(commands: Sequence[Command], directory: Path, num_ranks: int, show: Show, answer_within: Seconds) -> Hosts:
    """The job whose hosts `commands` start, once every host has answered.

    What a host says goes to `log/host-N.log` and `show`. Raises JobError, and leaves nothing running, if one does not
    answer in time. From now on SIGTERM is a KeyboardInterrupt of this process too.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    log = directory / "log"
    log.mkdir(parents=True, exist_ok=True)
    started: list[_Host] = []
    job = Hosts(started, directory, num_ranks)
    try:
        for number, command in enumerate(commands):
            started.append(_Host(command, log / f"host-{number}.log", show))
        job.begin(answer_within)
    except BaseException:
        if job.running:
            job.end()
        raise
    return job


def _not_started(command: Command, error: OSError) -> PlanError:
    remedy = "Install it"
    if error.errno in {errno.EMFILE, errno.ENFILE}:
        remedy = "Raise the limit on open files (ulimit -n): each host takes 3"
    return PlanError(f"{command.words[0]} cannot be started here ({error.strerror}). {remedy}.")


def _why_missing(host: _Host, within: Seconds) -> str:
    if host.status is None:
        return f"no answer for {within:g} s"
    if host.status == NOT_THERE:
        return f"ssh ended with status {NOT_THERE}: {host.last()}{remedy(NOT_THERE, host.last())}"
    return f"ended with status {host.status}: {host.last()}{remedy(host.status, host.last())}"
