"""NCCL's topology XML as a Node: the file that NCCL_TOPO_DUMP_FILE writes, read without trust."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headway.errors import PlanError
from headway.fabric import elements
from headway.fabric.elements import Element
from headway.fabric.fabric import NONE
from headway.fabric.node import Gpu, Node, NvLinks, Peer, Port, Slot, pci_rate
from headway.units import BytesPerSecond, Seconds

_INSIDE = {  # what is read inside what; anything else, and all inside it, is left out
    "": ("system",),
    "system": ("cpu",),
    "cpu": ("pci", "nic"),
    "pci": ("pci", "gpu", "nic"),
    "gpu": ("nvlink",),
    "nic": ("net",),
    "nvlink": (),
    "net": (),
}
_VERSION = 1  # the one that NCCL writes, and the only one that it reads itself
_DECIMAL = re.compile(r"[0-9]{1,12}(?:\.[0-9]{0,12})?(?:[eE][+-]?[0-9])?")
_SPEED = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,3})?) GT/s(?: PCIe)?")
_BUS = re.compile(r"[0-9a-fA-F]{1,8}(?:[:.][0-9a-fA-F]{1,8}){1,3}")
_MOST_LANES = 32
_NO_SPEED, _NO_WIDTH = 8.0, 16  # what NCCL takes where the kernel knows none, as in a virtual machine
_OWN = 2**16  # NCCL sets this bit in rails and planes that it numbered itself because nobody told it any
# Broadcom's switches (4.0 and 5.0) show themselves as two levels, though they are one: vendor, device, subsystem's
# vendor, first digit of subsystem's device; of the upper level → of the lower one. NCCL merges them, too.
_TWO_LEVELS = {
    (0x1000, 0xC010, 0x1000, 0xA): (0x1000, 0xC010, 0x1000, 0xA),
    (0x1000, 0xC030, 0x1000, 0x0): (0x1000, 0xC030, 0x1000, 0x1),
}


def parse(data: bytes, name: str) -> Node:
    """The node that a file describes; unknown elements and attributes are left out, and so are C2C and PCI shortcuts.

    Raises PlanError, with the line where there is one: no XML in UTF-8, a DOCTYPE, too large or too deep, another
    version than 1, several hosts, attributes that lack or are no numbers, devices that stand twice.
    """
    system = _system(data, name)
    gathered = _Gathered({}, [])
    gpus: list[tuple[Element, str, Slot]] = []
    ports: list[Port] = []
    for cpu in system.inside:
        number = cpu.whole("numaid")
        gathered.once(cpu, "numaid", number)
        for place, nic in enumerate(cpu.each("nic")):  # a card on no PCI bus that the host knows
            ports += _ports(nic, Slot(number), f"cpu {number} nic {place}")
        for element, bus, slot in _devices(cpu, Slot(number), gathered):
            if element.tag == "gpu":
                gpus.append((element, bus, slot))
            else:
                ports += _ports(element, slot, bus[:-2] if bus[-2] == "." else bus)
    told = {_bus_number(bus): element.whole("dev", least=0) for element, bus, _ in gpus}
    return Node(
        name=Path(name).name,
        cpus=tuple(cpu.whole("numaid") for cpu in system.inside),
        gpus=tuple(sorted((_gpu(*each, told) for each in gpus), key=lambda gpu: gpu.dev)),
        ports=tuple(sorted(ports, key=lambda port: port.dev)),
        assumptions=_assumptions(len(gathered.untold)),
    )


@dataclass(frozen=True, slots=True)
class _Gathered:
    """What is gathered on the way: the element of each CPU and bus, buses whose link is not fully told."""

    first: dict[tuple[str, int], Element]
    untold: list[str]

    def once(self, element: Element, key: str, value: int) -> None:
        first = self.first.setdefault((key, value), element)
        if first is not element:
            what = f"has {key} {element.attributes[key]}, as one in line {first.line} has"
            raise element.wrong(what, "A file describes one host, each device once")


def _system(data: bytes, name: str) -> Element:
    outside = elements.read(data, name, _INSIDE)
    if not outside.inside:
        raise PlanError(f"{name} has no <system>, so it is no topology of NCCL's. Give what NCCL_TOPO_DUMP_FILE wrote.")
    system = outside.inside[0]
    if system.whole("version") != _VERSION:
        raise system.wrong(f"has version {system.whole('version')}", f"Only {_VERSION} is known, to NCCL as well")
    hosts = {cpu.attributes.get("host_hash", "") for cpu in system.inside}
    if len(hosts) > 1:
        raise PlanError(f"{name} describes {len(hosts)} hosts (host_hash). Give the file of one.")
    return system


def _devices(
    element: Element, here: Slot, gathered: _Gathered, *, whole: bool = True
) -> Iterator[tuple[Element, str, Slot]]:
    """Each <gpu> and <nic> below an element on the PCI tree, with its bus and where it hangs.

    `here` is what a device right below would hang from; `whole`: the element is no lower level of another switch.
    """
    for pci in element.each("pci"):
        bus = _bus(pci, "busid")
        gathered.once(pci, "busid", _bus_number(bus))
        up = (_rate(pci, gathered), *here.links)
        for device in pci.inside:
            if device.tag != "pci":
                yield device, bus, Slot(here.cpu, here.switches, up)
        if whole and element.tag == "pci" and _TWO_LEVELS.get(_chip(element), ()) == _chip(pci):
            yield from _devices(pci, here, gathered, whole=False)
        else:
            yield from _devices(pci, Slot(here.cpu, (bus, *here.switches), up), gathered)


def _chip(pci: Element) -> tuple[int, int, int, int]:
    vendor, device, maker, model = (pci.whole_or(key, 0) for key in _CHIP)
    return vendor, device, maker, model >> 12


_CHIP = ("vendor", "device", "subsystem_vendor", "subsystem_device")


def _gpu(element: Element, bus: str, slot: Slot, told: dict[int, int]) -> Gpu:
    counts: dict[tuple[Peer, int], int] = {}
    for link in element.each("nvlink"):
        to = _peer(link, told)
        counts[to] = counts.get(to, 0) + link.whole("count", least=1)
    return Gpu(
        dev=element.whole("dev", least=0),
        busid=bus,
        sm=element.whole("sm"),
        rank=element.whole_or("rank", NONE),
        gdr=element.whole_or("gdr", 0) > 0,
        slot=slot,
        nvlinks=tuple(NvLinks(count, *to) for to, count in sorted(counts.items(), key=lambda each: each[0][1])),
    )


def _peer(link: Element, told: dict[int, int]) -> tuple[Peer, int]:
    """What an NVLink leads to, by its PCI class, and which GPU; without a class, a GPU of the file."""
    target = _bus_number(_bus(link, "target")) if link.attributes.get("target") else NONE
    kind = "0x03" if target in told else link.text("tclass")
    if kind.startswith("0x03"):
        return Peer.GPU, told.get(target, NONE)
    return (Peer.CPU if kind.startswith("0x068001") else Peer.SWITCH), NONE


def _ports(nic: Element, slot: Slot, card: str) -> Iterator[Port]:
    """The ports of a card, without those that NCCL fused into a virtual one (net="0")."""
    for net in nic.inside:
        if not net.whole_or("net", 1):
            continue
        name = net.text("name")
        if not name.isprintable() or len(name) > 255:
            raise net.wrong(f"has name {name[:60]!r}", "Use letters that can be printed, 255 at most")
        speed = net.whole_or("speed", 0)  # Mbit/s; some drivers say −1, for which NCCL takes 10 Gbit/s
        latency = net.attributes.get("latency") or "0"
        if not _DECIMAL.fullmatch(latency):
            raise net.wrong(f"has latency {latency[:60]!r}", "Write microseconds, like 2.5")
        rail, plane = (net.whole_or(key, NONE) for key in ("rail", "plane"))
        yield Port(
            dev=net.whole("dev", least=0),
            name=name,
            number=net.whole_or("port", 0),
            card=card,
            rate=BytesPerSecond((speed if speed > 0 else 10_000) * 1e6 / 8),
            latency=Seconds(float(latency) / 1e6),
            gdr=net.whole_or("gdr", 0) > 0,
            rail=rail if 0 <= rail < _OWN else NONE,
            plane=plane if 0 <= plane < _OWN else NONE,
            slot=slot,
        )


def _rate(pci: Element, gathered: _Gathered) -> BytesPerSecond:
    speed, lanes = pci.attributes.get("link_speed", ""), pci.whole_or("link_width", 0)
    if speed.startswith("Unknown"):  # the kernel's word
        speed = ""
    match = _SPEED.fullmatch(speed)
    if speed and not (match and float(match[1]) > 0):
        raise pci.wrong(f"has link_speed {speed[:60]!r}", "Write it like 16.0 GT/s PCIe")
    if not 0 <= lanes <= _MOST_LANES:
        raise pci.wrong(f"has link_width {lanes}", f"Use 1 to {_MOST_LANES} lanes")
    if not (match and lanes):
        gathered.untold.append(pci.text("busid"))
    return pci_rate(float(match[1]) if match else _NO_SPEED, lanes or _NO_WIDTH)


def _bus(element: Element, key: str) -> str:
    word = element.text(key)
    if not _BUS.fullmatch(word):
        raise element.wrong(f"has {key} {word[:60]!r}", "Write a PCI bus like 0000:18:00.0")
    return word.lower()


def _bus_number(bus: str) -> int:
    """What NCCL compares buses by: the digits alone, so that `00000000:18:00.0` is `0000:18:00.0`."""
    return int(bus.replace(":", "").replace(".", ""), 16)


def _assumptions(untold: int) -> tuple[str, ...]:
    if not untold:
        return ()
    links = "1 PCI link" if untold == 1 else f"{untold} PCI links"
    return (
        f"The file does not tell the speed or the width of {links}. Taken are {_NO_SPEED:g} GT/s and {_NO_WIDTH} "
        "lanes where they lack, as NCCL does.",
    )
