"""The watchdog of a rank: sees that it stands still, lays all ranks' positions together and ends a job that hangs."""

import contextlib
import itertools
import json
import os
import queue
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from headway import env
from headway.plan.plan import Plan
from headway.train.hang import Position, Standstill
from headway.train.pulse import START_LIMIT, MappedLine, Pulse

REPORT = "hang.json"  # in the run's log/: {text, causes, silent, positions}
ANSWER = 1.0  # seconds that the store may take; then the files of the run directory have to do
PATIENCE = 5.0  # seconds that another rank may take to write the report that it has begun
EASY = 64  # ranks of which each may look at all others at every tick without loading the store
SILENCE = 0.4  # share of hang_after without a word that makes a rank a silent one
SIZE, SIZE_PER_RANK = 1024, 8  # bytes of a position's file, and of a rank's number in it


class Store(Protocol):
    """What the watchdog asks of the job's store (torch's, or any that behaves like it)."""

    def set(self, key: str, value: str, /) -> None:
        """Keep a value."""

    def get(self, key: str, /) -> bytes:
        """The value; waits for it."""
        ...

    def multi_get(self, keys: list[str], /) -> list[bytes]:
        """Their values, in one answer."""
        ...

    def check(self, keys: list[str], /) -> bool:
        """Whether all keys have values."""
        ...

    def add(self, key: str, value: int, /) -> int:
        """Count up; the new count."""
        ...


