"""What is wanted and what the host has → the spec of a container, and what there is to say about it."""

from dataclasses import dataclass

from headway.errors import PlanError
from headway.launch.container.check import check, profile_of, refuse_twice
from headway.launch.container.probe import Host
from headway.launch.container.profiles import RUNTIME, VISIBLE, Kind, Need, Part, Profile, Via, parts
from headway.launch.container.spec import (
    DEVICES,
    PROFILE,
    Access,
    ContainerSpec,
    Device,
    Gpus,
    Ipc,
    Mount,
    normal,
    show_ids,
)
from headway.launch.container.wanted import Wanted

# lives until it is stopped, and ends at once then: a process 1 without a trap does not hear SIGTERM
IDLE = ("sh", "-c", 'trap "exit 0" TERM; sleep infinity & wait')
SHELL = ("bash",)


@dataclass(frozen=True, slots=True)
class Taken:
    """A part and where on the host it is taken from."""

    part: Part
    source: str


@dataclass(frozen=True, slots=True)
class Made:
    """A spec, the parts in it, those that the host lacks, and remarks for the user."""

    spec: ContainerSpec
    taken: tuple[Taken, ...]
    absent: tuple[Part, ...]
    notes: tuple[str, ...]


def build(wanted: Wanted, host: Host | None) -> Made:
    """The container that `wanted` describes on `host`; None: on a host that nobody has looked at.

    On such a host every part is taken that is not left out by name. On a known one a required part that is missing is a
    PlanError that names it, an optional one is left out.
    """
    check(wanted, host)
    profile = profile_of(wanted)
    via = _via(wanted, profile, host)
    ids = _ids(wanted, profile, host)
    every = [part for part in parts(profile, via, ids) if part.name not in wanted.without]
    refuse_twice(wanted, every)
    taken = [Taken(part, source) for part in every if (source := _source(part, host))]
    if host:
        _refuse_missing(wanted, profile, host, every)
    absent = tuple(part for part in every if not _source(part, host))
    return Made(_spec(wanted, profile, via, ids, taken, host), tuple(taken), absent, _notes(wanted, via, host))


def _via(wanted: Wanted, profile: Profile, host: Host | None) -> Via | None:
    if wanted.via or not profile.vias:
        return wanted.via
    return Via.CDI if host and host.cdi and Via.CDI in profile.vias else profile.vias[0]


def _ids(wanted: Wanted, profile: Profile, host: Host | None) -> tuple[int, ...]:
    """Numbers of the accelerators; empty: all of them, or there are none."""
    if not profile.vias or wanted.privileged:
        return ()
    if host is None:
        if wanted.ids is None and profile.name == "ascend":
            raise PlanError(
                "--devices is missing, and this verb does not look at a host. Add --devices 0-7 for a host of 8 (A2), "
                "--devices 0-15 for one of 16 (A3)."
            )
        return wanted.ids or ()
    there = host.accelerators
    node = f"{host.root}{profile.node}"
    if not there and not host.cdi:
        raise PlanError(
            f"this host has no {node}0, nor any other number: no accelerator, or no driver. Install the driver, or use "
            "--profile cpu (for a job: a cluster of CPUs)."
        )
    missing = [each for each in wanted.ids or () if there and each not in there]
    if missing:
        raise PlanError(
            f"this host has no {', '.join(f'{node}{each}' for each in missing)}; it has devices {show_ids(there)}, of "
            f"which --devices {show_ids(wanted.ids or ())} asks for more. Choose among those."
        )
    return wanted.ids if wanted.ids is not None else () if profile.name == "nvidia" else there


def _source(part: Part, host: Host | None) -> str | None:
    """Where on the host the part is taken from; None: it is not there."""
    if host is None:
        return part.sources[0]
    there = {*host.parts, *(f"/dev/davinci{each}" for each in host.accelerators)}
    return next((host.root + each for each in part.sources if each in there), None)


