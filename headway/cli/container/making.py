"""headway container command and create: what is wanted, in options, and what comes of it."""

import dataclasses
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from headway.launch.container.build import Made, Taken
    from headway.launch.container.wanted import Wanted

_OPTIONS = (
    click.option("--profile", required=True, type=click.Choice(["ascend", "nvidia", "cpu"]), help="The kind of host."),
    click.option("--image", required=True, metavar="IMAGE", help="The image, as name:tag."),
    click.option("--name", required=True, metavar="NAME", help="What the container is called."),
    click.option("--devices", metavar="N-M", help="Accelerators by number, like 0-7 or 0,2.  [create: all]"),
    click.option(
        "--mount", "mounts", multiple=True, metavar="LOCAL:DOCKER[:ro]", help="A path of the host, and where."
    ),
    click.option("--workdir", metavar="DOCKER", help="The work directory, in the container."),
    click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="A variable; may repeat."),
    click.option("--without", multiple=True, metavar="PART", help="Leave a part of the profile out; may repeat."),
    click.option(
        "--via",
        type=click.Choice(["devices", "runtime", "gpus", "cdi"]),
        help="How accelerators come in: ascend by devices or runtime, nvidia by gpus or cdi.",
    ),
    click.option("--network", default="host", show_default=True, metavar="NAME", help="host, bridge, none or a name."),
    click.option(
        "--publish", "ports", multiple=True, metavar="HOST:CONTAINER", help="A port; not with --network host."
    ),
    click.option("--ipc", type=click.Choice(["host", "private"]), help="Whose /dev/shm.  [host, unless --shm-size]"),
    click.option("--shm-size", metavar="SIZE", help="Of a private /dev/shm, like 16GiB."),
    click.option("--device", "more_devices", multiple=True, metavar="NODE", help="A device beside the profile's."),
    click.option("--user", metavar="USER[:GROUP]", help="Who runs the command.  [the image's]"),
    click.option("--privileged", is_flag=True, help="All devices and rights of the host. Rarely needed."),
    click.option("--allow-dangerous-mounts", is_flag=True, help="Mount even /, /etc, /dev or the engine's socket."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead."),
    click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]"),
)
_EPILOG = "Parts, profiles and what is refused: docs/containers.md."


