"""Asked: what the options of `headway launch` say, and what follows from them for every target."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from headway import env
from headway.errors import PlanError

if TYPE_CHECKING:
    from headway.launch.environment import Network
    from headway.launch.launch_plan import Bind, Host, Leash, Site
    from headway.plan.plan import Plan

Question = Literal["status", "cancel", "logs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options, by their names; see the command for what each means."""

    job: Path | None
    on: str
    overrides: tuple[str, ...]
    resume: str | None
    nodes: int | None
    hostfile: Path | None
    variables: tuple[str, ...]
    interface: str | None
    address: str | None
    port: int | None
    python: str | None
    workdir: str | None
    fabric: str | None
    nccl: str | None
    rank_table: Path | None
    image: str | None
    container: str | None
    mounts: tuple[str, ...]
    without: tuple[str, ...]
    namespace: str | None
    max_restarts: int
    answer_within: float
    partition: str | None
    account: str | None
    qos: str | None
    time: str | None
    exclusive: bool
    kill_on_bad_exit: bool
    warn: int
    sbatch: tuple[str, ...]
    dry_run: bool
    as_json: bool


def binds(asked: Asked) -> tuple["Bind", ...]:
    """What containers see of their hosts, as asked for."""
    from headway.launch.container.wanted import parse_mount
    from headway.launch.launch_plan import Bind

    return tuple(Bind(each.source, each.target, each.read_only) for each in map(parse_mount, asked.mounts))


def unnamed_hosts(asked: Asked, plan: "Plan") -> tuple["Host", ...]:
    """Hosts that a scheduler chooses: as many as are asked for, else as the plan's cluster would need."""
    from headway.launch.launch_plan import Host

    number = asked.nodes or -(-plan.layout.world // plan.cluster.devices_per_node)
    return tuple(Host(f"node-{i}") for i in range(number))


def network(asked: Asked, plan: "Plan", interface: str | None = None) -> "Network":
    """What the job's traffic goes over; `interface` where none is asked for."""
    from headway.launch import environment
    from headway.plan import fabric as fabrics

    if asked.fabric and plan.cluster.device.kind != "cuda":
        raise PlanError(
            f"--fabric tells NCCL the rails and planes of its ports, and {plan.cluster.name} has no NVIDIA devices. "
            f"Leave it out."
        )
    return environment.Network(
        plan.cluster.device.kind,
        asked.interface or interface,
        environment.parse_nccl(asked.nccl) if asked.nccl else None,
        fabrics.fabric(asked.fabric) if asked.fabric else None,
    )


def site(asked: Asked, network: "Network", leash: "Leash" = "stdin", address: str | None = None) -> "Site":
    """What all hosts share; `address` where none is asked for.

    Containers have nothing of this machine's Python and environment.
    """
    from headway.launch import environment
    from headway.launch.launch_plan import Site

    contained = asked.image is not None or asked.container is not None
    return Site(
        asked.python or ("python3" if contained else sys.executable),
        str(Path.cwd()) if asked.workdir is None else asked.workdir,
        environment.variables(network, env.here(), asked.variables, only_named=contained),
        asked.address or address,
        asked.port,
        asked.max_restarts,
        leash,
    )


def check_paths(asked: Asked, plan: "Plan") -> None:
    """Refuse relative paths that would mean one place here, where they are checked, and another on the hosts.

    Where containers have mounts, their work directory may be this one under another name.
    """
    from headway.data.corpus import STDLIB

    if asked.workdir is None or asked.mounts or Path(asked.workdir) == Path.cwd():
        return
    paths = {
        "data.path": None if plan.data.path == STDLIB else plan.data.path,
        "data.tokenizer": None if plan.data.tokenizer == "bytes" else plan.data.tokenizer,
        "checkpoint.directory": plan.checkpoint.directory,
        "--resume": plan.checkpoint.resume,
    }
    for name, path in paths.items():
        if path and not path.startswith(("/", "~")):
            raise PlanError(
                f"{name} {path} is relative, and hosts start in {asked.workdir} while this is {Path.cwd()}. Write it "
                f"whole, from / on, or start there without --workdir."
            )
