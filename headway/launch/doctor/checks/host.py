"""Host: shared memory, pinned memory, disk, clock, ports, the container engine, and what could not be looked at."""

from collections.abc import Iterator

from headway import env
from headway.launch.doctor.finding import NOTHING, Finding, Status, Subject
from headway.launch.doctor.looking.host import HCCL, RENDEZVOUS
from headway.launch.doctor.machine import Clock, Engine, Machine, Space
from headway.units import Bytes, show_bytes, show_seconds

SHARED = Bytes(2**30)  # of /dev/shm; engines give a container 64 MiB, which NCCL's buffers of 8 GPUs outgrow
DISK = Bytes(10 * 2**30)


def check(machine: Machine) -> Iterator[Finding]:
    """Everything about the host beside its devices and its network."""
    yield memory(machine)
    if machine.shared:
        yield shared(machine.shared)
    yield memlock(machine)
    if machine.scratch:
        yield disk(machine.scratch)
    if machine.clock:
        yield clock(machine.clock)
    yield ports(machine)
    if "npu" in machine.kinds:
        yield hccl_ports(machine)
    if machine.engine:
        yield engine(machine.engine, needs_runtime="npu" in machine.kinds)
    yield from silent(machine)


def memory(machine: Machine) -> Finding:
    """Cores and main memory."""
    what = f"{machine.cores} cores, {show_bytes(machine.available)} of {show_bytes(machine.memory)} memory available"
    numbers = {"cores": machine.cores, "memory": machine.memory, "available": machine.available}
    if machine.available < machine.memory // 20:
        remedy = "End what takes it (top, sorted by memory), before a job is ended by the kernel."
        return Finding(Subject.HOST, "memory", Status.WARN, what, remedy, numbers)
    return Finding(Subject.HOST, "memory", Status.OK, what, NOTHING, numbers)


