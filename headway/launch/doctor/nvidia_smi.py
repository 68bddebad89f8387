"""nvidia-smi's answers → GPUs, the CUDA version of their driver, and which of their neighbours are near."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from headway.units import Bytes

QUERY = (
    "index", "name", "driver_version", "memory.total", "memory.used", "compute_mode", "mig.mode.current",
    "ecc.errors.uncorrected.volatile.total",
)  # fmt: skip
_MIB = 2**20
_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_CUDA = re.compile(r"CUDA Version:\s*([0-9]{1,3})\.([0-9]{1,3})")
_LEGEND = re.compile(r"\s*(NIC[0-9]{1,4}):\s*(\S{1,64})\s*")
_GPU = re.compile(r"GPU[0-9]{1,4}")
_CELL = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|NV[0-9]{1,3}")
# how far: nothing but switches of PCI Express between (PIX one, PXB several), the processor's bridge (PHB), its other
# bridges (NODE), the link between processors (SYS)
DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. `uncorrected`: memory errors since the driver started that ECC could not mend (None: not counted)."""

    index: int
    name: str
    driver: str
    memory: Bytes
    used: Bytes
    compute_mode: str
    mig: bool
    uncorrected: int | None


@dataclass(frozen=True, slots=True)
class Topology:
    """`nvidia-smi topo -m`: (device, device) → how they reach each other; `names`: NIC0 → mlx5_0."""

    gpus: tuple[str, ...] = ()
    nics: tuple[str, ...] = ()
    cells: Mapping[tuple[str, str], str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def nearest(self, gpu: str) -> tuple[str, str] | None:
        """The card nearest to a GPU and how far it is; None where no card is shown."""
        reached = [(self.cells[gpu, nic], nic) for nic in self.nics if self.cells.get((gpu, nic)) in DISTANCES]
        if not reached:
            return None
        distance, nic = min(reached, key=lambda each: (DISTANCES.index(each[0]), self.nics.index(each[1])))
        return self.names.get(nic, nic), distance

    @property
    def without_nvlink(self) -> tuple[tuple[str, str], ...]:
        """Pairs of GPUs that only PCI Express or the processors join."""
        pairs = [(a, b) for i, a in enumerate(self.gpus) for b in self.gpus[i + 1 :]]
        return tuple(pair for pair in pairs if not self.cells.get(pair, "NV").startswith("NV"))


def gpus(text: str) -> tuple[tuple[Gpu, ...], tuple[str, ...]]:
    """GPUs from `--query-gpu` of QUERY (`--format=csv,noheader,nounits`), and the lines that could not be read."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = {line: _gpu([word.strip() for word in line.split(",")]) for line in lines}
    odd = tuple(line[:200] for line, each in found.items() if each is None)
    return tuple(each for each in found.values() if each), odd


def cuda(text: str) -> tuple[int, int] | None:
    """The newest CUDA version that the driver knows, as the head of plain `nvidia-smi` says it."""
    found = _CUDA.search(text)
    return (int(found[1]), int(found[2])) if found else None


def topology(text: str) -> Topology:
    """The matrix of `nvidia-smi topo -m`; its header is underlined, and ends where affinities begin.

    Old drivers name the cards in the header, newer ones number them and tell the names in a legend below.
    """
    lines = _ESCAPE.sub("", text).splitlines()
    header: list[str] = []
    cells: dict[tuple[str, str], str] = {}
    rows: list[str] = []
    names: dict[str, str] = {}
    for line in lines:
        words = [word.strip() for word in line.split("\t")]
        if legend := _LEGEND.fullmatch(line):
            names[legend[1]] = legend[2]
        elif not header and len(words) > 1 and _GPU.fullmatch(words[1]):
            ends = [i for i, word in enumerate(words) if "Affinity" in word]
            header = [word for word in words[1 : ends[0] if ends else None] if word]
        elif words[0] in header and words[0] not in rows:
            rows.append(words[0])
            known = zip(header, words[1:], strict=False)  # a torn row is shorter, a whole one has affinities too
            cells |= {(words[0], name): cell for name, cell in known if _CELL.fullmatch(cell)}
    all_gpus = tuple(name for name in header if _GPU.fullmatch(name))
    return Topology(all_gpus, tuple(name for name in header if name not in all_gpus), cells, names)


def _gpu(words: list[str]) -> Gpu | None:
    if len(words) != len(QUERY):
        return None
    index, name, driver, total, used, compute_mode, mig, uncorrected = words
    if not all(re.fullmatch(r"[0-9]{1,9}", word) for word in (index, total, used)):
        return None
    errors = int(uncorrected) if re.fullmatch(r"[0-9]{1,12}", uncorrected) else None
    memory, taken = Bytes(int(total) * _MIB), Bytes(int(used) * _MIB)
    return Gpu(int(index), name, driver, memory, taken, compute_mode, mig == "Enabled", errors)
