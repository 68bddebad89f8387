"""What a rank is doing right now, in a small mapped file that outlives it."""

import mmap
from pathlib import Path

SIZE = 128


class Pulse:
    """A file of one line, rewritten before every operation: `step 12 · 1F3`. It costs no system call."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(b" " * (SIZE - 1) + b"\n")
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), SIZE)

    def __call__(self, what: str, operation: str) -> None:
        """Write what the rank is about to do."""
        line = f"{what} · {operation}".encode()[: SIZE - 1]
        self._map[: SIZE - 1] = line.ljust(SIZE - 1)