def _refuse_missing(wanted: Wanted, profile: Profile, host: Host, every: list[Part]) -> None:
    said = [problem for part in every if (problem := _problem(part, host))]
    missing = [part for part in every if part.need is not Need.OPTIONAL and not _source(part, host)]
    if missing:
        usual = [f"--without {part.name}" for part in missing if part.need is Need.USUAL]
        listed = "; ".join(f"{' or '.join(host.root + each for each in part.sources)} ({part.why})" for part in missing)
        leave = f", or leave out what this kind of host has not: {' '.join(usual)}" if usual else ""
        said.append(
            f"this host lacks what a container of profile {profile.name} needs: {listed}. Install the driver{leave}."
        )
    said += [
        f"--mount {each.source}:{each.target}: there is no {each.source} on this host. Make it, or correct the path."
        for each in wanted.mounts
        if each.source not in host.places
    ]
    for device in wanted.devices:
        kind = host.places.get(device.source)
        if kind not in {Kind.DEVICE, Kind.DIRECTORY}:
            what = f"{device.source} is a {kind}" if kind else f"there is no {device.source} on this host"
            said.append(f"--device {device.source}: {what}. Name a device node, or a directory of them.")
    if said:
        raise PlanError("\n".join(said))


def _problem(part: Part, host: Host) -> str | None:
    for source in part.sources:
        kind = host.parts.get(source)
        wanted = Kind.DIRECTORY if part.kind is Kind.DEVICES else part.kind
        if kind and kind is not wanted:
            why = " (an engine makes one where the source of a -v was missing)" if kind is Kind.DIRECTORY else ""
            return (
                f"{host.root}{source} is a {kind}, not a {wanted}{why}. Take it away and install the driver, or leave "
                f"the part out: --without {part.name}."
            )
    return None


def _spec(
    wanted: Wanted, profile: Profile, via: Via | None, ids: tuple[int, ...], taken: list[Taken], host: Host | None
) -> ContainerSpec:
    environment, gpus = wanted.environment, None
    if via in {Via.GPUS, Via.CDI}:  # with --privileged, too: it brings the driver's libraries
        gpus = Gpus(Access.CDI if via is Via.CDI else Access.GPUS, ids)
    if via is Via.RUNTIME:
        environment = ((VISIBLE, show_ids(ids)), *environment)
    chosen = show_ids(ids) or ("all" if profile.vias else "")
    ipc = wanted.ipc or (Ipc.HOST if wanted.shm_size is None else Ipc.PRIVATE)
    devices = () if wanted.privileged else tuple(_device(each) for each in taken if each.part.is_device)
    more = (each.part.capability for each in taken)
    is_root = wanted.user is None or wanted.user.partition(":")[0] in {"0", "root"}
    return ContainerSpec(
        wanted.image,
        wanted.name,
        wanted.command or (SHELL if wanted.terminal else IDLE),
        (*(((DEVICES, chosen),) if chosen else ()), (PROFILE, profile.name)),
        wanted.workdir,
        environment,
        (*(_mount(each) for each in taken if not each.part.is_device), *wanted.mounts),
        (*devices, *wanted.devices),
        gpus,
        RUNTIME if via is Via.RUNTIME else None,
        wanted.network,
        wanted.ports,
        ipc,
        wanted.shm_size,
        ulimits=profile.ulimits,
        capabilities=tuple(dict.fromkeys((*profile.capabilities, *(each for each in more if each)))),
        user=wanted.user,
        groups=(host.group,) if host and host.group and profile.name == "ascend" and not is_root else (),
        privileged=wanted.privileged,
        terminal=wanted.terminal,
    )


def _device(taken: Taken) -> Device:
    return Device(taken.source, taken.part.sources[0])


def _mount(taken: Taken) -> Mount:
    return Mount(taken.source, taken.part.sources[0], read_only=True)


def _notes(wanted: Wanted, via: Via | None, host: Host | None) -> tuple[str, ...]:
    said = []
    if wanted.privileged:
        said.append(
            "--privileged: the container sees every device of the host and can change the host; accelerators are not "
            "kept apart from other containers."
        )
    inside = [normal(each.target) for each in wanted.mounts]
    if wanted.workdir and not any(f"{normal(wanted.workdir)}/".startswith(f"{each}/") for each in inside):
        said.append(
            f"the work directory {wanted.workdir} is in no --mount: what is written there goes with the container."
        )
    if wanted.user and host is None and via is Via.DEVICES:
        said.append(
            "device nodes belong to a group of the host: a user who is not root needs --group-add with its number "
            "(stat -c %g /dev/davinci0)."
        )
    return tuple(said)
