"""Cluster: devices, nodes and links as frozen data."""

from dataclasses import dataclass
from typing import Literal

from headway.errors import PlanError
from headway.units import Bytes, BytesPerSecond, Dtype, Flops, FlopsPerSecond, Seconds


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator, or one process's share of a CPU.

    `peak` is the data sheet's figure (MFU is over it), `matmul` the rate that large matrix products reach,
    `memory_bandwidth` what streaming kernels reach, `launch` the host's time to start one kernel.
    """

    name: str
    kind: Literal["cpu", "cuda", "npu"]
    memory: Bytes
    peak: dict[Dtype, FlopsPerSecond]
    matmul: dict[Dtype, FlopsPerSecond]
    memory_bandwidth: BytesPerSecond
    launch: Seconds

    def __post_init__(self) -> None:
        rates = (*self.peak.values(), *self.matmul.values(), self.memory_bandwidth)
        if not all(rate > 0 for rate in rates) or self.memory < 1 or self.launch < 0:
            raise PlanError(f"a device has rates and memory above 0 and no negative times, got {self}.")

    def computing(self, flops: Flops, traffic: Bytes, kernels: int, dtype: Dtype) -> Seconds:
        """How long it computes: products and traffic are added, since eager kernels do not overlap."""
        return Seconds(flops / self.matmul[dtype] + traffic / self.memory_bandwidth + kernels * self.launch)


@dataclass(frozen=True, slots=True)
class Link:
    """A way between two ranks: seconds = latency + bytes / bandwidth (the alpha-beta model)."""

    name: str
    latency: Seconds
    bandwidth: BytesPerSecond

    def __post_init__(self) -> None:
        if not (self.bandwidth > 0 and self.latency >= 0):
            raise PlanError(f"a link has bandwidth above 0 and latency not below, got {self}.")


@dataclass(frozen=True, slots=True)
class Cluster:
    """Alike nodes of alike devices: ranks fill a node before the next one.

    `shared_cores` is the number of cores that the ranks of a node compete for; 0 where each device computes on its own.
    """

    name: str
    nodes: int
    devices_per_node: int
    device: Device
    inside: Link
    between: Link
    shared_cores: int = 0

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
