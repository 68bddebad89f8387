"""Corpus: the text files of a folder (or of Python's standard library) as one stream of byte tokens."""

import os
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headway.errors import PlanError

STDLIB = "stdlib"
END_OF_DOCUMENT = b"\0"


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """All documents one after another, each with a 0 byte behind it.

    `tokens`: [T] uint8, read-only. `documents`: [D + 1] int64; document i is `tokens[documents[i]:documents[i + 1]]`.
    """

    name: str
    tokens: NDArray[np.uint8]
    documents: NDArray[np.int64]

    def __str__(self) -> str:
        return f"{self.name}: {self.num_documents} documents, {len(self.tokens)} tokens"

    @property
    def num_documents(self) -> int:
        """Documents, none of them empty."""
        return len(self.documents) - 1


def load(path: str, folder_base: Path) -> Corpus:
    """The corpus at `path`: `stdlib`, a folder or a text file (relative paths start at `folder_base`).

    A folder gives every file below it that looks like text, sorted by relative path, so that all ranks read the same
    order; names that start with a dot are skipped, empty files too. `stdlib` gives the `.py` files of this Python's
    standard library without its tests; a folder of that name is `./stdlib`. Raises PlanError with the path.
    """
    try:
        return _stdlib() if path == STDLIB else _load(path, folder_base / os.path.expanduser(path))
    except OSError as error:
        raise PlanError(
            f"data.path: {error.filename} cannot be read ({error.strerror}). Make it readable, or name another path."
        ) from None


def _stdlib() -> Corpus:
    root = Path(sysconfig.get_paths()["stdlib"])
    files = [file for file in _below(root, skipped=_NOT_STDLIB) if file.suffix == ".py"]
    return _join(f"{STDLIB} ({root})", files, root)


def _load(path: str, place: Path) -> Corpus:
    if path and place.is_dir():
        return _join(str(place), _below(place), place)
    if path and place.is_file():
        return _join(str(place), [place], place)
    if path and place.exists():
        raise PlanError(f"data.path: {place} is neither a file nor a folder. Name one with text in it, or {STDLIB}.")
    what = f"there is no file or folder {place}" if path else "it is empty"
    raise PlanError(f"data.path: {what}. Name a file or folder with text in it, or {STDLIB}.")


_NOT_STDLIB = frozenset({"site-packages", "dist-packages", "__pycache__", "test", "tests", "idle_test"})
_LOOKED_AT = 8192  # bytes of a file that are searched for a NUL, as grep and git tell text from binary files


def _below(root: Path, skipped: frozenset[str] = frozenset()) -> list[Path]:
    """Regular files below `root`, sorted by relative path."""
    found = []
    for folder, names, files in os.walk(root, onerror=_raise):
        names[:] = [name for name in names if not name.startswith(".") and name not in skipped]
        paths = (Path(folder, name) for name in files if not name.startswith("."))
        found += [path for path in paths if path.is_file()]
    return sorted(found, key=lambda path: path.relative_to(root).as_posix())


def _join(name: str, files: Iterable[Path], place: Path) -> Corpus:
    stream, ends = bytearray(), [0]
    for text in _texts(files):
        stream += text
        stream += END_OF_DOCUMENT
        ends.append(len(stream))
    if not stream:
        raise PlanError(
            f"data.path: {place} has no text in it (only files with at least one byte and no NUL byte in the first "
            f"{_LOOKED_AT} count). Name a file or folder with text in it, or use {STDLIB}."
        )
    tokens = np.frombuffer(stream, np.uint8)
    tokens.flags.writeable = False
    return Corpus(name, tokens, np.array(ends, np.int64))


def _texts(files: Iterable[Path]) -> Iterator[bytes]:
    for file in files:
        content = file.read_bytes()
        if content and b"\0" not in content[:_LOOKED_AT]:
            yield content


def _raise(error: OSError) -> None:
    raise error  # os.walk leaves out what it cannot list, unless told otherwise
