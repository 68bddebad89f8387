"""Job: whether the plan of a job fits this host: devices, their memory, cores, disk, data, ports and interface."""

from collections.abc import Iterator
from dataclasses import dataclass

from headway.launch.doctor.finding import NOTHING, Finding, Number, Status, Subject
from headway.launch.doctor.machine import Machine, Silent, Space
from headway.launch.interfaces import Kind
from headway.units import Bytes, show_bytes

PROCESS = Bytes(220 * 2**20)  # of host memory that a rank takes with torch imported (2.13 on CPU, resident)
_BACKENDS: dict[Kind, str] = {"cpu": "gloo", "cuda": "nccl", "npu": "hccl"}
_NAMES: dict[Kind, str] = {"cpu": "CPU", "cuda": "NVIDIA GPU", "npu": "Ascend NPU"}


@dataclass(frozen=True, slots=True)
class Needs:
    """What a job's plan asks of each host.

    `ranks` are those of one host, of `hosts`. `fullest` is the place (a rank, or all ranks of a host that share its
    memory) with the most bytes, `used`. `kept`: bytes of the checkpoints that lie on disk at one time, below
    `directory`; `run`: where the run's files go. `data`: what is trained on (None where it is not known, or refused).
    `refused`: why the job would not begin here, each with its remedy.
    `silent`: what of that could not be found out.
    """

    kind: Kind
    ranks: int
    hosts: int
    workers: int
    shares_memory: bool
    fullest: str
    used: Bytes
    kept: Bytes
    directory: Space | None
    run: Space | None
    data: str | None = None
    refused: tuple[str, ...] = ()
    silent: tuple[Silent, ...] = ()


def check(needs: Needs, machine: Machine) -> Iterator[Finding]:
    """Everything about the job."""
    for each in needs.refused:
        yield refused(each)
    for unknown in needs.silent:
        what = f"{unknown.at} could not be looked at: {unknown.why}"
        yield Finding(
            Subject.JOB, unknown.at, Status.WARN, what, "Look at it yourself: it will be slow in the job too."
        )
    if needs.data:
        yield Finding(Subject.JOB, "data", Status.OK, f"data and tokenizer fit the model: {needs.data}")
    yield hosts(needs, machine)
    yield devices(needs, machine)
    yield backend(needs, machine)
    yield memory(needs, machine)
    yield cores(needs, machine)
    if needs.kept and needs.directory:
        yield disk(needs.kept, needs.directory)
    if needs.run:
        yield run(needs.run)


def refused(said: str) -> Finding:
    """Why `headway train` would not begin; the last sentence says what would work."""
    what, _, remedy = said.strip().partition(". ")
    return Finding(Subject.JOB, "job", Status.FAIL, what, remedy or "Change the job.")


def hosts(needs: Needs, machine: Machine) -> Finding:
    """How many hosts like this one the job takes."""
    numbers = {"hosts": needs.hosts, "ranks": needs.ranks}
    if needs.hosts == 1:
        what = f"the job takes this host alone, with {needs.ranks} rank{'s' if needs.ranks > 1 else ''}"
        return Finding(Subject.JOB, "hosts", Status.OK, what, NOTHING, numbers)
    what = f"the job takes {needs.hosts} hosts with {needs.ranks} ranks each; this is {machine.name}"
    return Finding(Subject.JOB, "hosts", Status.OK, what, "Run this on each of them.", numbers)


def devices(needs: Needs, machine: Machine) -> Finding:
    """Whether there are as many devices of the plan's kind as ranks on a host."""
    there = machine.cores if needs.kind == "cpu" else machine.kinds.get(needs.kind, 0)
    name = _NAMES[needs.kind]
    numbers: dict[str, Number] = {"wanted": needs.ranks, "there": there}
    if needs.kind == "cpu":
        return Finding(Subject.JOB, "devices", Status.OK, "ranks compute on the processor's cores", NOTHING, numbers)
    if there < needs.ranks:
        what = f"the plan wants {needs.ranks} {name}s on each host, this one has {there}"
        near = "a smaller layout (parallel) or more hosts" if there else "a host that has them, or cluster: local-cpu"
        return Finding(Subject.JOB, "devices", Status.FAIL, what, f"Use {near}.", numbers)
    what = f"{needs.ranks} of {there} {name}s"
    return Finding(Subject.JOB, "devices", Status.OK, what, NOTHING, numbers)


def backend(needs: Needs, machine: Machine) -> Finding:
    """Whether torch has the backend that goes with the devices, and shows them."""
    tried = machine.software.torch if machine.software else None
    wanted = _BACKENDS[needs.kind]
    if tried is None or tried.trouble:
        what = f"torch does not work here, so nothing can use {wanted}"
        return Finding(Subject.JOB, "backend", Status.FAIL, what, "Mend it first: see software.", {"backend": wanted})
    seen = len(tried.devices.get(needs.kind, ())) if needs.kind != "cpu" else needs.ranks
    numbers: dict[str, Number] = {"backend": wanted, "has": wanted in tried.backends, "devices": seen}
    if wanted not in tried.backends or seen < needs.ranks:
        has = ", ".join(tried.backends) or "no backend"
        shows = f"{seen} of the {needs.ranks} {_NAMES[needs.kind]}s"
        what = f"the job needs {wanted}, but torch {tried.version} has {has} and shows {shows}"
        builds = {
            "cpu": "Install a torch with gloo.",
            "cuda": "Install torch's CUDA build; look at CUDA_VISIBLE_DEVICES.",
            "npu": "Install torch-npu of torch's release and source CANN's set_env.sh (ASCEND_RT_VISIBLE_DEVICES?).",
        }
        return Finding(Subject.JOB, "backend", Status.FAIL, what, builds[needs.kind], numbers)
    return Finding(Subject.JOB, "backend", Status.OK, f"torch has {wanted}", NOTHING, numbers)


