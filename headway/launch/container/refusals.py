"""Why an engine did not answer, or could not do what it was asked to, and what helps."""

import re
from collections.abc import Iterator

from headway.errors import HeadwayError, JobError, PlanError
from headway.units import Seconds

_NVIDIA = "Install the NVIDIA Container Toolkit (nvidia-ctk runtime configure --runtime=docker)"
# what an engine says, and what helps; Docker 20.10 to 29, containerd and runc in their own words
_REMEDIES = (
    (r'select device driver ""', f"{_NVIDIA}, or use --via cdi."),
    (r'select device driver "cdi"', "Engines before 28.3 do not turn CDI on: use --via gpus, or turn it on."),
    (r"unresolvable CDI devices", "Write the spec (nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml)."),
    (r"gathering device information", "The host has lost that device; see its driver, and create the container again."),
    (r"bind source path does not exist", "The host has lost that path; make it, or create the container again."),
    (r"unknown (or invalid )?runtime", "Install that runtime, or create the container with --via devices."),
    (r"executable file not found|no such file or directory.*exec", "Give a command that the image has, after --."),
    (r"port is already allocated|address already in use", "Choose another port of the host with --publish."),
    (r"network .* not found", "Make it (docker network create), or use --network host."),
    (r"setting rlimit|apply caps", "The engine itself may not do that: start it as root with all capabilities."),
    (r"no space left", "Free some space where the engine keeps its data."),
)
_TAKEN = re.compile(r'The container name "/?([^"]+)" is already in use')


def no_answer(address: str, error: Exception, within: Seconds) -> HeadwayError:
    """An engine that cannot be reached, by the system's own reason where there is one."""
    start = "Start it (systemctl start docker), or set DOCKER_HOST to where one listens."
    for cause in _causes(error):
        match cause:
            case FileNotFoundError():
                return JobError(f"no engine listens at {address}: there is no such socket. {start}")
            case ConnectionRefusedError():
                return JobError(f"no engine listens at {address}: connections are refused. {start}")
            case PermissionError():
                return JobError(
                    f"this user may not talk to the engine at {address}. Become a member of its group (usermod -aG "
                    "docker USER, then log in again), or use sudo."
                )
            case TimeoutError():
                return JobError(
                    f"the engine at {address} did not answer within {within:g} s. See whether it hangs (docker info; "
                    "journalctl -u docker), or set DOCKER_HOST to another."
                )
    return JobError(f"the engine at {address} cannot be talked to: {_plain(error)}. {start}")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Every error inside: `requests` wraps the system's own three levels deep, in arguments and as causes."""
    seen: list[BaseException] = [error]
    for each in seen:
        inside = [each.__cause__, each.__context__, *each.args]
        seen += [one for one in inside if isinstance(one, BaseException) and one not in seen]
        yield each
        if "timed out" in str(each).lower() and not isinstance(each, OSError):
            yield TimeoutError(str(each))


def explain(error: Exception) -> HeadwayError:
    """What an engine refused, in its own words, with what helps."""
    said = _plain(error)
    taken = _TAKEN.search(said)
    if taken:
        return PlanError(f"a container called {taken[1]} exists already. Choose another --name.")
    remedy = next((remedy for pattern, remedy in _REMEDIES if re.search(pattern, said, re.IGNORECASE)), None)
    return JobError(f"the engine could not do that: {said}. {remedy or 'Its log says more (journalctl -u docker).'}")


def _plain(error: Exception) -> str:
    """The engine's sentence without the HTTP around it, on one line."""
    text = getattr(error, "explanation", None) or str(error)
    return " ".join(str(text).split()).rstrip(".")
