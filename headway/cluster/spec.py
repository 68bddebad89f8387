"""Cluster: devices, nodes and links as frozen data."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from headway.errors import PlanError
from headway.units import Bytes, BytesPerSecond, Dtype, FlopsPerSecond, Seconds

NO_FABRIC = "none"
_NO_BYTES, _AT_ONCE, _NO_RATE = Bytes(0), Seconds(0.0), BytesPerSecond(0.0)


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator, or one process's share of a CPU.

    `peak` is the data sheet's figure (MFU is over it), `matmul` the rate that large matrix products reach,
    `memory_bandwidth` what streaming kernels reach, `launch` the time that each kernel adds: on a CPU the host's to
    start it, on an accelerator its own to begin and to drain.

    An accelerator takes a product in tiles: `processors` of them at once (0: no tiles), each as deep as k and `ramp`
    more elements, which is what filling and draining its pipeline costs. `attention` is the share of `peak` that its
    best fused attention kernel reaches, forward and backward. `reserved`: bytes that the driver's context, libraries
    and communicators take; `fragmented`: the share of the rest that its caching allocator cannot use. `host_link`,
    `host_stream` and `disk`: a device's share of the link to its host, of the host's memory bandwidth and of its disks,
    for what is offloaded (0: not known). `sources`: where these numbers are from.
    """

    name: str
    kind: Literal["cpu", "cuda", "npu"]
    memory: Bytes
    peak: dict[Dtype, FlopsPerSecond]
    matmul: dict[Dtype, FlopsPerSecond]
    memory_bandwidth: BytesPerSecond
    launch: Seconds
    processors: int = 0
    ramp: int = 0
    attention: tuple[float, float] = (1.0, 1.0)
    reserved: Bytes = _NO_BYTES
    fragmented: float = 0.0
    host_link: BytesPerSecond = _NO_RATE
    host_stream: BytesPerSecond = _NO_RATE
    disk: BytesPerSecond = _NO_RATE
    sources: dict[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        rates = (*self.peak.values(), *self.matmul.values(), self.memory_bandwidth, *self.attention)
        if not all(rate > 0 for rate in rates) or self.memory < 1 or self.launch < 0:
            raise PlanError(f"a device has rates and memory above 0 and no negative times, got {self}.")
        if self.processors < 0 or self.ramp < 0 or self.reserved < 0 or not 0 <= self.fragmented < 1:
            raise PlanError(f"a device has no negative processors, ramp or reserved memory, got {self}.")

    def besides(self, used: int) -> dict[str, Bytes]:
        """Category → bytes gone beside `used` ones: what the allocator cannot use, and context and libraries."""
        lost = int(used * self.fragmented / (1 - self.fragmented))
        return {"allocator": Bytes(lost), "context": self.reserved}


@dataclass(frozen=True, slots=True)
class Link:
    """A way between two ranks: seconds = latency + bytes / bandwidth (the alpha-beta model), and `call` to begin.

    `in_switch`: bus bandwidth of an all-reduce that the link's switches compute (NVLink SHARP); 0: they do not.
    `line`: what the data sheet says, of which collectives reach `bandwidth`; 0: not known.
    """

    name: str
    latency: Seconds
    bandwidth: BytesPerSecond
    call: Seconds = _AT_ONCE
    in_switch: BytesPerSecond = _NO_RATE
    line: BytesPerSecond = _NO_RATE

    def __post_init__(self) -> None:
        if not (self.bandwidth > 0 and self.latency >= 0 and self.call >= 0):
            raise PlanError(f"a link has bandwidth above 0 and latency not below, got {self}.")


@dataclass(frozen=True, slots=True)
class Cluster:
    """Alike nodes of alike devices: ranks fill a node before the next one.

    `inside` links two devices of a node, `between` is the network card that each device has, or its share of one.
    `shared_cores` is the number of cores that the ranks of a node compete for; 0 where each device computes on its own.
    `fabric`: the network between the nodes, as plan/fabric.py keeps it; `none`: nodes do not share one another's ways.
    """

    name: str
    nodes: int
    devices_per_node: int
    device: Device
    inside: Link
    between: Link
    shared_cores: int = 0
    fabric: str = NO_FABRIC

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.devices_per_node < 1:
            raise PlanError(
                f"a cluster has at least one node with one device, got {self.nodes} nodes of {self.devices_per_node}."
            )

    def __str__(self) -> str:
        return f"{self.name}: {self.nodes} × {self.devices_per_node} {self.device.name}"

    @property
    def num_devices(self) -> int:
        """Devices of all nodes together."""
        return self.nodes * self.devices_per_node

    def node(self, rank: int) -> int:
        """The node that `rank` sits on."""
        return rank // self.devices_per_node

    def link(self, *ranks: int) -> Link:
        """The slowest link class among `ranks`: inside one node, or between nodes."""
        return self.inside if len({self.node(rank) for rank in ranks}) == 1 else self.between

    def peak(self, world: int, dtype: Dtype) -> FlopsPerSecond:
        """FLOP/s of the devices of `world` ranks together; ranks that share cores count them once."""
        devices = world
        if self.shared_cores:
            full, rest = divmod(world, self.devices_per_node)
            devices = full * min(self.devices_per_node, self.shared_cores) + min(rest, self.shared_cores)
        return FlopsPerSecond(devices * self.device.peak[dtype])


@dataclass(frozen=True, slots=True)
class Ring:
    """A ring of `ranks` over a cluster.

    It crosses each node's border through the network cards of all its ranks there, so its bandwidth is theirs together,
    but never more than that inside. `around`: the latencies of n − 1 messages one after another; `call`: to begin.
    """

    ranks: int
    bandwidth: BytesPerSecond
    around: Seconds
    call: Seconds


def ring(cluster: Cluster, ranks: Iterable[int]) -> Ring:
    """The ring of `ranks`. Groups that communicate at once have cards of their own, since each device has its share."""
    nodes = Counter(map(cluster.node, ranks))
    return spread(cluster, nodes.total(), max(nodes.values()))


def spread(cluster: Cluster, ranks: int, inside: int) -> Ring:
    """The ring of so many ranks, at most `inside` of them on each node."""
    inside = min(inside, ranks)
    nodes = -(-ranks // inside)
    if nodes == 1:
        link = cluster.inside
        return Ring(ranks, link.bandwidth, Seconds((ranks - 1) * link.latency), link.call)
    link = cluster.between
    crossing = min(nodes, ranks - 1)
    around = crossing * link.latency + (ranks - 1 - crossing) * cluster.inside.latency
    bandwidth = min(cluster.inside.bandwidth, inside * link.bandwidth)
    return Ring(ranks, BytesPerSecond(bandwidth), Seconds(around), link.call)
