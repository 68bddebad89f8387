"""The launcher's process on a node: torchrun's agent starts the workers, and says which rank ended the job.

python -m headway.train.agent RUN_DIRECTORY NUM_RANKS PARENT_PID
"""

import json
import os
import socket
import sys
from pathlib import Path

from headway.train.endings import end_with


def main(directory: Path, num_ranks: int) -> int:
    """Run the job to its end; the exit status.

    On failure `log/failures.json` holds rank → {pid, exitcode} of the workers that ended by themselves, before the
    agent ended the rest; exit codes below 0 are signals.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    logs = directory / "log"
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=num_ranks,
        run_id="headway",
        # the static rendezvous is quiet at shutdown, where c10d's prints a traceback of a job that passed
        rdzv_backend="static",
        rdzv_endpoint=f"127.0.0.1:{_free_port()}",
        rdzv_configs={"rank": 0},
        local_addr="127.0.0.1",
        max_restarts=0,
        monitor_interval=0.1,
        logs_specs=DefaultLogsSpecs(log_dir=str(logs), redirects=Std.ALL),
    )
    try:
        elastic_launch(config, sys.executable)("-m", "headway.train.worker", str(directory), str(os.getpid()))
    except ChildFailedError as error:
        failures = {rank: {"pid": f.pid, "exitcode": f.exitcode} for rank, f in error.failures.items()}
        (logs / "failures.json").write_text(json.dumps(failures), encoding="utf-8")
        return 1
    except SignalException as error:
        return 128 + int(error.sigval)
    return 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    end_with(int(sys.argv[3]))  # before torch is imported, which takes seconds
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
