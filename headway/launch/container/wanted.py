"""Wanted: what a user asks of a container, and the words of the command line that say it."""

import re
from dataclasses import dataclass

from headway.errors import PlanError
from headway.launch.container.profiles import Via
from headway.launch.container.spec import Device, Ipc, Mount, Port
from headway.units import Bytes

SOCKETS = ("/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock")


@dataclass(frozen=True, slots=True)
class Wanted:
    """One container as its user asks for it; what is None or empty follows from the profile and the host."""

    profile: str
    image: str
    name: str
    command: tuple[str, ...] = ()
    ids: tuple[int, ...] | None = None
    via: Via | None = None
    mounts: tuple[Mount, ...] = ()
    devices: tuple[Device, ...] = ()  # beside the profile's
    workdir: str | None = None
    environment: tuple[tuple[str, str], ...] = ()
    without: tuple[str, ...] = ()
    network: str = "host"
    ports: tuple[Port, ...] = ()
    ipc: Ipc | None = None
    shm_size: Bytes | None = None
    user: str | None = None
    privileged: bool = False
    terminal: bool = False
    dangerous_mounts: bool = False  # the user said that they are meant
    sockets: tuple[str, ...] = SOCKETS  # by which engines are told what to do


def parse_mount(text: str) -> Mount:
    """A mount from `LOCAL:DOCKER` or `LOCAL:DOCKER:ro`; it can be written to unless `ro` says otherwise.

    >>> parse_mount("/data/c4:/data:ro")
    Mount(source='/data/c4', target='/data', read_only=True)
    """
    rest, _, last = text.rpartition(":")
    places, mode = (rest, last) if last in {"ro", "rw"} else (text, "rw")
    source, colon, target = places.rpartition(":")
    if not colon or not source or not target:
        raise PlanError(f"--mount {text}: write it as LOCAL:DOCKER or LOCAL:DOCKER:ro, like /data:/data:ro.")
    return Mount(source, target, mode == "ro")


def parse_device(text: str) -> Device:
    """A device from `HOST` or `HOST:CONTAINER`.

    >>> parse_device("/dev/fuse")
    Device(source='/dev/fuse', target='/dev/fuse')
    """
    source, colon, target = text.partition(":")
    return Device(source, target if colon else source)


def parse_port(text: str) -> Port:
    """A port from `HOST:CONTAINER`, with an address of the host before it or a protocol behind it.

    >>> parse_port("127.0.0.1:8080:80/udp")
    Port(host=8080, container=80, protocol='udp', address='127.0.0.1')
    """
    match = re.fullmatch(r"(?:([0-9.]+):)?([0-9]{1,6}):([0-9]{1,6})(?:/(tcp|udp))?", text)
    if not match:
        raise PlanError(f"--publish {text}: write it as HOST:CONTAINER, like 8080:80 or 127.0.0.1:8080:80/udp.")
    return Port(int(match[2]), int(match[3]), match[4] or "tcp", match[1] or "")


def parse_variable(text: str) -> tuple[str, str]:
    """A variable's name and value from `NAME=VALUE`."""
    name, equals, value = text.partition("=")
    if not equals:
        raise PlanError(f"--env {text}: write it as NAME=VALUE, like --env OMP_NUM_THREADS=1.")
    return name, value
