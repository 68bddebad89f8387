"""Node: the inside of one host: GPUs, their NVLinks, ports of network cards, and where each hangs in the PCI tree."""

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from headway.errors import PlanError
from headway.fabric.fabric import NONE
from headway.units import BytesPerSecond, Seconds

MOST = 256  # GPUs, and ports, of a node: three times those of the largest NVLink racks


class Distance(IntEnum):
    """How far a port is from a GPU, in NCCL's words, nearest first."""

    PIX = 0  # under one PCI switch
    PXB = 1  # over several switches, but no CPU
    PHB = 2  # through the CPU (NUMA node) that both hang from
    SYS = 3  # between CPUs


class Peer(StrEnum):
    """What an NVLink leads to."""

    SWITCH = "switch"
    GPU = "GPU"
    CPU = "CPU"


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a device hangs: its `cpu`, the PCI `switches` from it up to there, and the `links` between these.

    Link 0 goes from the device to the first switch (or the CPU), the last one into the CPU. No links: a device that is
    on no PCI bus.
    """

    cpu: int
    switches: tuple[str, ...] = ()
    links: tuple[BytesPerSecond, ...] = ()


@dataclass(frozen=True, slots=True)
class NvLinks:
    """So many NVLinks of a GPU to one GPU of the node (its `dev`, else −1), or to switches or a CPU."""

    count: int
    to: Peer
    gpu: int = NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU: its number in the host, its bus, its compute capability (90 of a Hopper), its rank (−1: not told)."""

    dev: int
    busid: str
    sm: int
    rank: int
    gdr: bool
    slot: Slot
    nvlinks: tuple[NvLinks, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port of a network card: NCCL's number, what the driver calls it, bytes a second of each direction.

    `card` is the bus without the function, which two ports of a card share. `gdr`: GPUs' memory is read directly.
    `rail` and `plane`: −1 where the file tells none.
    """

    dev: int
    name: str
    number: int
    card: str
    rate: BytesPerSecond
    latency: Seconds
    gdr: bool
    rail: int
    plane: int
    slot: Slot

    def __str__(self) -> str:
        """NCCL's spelling: `mlx5_0:1`."""
        return f"{self.name}:{self.number}"


@dataclass(frozen=True, slots=True)
class Node:
    """The inside of a host. GPUs and ports are in the order of their `dev`; `cpus` are numbers of NUMA nodes.

    `assumptions`: sentences about what its file does not say.
    """

    name: str
    cpus: tuple[int, ...]
    gpus: tuple[Gpu, ...]
    ports: tuple[Port, ...]
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.gpus:
            raise PlanError(
                f"{self.name} names no GPU. Let a running job write the file (NCCL_TOPO_DUMP_FILE): one that was "
                "made for NCCL_TOPO_FILE may leave the GPUs for NCCL to find."
            )
        for noun, devices in (("GPUs", self.gpus), ("ports", self.ports)):
            if len(devices) > MOST:
                raise PlanError(f"{self.name} has {len(devices)} {noun}. One host has at most {MOST}.")
            self._once(f"two {noun} have the dev", [each.dev for each in devices])
        self._once("two GPUs have the busid", [gpu.busid for gpu in self.gpus])
        self._once("two ports are called", [str(port) for port in self.ports])

    def __str__(self) -> str:
        return self.name

    @property
    def cards(self) -> tuple[tuple[Port, ...], ...]:
        """The ports of each card."""
        names = dict.fromkeys(port.card for port in self.ports)
        return tuple(tuple(port for port in self.ports if port.card == name) for name in names)

    def _once(self, what: str, values: Sequence[int | str]) -> None:
        value, times = Counter(values).most_common(1)[0] if values else (0, 1)
        if times > 1:
            raise PlanError(f"{self.name}: {what} {value}. A file describes one host, each device once.")


@dataclass(frozen=True, slots=True)
class Way:
    """The way through the PCI tree between two devices: how far, and its narrowest link."""

    distance: Distance
    rate: BytesPerSecond


def way(one: Slot, other: Slot) -> Way:
    """The way between devices at two slots; links between CPUs are not told, so not counted.

    >>> gpu, card = Slot(0, ("a", "root"), (3.0, 2.0, 9.0)), Slot(0, ("b", "root"), (4.0, 5.0, 9.0))
    >>> way(gpu, card)
    Way(distance=<Distance.PXB: 1>, rate=2.0)
    """
    if one.cpu != other.cpu:
        return Way(Distance.SYS, min(one.links + other.links))
    pairs = zip(reversed(one.switches), reversed(other.switches), strict=False)
    common = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))
    if not common:
        return Way(Distance.PHB, min(one.links + other.links))
    below = [len(slot.switches) - common for slot in (one, other)]
    links = one.links[: below[0] + 1] + other.links[: below[1] + 1]
    return Way(Distance.PXB if any(below) else Distance.PIX, min(links))


