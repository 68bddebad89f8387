"""LaunchPlan: what is started on which host so that a plan's ranks meet, the one noun that all targets render."""

import itertools
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Literal

from headway import env
from headway.errors import PlanError
from headway.launch.environment import UNSPOKEN, Variables, masked
from headway.launch.local import agent
from headway.plan.plan import Plan, digest

_USER = r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?"
_NAME = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?"
_IPV6 = r"[0-9A-Fa-f]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9_.-]+)?"
_ADDRESS = re.compile(rf"{_NAME}|{_IPV6}")
_HOST = re.compile(rf"{_USER}(?:{_NAME}|{_IPV6})")
Leash = Literal["stdin", "parent"]


@dataclass(frozen=True, slots=True)
class Host:
    """A machine to start ranks on: its name (`user@name` for ssh), and how many it may take; None: any number."""

    name: str
    slots: int | None = None

    def __post_init__(self) -> None:
        check_host(self.name)
        if self.slots is not None and self.slots < 1:
            raise PlanError(f"host {self.name} has slots={self.slots}. Give it 1 or more, or leave it out.")

    @property
    def address(self) -> str:
        """The name without the user: where other hosts find it."""
        return self.name.rpartition("@")[2]


@dataclass(frozen=True, slots=True)
class Bind:
    """A directory or file of the host, `source`, that a container sees at `target`."""

    source: str
    target: str
    read_only: bool = False

    def __post_init__(self) -> None:
        for path in (self.source, self.target):
            check_path(path)


@dataclass(frozen=True, slots=True)
class HostLaunch:
    """What one host starts: `arguments` in `directory`, with `environment` beside the host's own.

    `arguments` are the same on every host; what differs is in `environment` (PET_NODE_RANK). `ranks`: the first and the
    number of them. `mounts` and `devices` are for targets with containers; `devices` are the host's numbers of what the
    ranks compute on, none on a CPU.
    """

    name: str
    node_rank: int
    ranks: tuple[int, int]
    arguments: tuple[str, ...]
    environment: Variables
    directory: str
    mounts: tuple[Bind, ...] = ()
    devices: tuple[int, ...] = ()

    @property
    def public(self) -> "HostLaunch":
        """The same as it may be printed: secrets are masked."""
        return replace(self, environment=masked(self.environment))


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """All hosts of a job, in the order that the plan's layout wants: host i has the ranks from i × `ranks_per_host` on.

    `digest` names the plan, `run` is the run's directory, which every host sees at this path and which holds plan.json.
    Ranks meet at `address` and `port`, which belong to the first host (torchrun's static rendezvous).
    """

    job: str
    digest: str
    run: str
    ranks_per_host: int
    address: str
    port: int
    hosts: tuple[HostLaunch, ...]

    @property
    def num_ranks(self) -> int:
        """Ranks of all hosts together."""
        return self.ranks_per_host * len(self.hosts)


@dataclass(frozen=True, slots=True)
class Site:
    """What all hosts of a launch share.

    `directory`: where the command starts, since a job's paths are relative to it. `address` and `port`: where ranks
    meet; by default the first host's name, and a port that the run's directory gives. `variables`: what every host's
    environment gets (see `environment.variables`). `max_restarts` is of one host alone. `leash`: an agent ends when its
    stdin is closed, which an ssh connection does whose other end is gone, or with its parent (Slurm's step).
    """

    python: str
    directory: str
    variables: Variables = ()
    address: str | None = None
    port: int | None = None
    max_restarts: int = 0
    leash: Leash = "stdin"

    def __post_init__(self) -> None:
        for path in (self.python, self.directory):
            check_path(path)
        if "=" in self.python:  # `env`, which runs it, would take it for a variable
            raise PlanError(f"the path {self.python} has a '=', which cannot be passed on. Make a link to it.")
        if not self.directory.startswith("/"):
            raise PlanError(f"--workdir {self.directory} is not the same place on every host. Write it from / on.")
        if self.address is not None and not _ADDRESS.fullmatch(self.address):
            raise PlanError(f"'{self.address}' is no address. Give a name or an IP address of the first host.")
        if self.port is not None and not 1 <= self.port <= 65535:
            raise PlanError(f"port {self.port} does not exist. Use 1024 to 65535.")


