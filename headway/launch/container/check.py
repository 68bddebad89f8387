"""Contradictions in what a user asks of a container, explained before anything runs."""

from collections.abc import Iterator, Sequence

from headway.errors import PlanError, nearest
from headway.launch.container.probe import Host
from headway.launch.container.profiles import PROFILES, VISIBLE, Need, Part, Profile, Via
from headway.launch.container.spec import Ipc, normal, show_ids
from headway.launch.container.wanted import Wanted
from headway.units import show_bytes

_LARGEST_MEMORY = 2**50  # bytes
_HOLDS_ALL = ("/", "/etc", "/dev", "/proc", "/sys")  # who may write there is root of the host


def profile_of(wanted: Wanted) -> Profile:
    """The profile that is asked for; PlanError with the nearest name if there is no such one."""
    if wanted.profile not in PROFILES:
        raise PlanError(f"no profile is called '{wanted.profile}'. {nearest(wanted.profile, PROFILES)}")
    return PROFILES[wanted.profile]


def check(wanted: Wanted, host: Host | None) -> None:
    """Raise a PlanError with every contradiction, a line each. Without `host`, links in paths are not followed."""
    profile = profile_of(wanted)
    if wanted.via and wanted.via not in profile.vias:
        raise PlanError(_no_such_way(profile, wanted.via))
    rules = (_network(wanted), _memory(wanted), _choice(wanted, profile), _parts(wanted, profile))
    found = [*(said for rule in rules for said in rule), *_dangers(wanted, host)]
    if found:
        raise PlanError("\n".join(found))


def refuse_twice(wanted: Wanted, parts: Sequence[Part]) -> None:
    """Raise a PlanError for two things at one place of the container, or for a variable that is given twice."""
    taken = {part.sources[0]: f"the part {part.name}" for part in parts if not (part.is_device and wanted.privileged)}
    said = []
    own = [(f"--mount {each.source}", each.target) for each in wanted.mounts]
    own += [(f"--device {each.source}", each.target) for each in wanted.devices]
    for this, target in own:
        place = normal(target)
        if place in taken:
            said.append(f"{this} and {taken[place]} both go to {place}. Choose another place for it, or leave one out.")
        taken[place] = this
    names = [name for name, _ in wanted.environment]
    twice = sorted({name for name in names if names.count(name) > 1})
    said += [f"--env {name} is given {names.count(name)} times. Give it once." for name in twice]
    if said:
        raise PlanError("\n".join(said))


def _no_such_way(profile: Profile, via: Via) -> str:
    ways = f"Its ways: {', '.join(profile.vias)}." if profile.vias else "It has no accelerators; leave --via out."
    return f"the profile {profile.name} gives no devices via {via}. {ways}"


def _network(wanted: Wanted) -> Iterator[str]:
    if wanted.ports and wanted.network in {"host", "none"}:
        first = wanted.ports[0]
        reached = (
            f"what listens at {first.container} inside is at {first.container} of the host already"
            if wanted.network == "host"
            else "nothing leads into such a container"
        )
        yield (
            f"--publish {first.host}:{first.container} does nothing with --network {wanted.network}: engines discard "
            f"it, and {reached}. Leave --publish out, or use --network bridge."
        )


def _memory(wanted: Wanted) -> Iterator[str]:
    if wanted.ipc is Ipc.HOST and wanted.shm_size is not None:
        yield (
            f"--shm-size {show_bytes(wanted.shm_size)} does nothing with --ipc host: the container sees the host's "
            "/dev/shm then, whatever its size. Leave one of the two out."
        )
    if wanted.ipc is Ipc.PRIVATE and wanted.shm_size is None:
        yield (
            "--ipc private alone leaves 64 MB of /dev/shm, in which collectives and data workers die of bus errors. "
            "Add --shm-size 16GiB, or use --ipc host."
        )
    if wanted.shm_size is not None and not 1 <= wanted.shm_size <= _LARGEST_MEMORY:
        yield f"--shm-size {wanted.shm_size} is no size of a host's memory. Use --shm-size 16GiB."


def _choice(wanted: Wanted, profile: Profile) -> Iterator[str]:
    """What is said about devices more than once, or in vain."""
    if wanted.ids is not None and not profile.vias:
        chosen = f"--devices {show_ids(wanted.ids)}"
        yield f"{chosen} chooses among accelerators, and the profile {profile.name} has none. Leave it out."
    if wanted.privileged:
        named = [f"--devices {show_ids(wanted.ids)}"] if wanted.ids is not None else []
        named += [f"--device {each.source}" for each in wanted.devices]
        named += ["--via runtime"] if wanted.via is Via.RUNTIME else []
        if named:
            yield (
                f"--privileged shows a container every device of the host, so {' and '.join(named)} keeps none "
                "away: two such containers see the same accelerators. Leave --privileged out, or the choice of devices."
            )
    if profile.name != "ascend":
        return
    if any(name == VISIBLE for name, _ in wanted.environment):
        yield (
            f"{VISIBLE} is for ascend-docker-runtime, which then disregards devices named one by one. Choose them by "
            "--devices; with --via runtime Headway sets the variable."
        )
    nodes = [each.source for each in wanted.devices if each.target.startswith("/dev/davinci")]
    if wanted.via is Via.RUNTIME and nodes:
        yield (
            f"--device {nodes[0]} and --via runtime give the same thing in two ways, of which the runtime heeds one. "
            "Choose by --devices alone."
        )


def _parts(wanted: Wanted, profile: Profile) -> Iterator[str]:
    known = {part.name: part for part in profile.parts}
    for name in wanted.without:
        if name not in known:
            names = nearest(name, known) if known else "It has none."
            yield f"--without {name}: the profile {profile.name} has no part of that name. {names}"
        elif known[name].need is Need.REQUIRED:
            droppable = ", ".join(part.name for part in profile.parts if part.need is not Need.REQUIRED)
            yield (
                f"--without {name}: no container of the profile {profile.name} works without it ({known[name].why}). "
                f"These can be left out: {droppable}."
            )
        elif wanted.via is Via.RUNTIME and known[name].by_runtime:
            yield f"--without {name} does nothing with --via runtime: the runtime brings that part. Leave it out."


def _dangers(wanted: Wanted, host: Host | None) -> Iterator[str]:
    if wanted.dangerous_mounts:
        return
    for mount in wanted.mounts:
        for source in dict.fromkeys((normal(mount.source), host.real[mount.source] if host else normal(mount.source))):
            danger = _danger(source, wanted.sockets)
            if danger:
                leads = "" if source == normal(mount.source) else f" leads to {source}, which"
                yield (
                    f"--mount {mount.source}:{mount.target}{leads} {danger}. Mount the directory that is needed; "
                    "if this one is meant, headway container has --allow-dangerous-mounts."
                )
                break


def _danger(source: str, sockets: tuple[str, ...]) -> str | None:
    """Why nobody should hand `source` to a container without saying so."""
    if source in _HOLDS_ALL:
        return f"hands the host's {source} to the container, and with it the host"
    for socket in map(normal, sockets):
        if socket == source or socket.startswith(source + "/"):
            how = "is the engine's socket" if socket == source else f"holds the engine's socket {socket}"
            return f"{how}: who may write to it is root of the host"
    return None