def nearest(node: Node, gpu: Gpu) -> tuple[Port, ...]:
    """The ports at the least distance of a GPU and, of these, the fastest over the PCI tree; all that are equal.

    NCCL prefers the fastest among all ports, and among these the nearest.
    """
    ways = [way(gpu.slot, port.slot) for port in node.ports]
    costs = [(found.distance, -min(found.rate, port.rate)) for port, found in zip(node.ports, ways, strict=True)]
    least = min(costs, default=None)
    return tuple(port for port, cost in zip(node.ports, costs, strict=True) if cost == least)


@dataclass(frozen=True, slots=True)
class Group:
    """GPUs that share their nearest ports, and these ports."""

    gpus: tuple[Gpu, ...]
    ports: tuple[Port, ...]


def groups(node: Node) -> tuple[Group, ...]:
    """Every GPU in one group, with all GPUs that have a nearest port in common with one of it; by the first GPU."""
    found: list[tuple[list[Gpu], set[int]]] = []
    for gpu in node.gpus:
        gpus, ports = [gpu], {port.dev for port in nearest(node, gpu)}
        for other in [each for each in found if each[1] & ports]:
            found.remove(other)
            gpus, ports = other[0] + gpus, other[1] | ports
        found.append((gpus, ports))
    made = [
        Group(tuple(sorted(gpus, key=lambda gpu: gpu.dev)), tuple(port for port in node.ports if port.dev in ports))
        for gpus, ports in found
    ]
    return tuple(sorted(made, key=lambda group: group.gpus[0].dev))


def pci_rate(gigatransfers: float, lanes: int) -> BytesPerSecond:
    """Bytes a second of a PCI link in each direction, what its coding takes left out.

    8b/10b up to 5 GT/s, 128b/130b from 8 GT/s on (PCI Express 3.0), and 242 of a flit's 256 bytes at 64 GT/s (6.0).

    >>> round(pci_rate(2.5, 1) / 1e9, 3), round(pci_rate(16.0, 16) / 1e9, 1), round(pci_rate(64.0, 16) / 1e9, 1)
    (0.25, 31.5, 121.0)
    """
    coding = 8 / 10 if gigatransfers < 8 else 128 / 130 if gigatransfers < 64 else 242 / 256
    return BytesPerSecond(gigatransfers * 1e9 / 8 * coding * lanes)


def document(node: Node) -> dict[str, object]:
    """A node for JSON: its GPUs and ports, and of each GPU × port how far it is; rates in bits a second."""
    ways = [[way(gpu.slot, port.slot) for port in node.ports] for gpu in node.gpus]
    return {
        "name": node.name,
        "cpus": list(node.cpus),
        "gpus": [
            {
                **{key: getattr(gpu, key) for key in ("dev", "busid", "sm", "gdr")},
                "rank": _told(gpu.rank),
                "cpu": gpu.slot.cpu,
                "pci_switches": list(gpu.slot.switches),
                "nvlinks": [
                    {"count": each.count, "to": each.to.value.lower(), "gpu": _told(each.gpu)} for each in gpu.nvlinks
                ],
                "nearest": [port.dev for port in nearest(node, gpu)],
            }
            for gpu in node.gpus
        ],
        "ports": [
            {
                **{key: getattr(port, key) for key in ("dev", "name", "card", "gdr")},
                "port": port.number,
                "bits_per_second": port.rate * 8,
                "latency_seconds": port.latency,
                "rail": _told(port.rail),
                "plane": _told(port.plane),
                "cpu": port.slot.cpu,
                "pci_switches": list(port.slot.switches),
            }
            for port in node.ports
        ],
        "distances": [[each.distance.name for each in row] for row in ways],
        "pci_bits_per_second": [[each.rate * 8 for each in row] for row in ways],
        "assumptions": list(node.assumptions),
    }


def _told(value: int) -> int | None:
    return None if value == NONE else value
