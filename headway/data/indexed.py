"""Token files: Megatron's indexed dataset `PREFIX.idx` + `PREFIX.bin`, read where it lies and written."""

import os
import struct
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.errors import PlanError

# The format (Megatron-LM, megatron/core/datasets/indexed_dataset.py), little-endian and without padding: magic, u64
# version, u8 code of the tokens' type, u64 sequences S, u64 entries of the document index D; S × i32 lengths in tokens,
# S × i64 places in the .bin in bytes, D × i64 sequences at which the documents begin and, last, end.
MAGIC, OLD_MAGIC, VERSION = b"MMIDIDX\0\0", b"TNTIDX\0\0", 1
HEADER = struct.Struct("<9sQBQQ")  # 34 bytes: "<" neither pads nor aligns
DTYPES = {
    code: np.dtype(name) for code, name in enumerate(("u1", "i1", "<i2", "<i4", "<i8", "<f8", "<f4", "<u2"), start=1)
}
SMALL_VOCABULARY = 65_500  # below it Megatron writes uint16
LONGEST = 2**31 - 1  # tokens of a sequence, whose length is an i32
_BLOCK = 2**20  # entries of the index that are looked at together


@dataclass(frozen=True, slots=True, eq=False)
class Indexed:
    """A token file: its arrays are the files themselves, mapped into memory and read-only.

    `tokens`: [T], in the type that the file has. `lengths`: [S] int32, tokens of each sequence. `pointers`: [S] int64,
    their first bytes in the .bin. `documents`: [D + 1] int64; document i is the sequences documents[i] up to, but not
    including, documents[i + 1].
    """

    prefix: Path
    tokens: NDArray[Any]
    lengths: NDArray[np.int32]
    pointers: NDArray[np.int64]
    documents: NDArray[np.int64]

    @property
    def num_sequences(self) -> int:
        """Sequences, S."""
        return len(self.lengths)

    @property
    def num_documents(self) -> int:
        """Documents, empty ones too."""
        return len(self.documents) - 1

    def sequence(self, index: int) -> NDArray[Any]:
        """The tokens of one sequence, not copied."""
        first = int(self.pointers[index]) // self.tokens.itemsize
        return self.tokens[first : first + int(self.lengths[index])]

    def document_bounds(self) -> NDArray[np.int64]:
        """[D + 1] int64: document i is `tokens[bounds[i]:bounds[i + 1]]`; the only array that is not mapped."""
        bounds = np.full(len(self.documents), len(self.tokens), np.int64)
        inside = self.documents < self.num_sequences  # the last ones end where the file does
        bounds[inside] = self.pointers[self.documents[inside]] // self.tokens.itemsize
        return bounds


def prefix_of(path: Path) -> Path | None:
    """The PREFIX that `path` names, with or without `.bin` or `.idx`; None where no such file is meant.

    >>> str(prefix_of(Path("corpus_text_document.idx")))
    'corpus_text_document'
    """
    if path.suffix in {".bin", ".idx"}:
        return path.with_suffix("")
    return path if path.name and any(_beside(path, end).is_file() for end in (".idx", ".bin")) else None


