"""Corpus: documents of tokens, from the text files of a folder (or the standard library) or from a token file."""

import os
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.data import indexed
from headway.errors import PlanError

STDLIB = "stdlib"
END_OF_DOCUMENT = b"\0"


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """All documents one after another: the bytes of texts, each with a 0 behind it, or `prepared` tokens as they are.

    `tokens`: [T], read-only: uint8, or the token file itself (mapped, not copied) in its own type. `documents`:
    [D + 1] int64; document i is `tokens[documents[i]:documents[i + 1]]`.
    """

    name: str
    tokens: NDArray[np.integer[Any]]
    documents: NDArray[np.int64]
    prepared: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.num_documents} documents, {len(self.tokens)} tokens"

    @property
    def num_documents(self) -> int:
        """Documents, none of them empty."""
        return len(self.documents) - 1


def load(path: str, folder_base: Path) -> Corpus:
    """The corpus at `path`: a token file (see `indexed`), or what `text_files` says (both relative to `folder_base`).

    A token file is named by its prefix, its `.idx` or its `.bin`. Raises PlanError with the path, also where both a
    prefix and a folder have that name (a run's directory made beside the pair must not become what is trained on).
    """
    try:
        prefix = None if path in {STDLIB, ""} or path.endswith("/") else indexed.prefix_of(_place(path, folder_base))
        if prefix is not None:
            if not path.endswith((".idx", ".bin")) and prefix.is_dir():
                raise PlanError(f"data.path: {path} is a folder and a token file. Name {path}/ or {path}.idx.")
            return _prepared(indexed.read(prefix))
        name, files = text_files(path, folder_base)
        return _join(name, files)
    except OSError as error:
        raise PlanError(
            f"data.path: {error.filename} cannot be read ({error.strerror}). Make it readable, or name another path."
        ) from None


def text_files(path: str, folder_base: Path) -> tuple[str, list[Path]]:
    """What `path` is called, and its files: those of `stdlib` or of a folder, or the one file that it names.

    A folder gives every file below it, sorted by relative path, so that all ranks read the same order; names that start
    with a dot are skipped. `stdlib` gives the `.py` files of this Python's standard library without its tests; a folder
    of that name is `./stdlib`. Raises PlanError with the path where there is nothing.
    """
    place = _place(path, folder_base)
    if path == STDLIB:
        root = Path(sysconfig.get_paths()["stdlib"])
        return f"{STDLIB} ({root})", [file for file in _below(root, skipped=_NOT_STDLIB) if file.suffix == ".py"]
    if path and place.is_dir():
        return str(place), _below(place)
    if path and place.is_file():
        return str(place), [place]
    if path and place.exists():
        raise PlanError(f"data.path: {place} is neither a file nor a folder. Name one with text in it, or {STDLIB}.")
    what = f"there is no file or folder {place}" if path else "it is empty"
    raise PlanError(f"data.path: {what}. Name a file or folder with text in it, or {STDLIB}.")


def text(file: Path) -> bytes | None:
    """The bytes of a file; None where it is empty or does not look like text."""
    content = file.read_bytes()
    return content if content and b"\0" not in content[:_LOOKED_AT] else None


def no_text(where: str) -> PlanError:
    """The error of a path without any text."""
    return PlanError(
        f"{where} has no text in it (only files with at least one byte and no NUL byte in the first {_LOOKED_AT} "
        f"count). Name a file or folder with text in it, or use {STDLIB}."
    )


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


def _place(path: str, folder_base: Path) -> Path:
    return folder_base / os.path.expanduser(path)


def _prepared(file: indexed.Indexed) -> Corpus:
    if file.tokens.dtype.kind == "f":
        raise PlanError(f"data.path: {file.prefix} holds {file.tokens.dtype}, but tokens are whole numbers.")
    bounds = file.document_bounds()
    bounds = bounds[np.diff(bounds, prepend=-1) > 0]  # without empty documents
    if len(bounds) < 2:
        raise PlanError(f"data.path: {file.prefix} holds no tokens. Prepare it from files with text in them.")
    return Corpus(str(file.prefix), file.tokens, bounds, prepared=True)


def _join(name: str, files: Iterable[Path]) -> Corpus:
    stream, ends = bytearray(), [0]
    for content in filter(None, map(text, files)):
        stream += content
        stream += END_OF_DOCUMENT
        ends.append(len(stream))
    if not stream:
        raise no_text(f"data.path: {name}")
    tokens = np.frombuffer(stream, np.uint8)
    tokens.flags.writeable = False
    return Corpus(name, tokens, np.array(ends, np.int64))


def _raise(error: OSError) -> None:
    raise error  # os.walk leaves out what it cannot list, unless told otherwise
