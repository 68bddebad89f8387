"""Preparing: text files through a tokenizer into a token file, and what a token file holds."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.data import indexed
from headway.data.corpus import no_text, text, text_files
from headway.data.tokenizer import ByteTokenizer, Tokenizer, extremes
from headway.errors import PlanError

FIRST_TOKENS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a token file holds, in plain numbers. `shortest`, `median` and `longest` count a document's tokens.

    `least_token` and `largest_token` are None where there are no tokens; of more than 2^30, they are of a part.
    """

    prefix: str
    dtype: str
    documents: int
    sequences: int
    tokens: int
    bytes: int
    shortest: int
    median: float
    longest: int
    least_token: float | None
    largest_token: float | None
    first_tokens: list[float]


@dataclass(frozen=True, slots=True)
class Texts:
    """What `paths` are called, the files that they name, in order, and the bytes of these."""

    names: Sequence[str]
    files: Sequence[Path]
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The token file that was made, and how many files gave no document or were not UTF-8 (bytes need not be)."""

    summary: Summary
    skipped: int
    not_utf8: int


def texts(paths: Sequence[str]) -> Texts:
    """The files of `paths` (each a file, a folder or `stdlib`), in that order; PlanError where one is not there."""
    names, files = zip(*(text_files(path, Path()) for path in paths), strict=True)
    found = [file for some in files for file in some]
    return Texts(names, found, sum(file.stat().st_size for file in found))


def prepare(
    wanted: Texts, prefix: Path, tokenizer: Tokenizer, *, append_end: bool, done: Callable[[int], None]
) -> Prepared:
    """Write PREFIX.bin and PREFIX.idx, a document a text, and look at them; `done` is told the bytes of each text.

    `append_end` puts the tokenizer's end token behind each document. Raises PlanError where there is no text, PREFIX is
    taken or something cannot be read or written.
    """
    if prefix.is_dir():
        raise PlanError(f"{prefix} is a folder. Name a prefix in it: {prefix / 'corpus'}.")
    counts = Counter[str]()
    documents = _documents(wanted, tokenizer, counts, append_end=append_end, done=done)
    try:
        made = indexed.write(prefix, documents, indexed.dtype_for(tokenizer.vocabulary))
        return Prepared(summary=summary(made), skipped=counts["skipped"], not_utf8=counts["not UTF-8"])
    except OSError as error:
        raise PlanError(f"{prefix} cannot be written ({error.strerror}). Choose another output.") from None


def summary(file: indexed.Indexed) -> Summary:
    """What a token file holds."""
    lengths = np.diff(file.document_bounds())
    least, largest = extremes(file.tokens) if len(file.tokens) else (None, None)
    return Summary(
        prefix=str(file.prefix),
        dtype=str(file.tokens.dtype),
        documents=file.num_documents,
        sequences=file.num_sequences,
        tokens=len(file.tokens),
        bytes=file.tokens.nbytes,
        shortest=int(lengths.min()) if len(lengths) else 0,
        median=float(np.median(lengths)) if len(lengths) else 0.0,
        longest=int(lengths.max()) if len(lengths) else 0,
        least_token=least,
        largest_token=largest,
        first_tokens=file.tokens[:FIRST_TOKENS].tolist(),
    )


def inspect(path: str) -> Summary:
    """What the token file `path` (a prefix, or either of its files) holds; PlanError where it is none or is damaged."""
    place = Path(path).expanduser()
    try:
        return summary(indexed.read(indexed.prefix_of(place) or place))
    except OSError as error:
        raise PlanError(f"{error.filename} cannot be read ({error.strerror}).") from None


def _documents(
    wanted: Texts, tokenizer: Tokenizer, counts: Counter[str], *, append_end: bool, done: Callable[[int], None]
) -> Iterator[NDArray[Any]]:
    end = np.array([tokenizer.end()] if append_end else [], np.int64)
    for file in wanted.files:
        content = _read(file)
        tokens = tokenizer.encode(content) if content else end[:0]
        if content and not isinstance(tokenizer, ByteTokenizer):
            counts["not UTF-8"] += not _is_utf8(content)
        done(file.stat().st_size)
        if len(tokens):
            yield np.concatenate([tokens, end])
        else:
            counts["skipped"] += 1
    if counts["skipped"] == len(wanted.files):
        raise no_text(", ".join(wanted.names))


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _read(file: Path) -> bytes | None:
    try:
        return text(file)
    except OSError as error:
        raise PlanError(f"{file} cannot be read ({error.strerror}). Make it readable, or name other texts.") from None