def read(prefix: Path) -> Indexed:
    """The token file at PREFIX, checked: magic, version, sizes, and that places and documents follow each other.

    Raises PlanError with the file and its numbers where it is damaged, of another format or multimodal; OSError where
    it cannot be read.
    """
    for file in (index_file := _beside(prefix, ".idx"), data_file := _beside(prefix, ".bin")):
        if not file.is_file():
            raise PlanError(
                f"there is no file {file}. A token file is a pair: {prefix.name}.idx and {prefix.name}.bin."
            )
    index = _mapped(index_file)
    dtype, num_sequences, num_entries = _header(index_file, index)
    places = HEADER.size + 4 * num_sequences
    documents = places + 8 * num_sequences
    # slices of the bytes: the arrays lie at any offset, aligned or not, and numpy reads them so
    found = Indexed(
        prefix,
        _mapped(data_file)[: data_file.stat().st_size // dtype.itemsize * dtype.itemsize].view(dtype),
        index[HEADER.size : places].view("<i4"),
        index[places:documents].view("<i8"),
        index[documents : documents + 8 * num_entries].view("<i8"),
    )
    _check(found, index_file, data_file)
    return found


def dtype_for(vocabulary: int) -> np.dtype[Any]:
    """The type that Megatron stores tokens of such a vocabulary in.

    >>> str(dtype_for(65_499)), str(dtype_for(65_500))
    ('uint16', 'int32')
    """
    return np.dtype(np.uint16 if vocabulary < SMALL_VOCABULARY else np.int32)


def pointers(lengths: NDArray[np.int32], itemsize: int) -> NDArray[np.int64]:
    """[S] int64: the first byte of each sequence. In int32 they would overflow (Megatron #1672).

    >>> pointers(np.array([2**30, 2**30, 5], np.int32), itemsize=4).tolist()
    [0, 4294967296, 8589934592]
    """
    wide = lengths.astype(np.int64)
    return (np.cumsum(wide) - wide) * itemsize


def write(prefix: Path, documents: Iterable[NDArray[Any]], dtype: np.dtype[Any]) -> Indexed:
    """Write PREFIX.bin and PREFIX.idx, each of the documents one sequence, and read them back.

    The files appear when they are complete: an ending in the middle leaves none. Raises PlanError where PREFIX is taken
    already or a document does not fit; OSError where the files cannot be written.
    """
    files = [_beside(prefix, end) for end in (".bin", ".idx")]
    for file in files:
        if file.exists():
            raise PlanError(f"{file} is there already. Remove it, or choose another output.")
    parts = [_beside(file, ".part") for file in files]
    try:
        lengths = _write_tokens(parts[0], documents, dtype)
        _write_index(parts[1], lengths, dtype)
        for part, file in zip(parts, files, strict=True):
            part.replace(file)
    except BaseException:
        for part in parts:
            with suppress(OSError):
                part.unlink()
        raise
    return read(prefix)


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)  # not with_suffix: a prefix may have dots of its own


def _mapped(file: Path) -> NDArray[np.uint8]:
    # an empty file cannot be mapped
    return np.asarray(np.memmap(file, np.uint8, "r")) if file.stat().st_size else np.frombuffer(b"", np.uint8)


def _header(file: Path, index: NDArray[np.uint8]) -> tuple[np.dtype[Any], int, int]:
    """The tokens' type, S and D, where they agree with the size of the file."""
    start = index[: HEADER.size].tobytes()
    if start.startswith(OLD_MAGIC):
        raise PlanError(
            f"{file} begins with TNTIDX: an index of the older kind (fairseq's, Megatron's 'lazy' and 'cached'), which "
            f"is another format. Prepare the text again (headway data prepare, or Megatron's preprocess_data.py)."
        )
    if not start.startswith(MAGIC):
        raise PlanError(f"{file} is no index of Megatron's: it begins with {start[:9]!r}, not {MAGIC!r}.")
    if len(start) < HEADER.size:
        raise _damaged(file, f"it ends after {len(start)} bytes, within the header of {HEADER.size}")
    _, version, code, num_sequences, num_entries = HEADER.unpack(start)
    if version != VERSION:
        raise PlanError(f"{file} has version {version}, but only version {VERSION} is known. Prepare the text again.")
    if code not in DTYPES:
        raise _damaged(file, f"its type of tokens is {code}, but only 1 … {len(DTYPES)} are known")
    size = HEADER.size + 12 * num_sequences + 8 * num_entries
    if num_sequences and len(index) == size + num_sequences:
        raise PlanError(
            f"{file} is multimodal: behind the documents it has a mode for each of its {num_sequences} sequences. "
            f"Headway trains on text; prepare the text alone."
        )
    if len(index) != size:
        said = f"{num_sequences} sequences and {num_entries} document entries"
        raise _damaged(file, f"it has {len(index)} bytes, but its header ({said}) needs {size}")
    return DTYPES[code], num_sequences, num_entries


