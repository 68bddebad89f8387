"""Machine: a host as the doctor saw it, all that the checks judge."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headway.launch.doctor import npu_smi, nvidia_smi
from headway.launch.interfaces import Interface
from headway.units import Bytes, Seconds

_AT_ONCE = Seconds(0.0)


@dataclass(frozen=True, slots=True)
class Silent:
    """A look without an answer: at what, and why (it took too long, or it broke)."""

    at: str
    why: str


@dataclass(frozen=True, slots=True)
class Torch:
    """What importing torch in a process of its own showed. `trouble`: why it did not work; then the rest is empty.

    `devices`: for `cuda` and `npu` the memory of each device; `gloo`: why gloo does not work (None: it does).
    """

    trouble: str | None = None
    version: str = ""
    cuda: str | None = None
    backends: tuple[str, ...] = ()
    devices: Mapping[str, tuple[Bytes, ...]] = field(default_factory=dict)
    gloo: str | None = None
    seconds: Seconds = _AT_ONCE


@dataclass(frozen=True, slots=True)
class Software:
    """`packages`: name → version of what is installed; `wanted`: name → (least version, extra of Headway).

    `plugins` load themselves with torch (its entry points `torch.backends`). `bare`: torch without them, looked at
    where there are any. `files`: what the host's own files say, like the version of Ascend's driver.
    """

    python: str
    packages: Mapping[str, str]
    wanted: Mapping[str, tuple[str, str]]
    plugins: tuple[str, ...] = ()
    torch: Torch | None = None
    bare: Torch | None = None
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Npus:
    """Ascend's devices: their nodes, and what npu-smi says. `trouble`: why it said nothing useful.

    `denied`: nodes that this user may not open. `links`: for each NPU asked, whether its own network port is up
    (hccn_tool), None where that was not understood; `addresses`: how many device addresses /etc/hccn.conf gives.
    """

    nodes: tuple[int, ...] = ()
    table: npu_smi.Table | None = None
    logical: tuple[int, ...] = ()
    trouble: str | None = None
    manager: bool = True  # /dev/davinci_manager and /dev/hisi_hdc are there
    denied: tuple[int, ...] = ()
    links: Mapping[int, bool | None] = field(default_factory=dict)
    addresses: int = 0


@dataclass(frozen=True, slots=True)
class Gpus:
    """NVIDIA's devices: their nodes, and what nvidia-smi says, where it could be `asked`.

    `odd`: lines of it that could not be read. `trouble`: why it said nothing useful.
    """

    nodes: tuple[int, ...] = ()
    asked: bool = False
    listed: tuple[nvidia_smi.Gpu, ...] = ()
    odd: tuple[str, ...] = ()
    cuda: tuple[int, int] | None = None
    topology: nvidia_smi.Topology = field(default_factory=nvidia_smi.Topology)
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """A port of an RDMA device: `mlx5_0`, port 1. `rate` in bits a second."""

    device: str
    number: int
    active: bool
    rate: float | None
    ethernet: bool


@dataclass(frozen=True, slots=True)
class Network:
    """Interfaces and RDMA ports. `resolved`: the address that the host's own name leads to (None: to none).

    `variables`: those that bind communication to an interface and are set.
    """

    interfaces: tuple[Interface, ...] = ()
    rdma: tuple[RdmaPort, ...] = ()
    resolved: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Space:
    """A file system: where it was looked at, its size and what is free, and whether this user may write there."""

    path: str
    total: Bytes
    free: Bytes
    writable: bool


@dataclass(frozen=True, slots=True)
class Clock:
    """Whether the kernel's clock is steered by a server, and how far it may be off then."""

    synchronised: bool
    error: Seconds


@dataclass(frozen=True, slots=True)
class Engine:
    """The container engine's socket: whether it is there, whose answer came, and what went wrong."""

    address: str
    there: bool
    version: str | None = None
    runtimes: tuple[str, ...] = ()
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """A host. What could not be looked at is None, and `silent` says why.

    `memory`: all of it, or what a container's group may use; `available`: what is left now. `memlock`: bytes that a
    process may pin (None: as many as it likes). `scratch`: where the doctor was called, since runs are written there.
    `taken`: ports that cannot be listened at, and why; `reserved` and `passing`: ports that the kernel gives to nobody
    by itself, and those that it gives to connections.
    """

    name: str
    system: str
    cores: int
    memory: Bytes
    available: Bytes
    software: Software | None = None
    npus: Npus | None = None
    gpus: Gpus | None = None
    network: Network | None = None
    shared: Space | None = None
    scratch: Space | None = None
    memlock: Bytes | None = None
    clock: Clock | None = None
    taken: Mapping[int, str] = field(default_factory=dict)
    reserved: tuple[range, ...] = ()
    passing: range | None = None
    engine: Engine | None = None
    silent: tuple[Silent, ...] = ()

    @property
    def kinds(self) -> dict[str, int]:
        """Accelerators by kind, where there are any."""
        found = {
            "npu": max(len(self.npus.nodes), len(self.npus.table.npus) if self.npus.table else 0) if self.npus else 0,
            "cuda": max(len(self.gpus.nodes), len(self.gpus.listed)) if self.gpus else 0,
        }
        return {kind: count for kind, count in found.items() if count}
