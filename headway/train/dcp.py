"""Parts of tensors in torch's distributed checkpoint format: the only place that calls torch.distributed.checkpoint.

It is imported where a checkpoint is written or read, not before: that takes a second of each rank.
"""

import hashlib
import math
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase, IOBase
from pathlib import Path
from typing import IO, TYPE_CHECKING

from torch import Size, Tensor
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystem, FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadPlan, SavePlan, TensorWriteData, WriteItem, WriteItemType
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list
from torch.distributed.checkpoint.storage import WriteResult

from headway.checkpoints import DamagedError, File
from headway.train.part import Part
from headway.units import Bytes

if TYPE_CHECKING:
    from typing_extensions import Buffer

METADATA = ".metadata"


@dataclass(frozen=True, slots=True)
class Written:
    """What one rank has written: its boxes, where they are in its file, and the file's checksum."""

    plan: SavePlan
    results: list[WriteResult]
    files: dict[str, File]


def write(directory: Path, rank: int, parts: Sequence[Part]) -> Written:
    """Write this rank's boxes into a file of its own, on disk when this returns. OSError where that fails."""
    items = [
        WriteItem(
            index=MetadataIndex(part.key, part.offset),
            type=WriteItemType.SHARD,
            tensor_data=TensorWriteData(
                _chunk(part), TensorProperties.create_from_tensor(part.tensor), Size(part.shape)
            ),
        )
        for part in parts
    ]
    plan = SavePlan(items, planner_data={part.key: part.path for part in parts})
    if not items:
        return Written(plan, [], {})
    files = _HashedFiles()
    writer = FileSystemWriter(directory)
    writer.fs = files
    plan = writer.prepare_global_plan([SavePlan([])] * rank + [plan])[rank]  # names the file after the rank
    try:
        results = writer.write_data(plan, _SavePlanner(parts)).value()
    except RuntimeError:
        if files.error is not None:  # what torch.save made of it says nothing
            raise files.error from None
        raise
    return Written(plan, results, files.written)


def finish(directory: Path, ranks: Sequence[Written]) -> dict[str, File]:
    """Write the metadata of what all ranks have written, once all have; all files of the checkpoint so far.

    ValueError unless their boxes together are each tensor, every element once.
    """
    _, metadata = DefaultSavePlanner().create_global_plan([each.plan for each in ranks])
    for key, found in metadata.state_dict_metadata.items():
        assert isinstance(found, TensorStorageMetadata)
        if (there := sum(math.prod(chunk.sizes) for chunk in found.chunks)) != math.prod(found.size):
            raise ValueError(f"{there} of the {math.prod(found.size)} elements of {key} were written")
    files = _HashedFiles()
    writer = FileSystemWriter(directory)
    writer.fs = files
    writer.finish(metadata, [each.results for each in ranks])
    return {**{name: file for each in ranks for name, file in each.files.items()}, METADATA: files.only()}


def read(directory: Path, parts: Sequence[Part]) -> None:
    """Fill the parts' tensors from a checkpoint, whichever boxes it is of. DamagedError where it lacks any element."""
    reader, planner = FileSystemReader(directory), _LoadPlanner(parts)
    metadata = reader.read_metadata()
    reader.set_up_storage_reader(metadata, is_coordinator=True)
    planner.set_up_planner({}, metadata)
    reader.read_data(planner.create_local_plan(), planner).wait()


def _chunk(part: Part) -> ChunkStorageMetadata:
    return ChunkStorageMetadata(Size(part.offset), part.tensor.size())


class _Boxes:
    """Parts, found by the name of their tensor and where they begin in it."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts
        self._tensors = {(part.key, part.offset): part.tensor for part in parts}

    def __getitem__(self, index: MetadataIndex) -> Tensor:
        assert index.offset is not None
        return self._tensors[index.fqn, tuple(index.offset)]


class _SavePlanner(DefaultSavePlanner):
    def __init__(self, parts: Sequence[Part]) -> None:
        super().__init__()
        self._boxes = _Boxes(parts)

    def lookup_object(self, index: MetadataIndex) -> Tensor:
        """The elements of a box."""
        return self._boxes[index]


class _LoadPlanner(DefaultLoadPlanner):
    """Reads for each part what of the saved boxes lies in it, and refuses to leave an element as it was."""

    def __init__(self, parts: Sequence[Part]) -> None:
        super().__init__()
        self._boxes = _Boxes(parts)

    def create_local_plan(self) -> LoadPlan:
        """What is read: for each part, what of each saved box lies in it."""
        by_key: dict[str, list[Part]] = {}
        for part in self._boxes.parts:
            by_key.setdefault(part.key, []).append(part)
        items = []
        for key, parts in by_key.items():
            assert self.metadata is not None
            saved = self.metadata.state_dict_metadata.get(key)
            if not isinstance(saved, TensorStorageMetadata):
                raise DamagedError(f"it has no {key}")
            if tuple(saved.size) != parts[0].shape:
                raise DamagedError(f"its {key} is of shape {tuple(saved.size)}, not {parts[0].shape}")
            found = create_read_items_for_chunk_list(key, saved, [_chunk(part) for part in parts])
            there = sum(math.prod(item.lengths) for item in found)
            if there != (wanted := sum(part.tensor.numel() for part in parts)):
                raise DamagedError(f"it has {there} of the {wanted} elements of {key} that this rank needs")
            items += found
        return LoadPlan(items)

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        """Where the elements of a box go."""
        return self._boxes[index]


class _HashedFiles(FileSystem):
    """Files whose checksums are taken while they are written, and the first error of writing them."""

    def __init__(self) -> None:
        super().__init__()
        self.written: dict[str, File] = {}
        self.error: OSError | None = None

    def only(self) -> File:
        """The one file."""
        (file,) = self.written.values()
        return file

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Generator[IOBase, None, None]:
        """A file to write into."""
        assert mode == "wb"
        with Path(path).open(mode) as file:
            stream = _Hashed(file, self)
            yield stream
            self.written[Path(path).name] = File(Bytes(stream.size), stream.hash.hexdigest())


class _Hashed(BufferedIOBase):
    """A file whose checksum is taken of what is written into it."""

    def __init__(self, file: IO[bytes], files: _HashedFiles) -> None:
        self._file, self._files = file, files
        self.hash, self.size = hashlib.sha256(), 0

    def write(self, data: "Buffer", /) -> int:
        """Write all of it; the first OSError is remembered."""
        try:
            self._file.write(data)
        except OSError as error:
            self._files.error = self._files.error or error
            raise
        self.hash.update(data)
        self.size += (size := memoryview(data).nbytes)
        return size

    def tell(self) -> int:
        """Bytes written."""
        return self.size

    def flush(self) -> None:
        """Give the operating system what is buffered."""
        try:
            self._file.flush()
        except OSError as error:
            self._files.error = self._files.error or error
            raise

    def fileno(self) -> int:
        """The descriptor, which torch asks for to sync the file: so nothing may be left in the buffer."""
        self.flush()
        return self._file.fileno()

    def close(self) -> None:
        """Nothing: who has opened the file closes it."""
