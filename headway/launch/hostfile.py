"""A hostfile: one host a line, `name slots=8`, as DeepSpeed and MPI write it."""

import re
from pathlib import Path

from headway.errors import PlanError
from headway.launch.launch_plan import Host

_SLOTS = re.compile(r"slots=(\d{1,6})")


def read(path: Path) -> tuple[Host, ...]:
    """The hosts of a file, in its order; PlanError for what is none, with the line's number."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise PlanError(f"the hostfile {path} cannot be read ({why}). Name a file with a host a line.") from None
    return parse(text, str(path))


def parse(text: str, name: str = "hostfile") -> tuple[Host, ...]:
    """The hosts of a hostfile's text. `#` begins a comment; without `slots` a host takes any number of ranks.

    >>> parse("node1 slots=8  # rack 3\\nroot@node2\\n")
    (Host(name='node1', slots=8), Host(name='root@node2', slots=None))
    """
    hosts: dict[str, Host] = {}
    for number, line in enumerate(text.splitlines(), 1):
        said = line.partition("#")[0].split()
        if not said:
            continue
        host = _host(said, f"{name}, line {number}")
        if host.address in hosts:
            raise PlanError(f"{name}, line {number}: {host.address} is there twice. Name it once, with all its slots.")
        hosts[host.address] = host
    if not hosts:
        raise PlanError(f"{name} names no hosts. Write one a line: node1 slots=8.")
    return tuple(hosts.values())


def chosen(hosts: tuple[Host, ...], nodes: int | None) -> tuple[Host, ...]:
    """The first `nodes` of the hosts, or all."""
    if nodes is not None and nodes > len(hosts):
        raise PlanError(f"--nodes {nodes} are asked for, but the hostfile names {len(hosts)}. Add hosts, or use fewer.")
    return hosts[:nodes]


def _host(said: list[str], where: str) -> Host:
    name, *rest = said
    slots = [match for word in rest if (match := _SLOTS.fullmatch(word))]
    if len(slots) != len(rest) or len(slots) > 1:
        raise PlanError(f"{where}: '{' '.join(said)}' is no host with its slots. Write node1 slots=8.")
    try:
        return Host(name, int(slots[0][1]) if slots else None)
    except PlanError as error:
        raise PlanError(f"{where}: {error}") from None
