"""A launch in Docker: a host's part as one `docker run` that lives as long as the job, here or behind ssh."""

import dataclasses
import re
import shlex
import zlib
from functools import partial
from pathlib import PurePosixPath

from headway.launch import ssh
from headway.launch.container import docker_line
from headway.launch.container.build import build
from headway.launch.container.probe import look
from headway.launch.container.profiles import PROFILES, Kind
from headway.launch.container.spec import ContainerSpec, Mount
from headway.launch.container.wanted import Wanted
from headway.launch.environment import is_secret
from headway.launch.hosts import Command
from headway.launch.launch_plan import Bind, HostLaunch, LaunchPlan

PROFILE = {"cpu": "cpu", "cuda": "nvidia", "npu": "ascend"}
# process 1 of a container hears no signal that it has not asked for, and would not end with SIGKILL from inside either:
# so the agent is its child, and the container ends with it
FIRST = ("sh", "-c", '"$@"; exit $?', "sh")


@dataclasses.dataclass(frozen=True, slots=True)
class Image:
    """What the containers of a launch are made from. `without`: parts of the profile that hosts behind ssh lack.

    `probed`: the host is this machine, so it is looked at, and optional parts that it lacks are left out.
    """

    name: str
    kind: str
    without: tuple[str, ...] = ()
    probed: bool = False


def with_mounts(launch: LaunchPlan, mounts: tuple[Bind, ...]) -> LaunchPlan:
    """The launch with what its containers see of their hosts: `mounts`, and the job's directories in their places."""
    own = [Bind(path, path) for path in dict.fromkeys((launch.hosts[0].directory, launch.run))]
    seen: list[Bind] = []
    for each in (*mounts, *own):
        if not any(_is_in(each.target, known.target) for known in seen):
            seen.append(each)
    return dataclasses.replace(
        launch, hosts=tuple(dataclasses.replace(host, mounts=tuple(seen)) for host in launch.hosts)
    )


def container_name(run: str, node_rank: int) -> str:
    """A container's name: the run's, with its path's checksum, since the one of another run would be ended with it.

    >>> container_name("/work/runs/gpt tiny-1", 0)
    'headway-gpt-tiny-1-ac7adfa9-0'
    """
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", PurePosixPath(run).name)
    return f"headway-{name}-{zlib.crc32(run.encode()):08x}-{node_rank}"


def command(launch: LaunchPlan, host: HostLaunch, image: Image) -> Command:
    """What this machine runs to start the host's part in a container."""
    name, part = container_name(launch.run, host.node_rank), _part(launch, host, image)
    if image.probed:
        return Command(host.name, part.arguments, part.environment, kill=lambda _: _remove(name))
    return dataclasses.replace(ssh.command(part), kill=partial(_remove_there, host.name, name))


def shown(launch: LaunchPlan, host: HostLaunch, image: Image) -> str:
    """The whole command as a line to read or copy, with secrets masked."""
    part = _part(launch, host.public, image)
    return shlex.join(part.arguments) if image.probed else ssh.shown(part)


def _part(launch: LaunchPlan, host: HostLaunch, image: Image) -> HostLaunch:
    """The host's part as a run of docker, with secrets alone left in its environment."""
    secrets = tuple((name, value) for name, value in host.environment if is_secret(name, value))
    # `docker run` makes a container that is looked after by hand, -d; this one is at the launcher's end of stdin
    _, _, _, *rest = docker_line.words(_spec(launch, host, image))
    named = (f"--env={name}" for name, _ in secrets)  # docker takes the value from its own environment
    words = ("docker", "run", "--rm", "-i", "--pull=never", *named, *rest)
    return dataclasses.replace(host, arguments=words, environment=secrets)


def _spec(launch: LaunchPlan, host: HostLaunch, image: Image) -> ContainerSpec:
    wanted = Wanted(
        PROFILE[image.kind],
        image.name,
        container_name(launch.run, host.node_rank),
        (*FIRST, *host.arguments),
        ids=host.devices or None,
        mounts=tuple(Mount(each.source, each.target, each.read_only) for each in host.mounts),
        workdir=host.directory,
        environment=tuple((name, value) for name, value in host.environment if not is_secret(name, value)),
        without=image.without,
    )
    if not image.probed:
        return build(wanted, None).spec
    here = look(PROFILES[wanted.profile], wanted)
    # before its start a run has no directory yet
    return build(wanted, dataclasses.replace(here, places={launch.run: Kind.DIRECTORY, **here.places})).spec


def _is_in(path: str, folder: str) -> bool:
    return f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")


def _remove(name: str) -> tuple[str, ...]:
    return ("docker", "rm", "--force", name)


def _remove_there(host: str, name: str, agent: int) -> tuple[str, ...]:
    del agent  # its number is the container's own
    return ssh.remote(host, shlex.join(_remove(name)))
