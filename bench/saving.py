"""Seconds that a checkpoint keeps the training waiting, written beside it and waited for: `python bench/saving.py`."""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

LIMIT = 240.0  # seconds
JOB = """
model: {preset: gpt-tiny, layers: 8, hidden: 256, heads: 4, feed_forward: 1024}
parallel: {pipeline: 1, data: 2, zero: 1}
data: {sequence_length: 128}
train: {steps: 16, global_batch: 8, microbatch: 4, evaluate_every: 0}
checkpoint: {every: 3}
"""


def saves(*, asynchronous: bool) -> list[dict[str, Any]]:
    """The metrics of the checkpoints of a run on two processes, the first left out: it makes the buffers."""
    with tempfile.TemporaryDirectory() as folder:
        job, run = Path(folder) / "job.yaml", Path(folder) / "run"
        job.write_text(JOB)
        settings = [f"checkpoint.asynchronous={str(asynchronous).lower()}", f"run.directory={run}"]
        words = [word for setting in settings for word in ("--set", setting)]
        command = [sys.executable, "-m", "headway", "train", str(job), *words]
        subprocess.run(command, check=True, timeout=LIMIT, capture_output=True)
        lines = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
        return [line for line in lines if "checkpoint_stall_seconds" in line][1:-1]  # the last one is waited for


def main() -> None:
    """Print the medians of both ways."""
    for asynchronous in (True, False):
        found = saves(asynchronous=asynchronous)
        stall, whole = (
            statistics.median(each[f"checkpoint_{name}"] for each in found) for name in ("stall_seconds", "seconds")
        )
        size = found[0]["checkpoint_bytes"] / 2**20
        Console().print(
            f"{'beside the training' if asynchronous else 'waited for':<20} {size:.0f} MiB in {whole:.3f} s, "
            f"training waited {stall:.3f} s (median of {len(found)})"
        )


if __name__ == "__main__":
    main()
