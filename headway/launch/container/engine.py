"""The engine: what Docker is asked to do with Headway's containers, and why it could not."""

import contextlib
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headway.errors import HeadwayError, JobError, PlanError, nearest
from headway.launch.container.docker_api import keywords
from headway.launch.container.refusals import explain, no_answer
from headway.launch.container.spec import DEVICES, PROFILE, ContainerSpec, check_name, parse_ids
from headway.units import Bytes, Seconds

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

DEFAULT = "unix:///var/run/docker.sock"
ANSWERS_WITHIN = Seconds(10.0)  # the first question; an engine that works answers in milliseconds
WORKS_WITHIN = Seconds(120.0)  # any later one: making a container from a large image on a slow disk
_SILENT_FOR = 10**7  # seconds that a container which is followed may write nothing
_EXITED = re.compile(r"Exited \((-?[0-9]+)\)")


@dataclass(frozen=True, slots=True)
class Found:
    """One of Headway's containers. `state` is Docker's word; `exit_status` is of a container that has ended."""

    name: str
    id: str
    image: str
    state: str
    exit_status: int | None
    profile: str
    devices: str
    created: str  # ISO 8601, UTC


@dataclass(frozen=True, slots=True)
class Image:
    """An image that the engine holds."""

    name: str
    id: str
    size: Bytes
    created: str  # ISO 8601, UTC


@contextlib.contextmanager
def connected(variables: Mapping[str, str], within: Seconds = ANSWERS_WITHIN) -> "Iterator[DockerClient]":
    """The engine at DOCKER_HOST of `variables`, or at Docker's usual socket.

    A JobError, inside too, where it does not answer or cannot do what it is asked to.
    """
    try:
        import docker
        from docker.errors import DockerException
        from requests.exceptions import RequestException
    except ImportError:
        raise JobError(
            "talking to an engine needs the package `docker`, which is not installed. Install it: "
            "pip install 'headway[container]'. Without it, `headway container command` prints a line to run."
        ) from None
    address = variables.get("DOCKER_HOST") or DEFAULT
    try:
        _knock(address, within)
        client = docker.from_env(environment=dict(variables), timeout=int(within))  # asks for its version
    except (DockerException, RequestException, OSError, ValueError, ImportError) as error:
        raise no_answer(address, error, within) from None
    client.api.timeout = int(WORKS_WITHIN)
    try:
        yield client
    except DockerException as error:
        raise explain(error) from None
    except RequestException as error:
        raise no_answer(address, error, WORKS_WITHIN) from None
    finally:
        client.close()


def _knock(address: str, within: Seconds) -> None:
    """The system's own error where nobody listens at a socket; `docker` would wrap it, and leave its end open."""
    if address.startswith("unix:///"):
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as end:
            end.settimeout(within)
            end.connect(address.removeprefix("unix://"))


def images(client: "DockerClient") -> tuple[Image, ...]:
    """Every image of the engine, by name; those without a name come last."""
    listed = client.api.images()
    made = [
        Image(name, each["Id"].removeprefix("sha256:")[:12], Bytes(each["Size"]), _date(each["Created"]))
        for each in listed
        for name in each.get("RepoTags") or ["<none>"]
    ]
    return tuple(sorted(made, key=lambda each: (each.name.startswith("<none>"), each.name)))


def found(client: "DockerClient") -> tuple[Found, ...]:
    """Headway's containers, running or not, by name."""
    listed = client.api.containers(all=True, filters={"label": PROFILE})
    return tuple(
        sorted(
            (
                Found(
                    each["Names"][0].removeprefix("/"),
                    each["Id"][:12],
                    each["Image"],
                    each["State"],
                    int(match[1]) if (match := _EXITED.match(each["Status"])) else None,
                    each["Labels"][PROFILE],
                    each["Labels"].get(DEVICES, ""),
                    _date(each["Created"]),
                )
                for each in listed
            ),
            key=lambda each: each.name,
        )
    )


def create(client: "DockerClient", spec: ContainerSpec) -> str:
    """Make the container, without starting it; returns its id.

    A PlanError where its image is absent, its name is taken, or the engine has no such runtime.
    """
    from docker.errors import ImageNotFound, NotFound

    if spec.runtime and spec.runtime not in (known := client.info()["Runtimes"]):
        raise PlanError(
            f"this engine has no runtime '{spec.runtime}'; it has {', '.join(sorted(known))}. Install "
            "ascend-docker-runtime, or use --via devices."
        )
    try:
        client.images.get(spec.image)
    except ImageNotFound:
        names = [each.name for each in images(client) if each.name != "<none>"]
        near = f" {nearest(spec.image, names)}" if names else ""
        raise PlanError(f"the engine has no image '{spec.image}'.{near} To get it: docker pull {spec.image}.") from None
    with contextlib.suppress(NotFound):
        raise _exists(client.containers.get(spec.name))
    return str(client.containers.create(**keywords(spec)).id)