def launch_plan(plan: Plan, run: PurePath, hosts: Sequence[Host], site: Site) -> LaunchPlan:
    """The launch of `plan`, whose file is in the directory `run`, on `hosts` in this order.

    Raises PlanError if the ranks do not divide over the hosts, a host has too few slots or is there twice (any user),
    or several hosts are to start again by themselves.
    """
    check_path(str(run))
    if site.max_restarts and len(hosts) > 1:
        raise PlanError(
            "--max-restarts is for one host: on several, start the job again, and it goes on from its last "
            "checkpoint (a fixed run.directory or checkpoint.directory, or --resume)."
        )
    each = _ranks_per_host(plan, hosts)
    address, port = site.address or hosts[0].address, site.port or default_port(run)
    launches = []
    for node_rank, host in enumerate(hosts):
        place = place_variables(len(hosts), node_rank, address, port) if len(hosts) > 1 else ()
        launches.append(
            HostLaunch(
                host.name,
                node_rank,
                (node_rank * each, each),
                agent(site.python, run, each, site.max_restarts, site.leash),
                tuple(sorted({**dict(site.variables), **dict(place)}.items())),
                site.directory,
                devices=() if plan.cluster.device.kind == "cpu" else tuple(range(each)),
            )
        )
    return LaunchPlan(plan.name, digest(plan), str(run), each, address, port, tuple(launches))


def place_variables(num_nodes: int, node_rank: int | str, address: str, port: int | str) -> Variables:
    """torchrun's own variables for a place among several nodes; the agent reads the same (env.node)."""
    return (
        ("PET_NNODES", str(num_nodes)),
        ("PET_NODE_RANK", str(node_rank)),
        ("PET_MASTER_ADDR", address),
        ("PET_MASTER_PORT", str(port)),
    )


def default_port(run: PurePath) -> int:
    """A port that runs which are started at once most likely do not share: by the name of their directory."""
    return env.PORTS[zlib.crc32(str(run).encode()) % len(env.PORTS)]


def notes(plan: Plan, launch: LaunchPlan) -> tuple[str, ...]:
    """What is worth saying about how a plan's layout lies on the hosts; nothing if it lies as it was planned."""
    each, planned = launch.ranks_per_host, min(plan.cluster.devices_per_node, plan.layout.world)
    found = []
    if len(launch.hosts) > 1 and (tensor := plan.layout.size("tensor")) > each:
        found.append(
            f"each tensor group of {tensor} ranks lies across {-(-tensor // each)} hosts of {each}: all its "
            f"collectives cross the network. Use hosts with {tensor} devices, or parallel.tensor {each}."
        )
    if each != planned:
        found.append(
            f"the prediction is for {planned} ranks on a node, as {plan.cluster.name} has them; here are {each}."
        )
    return tuple(found)


def check_host(name: str) -> None:
    """Raise PlanError for what is no host's name: one that a program would take for an option, spaces, signs."""
    if not _HOST.fullmatch(name):
        raise PlanError(
            f"{name!r} is no name of a host. Names have letters, digits, dots, hyphens and underscores, begin with a "
            f"letter or digit, and may have a user before them (user@host)."
        )


def check_path(path: str) -> None:
    """Raise PlanError for a path that no line holds, or that a program would take for an option."""
    if not path or path.startswith("-") or UNSPOKEN.search(path):
        raise PlanError(f"the path {path!r} cannot be passed to hosts. Use one of plain UTF-8, like /work.")


def _ranks_per_host(plan: Plan, hosts: Sequence[Host]) -> int:
    world, number = plan.layout.world, len(hosts)
    if not number:
        raise PlanError("no hosts are given. Name them in a file: headway launch JOB --on ssh --hostfile FILE.")
    if world % number:
        fitting = [n for n in range(1, world + 1) if world % n == 0]
        near = " or ".join(map(str, sorted(fitting, key=lambda n: abs(n - number))[:2]))
        raise PlanError(f"{world} ranks ({plan.layout}) do not divide over {number} hosts. Use {near}.")
    each = world // number
    for host in hosts:
        if host.slots is not None and host.slots < each:
            raise PlanError(
                f"host {host.name} has slots={host.slots}, but gets {each} of the {world} ranks. "
                f"Use more hosts, or give it slots={each}."
            )
    twice = {a.address for a, b in itertools.combinations(hosts, 2) if a.address == b.address}
    if twice and {host.name for host in hosts} != {"localhost"}:
        raise PlanError(f"host {min(twice)} is named twice. Name it once, with all its slots.")
    return each
