"""Devices and clusters known by name, read from devices.yaml, with the source of each number."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from importlib import resources
from typing import Any

import yaml

from headway.cluster.spec import Cluster, Device, Link
from headway.env import machine_memory, num_cores, processor_flags
from headway.errors import PlanError, nearest
from headway.units import Bytes, BytesPerSecond, Dtype, FlopsPerSecond, Seconds, parse_bandwidth, parse_bytes

MAX_LOCAL_RANKS = 64


def preset(name: str) -> Cluster:
    """The cluster called `name`."""
    if name not in _PRESETS:
        raise PlanError(f"no cluster preset is called '{name}'. {nearest(name, _PRESETS)}")
    return _PRESETS[name]()


def device(name: str) -> Device:
    """The device called `name`, in one of its spellings."""
    entries = _named(_file())
    if name not in entries:
        raise PlanError(f"no device is called '{name}'. {nearest(name, entries)}")
    return _device(*entries[name])


def of_devices(device: Device, *, nodes: int, per_node: int, inside: str, network: BytesPerSecond) -> Cluster:
    """A cluster of `nodes` with `per_node` devices each.

    `inside`: the link between devices of a node by one of its names ('', or NVLink of no generation: the device's own);
    `network`: bytes a second of each device's network card, of which collectives reach a share.
    """
    own = inside in {"", "NVLink", "NVLink+NVSwitch", "NVSwitch"}
    link = _own_link(device.name) if own else _link(inside)
    return Cluster(f"{nodes} × {per_node} {device.name}", nodes, per_node, device, link, _network("network", network))


def local_cpu() -> Cluster:
    """This machine's cores and memory; ranks beyond the cores share them."""
    flags = processor_flags()
    newest = "CPU-core-AMX" if "amx_bf16" in flags else "CPU-core"
    name = newest if "avx512f" in flags or "avx2" not in flags else "CPU-core-AVX2"
    loopback = _own_link(name)
    core = replace(device(name), memory=machine_memory())
    return Cluster("local-cpu", 1, MAX_LOCAL_RANKS, core, loopback, loopback, shared_cores=num_cores())


def _a100_80gb_hdr() -> Cluster:
    """The cluster of Narayanan et al. 2021, §5: DGX A100, NVLink 3 (300 GB/s a direction), one HDR NIC a GPU."""
    return _cluster("a100-80gb-hdr", "A100-80GB", 384, parse_bandwidth("200Gbps"), "HDR InfiniBand")


def _h800_hpn() -> Cluster:
    """Alibaba HPN (Qian et al. 2024): 8 GPUs a host, NVLink 400 GB/s both ways together, 2 × 200 Gbps a GPU."""
    return _cluster("h800-hpn", "H800-80GB", 1920, parse_bandwidth("400Gbps"), "2 × 200 Gbps RoCE")


def _ascend_910b() -> Cluster:
    """Atlas 800T A2: 8 × Ascend 910B with 64 GB, HCCS full mesh (56 GB/s a pair), one 200 Gbps NIC an NPU."""
    return _cluster("ascend-910b", "Ascend-910B", 128, parse_bandwidth("200Gbps"), "200 Gbps RoCE")


def _cluster(name: str, of: str, nodes: int, network: BytesPerSecond, card: str) -> Cluster:
    each = device(of)
    return Cluster(name, nodes, 8, each, _own_link(of), _network(card, network))


def _device(name: str, entry: Mapping[str, Any]) -> Device:
    def rates(key: str) -> dict[Dtype, FlopsPerSecond]:
        return {Dtype(dtype): FlopsPerSecond(float(rate)) for dtype, rate in entry[key].items()}

    forward, backward = map(float, entry["attention"])
    return Device(
        name,
        entry["kind"],
        parse_bytes(entry["memory"]),
        peak=rates("peak"),
        matmul=rates("products"),
        memory_bandwidth=BytesPerSecond(float(entry["stream"])),
        launch=Seconds(float(entry["launch"])),
        processors=entry["processors"],
        ramp=entry["ramp"],
        attention=(forward, backward),
        reserved=Bytes(parse_bytes(entry["reserved"])),
        fragmented=entry["fragmented"],
        **{key: BytesPerSecond(float(entry.get(key, 0))) for key in ("host_link", "host_stream", "disk")},
        sources=entry["sources"],
    )


def _own_link(device: str) -> Link:
    """The link inside a node that a device has."""
    return _link(_named(_file())[device][1]["link"])


def _link(name: str) -> Link:
    entries = _named(_file()["links"])
    if name not in entries:
        raise PlanError(f"no link inside a node is called '{name}'. {nearest(name, entries)}")
    known, entry = entries[name]
    return _reached(known, float(entry["bandwidth"]), entry)


def _network(name: str, bandwidth: float) -> Link:
    return _reached(name, bandwidth, _file()["network"])


def _reached(name: str, bandwidth: float, entry: Mapping[str, Any]) -> Link:
    reached = BytesPerSecond(bandwidth * entry["reached"])
    times = Seconds(float(entry["latency"])), Seconds(float(entry["call"]))
    in_switch = BytesPerSecond(float(entry.get("in_switch", 0)))
    return Link(name, times[0], reached, times[1], in_switch, BytesPerSecond(bandwidth))


def _named(entries: Mapping[str, Any]) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Every spelling → (name, entry)."""
    described = {name: entry for name, entry in entries.items() if name not in {"links", "network"}}
    return {word: (name, entry) for name, entry in described.items() for word in (name, *entry.get("also", ()))}


@lru_cache(maxsize=1)
def _file() -> dict[str, Any]:
    text = resources.files("headway.cluster").joinpath("devices.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


_PRESETS = {
    "local-cpu": local_cpu,
    "a100-80gb-hdr": _a100_80gb_hdr,
    "h800-hpn": _h800_hpn,
    "ascend-910b": _ascend_910b,
}