def shared(found: Space) -> Finding:
    """Room in /dev/shm, through which ranks of one host exchange data."""
    what = f"{found.path} has {show_bytes(found.free)} free of {show_bytes(found.total)}"
    numbers = {"total": found.total, "free": found.free}
    if found.path != "/dev/shm":
        what = "there is no /dev/shm, which NCCL and HCCL use between ranks of one host"
        remedy = "Mount it: mount -t tmpfs tmpfs /dev/shm; in a container use --ipc=host."
        return Finding(Subject.HOST, "shared memory", Status.WARN, what, remedy)
    if found.total < SHARED:
        remedy = (
            "Make the container with --ipc=host, or with --shm-size=16g (one of them: with both the size is ignored)."
        )
        return Finding(Subject.HOST, "shared memory", Status.WARN, what, remedy, numbers)
    if found.free < min(SHARED, found.total // 10):
        remedy = "Look what fills it (ls -l /dev/shm), and remove what programs that are gone have left."
        return Finding(Subject.HOST, "shared memory", Status.WARN, what, remedy, numbers)
    return Finding(Subject.HOST, "shared memory", Status.OK, what, NOTHING, numbers)


def memlock(machine: Machine) -> Finding:
    """How much memory a process may pin, which RDMA registers all of its buffers in."""
    limit = machine.memlock
    if limit is None:
        return Finding(Subject.HOST, "memlock", Status.OK, "a process may pin as much memory as it likes")
    what = f"a process may pin {show_bytes(limit)} of memory (ulimit -l)"
    numbers = {"memlock": limit}
    if not machine.kinds and not (machine.network and machine.network.rdma):
        return Finding(Subject.HOST, "memlock", Status.OK, f"{what}: enough without RDMA", NOTHING, numbers)
    remedy = (
        "ulimit -l unlimited, for good in /etc/security/limits.conf (memlock unlimited); in a container --ulimit "
        "memlock=-1; under Slurm LimitMEMLOCK=infinity of slurmd."
    )
    return Finding(Subject.HOST, "memlock", Status.WARN, f"{what}, but RDMA pins all of its buffers", remedy, numbers)


def disk(found: Space) -> Finding:
    """Room where the doctor was called, since runs are written below it unless the job says otherwise."""
    what = f"{show_bytes(found.free)} free of {show_bytes(found.total)} at {found.path}"
    numbers = {"total": found.total, "free": found.free, "writable": found.writable}
    if not found.writable:
        remedy = "Go to a directory that you may write to, or set run.directory and checkpoint.directory in the job."
        return Finding(Subject.HOST, "disk", Status.WARN, f"{found.path} cannot be written to", remedy, numbers)
    if found.free < DISK:
        remedy = "Free some, or set run.directory and checkpoint.directory to a larger disk."
        return Finding(Subject.HOST, "disk", Status.WARN, what, remedy, numbers)
    return Finding(Subject.HOST, "disk", Status.OK, what, NOTHING, numbers)


def clock(found: Clock) -> Finding:
    """Whether a time server steers the clock: logs of several hosts are read side by side."""
    numbers = {"synchronised": found.synchronised, "error": found.error}
    if not found.synchronised:
        what = "the clock is not steered by a time server: times in logs of several hosts do not match"
        remedy = "With several hosts start one on each: systemctl enable --now chronyd (or systemd-timesyncd)."
        return Finding(Subject.HOST, "clock", Status.WARN, what, remedy, numbers)
    what = f"the clock is steered by a time server, and off by {show_seconds(found.error)} at most"
    return Finding(Subject.HOST, "clock", Status.OK, what, NOTHING, numbers)


def ports(machine: Machine) -> Finding:
    """Whether the port where torchrun's ranks meet is free."""
    why = machine.taken.get(RENDEZVOUS)
    numbers = {"port": RENDEZVOUS, "free": why is None}
    if why:
        what = f"port {RENDEZVOUS}, where torchrun's ranks meet, cannot be listened at ({why})"
        remedy = f"See who has it (ss -ltnp 'sport = :{RENDEZVOUS}'), or use another (--master-port)."
        return Finding(Subject.HOST, "ports", Status.WARN, what, remedy, numbers)
    if (given := machine.passing) and max(given[0], env.PORTS[0]) <= min(given[-1], env.PORTS[-1]):
        mine = f"{env.PORTS[0]}-{env.PORTS[-1]}"
        what = (
            f"the kernel gives ports {given[0]}-{given[-1]} to connections, also of {mine}, where Headway's ranks meet"
        )
        remedy = "As root: sysctl -w net.ipv4.ip_local_port_range='32768 60999'."
        return Finding(Subject.HOST, "ports", Status.WARN, what, remedy, numbers)
    what = f"port {RENDEZVOUS}, where torchrun's ranks meet, is free"
    return Finding(Subject.HOST, "ports", Status.OK, what, NOTHING, numbers)


def hccl_ports(machine: Machine) -> Finding:
    """Whether HCCL's ports are free, and kept free: the kernel may give them to any connection."""
    span = f"{HCCL[0]}-{HCCL[-1]}"
    busy = [port for port in HCCL if port in machine.taken]
    kept = all(any(port in each for each in machine.reserved) for port in HCCL)
    given = machine.passing is not None and any(port in machine.passing for port in HCCL)
    numbers = {"busy": len(busy), "reserved": kept}
    if busy:
        what = f"{len(busy)} of HCCL's ports {span} are taken, like {busy[0]}"
        remedy = "See who has them (ss -ltnp), or set HCCL_IF_BASE_PORT to 16 free ones, the same on every host."
        return Finding(Subject.HOST, "HCCL ports", Status.WARN, what, remedy, numbers)
    if given and not kept:
        what = f"HCCL's ports {span} are free, but the kernel may give them to any connection"
        remedy = f"As root: sysctl -w net.ipv4.ip_local_reserved_ports={span}."
        return Finding(Subject.HOST, "HCCL ports", Status.WARN, what, remedy, numbers)
    return Finding(Subject.HOST, "HCCL ports", Status.OK, f"HCCL's ports {span} are free", NOTHING, numbers)


def engine(found: Engine, *, needs_runtime: bool) -> Finding:
    """Whether a container engine answers; jobs need one only if they run in containers."""
    numbers = {"address": found.address, "version": found.version, "runtimes": ", ".join(found.runtimes)}
    if not found.there:
        what = f"no container engine at {found.address}"
        remedy = "Only for jobs in containers: install Docker (apt-get install docker.io), or set DOCKER_HOST."
        return Finding(Subject.HOST, "engine", Status.OK, what, remedy, numbers)
    if found.trouble:
        what = f"the container engine at {found.address} does not answer: {found.trouble}"
        remedy = "Only for jobs in containers: systemctl start docker, or join its group (usermod -aG docker USER)."
        return Finding(Subject.HOST, "engine", Status.WARN, what, remedy, numbers)
    with_ascend = "ascend" in found.runtimes
    said = f", its runtimes: {numbers['runtimes']}" if found.runtimes else ""
    what = f"container engine {found.version} answers at {found.address}{said}"
    if needs_runtime and not with_ascend:
        what = f"{what}; without ascend-docker-runtime devices are given one by one, as `headway container` does"
    return Finding(Subject.HOST, "engine", Status.OK, what, NOTHING, numbers)


def silent(machine: Machine) -> Iterator[Finding]:
    """What hung or broke when it was looked at."""
    for each in machine.silent:
        what = f"{each.at} could not be looked at: {each.why}"
        remedy = "Look at it yourself: a driver or a network disk that hangs here hangs in the job as well."
        yield Finding(Subject.HOST, each.at, Status.WARN, what, remedy)