def _check(found: Indexed, index_file: Path, data_file: Path) -> None:
    """Lengths make the places, the places the size of the .bin, and the documents cover all sequences in order."""
    itemsize, place = found.tokens.itemsize, 0
    for first in range(0, found.num_sequences, _BLOCK):
        lengths = found.lengths[first : first + _BLOCK]
        if lengths.min() < 0:
            raise _damaged(index_file, f"sequence {first + int(lengths.argmin())} has length {lengths.min()}")
        counted = place + pointers(lengths, itemsize)
        wrong = found.pointers[first : first + _BLOCK] != counted
        if wrong.any():
            i = int(wrong.argmax())
            said = f"is at byte {found.pointers[first + i]}, but those before it end at {counted[i]}"
            raise _damaged(index_file, f"sequence {first + i} {said}")
        place = int(counted[-1]) + int(lengths[-1]) * itemsize
    if (size := data_file.stat().st_size) != place:
        fault = "is cut short" if size < place else "is too long, or belongs to another index"
        raise PlanError(
            f"{data_file} {fault}: it has {size} bytes, but {index_file.name} says {place} "
            f"({place // itemsize} tokens of {found.tokens.dtype}). Copy both files again, or prepare the text again."
        )
    documents = found.documents
    if not len(documents) or documents[0] != 0 or documents[-1] != found.num_sequences:
        ends_said = f"{documents[0]} … {documents[-1]}" if len(documents) else "nothing"
        raise _damaged(index_file, f"its documents cover {ends_said}, not the sequences 0 … {found.num_sequences}")
    for first in range(0, found.num_documents, _BLOCK):
        steps = np.diff(documents[first : first + _BLOCK + 1])
        if steps.min() < 0:
            raise _damaged(index_file, f"document {first + int(steps.argmin())} ends before it begins")


def _damaged(file: Path, how: str) -> PlanError:
    return PlanError(f"{file} is damaged: {how}. Copy it again, or prepare the text again.")


def _write_tokens(file: Path, documents: Iterable[NDArray[Any]], dtype: np.dtype[Any]) -> NDArray[np.int32]:
    """Write the .bin; [S] int32, the lengths."""
    lengths: list[int] = []
    known = np.iinfo(dtype)
    with file.open("wb") as out:
        for document in documents:
            if len(document) > LONGEST:
                raise PlanError(
                    f"document {len(lengths)} has {len(document)} tokens, but the format's lengths end at {LONGEST}. "
                    f"Divide the text into several files."
                )
            if len(document) and not known.min <= document.min() <= document.max() <= known.max:
                raise PlanError(
                    f"document {len(lengths)} has tokens from {document.min()} to {document.max()}, but {dtype} holds "
                    f"{known.min} … {known.max}. Use a larger type."
                )
            out.write(document.astype(dtype.newbyteorder("<")).tobytes())
            lengths.append(len(document))
        _sync(out.fileno())
    return np.array(lengths, np.int32)


def _write_index(file: Path, lengths: NDArray[np.int32], dtype: np.dtype[Any]) -> None:
    code = next(code for code, known in DTYPES.items() if known == dtype)
    with file.open("wb") as out:
        out.write(HEADER.pack(MAGIC, VERSION, code, len(lengths), len(lengths) + 1))
        out.write(lengths.astype("<i4").tobytes())
        out.write(pointers(lengths, dtype.itemsize).astype("<i8").tobytes())
        out.write(np.arange(len(lengths) + 1, dtype="<i8").tobytes())
        _sync(out.fileno())


def _sync(descriptor: int) -> None:
    """What is renamed into place must be on the disk first."""
    os.fsync(descriptor)
