"""A launch by ssh: a host's part as one line for its shell, in batch mode, with host keys checked."""

import shlex
from functools import partial

from headway.launch.environment import MASK, is_secret
from headway.launch.hosts import Command
from headway.launch.launch_plan import HostLaunch

CONNECT = 10  # seconds that a host may take to answer
ALIVE = (5, 3)  # seconds between signs of life, and how many may be missing before the connection is given up
OPTIONS = (
    "BatchMode=yes",  # never ask for a password: nobody is there to type it on 100 hosts
    "StrictHostKeyChecking=yes",
    f"ConnectTimeout={CONNECT}",
    f"ServerAliveInterval={ALIVE[0]}",
    f"ServerAliveCountMax={ALIVE[1]}",
)


def command(host: HostLaunch) -> Command:
    """What this machine runs to start the host's agent there. Secrets go through stdin, where no `ps` shows them."""
    secrets = [value for name, value in host.environment if is_secret(name, value)]
    first = "".join(f"{value}\n" for value in secrets)
    return Command(host.name, words(host), first=first.encode(), kill=partial(kill, host.name))


def words(host: HostLaunch) -> tuple[str, ...]:
    """The words of ssh."""
    return remote(host.name, script(host))


def kill(host: str, agent: int) -> tuple[str, ...]:
    """The words that end an agent's process group on a host, as its workers do without it; none if it is not known."""
    # -1 is every process of the user
    return () if agent < 2 else remote(host, f"kill -s KILL -- -{agent} {agent}")


def script(host: HostLaunch) -> str:
    """The line that the host's shell runs, whichever shell the user has there: sh does the rest."""
    return f"exec sh -c {shlex.quote(inner(host))}"


def inner(host: HostLaunch) -> str:
    """The line for sh: read the secrets, go to the directory, become the agent."""
    read = [f"IFS= read -r {name} && export {name}" for name, value in host.environment if is_secret(name, value)]
    given = [f"{name}={value}" for name, value in host.environment if not is_secret(name, value)]
    return " && ".join(
        [*read, f"cd -- {shlex.quote(host.directory)}", f"exec {shlex.join(['env', *given, *host.arguments])}"]
    )


def shown(host: HostLaunch) -> str:
    """The whole command as a line to read or copy, and what stdin gets, with secrets masked."""
    line = shlex.join(words(host.public))
    secrets = "".join(f"  # stdin: {name}={MASK}" for name, value in host.environment if is_secret(name, value))
    return line + secrets


def remote(host: str, line: str) -> tuple[str, ...]:
    """The words of ssh that have the host's shell run a line."""
    options = (word for option in OPTIONS for word in ("-o", option))
    return ("ssh", "-T", *options, "--", host, line)
