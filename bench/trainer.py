"""The trainer beside its peers: tokens per second, peak memory, and where Headway's step time goes.

    python bench/trainer.py [--quick] [--json FILE]

Both contestants of a case live in the same processes and take turns (headway, peer, peer, headway, …), so that the
machine's noise meets both; the ratio is the median over the pairs. One thread a rank, each rank on a core of its own.
Memory comes from separate processes.
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
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
from cases import CASES, FULL, QUICK, Case, Size
from rich.console import Console
from rich.table import Table

from headway import env

LIMIT = 300  # seconds that one launch may take
CONSOLE = Console(width=150)


@click.command()
@click.option("--quick", is_flag=True, help="A tiny model and few steps: shows that everything runs, no figures.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the figures here too.")
@click.option("--case", "wanted", multiple=True, help="Only the cases whose name has this in it.")
def main(*, quick: bool, file: Path | None, wanted: tuple[str, ...]) -> None:
    """Run all cases and print their figures."""
    size = QUICK if quick else FULL
    chosen = [case for case in CASES if any(text in case.name for text in wanted) or not (wanted or slow(case, quick))]
    figures = {"machine": machine(), "size": asdict(size), "cases": [figure(case, size) for case in chosen]}
    show(figures)
    if file:
        file.write_text(json.dumps(figures, indent=1))


def slow(case: Case, quick: bool) -> bool:  # noqa: FBT001 -- main's switch
    """Whether the case would take many minutes here, and says so: bfloat16 without AMX is left to `--case bfloat16`."""
    if case.precision == "float32" or quick or "amx_bf16" in env.processor_flags():
        return False
    CONSOLE.print(f"[dim]{case.name}: left out, the processor has no AMX (--case bfloat16 asks for it)[/dim]")
    return True


def figure(case: Case, size: Size) -> dict[str, Any]:
    """The figures of one case; seconds of a block are those of its slowest rank."""
    CONSOLE.print(f"[dim]{case.name}: {size.pairs} pairs of blocks, then memory …[/dim]")
    ranks = launch(case, size)
    names = ("headway", "peer")
    blocks = {
        name: [max(each) for each in zip(*(rank["seconds"][name] for rank in ranks), strict=True)] for name in names
    }
    ratios = [peer / own for own, peer in zip(blocks["headway"], blocks["peer"], strict=True)]
    tokens = size.steps * case.data * case.microbatches * size.microbatch * size.sequence
    return {
        **asdict(case),
        "ratio": statistics.median(ratios),
        "ratio_range": [min(ratios), max(ratios)],
        "tokens_per_second": {name: tokens / statistics.median(blocks[name]) for name in names},
        "spread": {name: [spread(rank["seconds"][name]) for rank in ranks] for name in names},
        "loss_difference": ranks[0]["loss_difference"],
        "oversubscribed": case.world > env.num_cores(),
        "peak_bytes": {name: [rank["bytes"] for rank in launch(case, size, name)] for name in names},
        "parts": [rank["parts"] for rank in ranks],
        "blocks": blocks,
    }


def spread(seconds: list[float]) -> float:
    """Interquartile range over the median: how far the middle half of the blocks lies apart."""
    low, middle, high = statistics.quantiles(seconds, n=4)
    return (high - low) / middle


def launch(case: Case, size: Size, contestant: str | None = None) -> list[dict[str, Any]]:
    """Start the ranks of a case and wait; what each of them found. A contestant's name asks for its memory."""
    with tempfile.TemporaryDirectory() as directory, socket.socket() as probe:
        task, out = Path(directory) / "task.json", Path(directory) / "out.json"
        task.write_text(json.dumps({"case": asdict(case), "size": asdict(size), "contestant": contestant}))
        probe.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(probe.getsockname()[1]), "WORLD_SIZE": str(case.world)}
        probe.close()
        command = [sys.executable, str(Path(__file__).with_name("ranks.py")), str(task), str(out)]
        common = {**env.for_workers(), "OMP_NUM_THREADS": "1", **place}
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
        f"{size['pairs']} pairs of {size['steps']}-step blocks"
    )
    rows = Table(title="Headway over its peer, paired in one run")
    for name in (
        "case",
        "peer",
        "ratio (min–max)",
        "goal",
        "tokens/s",
        "peer's",
        "spread of each rank",
        "peak MiB a rank",
    ):
        rows.add_column(name)
    for case in figures["cases"]:
        low, high = case["ratio_range"]
        met = "green" if case["ratio"] >= case["goal"] else "red"
        rows.add_row(
            case["name"] + (" (oversubscribed)" if case["oversubscribed"] else ""),
            case["peer"],
            f"[{met}]{case['ratio']:.3f}[/{met}] ({low:.2f}–{high:.2f})",
            f"≥ {case['goal']:.2f}",
            *(f"{case['tokens_per_second'][name]:,.0f}" for name in ("headway", "peer")),
            _beside(case["spread"], "{:.1%}"),
            _beside({name: [n / 2**20 for n in each] for name, each in case["peak_bytes"].items()}, "{:.0f}"),
        )
    CONSOLE.print(rows)
    CONSOLE.print(
        f"[dim]Losses of the first steps agree within {max(case['loss_difference'] for case in figures['cases']):.0e}. "
        "Spread: interquartile range over the median. "
        "Peak: ru_maxrss after 3 steps in fresh processes, over what was resident before the model was built. "
        "Both: Headway's ranks · the peer's.[/dim]"
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


def _beside(both: dict[str, list[float]], form: str) -> str:
    """Each rank's figure of Headway · of the peer."""
    return " · ".join(" ".join(form.format(each) for each in both[name]) for name in ("headway", "peer"))


if __name__ == "__main__":
    main()
