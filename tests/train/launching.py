"""Start a script as so many ranks on this machine, without torchrun's seconds of start-up, and wait for it."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent.parent  # this checkout's package, not one that is installed


def _environment(script: Path, world: int) -> dict[str, str]:
    """All that ranks must know but their number; rank 0 keeps their store."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(world)}
    return common | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(map(str, (script.parent, ROOT)))}


def start_ranks(script: Path, arguments: list[str], world: int) -> list[subprocess.Popen[bytes]]:
    """The processes, in rank order."""
    common = _environment(script, world)
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
    """Run them to their end, forked from one process that has imported what the script does; all must end well."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, str(Path(__file__).with_name("forking.py")), str(world), folder, str(script)]
        parent = subprocess.Popen([*command, *arguments], env=_environment(script, world), start_new_session=True)
        try:
            status = parent.wait(timeout=timeout)
        finally:
            if parent.poll() is None:
                os.killpg(parent.pid, signal.SIGKILL)
                parent.wait()
        outputs = [f"{path.name}:\n{path.read_text()}" for path in sorted(Path(folder).iterdir())]
    assert not status, "\n".join(outputs)
