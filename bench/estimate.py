"""Evaluations a second: how long `estimate` takes for plans of GPT-3 175B on 1,024 A100s, each with other sizes.

    python bench/estimate.py [--json FILE]

One core, wall clock and processor time (others on the machine do not count in it). The first evaluation of a schedule's
shape builds its rows, which later ones find: it is shown apart.
"""

import dataclasses
import itertools
import json
import statistics
import time
from pathlib import Path
from typing import Any

import click
from paired import machine
from rich.console import Console
from rich.table import Table

from headway.cluster.presets import preset
from headway.model.spec import PRESETS
from headway.sim.estimate import estimate
from headway.sim.outline import Outline, Recompute
from headway.stack.spec import HEADWAY

GOAL, WORLD = 5e-3, 1024
BASE = Outline(
    model=PRESETS["gpt-175b"], cluster=preset("a100-80gb-hdr"), stack=HEADWAY, microbatch=1, microbatches=96,
    sequence=2048,
)  # fmt: skip
SHAPES = [("1f1b", 8, 1), ("1f1b", 16, 1), ("gpipe", 8, 1), ("interleaved", 8, 2), ("interleaved", 8, 3)]
SHAPES += [("zb-h1", 8, 1)]
MODES: tuple[Recompute, ...] = ("none", "selective", "full")
VARIANTS = list(itertools.product((4, 8), (1, 2, 4), (False, True), (0, 1), MODES))


@click.command()
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the figures here too.")
def main(*, file: Path | None) -> None:
    """Evaluate every variant of every shape once and print the table."""
    figures = [figure(*shape) for shape in SHAPES]
    at = machine()
    table = Table(title=f"estimates of gpt-175b on {WORLD} GPUs · {at['date']} · {at['processor']} · {at['commit']}")
    for name in ("schedule", "P × V", "plans", "first", "median", "90 %", "of processor time"):
        table.add_column(name, justify="left" if name == "schedule" else "right")
    for each in figures:
        times = (each["first"], each["median"], each["most"], each["processor"])
        row = [each["schedule"], f"{each['pipeline']} × {each['chunks']}", str(each["plans"])]
        table.add_row(*row, *(f"{1e3 * seconds:.1f} ms" for seconds in times))
    Console().print(table)
    worst = max(each["processor"] for each in figures)
    print(
        f"goal: median under {1e3 * GOAL:.0f} ms; the slowest shape's median is {1e3 * worst:.1f} ms of processor time"
    )
    if file:
        file.write_text(json.dumps({"machine": at, "figures": figures}, indent=1))


def figure(schedule: str, pipeline: int, chunks: int) -> dict[str, Any]:
    """The times of one shape's variants: each an outline that was not evaluated before."""
    taken, used = [], []
    for tensor, microbatch, cut, zero, recompute in VARIANTS:
        outline = dataclasses.replace(
            BASE,
            tensor=tensor,
            pipeline=pipeline,
            data=WORLD // tensor // pipeline,
            chunks=chunks,
            schedule=schedule,
            microbatch=microbatch,
            sequence_parallel=cut,
            zero=zero,
            recompute=recompute,
        )
        wall, processor = time.perf_counter(), time.process_time()
        estimate(outline)
        taken.append(time.perf_counter() - wall)
        used.append(time.process_time() - processor)
    return {
        "schedule": schedule,
        "pipeline": pipeline,
        "chunks": chunks,
        "plans": len(taken),
        "first": taken[0],
        "median": statistics.median(taken[1:]),
        "most": statistics.quantiles(taken[1:], n=10)[-1],
        "processor": statistics.median(used[1:]),
    }


if __name__ == "__main__":
    main()
