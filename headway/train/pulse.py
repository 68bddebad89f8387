"""Where a rank is: what it does or waits for, since when and how long that may take, kept as it goes."""

import mmap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

SIZE = 256
START_LIMIT = 300.0  # seconds that the start may stand still at least: machines join, import and read one after another
Awaited = tuple[str, tuple[int, ...]]  # an operation (or another thing's name), and the ranks that it is done with


class MappedLine:
    """A file of one line that is rewritten without a system call, and outlives the process that writes it."""

    def __init__(self, path: Path, size: int) -> None:
        self._size = size - 1
        path.write_bytes(b" " * self._size + b"\n")
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), size)

    def write(self, text: str) -> None:
        """Put `text` in place of what the line said, cut at its size."""
        self._map[: self._size] = text.encode()[: self._size].ljust(self._size)


class Pulse:
    """Told by the main thread before every operation and around every wait, read by the watchdog's thread.

    All ranks go through the same turns in the same order: a turn is one play of a row, or one thing around the plays,
    and has a name of its own (`step 12`). `write_to` keeps the line `step 12 · 1F3` in a mapped file too, which
    outlives the process. Nothing here costs a system call.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.turn, self.what, self.operation = 0, "start", "starting"
        self.awaited: Awaited | None = None
        self.since = clock()
        self.waited = 0.0  # seconds of all waits that have ended
        self.limit: float | None = START_LIMIT  # seconds that it may stand still; None: as long as it takes
        self._line: MappedLine | None = None

    def write_to(self, path: Path) -> None:
        """Keep the line in this file from now on."""
        self._line = MappedLine(path, SIZE)
        self(self.what, self.operation)

    def __call__(self, what: str, operation: str) -> None:
        """The rank is about to do this; another `what` than before begins another turn."""
        if what != self.what:
            self.turn, self.what = self.turn + 1, what
        self.operation, self.since = operation, self._clock()
        if self._line is not None:
            self._line.write(f"{what} · {operation}")

    def wait(self, awaited: Awaited | None) -> None:
        """The rank is about to wait for this, or has ended waiting (None). Both are progress."""
        now = self._clock()
        if self.awaited is not None:
            self.waited += now - self.since
        self.awaited, self.since = awaited, now

    @contextmanager
    def waiting(self, thing: str, ranks: tuple[int, ...]) -> Iterator[None]:
        """Inside, the rank waits for `thing`, which it does together with `ranks`."""
        self.wait((thing, ranks))
        try:
            yield
        finally:
            self.wait(None)
