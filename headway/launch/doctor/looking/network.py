"""The network of this host as the kernel shows it: interfaces, which card each port is on, bonds, RDMA ports."""

import fcntl
import re
import socket
import struct
from collections.abc import Callable
from pathlib import Path

from headway import env
from headway.launch.doctor.machine import Network, RdmaPort
from headway.launch.interfaces import Interface, Make

Address = Callable[[str], str | None]  # an interface's name → its IPv4 address

_LOOPBACK = "772"  # ARPHRD_LOOPBACK
_BUS = re.compile(r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})\.([0-7])")
_GET_ADDRESS = 0x8915  # SIOCGIFADDR
_GLOBAL = "00"  # the scope of an IPv6 address, as /proc/net/if_inet6 has it


def look(root: Path = Path("/"), ipv4: Address | None = None) -> Network:
    """What `root`/sys and `root`/proc say; `ipv4` finds addresses, which are in neither."""
    ipv4 = ipv4 or _ipv4
    classes = root / "sys/class/net"
    default, ipv6 = _default_route(root / "proc/net/route"), _ipv6(root / "proc/net/if_inet6")
    names = sorted(each.name for each in classes.iterdir() if each.is_dir()) if classes.is_dir() else []
    found = [_interface(classes / name, ipv4(name), ipv6.get(name), is_default=name == default) for name in names]
    return Network(tuple(found), _rdma(root / "sys/class/infiniband"), variables=env.bound_interfaces())


def resolve() -> str | None:
    """The address that this host's own name leads to; None where it leads to none. May wait for a name server."""
    try:
        return str(socket.getaddrinfo(socket.gethostname(), None)[0][4][0])
    except OSError:
        return None


def _interface(path: Path, ipv4: str | None, ipv6: str | None, *, is_default: bool) -> Interface:
    bonding = path / "bonding"
    master = path / "master"
    card, function = _card(path)
    speed = _number(path / "speed")
    return Interface(
        path.name,
        _make(path),
        _read(path / "carrier") == "1",
        _number(path / "mtu") or 0,
        speed * 1e6 if speed and speed > 0 else None,
        ipv4,
        ipv6,
        is_default,
        master.resolve().name if master.exists() else None,
        tuple(sorted(_read(bonding / "slaves").split())),
        _read(bonding / "mode").split(" ")[0],
        card,
        16 * function + (_number(path / "dev_port") or 0),
    )


def _make(path: Path) -> Make:
    if _read(path / "type") == _LOOPBACK:
        return Make.LOOPBACK
    if (path / "bonding").is_dir():
        return Make.BOND
    return Make.PORT if (path / "device").exists() else Make.VIRTUAL


def _card(path: Path) -> tuple[str | None, int]:
    """The place on the bus of the card that an interface is a port of, and its function; a virtual function has none.

    A port behind virtio has its card one level up.
    """
    device = path / "device"
    if not device.exists() or (device / "physfn").exists():
        return None, 0
    places = _BUS.findall(str(device.resolve()))
    return (places[-1][0], int(places[-1][1])) if places else (None, 0)


def _rdma(classes: Path) -> tuple[RdmaPort, ...]:
    ports = sorted(classes.glob("*/ports/*"))
    return tuple(_rdma_port(each) for each in ports if each.name.isdecimal())


def _rdma_port(path: Path) -> RdmaPort:
    rate = re.match(r"([0-9.]{1,8}) Gb/sec", _read(path / "rate"))  # like `200 Gb/sec (4X HDR)`
    return RdmaPort(
        path.parents[1].name,
        int(path.name),
        "ACTIVE" in _read(path / "state"),
        float(rate[1]) * 1e9 if rate and rate[1].count(".") < 2 else None,
        _read(path / "link_layer") == "Ethernet",
    )


def _default_route(path: Path) -> str | None:
    """The interface of the IPv4 default route with the least metric."""
    rows = [line.split() for line in _read(path).splitlines()[1:]]
    routes = [row for row in rows if len(row) > 7 and row[1] == row[7] == "00000000" and row[6].isdecimal()]
    return min(routes, key=lambda row: int(row[6]))[0] if routes else None


def _ipv6(path: Path) -> dict[str, str]:
    """Interface → its first global IPv6 address."""
    found: dict[str, str] = {}
    for row in map(str.split, _read(path).splitlines()):
        if len(row) == 6 and row[3] == _GLOBAL and re.fullmatch(r"[0-9a-f]{32}", row[0]):
            found.setdefault(row[5], socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0])))
    return found


def _ipv4(name: str) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            answer = fcntl.ioctl(any_socket, _GET_ADDRESS, struct.pack("256s", name.encode()[:15]))
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:  # a port that is down has no readable carrier
        return ""


def _number(path: Path) -> int | None:
    text = _read(path)
    return int(text, 0) if re.fullmatch(r"-?[0-9]{1,9}|0x[0-9a-f]{1,8}", text) else None
