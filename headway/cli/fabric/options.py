"""Options that the verbs of headway fabric share, and what is built from them."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from headway.errors import PlanError, nearest

if TYPE_CHECKING:
    from headway.fabric.bench import Case, Measured
    from headway.fabric.collectives import Algorithm
    from headway.fabric.connect import Connecting, Ports, Split
    from headway.fabric.fabric import Fabric

Command = Callable[..., Any]
MULTI = "multi_"  # one group for each GPU of a host, all at once
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv")
_MULTIPLE = tuple(f"{MULTI}{name}" for name in COLLECTIVES[:3])
NOT_MODELLED = (
    "Not modelled: flow control (PFC), congestion control (DCQCN), queues, losses. Flows share links fairly at once."
)


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """One decorator of several."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


sizes = together(
    click.option("--pods", type=int, metavar="N", help="Pods (of a family).  [1]"),
    click.option(
        "--set", "changes", multiple=True, metavar="KEY=VALUE", help="Another size, as segments=2; may repeat."
    ),
)
order = click.option(
    "--order",
    default="packed",
    show_default=True,
    metavar="packed|random|FILE",
    help="Hosts in the order of ranks; a file has a number a line.",
)
pairs = together(
    click.option("--connections", type=int, default=2, show_default=True, help="Connections of a pair of cards."),
    click.option("--ports", metavar="hash|round_robin|disjoint", help="How connections leave a card.  [the fabric's]"),
    click.option("--split", metavar="equal|least_loaded", help="How bytes are shared among them.  [the fabric's]"),
)
seeds = click.option("--seeds", type=int, default=20, show_default=True, help="Hash seeds, from 0 on.")
test = together(
    click.option("--collective", default="all_reduce", show_default=True, metavar="NAME", help="See below."),
    click.option("--gpus", type=int, metavar="N", help="GPUs, whole hosts.  [all active ones]"),
    click.option("--bytes", "size", default="4GiB", show_default=True, metavar="SIZE", help="Buffer of each rank."),
    click.option("--jobs", type=int, default=1, show_default=True, help="Jobs that share the GPUs, all at once."),
    order,
    click.option("--algorithm", metavar="NAME", help="ring, tree or hierarchical.  [the fastest on free links]"),
    click.option("--device", default="H800", show_default=True, metavar="NAME", help="GPUs, and links inside a host."),
)


def build(name: str, pods: int | None, changes: tuple[str, ...]) -> "Fabric":
    """The fabric NAME with other sizes."""
    from headway.plan import fabric as fabrics

    wanted = {} if pods is None else {"pods": str(pods)}
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals:
            raise click.UsageError(f"--set {change}: write it as KEY=VALUE, like --set segments=2.")
        wanted[key.strip()] = value.strip()
    return fabrics.fabric(name, sizes=wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options of a test: `sizes`, `test` and `pairs` of a fabric called `name`."""

    name: str
    pods: int | None
    changes: tuple[str, ...]
    collective: str
    gpus: int | None
    size: str
    jobs: int
    order: str
    algorithm: "Algorithm | None"
    device: str
    connections: int
    ports: "Ports | None"
    split: "Split | None"
    shared_seed: bool = False

    def fabric(self) -> "Fabric":
        """The fabric."""
        return build(self.name, self.pods, self.changes)

    def how(self, fabric: "Fabric") -> "Connecting":
        """How pairs connect."""
        return connecting(fabric, self.connections, self.ports, self.split)


def connecting(fabric: "Fabric", connections: int, ports: "Ports | None", split: "Split | None") -> "Connecting":
    """How pairs connect: as told, and for the rest as is usual on the fabric."""
    from headway.fabric.connect import Connecting, usual

    rest = usual(fabric)
    return Connecting(connections=connections, ports=ports or rest.ports, split=split or rest.split)


def document(fabric: "Fabric", wanted: Wanted, each: "Measured") -> dict[str, Any]:
    """The options and what ran by them, for JSON."""
    return {
        "fabric": str(fabric),
        "collective": wanted.collective,
        "gpus": each.gpus,
        "hosts": each.hosts,
        "segments": each.segments,
        "bytes": each.size,
        "jobs": wanted.jobs,
        "order": wanted.order,
        **asdict(wanted.how(fabric)),
        "device": wanted.device,
        "algorithm": each.algorithm,
    }


def check_seeds(count: int, most: int) -> None:
    """Raises PlanError where so many seeds are none, or more than are played."""
    if not 1 <= count <= most:
        raise PlanError(f"--seeds is {count}. Use 1 to {most}.")


def wanted(options: Mapping[str, object]) -> Wanted:
    """The options as click gives them."""
    return Wanted(**cast(dict[str, Any], options))


def case(fabric: "Fabric", wanted: Wanted, seed: int) -> "Case":
    """The test that the options tell, its hosts ordered by `seed` where they are random."""
    from headway.cluster import presets
    from headway.fabric import seating
    from headway.fabric.bench import Case, node
    from headway.units import parse_bytes

    if wanted.collective not in (known := (*COLLECTIVES, *_MULTIPLE)):
        raise PlanError(f"no collective is called '{wanted.collective}'. {nearest(wanted.collective, known)}")
    kind: Any = wanted.collective.removeprefix(MULTI)
    count = int((~fabric.backup).sum()) if wanted.gpus is None else wanted.gpus
    hosts = seating.order(fabric, -(-count // fabric.gpus_per_host), hosts_in(wanted.order), seed)
    groups = seating.groups(fabric, hosts, count, jobs=wanted.jobs, by_rail=kind != wanted.collective)
    return Case(
        kind=kind,
        groups=groups,
        size=parse_bytes(wanted.size),
        how=wanted.how(fabric),
        node=node(fabric, presets.device(wanted.device), hosts),
        shared_seed=wanted.shared_seed,
    )


def hosts_in(wanted: str) -> "str | list[int]":
    """What `--order` tells: `packed`, `random`, or the numbers of hosts in a file."""
    if wanted in {"packed", "random"}:
        return wanted
    try:
        lines = Path(wanted).read_text(encoding="utf-8").split()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "not text in UTF-8"
        raise PlanError(f"--order {wanted}: {why}. Use packed, random or a file with a host's number a line.") from None
    wrong = next((word for word in lines if not (word.isascii() and word.isdecimal() and len(word) < 10)), None)
    if wrong is not None or not lines:
        raise PlanError(f"--order {wanted}: '{wrong or ''}' is no number of a host. Write one a line, from 0.")
    return [int(word) for word in lines]
