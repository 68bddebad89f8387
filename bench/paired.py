"""Paired runs: a case's ranks are started, its contestants take turns in them, and the figures are printed as a table.

All contestants of a case live in the same processes and take turns (headway, peer, …, and back), so that the machine's
noise meets all; a ratio is the median over the rounds. One thread a rank, each rank on a core of its own. Memory comes
from processes of one contestant each.
"""

import datetime
import json
import os
import platform
import re
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cases import HEADWAY, Case, Size
from rich.console import Console
from rich.table import Table

from headway import env
from headway.sim.simulate import simulate

LIMIT = 600  # seconds that one launch may take
CONSOLE = Console(width=165)
# one thread a rank; DeepSpeed looks for devices otherwise, and calls torch's collectives by their former names
RANKS = {"OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "PYTHONWARNINGS": "ignore::FutureWarning"}
# Freed blocks of 128 KiB and more go back to the system at once, so that the peak is what was in use, not what malloc
# kept. Its own threshold grows with what is freed; a number that is given stays.
COUNTED = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072", "MALLOC_ARENA_MAX": "2"}


def report(cases: Sequence[Case], size: Size, python: str, file: Path | None) -> None:
    """Run the cases, print their figures, and write them to `file` if there is one."""
    figures = {"machine": machine(), "size": asdict(size), "cases": [figure(case, size, python) for case in cases]}
    show(figures)
    if file:
        file.write_text(json.dumps(figures, indent=1))


def figure(case: Case, size: Size, python: str = sys.executable) -> dict[str, Any]:
    """The figures of one case, Headway's first; seconds of a block are those of its slowest rank."""
    CONSOLE.print(f"[dim]{case.name}: {size.pairs} rounds of blocks, then memory …[/dim]")
    names = (HEADWAY, *case.peers)
    with ThreadPoolExecutor() as pool:  # memory does not mind a busy machine
        ranks = launch(case, size, python)
        alone = dict(zip(names, pool.map(partial(launch, case, size, python), names), strict=True))
    blocks = {
        kind: {name: [max(each) for each in zip(*(rank[kind][name] for rank in ranks), strict=True)] for name in names}
        for kind in ("seconds", "processor_seconds")
    }
    for name in case.peers:  # in case that a later one fails
        CONSOLE.print(f"[dim]  {_ratio(blocks['seconds'], name)[0]:.3f} times as fast as {name}[/dim]")
    tokens = size.steps * case.world // case.pipeline * case.microbatches * size.microbatch * size.sequence
    plan = case.plan(size)
    planned = simulate(plan).memory
    return {
        **asdict(case),
        "contestants": {
            name: {
                "ratio": _ratio(blocks["seconds"], name),
                "processor_ratio": _ratio(blocks["processor_seconds"], name),
                "tokens_per_second": tokens / statistics.median(blocks["seconds"][name]),
                "spread": [spread(rank["seconds"][name]) for rank in ranks],
                "peak_bytes": [rank["bytes"] for rank in alone[name]],
            }
            for name in names
        },
        "planned_bytes": [sum(planned[rank].values()) for rank in range(case.world)],
        "loss_difference": ranks[0]["loss_difference"],
        "oversubscribed": case.world > env.num_cores(),
        "parts": [rank["parts"] for rank in ranks],
        "blocks": blocks,
    }


def spread(seconds: list[float]) -> float:
    """Interquartile range over the median: how far the middle half of the blocks lies apart."""
    low, middle, high = statistics.quantiles(seconds, n=4)
    return (high - low) / middle


def _ratio(blocks: dict[str, list[float]], peer: str) -> list[float]:
    """Headway's speed over the peer's, round by round: median, least, most."""
    ratios = [theirs / own for own, theirs in zip(blocks[HEADWAY], blocks[peer], strict=True)]
    return [statistics.median(ratios), min(ratios), max(ratios)]


def launch(case: Case, size: Size, python: str, contestant: str | None = None) -> list[dict[str, Any]]:
    """Start the ranks of a case and wait; what each of them found. A contestant's name asks for its memory."""
    with tempfile.TemporaryDirectory() as directory, socket.socket() as probe:
        task, out = Path(directory) / "task.json", Path(directory) / "out.json"
        task.write_text(json.dumps({"case": asdict(case), "size": asdict(size), "contestant": contestant}))
        probe.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(probe.getsockname()[1]), "WORLD_SIZE": str(case.world)}
        probe.close()
        command = [python, str(Path(__file__).with_name("ranks.py")), str(task), str(out)]
        common = {**env.for_workers(), **RANKS, **place, **(COUNTED if contestant else {})}
        ranks = [
            subprocess.Popen(command, env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)})
            for rank in range(case.world)
        ]
        try:
            statuses = [rank.wait(timeout=LIMIT) for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
        if any(statuses):
            raise SystemExit(f"{case.name}: a rank failed")
        found: list[dict[str, Any]] = json.loads(out.read_text())
        return found


def machine() -> dict[str, Any]:
    """Date, processor, cores, software and commit: what a figure needs beside it."""
    processor = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    git = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "processor": processor[1] if processor else platform.processor(),
        "cores": env.num_cores(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "torch": version("torch"),
        "commit": git.stdout.strip() or "none",
    }


def show(figures: dict[str, Any]) -> None:
    """Print the figures as tables."""
    at, size = figures["machine"], figures["size"]
    CONSOLE.print(
        f"\n{at['date']} · {at['processor']}, {at['cores']} cores, load {at['load']:.1f} at the start · "
        f"torch {at['torch']}, Python {at['python']} · commit {at['commit']}\n"
        f"layers {size['layers']}, hidden {size['hidden']}, sequence {size['sequence']}, "
        f"vocabulary {size['vocabulary']}, micro-batch {size['microbatch']}, float32 where a case does not say; "
        f"{size['pairs']} rounds of {size['steps']}-step blocks"
    )
    rows = Table(title="Headway beside its peers, paired in one run")
    for name in ("case", "contestant"):
        rows.add_column(name, no_wrap=True)
    for name in (
        "tokens/s",
        "Headway over it\n(min–max)",
        "goal",
        "by processor\ntime",
        "spread of\neach rank",
        "peak MiB\na rank",
        "planned",
    ):
        rows.add_column(name, justify="right")
    for case in figures["cases"]:
        for name, one in case["contestants"].items():
            rows.add_row(*_row(case, name, one), end_section=name == list(case["contestants"])[-1])
    CONSOLE.print(rows)
    CONSOLE.print(
        f"[dim]Losses of the first steps agree within {max(case['loss_difference'] for case in figures['cases']):.0e}. "
        "Ratios are of speed: above 1, Headway takes less time, of the clock or of the processor. "
        "Spread: interquartile range over the median. "
        "Peak: the most resident memory of 3 steps in fresh processes, over what was resident before the model was "
        "built; malloc gives back at once what is freed. Planned: parameters, gradients, optimizer, saved activations "
        "and buffers, without what an operation needs while it computes.[/dim]"
    )
    shares = Table(title="Where Headway's step time goes (milliseconds a step, median)")
    shares.add_column("case")
    shares.add_column("rank")
    for name in figures["cases"][0]["parts"][0]:
        shares.add_column(name, justify="right")
    for case in figures["cases"]:
        for rank, parts in enumerate(case["parts"]):
            shares.add_row(case["name"], str(rank), *(f"{1e3 * seconds:.1f}" for seconds in parts.values()))
    CONSOLE.print(shares)


def _row(case: dict[str, Any], name: str, one: dict[str, Any]) -> list[str]:
    """A contestant's line: Headway's has the case and what is planned, a peer's the ratios."""
    median, low, high = one["ratio"]
    met = "green" if median >= case["goal"] else "red"
    crowded = " (oversubscribed)" if case["oversubscribed"] else ""
    own = name == HEADWAY
    return [
        case["name"] + crowded if own else "",
        name,
        f"{one['tokens_per_second']:,.0f}",
        "" if own else f"[{met}]{median:.3f}[/{met}] ({low:.2f}–{high:.2f})",
        "" if own else f"≥ {case['goal']:.2f}",
        "" if own else f"{one['processor_ratio'][0]:.3f}",
        " ".join(f"{each:.1%}" for each in one["spread"]),
        _mebibytes(one["peak_bytes"]),
        _mebibytes(case["planned_bytes"]) if own else "",
    ]


def _mebibytes(sizes: list[int]) -> str:
    return " ".join(f"{each / 2**20:.0f}" for each in sizes)