class Watch:
    """Watches while it is entered, by two threads that go on while the main one sits in gloo or in a save.

    One compares the rank's pulse with its limit at every tick, judges and ends; it never blocks. The other talks to
    the store (`connect` gives a connection of its own), which may hang with the job: then what the ranks of this node
    keep in the run directory has to do.
    """

    def __init__(self, plan: Plan, rank: int, pulse: Pulse, connect: Callable[[], Store]) -> None:
        self.pulse = pulse
        self._plan, self._rank, self._connect = plan, rank, connect
        self._ranks = range(plan.layout.world)
        pulse.limit = max(START_LIMIT, plan.train.hang_after)
        self._tick = min(max(plan.train.hang_after / 20, 0.1), 5.0)
        self._host, self._beats = socket.gethostname(), itertools.count(1)
        self._log: Path | None = None  # the run's, once it is known
        self._file: MappedLine | None = None
        self._heard: dict[int, tuple[Position, float]] = {}  # with the time when its beat was first seen
        self._questions: queue.SimpleQueue[tuple[Callable[[Store], None], threading.Event]] = queue.SimpleQueue()
        self._over, self._lock = threading.Event(), threading.Lock()
        self._position = self._now()
        self._claimed: float | None = None  # when this rank first had a report to write
        self._report: dict[str, Any] | None = None
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._watch, self._talk)]

    def __enter__(self) -> "Watch":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None:
            self._beat(ended=True)
        self._ask(self._say)  # said and heard once more: a peer may be lost because it left with a report
        if error is not None and self._report:
            self._leave(self._report)
        self._over.set()
        self._questions.put((lambda _: None, threading.Event()))  # wakes the talking thread
        for thread in self._threads:
            thread.join(timeout=ANSWER)

    def joined(self, directory: Path) -> None:
        """All ranks are there and know the run's directory."""
        self._log = directory / "log"
        self._file = MappedLine(self._log / f"rank-{self._rank}.position", SIZE + SIZE_PER_RANK * len(self._ranks))
        self._beat()  # at once: whoever is stopped before its next tick is known by this alone, and where to kill it

    def started(self) -> None:
        """This rank is ready for its first step: from now on it may stand still for hang_after seconds."""
        self.pulse("start", "ready")
        self.pulse.limit = self._plan.train.hang_after

    @contextlib.contextmanager
    def saving(self, what: str) -> Iterator[None]:
        """Inside, this rank may take as long as it takes, and so may those that wait for it."""
        limit, self.pulse.limit = self.pulse.limit, None
        self.pulse(self.pulse.what, what)
        self._beat()
        self._ask(self._say)  # at once: a save may keep Python's lock for minutes
        try:
            yield
        finally:
            self.pulse(self.pulse.what, f"{what}: done")
            self.pulse.limit = limit
            self._beat()
            self._ask(self._say)  # or a rank that is stopped right behind a save would be excused for ever

    def _watch(self) -> None:
        look_at = 0.0
        while not self._over.wait(self._tick):
            if self._report:
                self._leave(self._report)
            self._beat()
            age, limit = self._position.age, self._position.limit
            if limit is None or age < limit / 2:
                look_at = (limit or 0.0) / 2
            elif age >= look_at:
                self._look()
                look_at = limit if age < limit else age + self._tick * max(1.0, len(self._ranks) / EASY)
                if age >= limit:
                    self._judge(SILENCE * limit)

    def _beat(self, *, ended: bool = False) -> None:
        with self._lock:
            self._position = self._now(ended=ended or self._position.ended)
            if self._file is not None:
                self._file.write(_dumps(self._position))

    def _now(self, *, ended: bool = False) -> Position:
        pulse = self.pulse
        awaited, peers = pulse.awaited or ("", ())
        age, beat = time.monotonic() - pulse.since, next(self._beats)
        here = (self._rank, self._host, os.getpid(), pulse.turn, pulse.what, pulse.operation, awaited, peers)
        return Position(*here, age, pulse.limit, beat, ended)

    def _look(self) -> None:
        """Read where the others are."""
        found: list[Position] = []

        def read(store: Store) -> None:
            keys = [_key(rank) for rank in self._ranks]
            there = keys if store.check(keys) else [key for key in keys if store.check([key])]
            found.extend(map(_loads, store.multi_get(there)))

        if not self._ask(read):
            found = self._from_files()
        now = time.monotonic()
        for position in found:
            known = self._heard.get(position.rank)
            if known is None or known[0].beat < position.beat:
                self._heard[position.rank] = (position, now)

    def _from_files(self) -> list[Position]:
        found = []
        for path in self._log.glob("rank-*.position") if self._log else ():
            with contextlib.suppress(OSError, ValueError):  # not written yet, or just being written
                found.append(_loads(path.read_bytes()))
        return found

    def _judge(self, silence: float) -> None:
        """End the job if it hangs. Who has not said a word for `silence` seconds is silent."""
        now = time.monotonic()
        self._heard[self._rank] = (self._now(), now)
        silent = {rank: now - at for rank, (its, at) in self._heard.items() if now - at >= silence and not its.ended}
        positions = {rank: self._exact(its) if rank in silent else its for rank, (its, _) in self._heard.items()}
        found = Standstill(self._plan, positions, silent)
        if not found.causes:
            return
        self._claimed = self._claimed or now
        count: list[int] = []
        answered = self._ask(lambda store: count.append(store.add("reporter", 1)))
        if answered and count[0] != 1 and now - self._claimed < PATIENCE:
            return  # another rank writes it
        text = str(found)
        if not answered:
            text += f"\nThe job's store does not answer: this is what rank {self._rank} and the run's directory know."
        gone = [[positions[rank].host, positions[rank].pid] for rank in silent]
        known = [asdict(each) for each in positions.values()]
        report = {"text": text, "causes": found.causes, "silent": gone, "positions": known}
        self._write(report)
        self._ask(lambda store: store.set("report", json.dumps(report)))
        self._leave(report)

    def _exact(self, its: Position) -> Position:
        """With what a silent rank's file says that it does, if it can be read: its last word may be a tick older."""
        if self._log is not None:
            with contextlib.suppress(OSError, ValueError):
                line = (self._log / f"rank-{its.rank}.at").read_text(encoding="utf-8")
                what, operation = line.strip().split(" · ")
                return replace(its, what=what, operation=operation)
        return its

    def _write(self, report: dict[str, Any]) -> None:
        """To the run's directory, unless it has one already, and to stderr."""
        if self._log is not None:
            try:
                with (self._log / REPORT).open("x", encoding="utf-8") as file:
                    json.dump(report, file, indent=1)
            except FileExistsError:
                return
            except OSError:
                pass  # a full disk: it is on stderr too
        text = f"Error: {report['text']}\n".encode()
        # in a thread of its own, since a pipe that nobody reads would stop this one
        writer = threading.Thread(target=os.write, args=(2, text), daemon=True)
        writer.start()
        writer.join(ANSWER)

    def _leave(self, report: dict[str, Any]) -> None:
        """End this process, and the silent ones beside it: one that is stopped heeds nothing but SIGKILL."""
        for host, pid in report["silent"]:
            if host == self._host and pid != os.getpid() and env.parent(pid) == os.getppid():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        os._exit(1)

    def _ask(self, question: Callable[[Store], None]) -> bool:
        """Have the talking thread do this; whether it has answered in time."""
        answered = threading.Event()
        self._questions.put((question, answered))
        return answered.wait(min(ANSWER, 4 * self._tick))

    def _talk(self) -> None:
        with contextlib.suppress(RuntimeError):  # nobody keeps the store, or no longer
            store = self._connect()
            while not self._over.is_set():
                self._say(store)
                with contextlib.suppress(queue.Empty):
                    question, answered = self._questions.get(timeout=self._tick)
                    question(store)
                    answered.set()

    def _say(self, store: Store) -> None:
        """Tell where this rank is, and hear of a report."""
        store.set(_key(self._rank), _dumps(self._position))
        if self._report is None and store.check(["report"]):
            self._report = json.loads(store.get("report"))


def _key(rank: int) -> str:
    return f"rank {rank}"


def _dumps(position: Position) -> str:
    return json.dumps(asdict(position))


def _loads(text: bytes) -> Position:
    fields = json.loads(text)
    return Position(**{**fields, "peers": tuple(fields["peers"])})
