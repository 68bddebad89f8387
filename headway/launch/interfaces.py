"""Network interfaces of a host, which of them the ranks of a job should meet over, and what to export for that."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Kind = Literal["cpu", "cuda", "npu"]

# made by container engines, virtual machines and tunnels of this host: no other host reaches it there
_LOCAL_ONLY = re.compile(
    r"(docker|podman|br-|virbr|veth|vnet|cni|flannel|cali|cilium|lxc|lxd|kube|nodelocal|tunl|ifb|tap|tun|dummy|wg).*"
)


class Make(StrEnum):
    """What kind of thing an interface is."""

    LOOPBACK = "loopback"
    PORT = "port"  # of a network card
    BOND = "bond"
    VIRTUAL = "virtual"


@dataclass(frozen=True, slots=True)
class Interface:
    """One interface as the kernel shows it. `speed` in bits a second (None: not said, as in virtual machines).

    `card` is the network card that a port is on (its place on the bus), `number` the port's place there. `master` is
    the bond or bridge that it belongs to, `members` are a bond's own ports.
    """

    name: str
    make: Make
    carrier: bool
    mtu: int
    speed: float | None = None
    ipv4: str | None = None
    ipv6: str | None = None
    default_route: bool = False
    master: str | None = None
    members: tuple[str, ...] = ()
    bonding: str = ""  # a bond's mode
    card: str | None = None
    number: int = 0

    @property
    def address(self) -> str | None:
        """The address that others reach it at."""
        return self.ipv4 or self.ipv6


def candidates(interfaces: Sequence[Interface]) -> tuple[Interface, ...]:
    """Interfaces over which other hosts may reach this one, the best first.

    That of the default route comes first, since all hosts reach each other over it; then the fastest.
    """
    usable = [
        each
        for each in interfaces
        if each.carrier and each.address and each.make is not Make.LOOPBACK and not _LOCAL_ONLY.fullmatch(each.name)
    ]
    return tuple(sorted(usable, key=lambda each: (not each.default_route, -(each.speed or 0), each.name)))


def exports(name: str, kind: Kind, address: str | None = None) -> dict[str, str]:
    """Variables that bind the bootstrap of a job's communication to an interface, with its address on this host.

    gloo is used beside any other backend. NCCL takes a bare name for a prefix, and `=` for the whole name (its
    documentation of NCCL_SOCKET_IFNAME). HCCL and torch_npu are told the address too, since HCCL_IF_IP comes first
    where they look (hiascend, environment variables of HCCL).
    """
    found = {"GLOO_SOCKET_IFNAME": name}
    if kind == "cuda":
        found["NCCL_SOCKET_IFNAME"] = f"={name}"
    if kind == "npu":
        found |= {"HCCL_SOCKET_IFNAME": name, "TP_SOCKET_IFNAME": name}
        if address:
            found["HCCL_IF_IP"] = address
    return found
