"""This host, looked at from all sides at once: limits, disks, clock, ports, and what the other modules here find."""

import ctypes
import errno
import os
import platform
import re
import resource
import shutil
import socket
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from headway import env
from headway.launch.doctor.looking import devices, engine, memory, network, software
from headway.launch.doctor.looking.bounded import Look
from headway.launch.doctor.machine import Clock, Machine, Silent, Space, Torch
from headway.units import Bytes, Seconds

WITHIN = Seconds(5.0)  # for what needs no tool and no torch
TOOLS_WITHIN = Seconds(2 * devices.WITHIN + 2)  # a table, then the links
ALL_WITHIN = Seconds(software.IMPORT_WITHIN + TOOLS_WITHIN)
RENDEZVOUS = 29_500  # where torchrun's ranks meet, unless it is told otherwise
HCCL = range(60_000, 60_016)  # where HCCL's bootstrap listens (HCCL_IF_BASE_PORT's default)
_TIMEX = 208  # bytes of struct timex on 64-bit Linux
_UNSYNCHRONISED = 0x40  # STA_UNSYNC


def look(scratch: Path = Path()) -> Machine:
    """All that the checks ask about this host. Nothing here raises: what breaks or hangs is in `silent`."""
    packages = Look("the installed packages", software.look, WITHIN)
    torch, bare = _looks_at_torch()
    npus, gpus = (
        Look("Ascend devices", devices.npus, TOOLS_WITHIN),
        Look("NVIDIA devices", devices.gpus, TOOLS_WITHIN),
    )
    interfaces = Look("the network interfaces", network.look, WITHIN)
    name = Look("the address of this host's name", network.resolve, WITHIN)
    shared = Look("/dev/shm", lambda: space(Path("/dev/shm")), WITHIN)
    disk = Look("the disk here", lambda: space(scratch), WITHIN)
    steered = Look("the clock", clock, WITHIN)
    ports = Look("ports", lambda: taken((RENDEZVOUS, *HCCL)), WITHIN)
    docker = Look("the container engine", lambda: engine.look(env.for_docker()), Seconds(2 * engine.WITHIN + 1))
    total, available = memory.look()
    silent: list[Silent] = []
    found, cards, address = packages.heard(silent), interfaces.heard(silent), name.heard(silent)
    return Machine(
        platform.node(),
        f"{platform.system()} {platform.release()} {platform.machine()}",
        env.num_cores(),
        total,
        available,
        found and replace(found, torch=_torch(torch), bare=_torch(bare)),
        npus.heard(silent),
        gpus.heard(silent),
        cards and replace(cards, resolved=address),
        shared.heard(silent),
        disk.heard(silent),
        _memlock(),
        steered.heard(silent),
        ports.heard(silent) or {},
        _ranges(_read("/proc/sys/net/ipv4/ip_local_reserved_ports")),
        next(iter(_ranges(_read("/proc/sys/net/ipv4/ip_local_port_range").replace("\t", "-"))), None),
        docker.heard(silent),
        tuple(silent),
    )


def _looks_at_torch() -> tuple[Look[Torch] | None, Look[Torch] | None]:
    """Torch as it comes, and without the plug-ins that load themselves; where there are none, that is the same."""
    within = Seconds(software.IMPORT_WITHIN + 3)
    if not software.is_installed("torch"):
        return None, None
    with_them = Look("torch", lambda: software.torch(autoload=True), within)
    if not software.plugins():
        return with_them, None
    return with_them, Look("torch without plug-ins", lambda: software.torch(autoload=False), within)


def _torch(looking: Look[Torch] | None) -> Torch | None:
    if looking is None:
        return None
    answer = looking.answer()
    return Torch(answer.why) if isinstance(answer, Silent) else answer


def space(path: Path) -> Space:
    """The file system of the nearest directory above `path` that exists."""
    place = path.expanduser().absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    usage = shutil.disk_usage(place)
    writable = place.is_dir() and os.access(place, os.W_OK | os.X_OK)
    return Space(str(place), Bytes(usage.total), Bytes(usage.free), writable)


def clock() -> Clock | None:
    """What the kernel says of its clock (adjtimex(2), which anybody may ask); None where it is not Linux."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "adjtimex"):
        return None
    asked = ctypes.create_string_buffer(_TIMEX)  # modes 0: nothing is set
    if libc.adjtimex(asked) < 0:
        return None
    error = int.from_bytes(asked.raw[24:32], "little", signed=True)  # maxerror, in µs
    status = int.from_bytes(asked.raw[40:44], "little")
    return Clock(synchronised=not status & _UNSYNCHRONISED, error=Seconds(error / 1e6))


def taken(ports: Iterable[int]) -> dict[int, str]:
    """Ports of all addresses that cannot be listened at, and why."""
    found = {}
    for port in ports:
        with socket.socket(socket.AF_INET) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a connection that has ended keeps nobody out
            try:
                trial.bind(("", port))
            except OSError as error:
                found[port] = "in use" if error.errno == errno.EADDRINUSE else f"{error.strerror}"
    return found


def _memlock() -> Bytes | None:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if soft == resource.RLIM_INFINITY else Bytes(soft)


def _ranges(text: str) -> tuple[range, ...]:
    """Ranges of ports as the kernel writes them: `60000-60015,61000`."""
    matches = (re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", part.strip()) for part in text.split(","))
    return tuple(range(int(match[1]), int(match[2] or match[1]) + 1) for match in matches if match)


def _read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace").strip()
    except OSError:
        return ""