def memory(needs: Needs, machine: Machine) -> Finding:
    """Whether the fullest rank of the plan has room on the devices that are here, and each process on the host."""
    processes = PROCESS * needs.ranks
    if needs.shares_memory or needs.kind == "cpu":
        wanted = Bytes(needs.used * (1 if needs.shares_memory else needs.ranks) + processes)
        return _room(needs, wanted, machine.memory, machine.available, "this host's memory")
    sizes = _device_memory(needs.kind, machine)
    if not sizes:
        what = f"{needs.fullest} takes {show_bytes(needs.used)}; no device says how much memory it has"
        remedy = "Look at the devices first."
        return Finding(Subject.JOB, "memory", Status.WARN, what, remedy, {"needed": needs.used})
    # ranks take the devices in order; the one with the least room bounds them all
    total, free = min(sizes[: needs.ranks], key=lambda size: size[1])
    return _room(needs, needs.used, total, free, "the device with the least room")


def _room(needs: Needs, wanted: Bytes, total: Bytes, free: Bytes, where: str) -> Finding:
    numbers = {"needed": wanted, "total": total, "free": free}
    own = f" ({show_bytes(wanted - needs.used)} of it torch itself)" if wanted > needs.used else ""
    room = f"{where} has {show_bytes(free)} free of {show_bytes(total)}"
    what = f"{needs.fullest} takes {show_bytes(wanted)}{own}; {room}"
    smaller = "a smaller train.microbatch, a higher parallel.zero, or more ranks (headway plan JOB says what helps)"
    if wanted > total:
        return Finding(Subject.JOB, "memory", Status.FAIL, what, f"Use {smaller}.", numbers)
    if wanted > free:
        remedy = f"End what takes the rest, or use {smaller}."
        return Finding(Subject.JOB, "memory", Status.FAIL, what, remedy, numbers)
    return Finding(Subject.JOB, "memory", Status.OK, what, NOTHING, numbers)


def _device_memory(kind: Kind, machine: Machine) -> list[tuple[Bytes, Bytes]]:
    """Total and free memory of each device, as its own tool says, else as torch does (then all of it is free)."""
    if kind == "npu" and machine.npus and machine.npus.table and machine.npus.table.npus:
        return [(each.memory, Bytes(each.memory - each.used)) for each in machine.npus.table.npus]
    if kind == "cuda" and machine.gpus and machine.gpus.listed:
        return [(each.memory, Bytes(each.memory - each.used)) for each in machine.gpus.listed]
    tried = machine.software.torch if machine.software else None
    return [(size, size) for size in tried.devices.get(kind, ())] if tried else []


def cores(needs: Needs, machine: Machine) -> Finding:
    """Whether each rank has a core for itself, and each rank's data workers have one."""
    each = 1 if needs.kind == "cpu" else 1 + needs.workers
    wanted, most = needs.ranks * each, max(1, machine.cores // each)
    numbers = {"wanted": wanted, "there": machine.cores}
    workers = f"{needs.workers} data worker{'s' * (needs.workers != 1)}"
    what = f"{needs.ranks} ranks with {workers} each on {machine.cores} cores"
    if machine.cores >= wanted:
        return Finding(Subject.JOB, "cores", Status.OK, what, NOTHING, numbers)
    effect = (
        "ranks share cores, and times come out longer than predicted for one each"
        if needs.kind == "cpu"
        else "devices wait for their host"
    )
    remedy = f"Use at most {most} rank{'s' * (most > 1)} here, or a host with {wanted} cores."
    return Finding(Subject.JOB, "cores", Status.WARN, f"{what}: {effect}", remedy, numbers)


def disk(kept: Bytes, found: Space) -> Finding:
    """Whether the checkpoints that lie on disk at one time have room."""
    numbers = {"needed": kept, "free": found.free, "writable": found.writable}
    what = f"checkpoints take {show_bytes(kept)}; {show_bytes(found.free)} are free at {found.path}"
    if not found.writable:
        what = f"checkpoints cannot be written below {found.path}"
        remedy = "Set checkpoint.directory to one that you may write to."
        return Finding(Subject.JOB, "checkpoints", Status.FAIL, what, remedy, numbers)
    if kept > found.free:
        remedy = "Free some, set checkpoint.directory to a larger disk, or keep fewer (checkpoint.keep)."
        return Finding(Subject.JOB, "checkpoints", Status.FAIL, what, remedy, numbers)
    return Finding(Subject.JOB, "checkpoints", Status.OK, what, NOTHING, numbers)


def run(found: Space) -> Finding:
    """Whether the run's own files can be written."""
    numbers = {"free": found.free, "writable": found.writable}
    if not found.writable:
        what = f"the run's files cannot be written below {found.path}"
        return Finding(
            Subject.JOB, "run directory", Status.FAIL, what, "Set run.directory to one that you may write to.", numbers
        )
    return Finding(Subject.JOB, "run directory", Status.OK, f"the run's files go below {found.path}", NOTHING, numbers)
