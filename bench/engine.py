"""The schedule and its engine at scale: seconds of each step from a family's sizes to the times of every operation.

    python bench/engine.py [--json FILE]

64 pipeline ranks; of the interleaved family 64 to 512 micro-batches, to show that time is linear in operations; of the
others 512. On one core, the median of REPEATS, in seconds of processor time (others on the machine do not count).
"""

import datetime
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from headway.schedule import families, graph, passes
from headway.schedule.check import check
from headway.schedule.program import Program
from headway.sim import engine

PIPELINE, GOAL, REPEATS = 64, 1.0, 5
CASES = [
    *(("interleaved", m, 2) for m in (64, 128, 256, 512)),
    *((family, 512, 1) for family in ("1f1b", "zb-h1", "pipedream", "bpipe")),
    ("zb-v", 512, 2),
]
STEPS = ("rows", "messages", "check", "graph", "play", "play, shared cores")
T = TypeVar("T")


@click.command()
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the figures here too.")
def main(*, file: Path | None) -> None:
    """Time every case and print the table."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    cases = [figure(*case) for case in CASES]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout
    day, python = datetime.datetime.now(tz=datetime.UTC).date(), platform.python_version()
    show(
        cases, f"{day}, one core of {os.cpu_count()}, Python {python}, numpy {np.__version__}, commit {commit.strip()}"
    )
    if file:
        file.write_text(json.dumps(cases, indent=1))


def figure(family: str, microbatches: int, chunks: int) -> dict[str, Any]:
    """The medians of one case."""
    taken: dict[str, list[float]] = {step: [] for step in STEPS}
    count = 0
    for _ in range(REPEATS):
        sizes = {"pipeline": PIPELINE, "microbatches": microbatches, "chunks": chunks}
        bare = timed(taken["rows"], families.build, family, **sizes)
        full = timed(taken["messages"], passes.add_messages, bare)
        timed(taken["check"], check, full)
        rows = timed(taken["graph"], graph.build, Program(full))
        seconds, count = np.ones(len(rows)), len(rows)
        timed(taken["play"], engine.play, rows, seconds)
        cores = engine.Shared(np.where(rows.lanes == 0, rows.ranks // 8, -1), np.full(PIPELINE // 8, 4.0))
        timed(taken[STEPS[-1]], engine.play, rows, seconds, cores)
    medians = {step: statistics.median(all_) for step, all_ in taken.items()}
    return {"family": family, "microbatches": microbatches, "chunks": chunks, "operations": count, **medians}


def timed(into: list[float], call: Callable[..., T], *words: object, **named: object) -> T:
    """What the call gives; its seconds are added to `into`."""
    start = time.process_time()
    result = call(*words, **named)
    into.append(time.process_time() - start)
    return result


def show(cases: list[dict[str, Any]], where: str) -> None:
    """The table, and whether the goal is met."""
    table = Table(title=f"{where}: {PIPELINE} ranks, processor seconds")
    for name in ("family", "M", "V", "operations", *STEPS, "play, µs an operation"):
        table.add_column(name, justify="left" if name == "family" else "right")
    for case in cases:
        each = 1e6 * case["play"] / case["operations"]
        times = (f"{case[step]:.3f}" for step in STEPS)
        table.add_row(
            case["family"],
            *(str(case[name]) for name in ("microbatches", "chunks")),
            f"{case['operations']:,}",
            *times,
            f"{each:.2f}",
        )
    console = Console(width=140)
    console.print(table)
    largest = max(case["play"] for case in cases if case["family"] == "interleaved")
    met = "met" if largest < GOAL else "missed"
    console.print(f"Goal: 64 × 512 × 2 with messages played in under {GOAL:g} s: {largest:.2f} s, {met}.")


if __name__ == "__main__":
    main()
