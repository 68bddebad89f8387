"""The saver: writes checkpoints beside the training, complete or not at all, all ranks together."""

import base64
import contextlib
import errno
import json
import os
import pickle
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headway import checkpoints
from headway.checkpoints import Manifest
from headway.errors import FULL
from headway.train.part import Part
from headway.units import show_bytes

if TYPE_CHECKING:
    from headway.train.dcp import Written

POLLS = (0.005, 0.2)  # seconds between looks at what the other ranks say: at first, and at most


class Store(Protocol):
    """What the saver asks of the job's store (torch's, or any that behaves like it)."""

    def set(self, key: str, value: str, /) -> None:
        """Keep a value."""

    def get(self, key: str, /) -> bytes:
        """The value; waits for it."""
        ...

    def check(self, keys: list[str], /) -> bool:
        """Whether all keys have values."""
        ...

    def delete_key(self, key: str, /) -> bool:
        """Forget a value."""
        ...


@dataclass(frozen=True, slots=True)
class Saved:
    """How a save ended, known to every rank: the checkpoint of a step, or why there is none."""

    step: int
    path: str
    bytes: int = 0
    seconds: float = 0.0  # from the snapshot to its name
    error: str = ""


class Saver:
    """Writes one checkpoint at a time in a thread. All ranks begin the same ones in the same order.

    Rank 0 makes the directory, under a name that is no checkpoint's. Every rank writes and syncs its file and tells
    rank 0 through the store what is in it; when all have, rank 0 adds the metadata and the manifest, and renames the
    directory: from then on, and not before, there is a checkpoint. If anything fails on any rank, there is none.
    No collective is called, so none of this meets the training's. `keep`: how many checkpoints stay (0: all);
    `wanted`: bytes that one needs.
    """

    def __init__(
        self,
        directory: Path,
        rank: int,
        world: int,
        connect: Callable[[], Store],
        *,
        keep: int,
        wanted: int = 0,
    ) -> None:
        self.directory, self.rank, self._world, self._keep, self._wanted = directory, rank, world, keep, wanted
        self._connect, self._damaged = connect, set[str]()
        self._store: Store | None = None  # a connection of the thread's own
        self._claim: int | None = None  # rank 0's, on the directory
        self._begun = 0
        self._thread: threading.Thread | None = None
        self._ended: list[Saved] = []

    def claim(self) -> None:
        """Keep the directory from other jobs until `close`, or until the process ends; OSError where one has it."""
        if self._claim is None:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._claim = checkpoints.claim(self.directory)

    def pass_over(self, damaged: Iterable[str]) -> None:
        """Do not count checkpoints of these names among those that stay."""
        self._damaged |= set(damaged)

    @property
    def idle(self) -> bool:
        """Whether this rank is writing nothing."""
        return self._thread is None or not self._thread.is_alive()

    def begin(self, parts: Sequence[Part], made: Manifest, plan: str) -> None:
        """Begin to write; the parts belong to the saver until it is idle. Waits until the save before has ended."""
        self.wait()
        self._begun += 1
        self._thread = threading.Thread(target=self._save, args=(self._begun, parts, made, plan), daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Return when nothing is being written."""
        if self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        """Wait, and give the directory up to other jobs."""
        self.wait()
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None

    def ended(self) -> list[Saved]:
        """The saves that have ended since this was last asked."""
        found, self._ended = self._ended, []
        return found

    def _save(self, number: int, parts: Sequence[Part], made: Manifest, plan: str) -> None:
        start = time.monotonic()
        nothing, words = Saved(made.step, str(checkpoints.path_of(self.directory, made.step))), None
        try:
            self._store = self._store or self._connect()
            words = _Words(self._store, number)
            saved = self._written(words, parts, made, plan)
        except Exception as error:
            saved = replace(nothing, error=f"{type(error).__name__}: {error}")
            if words is not None:
                self._give_up(words, saved)
        self._ended.append(replace(saved, seconds=time.monotonic() - start))

    def _written(self, words: "_Words", parts: Sequence[Part], made: Manifest, plan: str) -> Saved:
        """This rank's side of a save, and how all of it ended."""
        from headway.train import dcp

        at, path = checkpoints.partial(self.directory, made.step), checkpoints.path_of(self.directory, made.step)
        if self.rank == 0:
            words.forget(self._world)
            words.say("begin", self._problem(at, lambda: self._make(at)))
        if problem := words.hear("begin"):
            return Saved(made.step, str(path), error=problem)
        mine: list[dcp.Written] = []
        problem = self._problem(at, lambda: mine.append(dcp.write(at, self.rank, parts)))
        words.say(f"rank {self.rank}", problem or _dumps(mine[0]))
        if self.rank == 0:
            told = [_loads(words.hear(f"rank {rank}")) for rank in range(self._world)]
            problem = next((each for each in told if isinstance(each, str)), "")
            ranks = [each for each in told if not isinstance(each, str)]
            done: list[Manifest] = []
            problem = problem or self._problem(at, lambda: done.append(self._finish(at, ranks, made, plan)))
            if problem:
                shutil.rmtree(at, ignore_errors=True)
            else:
                self._damaged.discard(path.name)
                with contextlib.suppress(OSError):  # of old ones there may be too many, but the new one is there
                    checkpoints.prune(self.directory, self._keep, self._damaged)
            ended = Saved(made.step, str(path), sum(each.bytes for each in done), error=problem)
            words.say("end", json.dumps(asdict(ended)))
        return Saved(**json.loads(words.hear("end")))

    def _give_up(self, words: "_Words", saved: Saved) -> None:
        """Say what the others wait for after an error that nobody has foreseen: they would wait for ever."""
        with contextlib.suppress(Exception):
            if self.rank == 0:
                words.say("begin", saved.error)
                words.say("end", json.dumps(asdict(saved)))
            else:
                words.say(f"rank {self.rank}", saved.error)

    def _make(self, at: Path) -> None:
        self.claim()
        shutil.rmtree(at, ignore_errors=True)
        at.mkdir()
        if self._wanted > shutil.disk_usage(at).free:
            shutil.rmtree(at)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _finish(self, at: Path, ranks: Sequence["Written"], made: Manifest, plan: str) -> Manifest:
        """Make a checkpoint of what all ranks have written."""
        from headway.train import dcp

        files = dcp.finish(at, ranks)
        files[checkpoints.PLAN] = checkpoints.write(at / checkpoints.PLAN, plan)
        whole = replace(made, files=files)
        checkpoints.commit(self.directory, whole)
        return whole

    def _problem(self, at: Path, do: Callable[[], object]) -> str:
        """Why something could not be done, with what would help; empty if it was."""
        try:
            do()
        except OSError as error:
            what = f"{error.filename or at} cannot be written ({error.strerror or error})"
            if error.errno not in FULL:
                return f"{what}. Name another checkpoint.directory, one that all nodes see and may write to"
            free = shutil.disk_usage(self.directory).free if self.directory.is_dir() else 0
            numbers = f"{show_bytes(self._wanted)} are wanted, {show_bytes(free)} are free"
            return f"{what}: {numbers}. Free some space there, or name another checkpoint.directory"
        except Exception as error:
            return f"{at} cannot be written ({type(error).__name__}: {error})"
        return ""


class _Words:
    """What the ranks tell each other about one save."""

    def __init__(self, store: Store, number: int) -> None:
        self._store, self._number = store, number

    def say(self, what: str, value: str) -> None:
        self._store.set(self._key(self._number, what), value)

    def hear(self, what: str) -> str:
        key, pause = self._key(self._number, what), POLLS[0]
        # asked again and again, since a wait inside the store has a time limit, and a save has none
        while not self._store.check([key]):
            time.sleep(pause)
            pause = min(2 * pause, POLLS[1])
        return self._store.get(key).decode()

    def forget(self, world: int) -> None:
        """Drop what was told about the save before the last: of the last, a rank may still read how it ended."""
        for what in ("begin", "end", *(f"rank {rank}" for rank in range(world))):
            self._store.delete_key(self._key(self._number - 2, what))

    def _key(self, number: int, what: str) -> str:
        return f"checkpoint {number} {what}"


def _dumps(written: "Written") -> str:
    # unpickled by rank 0: only the job's own ranks write into its store
    return f"={base64.b64encode(pickle.dumps(written)).decode()}"


def _loads(text: str) -> "Written | str":
    """What a rank has written, or why it could not."""
    from headway.train.dcp import Written

    if not text.startswith("="):
        return text
    found = pickle.loads(base64.b64decode(text[1:]))
    assert isinstance(found, Written)
    return found
