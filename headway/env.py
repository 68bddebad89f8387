"""The only reader of environment variables, and of what this machine is and runs."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headway.errors import PlanError
from headway.units import Bytes

LOOPBACK = "127.0.0.1"
PORTS = range(20_000, 30_000)  # where the ranks of a Slurm step meet; below what Linux gives to connections (32768 on)


@dataclass(frozen=True, slots=True)
class Worker:
    """What the launcher tells a worker process: its place in the job, and where rank 0 waits for the others.

    `address` and `port` are those of the job's store; `attempt` counts torchrun's restarts.
    """

    rank: int
    local_rank: int
    world: int
    address: str
    port: int
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Node:
    """The place of a host among those of a job: `address` and `port` are where the agents meet, on the first one."""

    rank: int
    num_nodes: int
    address: str
    port: int


def node(variables: Mapping[str, str] = os.environ) -> Node:
    """This host's place by torchrun's own variables (PET_NNODES and the rest); alone where they are not set."""
    if int(variables.get("PET_NNODES", "1")) == 1:
        return Node(0, 1, LOOPBACK, 0)
    rank, number, port = (int(variables[f"PET_{name}"]) for name in ("NODE_RANK", "NNODES", "MASTER_PORT"))
    return Node(rank, number, variables["PET_MASTER_ADDR"], port)


def here() -> dict[str, str]:
    """The environment of this process, for what is passed on to other hosts."""
    return dict(os.environ)


def worker(variables: Mapping[str, str] = os.environ) -> Worker | None:
    """This process's place if torchrun (or a launcher with its variables) or Slurm's srun started it, else None."""
    if all(name in variables for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")):
        rank, local_rank, world = (int(variables[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
        attempt = int(variables.get("TORCHELASTIC_RESTART_COUNT", "0"))
        return Worker(rank, local_rank, world, variables["MASTER_ADDR"], int(variables["MASTER_PORT"]), attempt)
    return _slurm_worker(variables)


def _slurm_worker(variables: Mapping[str, str]) -> Worker | None:
    """This task's place in a step of several tasks.

    The shell of sbatch or salloc has SLURM_PROCID and SLURM_NTASKS too, but only srun makes a step and says how many
    tasks it has; a step of one task is an interactive shell, or a job that starts its own workers.
    """
    world = int(variables.get("SLURM_STEP_NUM_TASKS", 1))
    if "SLURM_STEP_ID" not in variables or "SLURM_PROCID" not in variables or world == 1:
        return None
    hosts = expand_hosts(variables["SLURM_STEP_NODELIST"])
    first = LOOPBACK if len(hosts) == 1 else hosts[0]
    # steps of a job that run at once meet at ports of their own
    number = 16 * int(variables["SLURM_JOB_ID"]) + int(variables["SLURM_STEP_ID"])
    return Worker(
        int(variables["SLURM_PROCID"]),
        int(variables["SLURM_LOCALID"]),
        world,
        variables.get("MASTER_ADDR", first),
        int(variables.get("MASTER_PORT", PORTS[number % len(PORTS)])),
    )


def expand_hosts(text: str) -> list[str]:
    """Host names from Slurm's compressed list; PlanError where it is none.

    >>> expand_hosts("node[03-05,9],login,gpu[1-2]-ib")
    ['node03', 'node04', 'node05', 'node9', 'login', 'gpu1-ib', 'gpu2-ib']
    """
    parts = re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+", text)
    if not parts or ",".join(parts) != text:
        raise PlanError(f"'{text}' is no list of hosts as Slurm writes them (node[01-04,7]).")
    return [host for part in parts for host in _expand(part)]


def _expand(part: str) -> list[str]:
    """The hosts of one part; the last bracket changes fastest."""
    before, bracket, rest = part.partition("[")
    if not bracket:
        return [part]
    inside, _, after = rest.partition("]")
    numbers = []
    for each in inside.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", each)
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise PlanError(f"'{part}' is no range of hosts as Slurm writes them (node[01-04,7]).")
        first, last = match[1], match[2] or match[1]
        numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return [before + number + end for number in numbers for end in _expand(after)]


def num_cores() -> int:
    """CPU cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def machine_memory() -> Bytes:
    """Bytes of main memory of this machine."""
    return Bytes(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def parent(pid: int) -> int | None:
    """The process that started another (Linux); None where there is no such process."""
    try:
        found = re.search(r"\) \S (\d+) ", Path(f"/proc/{pid}/stat").read_text("utf-8", "replace"))
    except OSError:
        return None
    return int(found[1]) if found else None


def children(pid: int) -> list[int]:
    """Processes whose parent is `pid` (Linux)."""
    running = [int(each.name) for each in Path("/proc").glob("[0-9]*")]
    return [each for each in running if parent(each) == pid]


def processor_flags() -> frozenset[str]:
    """What this machine's x86 processor can do, in Linux's words (`avx2`, `amx_bf16`); elsewhere nothing is known."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return frozenset()
    found = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    return frozenset(found[1].split()) if found else frozenset()


def for_workers() -> dict[str, str]:
    """The environment of worker processes: this one's, with one compute thread per process.

    Without OMP_NUM_THREADS=1 every rank starts as many threads as there are cores, and they fight for them. The place
    that torchrun's variables give this process (in a pod of Kubernetes) is not that of its own workers.
    """
    return {"OMP_NUM_THREADS": "1", **{name: each for name, each in os.environ.items() if not name.startswith("PET_")}}


def for_docker(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What says where the container engine is and how it is reached (DOCKER_HOST, its certificates)."""
    return {name: value for name, value in variables.items() if name.startswith("DOCKER_")}


def for_tools(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a host's tools whose words are read: this one's, in English."""
    return {**variables, "LC_ALL": "C"}


def bound_interfaces(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that bind communication to a network interface, as far as they are set."""
    names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "HCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "HCCL_IF_IP")
    return {name: variables[name] for name in names if variables.get(name)}
