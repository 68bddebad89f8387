"""npu-smi's tables → NPUs: the three layouts that exist, the processes below them, and the order of `info -m`."""

import re
from dataclasses import dataclass

from headway.units import Bytes

_MIB = 2**20  # what npu-smi calls MB: a 64 GiB chip has 65536
_VERSION = re.compile(r"npu-smi\s+([0-9][0-9A-Za-z.]{0,40})")
_SHARE = re.compile(r"([0-9]{1,9})\s*/\s*([0-9]{1,9})")
_BUS = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]|NA")
_PRIVILEGE = re.compile(r"-80(?:05|20)\b")
_LARGEST = 1023  # a number of a device above is none


@dataclass(frozen=True, slots=True)
class Npu:
    """One chip. `number` is N of its /dev/davinciN where the table says it (Phy-ID, or Device), else None.

    `memory` is its HBM, or on chips without it the memory that they have (310).
    """

    npu: int
    chip: int
    number: int | None
    name: str
    health: str
    bus: str
    used: Bytes
    memory: Bytes


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that uses a chip."""

    npu: int
    chip: int
    pid: int
    name: str


@dataclass(frozen=True, slots=True)
class Table:
    """What `npu-smi info` shows. `odd`: lines of the table that could not be read, as they were."""

    version: str | None
    npus: tuple[Npu, ...]
    holders: tuple[Holder, ...] = ()
    odd: tuple[str, ...] = ()


def parse(text: str) -> Table:
    """The table of `npu-smi info`.

    A chip takes two rows: its NPU's name, health and power, then its own number, bus and memory. Their columns are as
    wide as each version likes, so that only the bars between them count. What is no such table gives none.
    """
    version = _VERSION.search(text)
    first: list[str] | None = None  # the row of an NPU whose chip's row comes next
    chip_row: list[str] = []
    npus: list[Npu] = []
    holders: list[Holder] = []
    odd: list[str] = []
    processes = False
    for line in text.splitlines():
        cells = _cells(line)
        if len(cells) < 3:
            continue
        if "Process id" in line:
            processes, first = True, None
        elif cells[0].startswith("Chip"):
            chip_row = cells
        elif cells[0].startswith("NPU") or not cells[0]:
            continue
        elif processes:
            holder = _holder(cells)
            holders += [holder] if holder else []
            odd += [] if holder else [line.strip()]
        elif _BUS.fullmatch(cells[1]):
            npu = _npu(first, cells, chip_row) if first else None
            npus += [npu] if npu else []
            odd += [] if npu else [line.strip()]
            first = None
        else:
            odd += [" | ".join(first)] if first else []  # the chip's row is missing
            first = cells
    odd += [" | ".join(first)] if first else []
    return Table(version[1] if version else None, tuple(npus), tuple(holders), tuple(each[:200] for each in odd))


def logical(text: str) -> tuple[int, ...]:
    """Logic ids in `npu-smi info -m`, which is what programs count by; a management chip (Mcu) has `-` there."""
    header: list[str] = []
    found = []
    for line in text.splitlines():
        if "Chip Logic ID" in line:
            header = re.split(r"\s{2,}", line.strip())
            continue
        fields = re.split(r"\s{2,}", line.strip())
        if header and len(fields) >= 3 and (number := _whole(fields[2])) is not None:
            found.append(number)
    return tuple(found)


def is_refused(text: str) -> bool:
    """Whether it says −8005 or −8020: the NPU is another container's, or the caller lacks the right."""
    return bool(_PRIVILEGE.search(text))


def _cells(line: str) -> list[str]:
    stripped = line.strip()
    return [cell.strip() for cell in stripped.strip("|").split("|")] if stripped.startswith("|") else []


def _npu(first: list[str], second: list[str], header: list[str]) -> Npu | None:
    """The chip of two rows; None where a number is missing that it cannot be without."""
    name, place = first[0].split(), second[0].split()
    shares = _SHARE.findall(second[-1])
    with_hbm = "HBM-Usage" in header[-1] if header else len(shares) > 1
    npu, chip = (_whole(words[0]) if words else None for words in (name, place))
    if npu is None or chip is None or len(shares) < 1 + with_hbm:
        return None
    used, memory = shares[with_hbm]
    return Npu(
        npu,
        chip,
        _whole(place[1]) if len(place) > 1 else None,
        " ".join(name[1:]),
        first[1],
        second[1],
        Bytes(int(used) * _MIB),
        Bytes(int(memory) * _MIB),
    )


def _holder(cells: list[str]) -> Holder | None:
    place = [_whole(word) for word in cells[0].split()]
    if len(place) != 2 or place[0] is None or place[1] is None or not re.fullmatch(r"[0-9]{1,9}", cells[1]):
        return None
    return Holder(place[0], place[1], int(cells[1]), cells[2])


def _whole(word: str) -> int | None:
    return int(word) if re.fullmatch(r"[0-9]{1,6}", word) and int(word) <= _LARGEST else None
