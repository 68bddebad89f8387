"""The only reader of environment variables, and of what this machine is."""

import os
from dataclasses import dataclass

from headway.units import Bytes


@dataclass(frozen=True, slots=True)
class Worker:
    """What torchrun tells a worker process: its place in the job.

    `address` and `port` are those of the job's store; `attempt` counts torchrun's restarts.
    """

    rank: int
    local_rank: int
    world: int
    address: str
    port: int
    attempt: int = 0


def worker() -> Worker | None:
    """This process's place if torchrun (or a launcher with its variables) started it, else None."""
    env = os.environ
    if not all(name in env for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")):
        return None
    return Worker(
        int(env["RANK"]),
        int(env["LOCAL_RANK"]),
        int(env["WORLD_SIZE"]),
        env["MASTER_ADDR"],
        int(env["MASTER_PORT"]),
        int(env.get("TORCHELASTIC_RESTART_COUNT", "0")),
    )


def num_cores() -> int:
    """CPU cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def machine_memory() -> Bytes:
    """Bytes of main memory of this machine."""
    return Bytes(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def for_workers() -> dict[str, str]:
    """The environment of worker processes: this one's, with one compute thread per process.

    Without OMP_NUM_THREADS=1 every rank starts as many threads as there are cores, and they fight for them.
    """
    return {"OMP_NUM_THREADS": "1", **os.environ}
