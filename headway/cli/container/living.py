"""headway container images, list, start, stop, exec, logs and remove: what becomes of containers."""

import dataclasses
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from docker import DockerClient

FAILED = 1  # exit status
_SHELL = ("sh", "-c", "if command -v bash >/dev/null; then exec bash; else exec sh; fi")
_NAME = click.argument("name", metavar="NAME")
_NAMES = click.argument("names", nargs=-1, required=True, metavar="NAME...")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead.")


@click.command()
@_JSON
def images(*, as_json: bool) -> None:
    """List the images that the engine holds.

    \b
    Example:
      headway container images
    """
    from headway import env
    from headway.cli.show import console, print_json, table
    from headway.launch.container import engine
    from headway.units import show_bytes

    with engine.connected(env.for_docker()) as client:
        held = engine.images(client)
    if as_json:
        print_json({"images": [dataclasses.asdict(each) for each in held]})
        return
    rows = table("image", "id", "size", "created", right=("size",))
    for each in held:
        rows.add_row(each.name, each.id, show_bytes(each.size), each.created)
    if held:
        console().print(rows)
    else:
        click.echo("The engine holds no image. To get one: docker pull IMAGE.")


@click.command("list")
@_JSON
def listing(*, as_json: bool) -> None:
    """List Headway's containers, running or not.

    \b
    Example:
      headway container list
    """
    from headway import env
    from headway.cli.show import console, print_json, table
    from headway.launch.container import engine

    with engine.connected(env.for_docker()) as client:
        held = engine.found(client)
    if as_json:
        print_json({"containers": [dataclasses.asdict(each) for each in held]})
        return
    rows = table("name", "state", "profile", "devices", "image", "created", "id")
    for each in held:
        state = each.state if each.exit_status is None else f"{each.state} ({each.exit_status})"
        rows.add_row(each.name, state, each.profile, each.devices or "–", each.image, each.created, each.id)
    if held:
        console().print(rows)
    else:
        click.echo("Headway has no container here; `headway container create` makes one.")


@click.command()
@_NAMES
@_JSON
def start(*, names: tuple[str, ...], as_json: bool) -> None:
    """Start containers.

    \b
    Example:
      headway container start job
    """
    from headway import env
    from headway.cli.container.making import warn_of_rivals
    from headway.launch.container import engine

    done = []
    with engine.connected(env.for_docker()) as client:
        for name in names:
            changed, rivals = engine.start(client, name)
            done.append({"name": name, "changed": changed})
            _say(f"{name} was started." if changed else f"{name} runs already.", as_json)
            warn_of_rivals(name, rivals)
    _close(done, as_json)


@click.command()
@_NAMES
@click.option(
    "--grace", type=click.IntRange(0, 86_400), default=10, show_default=True, help="Seconds before it is killed."
)
@_JSON
def stop(*, names: tuple[str, ...], grace: int, as_json: bool) -> None:
    """Stop containers: SIGTERM first, SIGKILL when the grace is over.

    \b
    Example:
      headway container stop job --grace 60
    """
    from headway import env
    from headway.launch.container import engine

    done = []
    with engine.connected(env.for_docker()) as client:
        for name in names:
            changed = engine.stop(client, name, grace)
            done.append({"name": name, "changed": changed})
            _say(f"{name} was stopped." if changed else f"{name} does not run.", as_json)
    _close(done, as_json)


@click.command("exec")
@_NAME
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@_JSON
def execute(*, name: str, words: tuple[str, ...], as_json: bool) -> int:
    """Run COMMAND in a running container; at a terminal, without a COMMAND, a shell.

    \b
    Example:
      headway container exec job -- npu-smi info
      headway container exec job

    Ends with status 1 if the command does not end with 0.
    """
    from headway import env
    from headway.cli.show import print_json
    from headway.launch.container import engine

    variables = env.for_docker()
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
    if not words and not at_terminal:
        raise click.UsageError(f"a shell needs a terminal. Name a command: headway container exec {name} -- ls /dev")
    said: dict[str, bytes] = {"stdout": b"", "stderr": b""}

    def keep(out: bytes, err: bytes) -> None:
        said["stdout"] += out
        said["stderr"] += err

    with engine.connected(variables) as client:
        if at_terminal and (docker := shutil.which("docker")):
            status = _at_terminal(client, docker, variables.get("DOCKER_HOST") or engine.DEFAULT, name, words)
        elif words:
            status = engine.execute(client, name, words, keep if as_json else _write)
        else:
            raise click.UsageError(f"a shell needs the program docker. A command does not: exec {name} -- ls /dev")
    if as_json:
        texts = {stream: text.decode("utf-8", "replace") for stream, text in said.items()}
        print_json({"name": name, "command": words, "status": status, **texts})
    elif status and words:
        click.echo(f"{words[0]} ended with status {status} in {name}.", err=True)
    return FAILED if status else 0


def _at_terminal(client: "DockerClient", docker: str, host: str, name: str, words: tuple[str, ...]) -> int:
    """Hand the terminal to `docker exec -it`, which knows raw mode and sizes of windows; the label was seen before."""
    from headway.launch.container import engine

    found: Any = engine.running(client, name)
    command = [docker, "--host", host, "exec", "-it", found.id, *(words or _SHELL)]
    return subprocess.run(command, check=False).returncode


def _write(out: bytes, err: bytes) -> None:
    for stream, text in ((sys.stdout, out), (sys.stderr, err)):
        if text:
            stream.buffer.write(text)
            stream.buffer.flush()


@click.command()
@_NAME
@click.option("--follow", "-f", is_flag=True, help="Go on until the container ends.")
@click.option("--tail", type=click.IntRange(0), metavar="N", help="The last N lines only.")
@_JSON
def logs(*, name: str, follow: bool, tail: int | None, as_json: bool) -> None:
    """Print what the container's command has written.

    \b
    Example:
      headway container logs job --follow --tail 100
    """
    from headway import env
    from headway.cli.show import print_json
    from headway.launch.container import engine

    written = b""
    with engine.connected(env.for_docker()) as client:
        for piece in engine.logs(client, name, follow=follow, tail=tail):
            if as_json:
                written += piece
            else:
                _write(piece, b"")
    if as_json:
        print_json({"name": name, "text": written.decode("utf-8", "replace")})


@click.command()
@_NAMES
@click.option("--force", is_flag=True, help="Even if it runs.")
@_JSON
def remove(*, names: tuple[str, ...], force: bool, as_json: bool) -> None:
    """Take containers away, with what was written in them outside of mounts.

    \b
    Example:
      headway container remove job
    """
    from headway import env
    from headway.launch.container import engine

    done = []
    with engine.connected(env.for_docker()) as client:
        for name in names:
            engine.remove(client, name, running=force)
            done.append({"name": name, "changed": True})
            _say(f"{name} was removed.", as_json)
    _close(done, as_json)


def _say(sentence: str, as_json: bool) -> None:
    if not as_json:
        click.echo(sentence)


def _close(done: list[dict[str, Any]], as_json: bool) -> None:
    from headway.cli.show import print_json

    if as_json:
        print_json({"containers": done})