def _exists(container: "Container") -> HeadwayError:
    ours = PROFILE in container.labels
    force = " --force" if container.status == "running" else ""
    remove = f"{'headway container remove' if ours else 'docker rm'}{force} {container.name}"
    whose = "Headway made it" if ours else "Headway did not make it"
    return PlanError(
        f"a container called {container.name} exists already ({container.status}; {whose}). Choose another --name, or "
        f"take it away: {remove}."
    )


def own(client: "DockerClient", name: str) -> "Container":
    """The container of that name or id, if Headway made it; else a PlanError."""
    from docker.errors import NotFound

    check_name(name)  # else `../images` would be a path of the engine's interface
    try:
        container = client.containers.get(name)
    except NotFound:
        names = [each.name for each in found(client)]
        near = nearest(name, names) if names else "Headway has none here; `headway container create` makes one."
        raise PlanError(f"there is no container called '{name}'. {near}") from None
    if PROFILE not in container.labels:
        raise PlanError(
            f"the container '{name}' was not made by Headway (it has no label {PROFILE}), so it is left alone. Use "
            "docker itself."
        )
    return container


def start(client: "DockerClient", name: str) -> tuple[bool, tuple[str, ...]]:
    """Start the container; whether that changed anything, and running containers that were given its devices too."""
    container = own(client, name)
    rivals = _rivals(client, container)
    changed = container.status != "running"
    container.start()
    return changed, rivals


def _rivals(client: "DockerClient", container: "Container") -> tuple[str, ...]:
    """Of Ascend alone: its driver gives a device to one holder, NVIDIA's to many."""
    if container.labels[PROFILE] != "ascend":
        return ()
    others = (each for each in found(client) if each.state == "running" and each.profile == "ascend")
    mine = container.labels[DEVICES]
    return tuple(each.name for each in others if each.name != container.name and _share(mine, each.devices))


def _share(one: str, other: str) -> bool:
    return "all" in {one, other} or bool(set(parse_ids(one)) & set(parse_ids(other)))


def stop(client: "DockerClient", name: str, grace: int) -> bool:
    """Stop the container: SIGTERM, and SIGKILL `grace` seconds later; whether that changed anything."""
    container = own(client, name)
    changed = bool(container.status == "running")
    container.stop(timeout=grace)
    return changed


def remove(client: "DockerClient", name: str, *, running: bool) -> None:
    """Take the container away; a PlanError if it runs and `running` does not say that this is meant."""
    container = own(client, name)
    if container.status in {"running", "paused", "restarting"} and not running:
        raise PlanError(
            f"{name} is {container.status}. Stop it first (headway container stop {name}), or say that it may be "
            "running: --force."
        )
    container.remove(force=running)


def logs(client: "DockerClient", name: str, *, follow: bool, tail: int | None) -> Iterator[bytes]:
    """What the container's first process wrote, the last `tail` lines; with `follow`, until it ends."""
    container = own(client, name)
    if follow:
        client.api.timeout = _SILENT_FOR
    written = container.logs(stream=True, follow=follow, tail="all" if tail is None else tail)
    with contextlib.closing(written) as pieces:
        yield from pieces


def execute(client: "DockerClient", name: str, command: Sequence[str], write: Callable[[bytes, bytes], None]) -> int:
    """Run a command in the container; `write` gets its output and its errors as they come. Returns its exit status."""
    container = running(client, name)
    made = client.api.exec_create(container.id, list(command))["Id"]
    with contextlib.closing(client.api.exec_start(made, stream=True, demux=True)) as pieces:
        for out, err in pieces:
            write(out or b"", err or b"")
    return int(client.api.exec_inspect(made)["ExitCode"])


def running(client: "DockerClient", name: str) -> "Container":
    """The container of that name, if Headway made it and it runs; else a PlanError."""
    container = own(client, name)
    if container.status != "running":
        raise PlanError(f"{name} is {container.status}, not running. Start it: headway container start {name}.")
    return container


def _date(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
