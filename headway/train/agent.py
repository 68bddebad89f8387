"""The launcher's process on a node: torchrun's agent starts the workers, and says which rank ended the job.

python -m headway.train.agent RUN_DIRECTORY NUM_RANKS MAX_RESTARTS LEASH

NUM_RANKS are those of this node; its place among several is in the environment (headway.env.node). The LEASH, whose end
ends the agent, is its parent's process id, `parent`, or `stdin`: the line `stop` there ends the job with its step,
`kill` at once, and the end of stdin as a signal would.
"""

import contextlib
import json
import logging
import os
import signal
import socket
import sys
import zlib
from pathlib import Path

from headway import env
from headway.train.endings import end_with, end_with_input

TOLD_TO_STOP = "told-to-stop"  # a file in the run's log/ that the launcher makes
ANSWER = "headway: agent"  # how the line begins that says that a host has started its agent: its process id follows
JOIN = 300  # seconds that the first node waits for the others, as the ranks do (train/pulse.py)


def main(directory: Path, num_ranks: int, max_restarts: int) -> int:
    """Run the job to its end; the exit status.

    On failure `log/failures.json` (`failures-NODE.json` on one of several nodes) holds rank → {pid, exitcode} of the
    workers that ended by themselves, before the agent ended the rest; exit codes below 0 are signals. Where a restart
    may help it is tried, `max_restarts` times at most, and what the failed attempt left in `log/` goes into a folder
    `attempt-N` there.
    """
    for attempt in range(max_restarts + 1):
        status = _attempt(directory, num_ranks, attempt)
        if status != 1 or attempt == max_restarts or not may_help(directory / "log"):
            break
        _put_away(directory / "log", attempt)
    return status


def _attempt(directory: Path, num_ranks: int, attempt: int) -> int:
    """All ranks once, from their start to their end."""
    from torch.distributed import DistError
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    logs, node = directory / "log", env.node()
    alone = node.num_nodes == 1
    config = LaunchConfig(
        min_nodes=node.num_nodes,
        max_nodes=node.num_nodes,
        nproc_per_node=num_ranks,
        run_id=run_id(directory),
        # the static rendezvous is quiet at shutdown, where c10d's prints a traceback of a job that passed
        rdzv_backend="static",
        rdzv_endpoint=f"{env.LOOPBACK}:{_free_port()}" if alone else _endpoint(node),
        rdzv_configs={"rank": node.rank, "timeout": JOIN},
        local_addr=env.LOOPBACK if alone else None,
        max_restarts=0,  # the agent would restart whatever had happened, and leave no trace of why
        monitor_interval=0.1,
        logs_specs=DefaultLogsSpecs(log_dir=str(logs), redirects=Std.ALL),
    )
    keep_quiet_about_partings()
    words = ("-m", "headway.train.worker", str(directory), str(os.getpid()), str(attempt))
    try:
        elastic_launch(config, sys.executable)(*words)
    except ChildFailedError as error:
        failures = {rank: {"pid": f.pid, "exitcode": f.exitcode} for rank, f in error.failures.items()}
        with contextlib.suppress(OSError):  # a full disk: the ranks have said why, if they could
            (logs / f"failures{'' if alone else f'-{node.rank}'}.json").write_text(
                json.dumps(failures), encoding="utf-8"
            )
        return 1
    except SignalException as error:
        return 128 + int(error.sigval)
    except DistError as error:  # another program has come to the port since this host has looked, or a host is away
        said = str(error).splitlines()[0]
        sys.stderr.write(
            f"the hosts do not meet at {node.address}:{node.port} ({said}). Give a --port that is free on the first "
            f"host, and an --address of it that all others reach.\n"
        )
        return 1
    return 0


def keep_quiet_about_partings() -> None:
    """Have torch log no error where an agent parts late.

    The first host takes the store along, at times before the others have read there that all have ended.
    """
    logger = logging.getLogger("torch.distributed.elastic.agent.server.api")
    logger.addFilter(lambda record: not str(record.msg).startswith("Error waiting on exit barrier"))


def run_id(directory: Path) -> str:
    """What the hosts of a run know each other by: those of another run at the same port are not taken for its own."""
    return f"headway-{zlib.crc32(str(directory).encode()):08x}"


def may_help(logs: Path) -> bool:
    """Whether the same again may end otherwise: not where Headway itself has ended the job, for a reason that stays.

    Nor where the launcher was told to stop while the attempt had not come far enough to end by itself.
    """
    if (logs / TOLD_TO_STOP).exists():
        return False
    return not any(_is_final(path) for path in logs.glob("rank-*.error.json"))


def _is_final(report: Path) -> bool:
    """Whether a rank has ended the job for a reason of its own; a report that is not whole says nothing."""
    try:
        said = json.loads(report.read_text(encoding="utf-8"))
        return bool(said["explained"] and not said["lost_peer"])
    except (OSError, ValueError):
        return False


def _put_away(logs: Path, attempt: int) -> None:
    """Move what an attempt has left, so that the next one's is told apart."""
    folder = logs / f"attempt-{attempt}"
    made = folder.with_name(f"{folder.name}.part")
    made.mkdir()
    for path in (*logs.glob("rank-*"), *logs.glob("failures*.json"), *logs.glob("hang.json")):
        path.rename(made / path.name)
    made.rename(folder)  # the launcher looks for it


def _endpoint(node: env.Node) -> str:
    return f"[{node.address}]:{node.port}" if ":" in node.address else f"{node.address}:{node.port}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _obey(word: str) -> None:
    """What the launcher says on stdin."""
    workers, number = env.children(os.getpid()), signal.SIGKILL if word == "kill" else signal.SIGINT
    for pid in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    if word == "kill" or not workers:  # none are started yet
        os.kill(os.getpid(), signal.SIGTERM)


def _answer(directory: Path) -> None:
    """Say that this host can start, to whoever waits at the other end of stdin and stdout; exit 2 if it cannot."""
    if wrong := _obstacle(directory, env.node()):
        sys.stderr.write(f"{wrong}\n")
        sys.exit(2)
    sys.stdout.write(f"{ANSWER} {os.getpid()} on {socket.gethostname()}\n")
    sys.stdout.flush()


def _obstacle(directory: Path, node: env.Node) -> str | None:
    """What would keep this host from the others, and what helps; torch would look for them until its time limit."""
    if not (directory / "plan.json").is_file():
        return f"{directory}/plan.json is not here: all hosts must share the run's directory."
    if node.num_nodes == 1:
        return None
    try:
        family, _, _, _, place = socket.getaddrinfo(node.address, node.port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        return f"{node.address}, where the ranks are to meet, is not known here ({error.strerror}): give --address."
    if node.rank == 0:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", place[1]))
            except OSError as error:
                return f"port {node.port}, where the ranks are to meet, cannot be had ({error.strerror}): give --port."
    return None


if __name__ == "__main__":
    _, run_directory, ranks, restarts, leash = sys.argv
    # before torch is imported, which takes seconds
    if leash == "stdin":
        end_with_input(_obey)
        _answer(Path(run_directory))
    else:
        end_with(os.getppid() if leash == "parent" else int(leash))
    sys.exit(main(Path(run_directory), int(ranks), int(restarts)))
