"""Start a script as so many ranks on this machine, without torchrun's seconds of start-up, and wait for it."""

import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent  # this checkout's package, not one that is installed


def start_ranks(script: Path, arguments: list[str], world: int) -> list[subprocess.Popen[bytes]]:
    """The processes, in rank order; rank 0 keeps their store."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(world)}
    common |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(map(str, (script.parent, ROOT)))}
    return [
        subprocess.Popen(
            [sys.executable, str(script), *arguments],
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for rank in range(world)
    ]


def run_ranks(script: Path, arguments: list[str], world: int, timeout: float) -> None:
    ranks = start_ranks(script, arguments, world)
    try:
        outputs = [rank.communicate(timeout=timeout)[0].decode() for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    failed = [f"rank {i}:\n{outputs[i]}" for i, rank in enumerate(ranks) if rank.returncode]
    assert not failed, "\n".join(failed)
