"""ContainerSpec: all that an engine must be told to make one container, checked value by value."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from headway.errors import PlanError
from headway.units import Bytes

PROFILE = "headway.profile"  # the label that makes a container Headway's; `stop`, `exec` and `remove` touch no other
DEVICES = "headway.devices"  # the label that says which devices it was given, as 0-3,6

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]+")  # Docker's own rule
_IMAGE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.:/@+-]*")
_USER = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_.-]*(:[a-zA-Z0-9_][a-zA-Z0-9_.-]*)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# what a terminal obeys, and bytes that are no UTF-8, which no engine can be told
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_CONTROL_BUT_LINES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_LONGEST_ID = 1023  # numbers above are typing mistakes; the largest host has 16 devices


class Ipc(StrEnum):
    """Whose shared memory a container sees: the host's /dev/shm, or one of its own."""

    HOST = "host"
    PRIVATE = "private"


class Access(StrEnum):
    """How NVIDIA GPUs come in: as CDI names, or by the engine's `--gpus`."""

    CDI = "cdi"
    GPUS = "gpus"


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or directory of the host at `target` in the container; both paths are absolute."""

    source: str
    target: str
    read_only: bool

    def __post_init__(self) -> None:
        check_path(self.source, "a mount's place on the host")
        check_path(self.target, "a mount's place in the container")
        if normal(self.target) == "/":
            raise PlanError(f"{self.source} cannot be mounted over the container's /. Choose a directory, like /work.")


@dataclass(frozen=True, slots=True)
class Device:
    """A device node of the host (or a directory of them) at `target` in the container."""

    source: str
    target: str

    def __post_init__(self) -> None:
        for path in (self.source, self.target):
            check_path(path, "a device's path")
            if ":" in path:  # Docker separates host, container and rights by colons and knows no quoting
                raise PlanError(
                    f"the device path '{path}' has a colon, which no engine can be told. Make a link to it."
                )


@dataclass(frozen=True, slots=True)
class Gpus:
    """NVIDIA GPUs by number, or all where `ids` is empty."""

    access: Access
    ids: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """CDI's names of them."""
        return tuple(f"nvidia.com/gpu={each}" for each in self.ids or ("all",))


@dataclass(frozen=True, slots=True)
class Port:
    """A port of the host that leads to one of the container."""

    host: int
    container: int
    protocol: str = "tcp"
    address: str = ""  # of the host; empty: all of them

    def __post_init__(self) -> None:
        for number in (self.host, self.container):
            if not 1 <= number <= 65_535:
                raise PlanError(f"there is no port {number}. Ports go from 1 to 65535.")


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """One container. `ulimits` are soft and hard at once, −1 for unlimited; `shm_size` goes with private IPC only."""

    image: str
    name: str
    command: tuple[str, ...]
    labels: tuple[tuple[str, str], ...]
    workdir: str | None = None
    environment: tuple[tuple[str, str], ...] = ()
    mounts: tuple[Mount, ...] = ()
    devices: tuple[Device, ...] = ()
    gpus: Gpus | None = None
    runtime: str | None = None  # None: the engine's default
    network: str = "host"
    ports: tuple[Port, ...] = ()
    ipc: Ipc = Ipc.HOST
    shm_size: Bytes | None = None
    pids_limit: int = 409_600
    ulimits: tuple[tuple[str, int], ...] = ()
    capabilities: tuple[str, ...] = ()
    user: str | None = None
    groups: tuple[int, ...] = ()  # of the host, by number, that its user is put into
    privileged: bool = False
    terminal: bool = False  # made with -it: its first process is at the terminal that made it

    def __post_init__(self) -> None:
        check_name(self.name)
        _match(_IMAGE, self.image, "an image", "Write it like name:tag or registry/name:tag.")
        _match(_NAME, self.network, "a network", "Use host, bridge, none or a network's name.")
        if self.user is not None:
            _match(_USER, self.user, "a user", "Write it like 1000, 1000:1000 or a name in the image.")
        if self.workdir is not None:
            check_path(self.workdir, "the work directory")
        for name, value in self.environment:
            _match(_VARIABLE, name, "a variable", "Names are letters, digits and _, no digit first.")
            _refuse_control(value, f"the value of {name}", _CONTROL_BUT_LINES)
        for word in self.command:
            _refuse_control(word, "a word of the command", _CONTROL_BUT_LINES)
        assert (self.shm_size is None) == (self.ipc is Ipc.HOST)


def check_name(name: str) -> None:
    """Refuse what Docker takes for no container's name; what is left can be neither an option nor a path."""
    _match(_NAME, name, "a container", "Names are two or more letters, digits, _ . or -, a letter or digit first.")


def check_path(path: str, what: str) -> None:
    """Refuse a path that is not absolute, or that holds a control character."""
    _refuse_control(path, what, _CONTROL)
    if not path.startswith("/"):
        raise PlanError(f"{what} is '{path}', which is not absolute. Write the whole path, from / on.")


def normal(path: str) -> str:
    """An absolute path without `.`, `..` and doubled slashes.

    >>> normal("//etc/./ssh/..")
    '/etc'
    """
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in {"", "."}:
            parts.append(part)
    return "/" + "/".join(parts)


def parse_ids(text: str) -> tuple[int, ...]:
    """Numbers of devices from `0-3,6`, in rising order; PlanError where it is no such list.

    >>> parse_ids("0-3,6")
    (0, 1, 2, 3, 6)
    """
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last > _LONGEST_ID:
            raise PlanError(f"'{text}' is no list of devices. Write it like 0-7 or 0,2,4-5.")
        twice = found & set(range(first, last + 1))
        if twice:
            raise PlanError(f"'{text}' names device {min(twice)} twice. Name it once.")
        found |= set(range(first, last + 1))
    return tuple(sorted(found))


def show_ids(ids: Sequence[int]) -> str:
    """Numbers in rising order as ranges: what `parse_ids` reads.

    >>> show_ids((0, 1, 2, 3, 6))
    '0-3,6'
    """
    ranges: list[list[int]] = []
    for each in ids:
        if ranges and each == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], each]
        else:
            ranges.append([each])
    return ",".join("-".join(map(str, each)) for each in ranges)


def _match(pattern: re.Pattern[str], value: str, what: str, remedy: str) -> None:
    if not pattern.fullmatch(value):
        raise PlanError(f"{value!r} is no name of {what}. {remedy}")


def _refuse_control(value: str, what: str, pattern: re.Pattern[str]) -> None:
    found = pattern.search(value)
    if found:
        raise PlanError(f"{what} holds the character {found[0]!r}: {value!r}. Leave it out.")
