"""Headway's own runs on this machine against their prediction: bytes, which must be equal, and seconds of a step.

    python bench/local.py [--rounds N]

Layouts of at most as many ranks as cores. Of a case's rounds the fastest counts: what else the machine does only makes
steps longer.
"""

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import click
from paired import machine
from rich.console import Console
from rich.table import Table

from headway.report import run as runs
from headway.report.compare import disagreements

GOAL, LIMIT, STEPS = 0.25, 240.0, 12
GPT = """
model: {preset: gpt-tiny, layers: 4, hidden: 256, heads: 4}
data: {sequence_length: 128}
train: {steps: %d, global_batch: 16, microbatch: 4, evaluate_every: 0}
"""
LLAMA = GPT.replace("gpt-tiny", "llama-tiny")


@dataclass(frozen=True, slots=True)
class Case:
    """A job and what is changed of it."""

    name: str
    job: str
    settings: tuple[str, ...]


CASES = (
    Case("gpt, one process", GPT, ("pipeline=1", "data=1")),
    Case("llama, one process", LLAMA, ("pipeline=1", "data=1")),
    Case("gpt, data 2", GPT, ("pipeline=1", "data=2")),
    Case("gpt, pipeline 2", GPT, ("pipeline=2", "data=1")),
    Case("gpt, tensor 2", GPT, ("pipeline=1", "data=1", "tensor=2")),
    Case("gpt, data 2, ZeRO-3", GPT, ("pipeline=1", "data=2", "zero=3")),
)


@click.command()
@click.option("--rounds", default=3, show_default=True, help="How often each case is run.")
def main(*, rounds: int) -> None:
    """Run every case and print the table; exit 1 if bytes or order differ anywhere."""
    at = machine()
    table = Table(title=f"own runs · {at['date']} · {at['processor']}, {at['cores']} cores · {at['commit']}")
    for name in ("layout", "predicted", "measured", "difference", "", "bytes and order"):
        table.add_column(name, justify="left" if name in {"layout", "bytes and order"} else "right")
    wrong = False
    for case in CASES:
        played = [once(case) for _ in range(rounds)]
        predicted, measured = played[0][0], min(seconds for _, seconds, _ in played)
        differ = [each for _, _, differing in played for each in differing]
        wrong |= bool(differ)
        off = measured / predicted - 1
        times = f"{1e3 * predicted:.0f} ms", f"{1e3 * measured:.0f} ms", f"{off:+.0%}"
        table.add_row(case.name, *times, "" if abs(off) <= GOAL else "beyond 25 %", ", ".join(differ) or "equal")
    Console().print(table)
    sys.exit(int(wrong))


def once(case: Case) -> tuple[float, float, tuple[str, ...]]:
    """Seconds of a step as predicted and as measured (the median of a run's steps), and what else differs."""
    with tempfile.TemporaryDirectory() as folder:
        job, directory = Path(folder) / "job.yaml", Path(folder) / "run"
        job.write_text(case.job % STEPS)
        settings = [*(f"parallel.{each}" for each in case.settings), f"run.directory={directory}"]
        words = [word for each in settings for word in ("--set", each)]
        subprocess.run(
            [sys.executable, "-m", "headway", "train", str(job), *words], check=True, timeout=LIMIT, capture_output=True
        )
        run = runs.read(directory)
        return run.predicted.makespan, run.measured_step, disagreements(run.predicted, run.measured)


if __name__ == "__main__":
    main()