def _asks(verb: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        verb = option(verb)
    return verb


@click.command(epilog=_EPILOG)
@_asks
@click.option("--terminal/--no-terminal", default=None, help="Print -it or -d.  [-it where this is at a terminal]")
def command(*, as_json: bool, terminal: bool | None, **asked: object) -> None:
    """Print the line of `docker run` that makes the container, for a host that is not looked at.

    \b
    Example:
      headway container command --profile ascend --image cann:8.5 --name job --devices 0-7 --mount /data:/data
      headway container command --profile nvidia --image torch:2.13 --name job --shm-size 64GiB --without infiniband

    The line goes to stdout, and what is in it to stderr. Without a COMMAND the container waits to be stopped; at a
    terminal it is a bash.
    """
    from headway.cli.show import print_json
    from headway.launch.container import docker_line
    from headway.launch.container.build import build

    at_terminal = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
    made = build(_wanted(asked, terminal=at_terminal if terminal is None else terminal), None)
    if as_json:
        shown = {"line": docker_line.line(made.spec), "argv": docker_line.words(made.spec)}
        print_json({**shown, **_document(made)})
        return
    click.echo(docker_line.line(made.spec))
    _explain(made, "no host was looked at")


@click.command(epilog=_EPILOG)
@_asks
@click.option("--start", "at_once", is_flag=True, help="Start it, too.")
@click.option("--host-root", default="/", metavar="DIR", help="Another tree to take the profile's parts from.  [/]")
def create(*, as_json: bool, at_once: bool, host_root: str, **asked: object) -> None:
    """Look at this host, and make the container with what is there.

    \b
    Example:
      headway container create --profile ascend --image cann:8.5 --name job --mount /data:/data --workdir /data
      headway container create --profile nvidia --image torch:2.13 --name job --devices 0,1 --start -- python train.py

    A required part that is missing is refused by name; an optional one is left out. Nothing is pulled.
    """
    from headway import env
    from headway.cli.show import print_json
    from headway.launch.container import engine
    from headway.launch.container.build import build
    from headway.launch.container.check import profile_of
    from headway.launch.container.probe import look
    from headway.launch.container.spec import check_path

    wanted = _wanted(asked, terminal=False)
    check_path(host_root, "--host-root")
    made = build(wanted, look(profile_of(wanted), wanted, host_root))
    rivals: tuple[str, ...] = ()
    variables = env.for_docker()
    with engine.connected(variables) as client:
        made_id = engine.create(client, made.spec)
        if at_once:
            _, rivals = engine.start(client, made.spec.name)
    _warn_of_distance(variables)
    if as_json:
        print_json({"id": made_id, "started": at_once, **_document(made), "shares_devices_with": rivals})
        return
    name = made.spec.name
    click.echo(f"{name} was created{' and started' if at_once else ''} ({made_id[:12]}).")
    if not at_once:
        click.echo(f"Start it: headway container start {name}")
    _explain(made, "found on this host")
    warn_of_rivals(name, rivals)


def warn_of_rivals(name: str, rivals: tuple[str, ...]) -> None:
    """Say on stderr that running containers were given the same devices."""
    if rivals:
        click.echo(
            f"{name} has devices that {', '.join(rivals)} was given too: while one holds them, Ascend's driver refuses "
            "the other (-8005).",
            err=True,
        )


def _warn_of_distance(variables: dict[str, str]) -> None:
    address = variables.get("DOCKER_HOST", "")
    if address and not address.startswith("unix://"):
        click.echo(
            f"The engine is at {address}, and this machine was looked at: both must have the same parts.", err=True
        )


def _wanted(asked: dict[str, Any], *, terminal: bool) -> "Wanted":
    from headway import env
    from headway.launch.container import wanted as words
    from headway.launch.container.profiles import Via
    from headway.launch.container.spec import Ipc, parse_ids
    from headway.units import parse_bytes

    own_socket = env.for_docker().get("DOCKER_HOST", "").removeprefix("unix://")
    sockets = (*words.SOCKETS, *([own_socket] if own_socket.startswith("/") else []))
    return words.Wanted(
        asked["profile"],
        asked["image"],
        asked["name"],
        tuple(asked["words"]),
        None if asked["devices"] is None else parse_ids(asked["devices"]),
        None if asked["via"] is None else Via(asked["via"]),
        tuple(map(words.parse_mount, asked["mounts"])),
        tuple(map(words.parse_device, asked["more_devices"])),
        asked["workdir"],
        tuple(map(words.parse_variable, asked["variables"])),
        asked["without"],
        asked["network"],
        tuple(map(words.parse_port, asked["ports"])),
        None if asked["ipc"] is None else Ipc(asked["ipc"]),
        None if asked["shm_size"] is None else parse_bytes(asked["shm_size"]),
        asked["user"],
        asked["privileged"],
        terminal,
        asked["allow_dangerous_mounts"],
        sockets,
    )


def _document(made: "Made") -> dict[str, Any]:
    return {
        "name": made.spec.name,
        "parts": [{**_row(each), "source": each.source, "target": each.part.sources[0]} for each in made.taken],
        "absent": [part.name for part in made.absent],
        "notes": made.notes,
        "spec": dataclasses.asdict(made.spec),
    }


def _row(taken: "Taken") -> dict[str, str]:
    return {"name": taken.part.name, "need": taken.part.need, "kind": taken.part.kind, "why": taken.part.why}


def _explain(made: "Made", how: str) -> None:
    """What is in the container, on stderr: stdout has the line alone."""
    from rich.console import Console

    from headway.cli.show import WITHOUT_TERMINAL, table

    out = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if not out.is_terminal:
        out.width = WITHOUT_TERMINAL
    if made.taken:
        out.print(f"\nparts of the host ({how}):")
        rows = table("part", "need", "on the host", "what it is")
        rows.columns[2].overflow = "fold"  # a path is whole or of no use
        for name, each in _merged(made.taken):
            place = each.source if name == each.part.name else each.source.removesuffix(each.part.name) + name
            rows.add_row(name, each.part.need, place, each.part.why)
        out.print(rows)
    droppable = [each.part.name for each in made.taken if each.part.need != "required"]
    if droppable and how.startswith("no"):
        out.print(f"Where a host lacks one of these the line fails; leave it out by --without: {', '.join(droppable)}.")
    if made.absent:
        out.print(f"left out, since this host has none: {', '.join(part.name for part in made.absent)}", style="yellow")
    for note in made.notes:
        out.print(note, style="yellow")


def _merged(taken: "tuple[Taken, ...]") -> "list[tuple[str, Taken]]":
    """Parts with the numbered device nodes as one row: davinci0-7."""
    from headway.launch.container.spec import show_ids

    ids = [int(each.part.name.removeprefix("davinci")) for each in taken if each.part.name[-1].isdigit()]
    rows = [(each.part.name, each) for each in taken if not each.part.name[-1].isdigit()]
    return [*([(f"davinci{show_ids(ids)}", taken[0])] if ids else []), *rows]
