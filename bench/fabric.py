"""Seconds and memory to play one all-reduce over 1K to 122K GPUs: writes the table of docs/benchmarks.md.

    python bench/fabric.py [--page FILE]

A ring of all GPUs' hosts, shuffled, 8 channels, 4 connections a pair, on HPN of 1 or 8 pods: from the built fabric to
the bus bandwidth, in a process of its own with one thread, the best of 5. Packet level, for comparison, needs
CPU-hours: htsim plays about 117 MB of traffic a CPU second, a 4 GiB all-reduce of 1,024 GPUs moves 8.8 TB.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import click
from paired import machine
from validation import replaced

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
MARK = "bench/fabric.py"
SIZES = {1024: None, 4096: 0.1, 15360: 0.5, 122880: 5.0}  # GPUs → goal in seconds
WAYS = (("round_robin", "equal"), ("disjoint", "least_loaded"))  # blind, and HPN's
REPEATS = 5


@click.command()
@click.option("--page", type=click.Path(path_type=Path), default=PAGE, help="The page to write into.")
@click.option("--one", nargs=3, hidden=True, help="Measure one case: GPUs, ports, split.")
def main(*, page: Path, one: tuple[str, str, str] | None) -> None:
    """Measure all sizes and write the table."""
    if one:
        print(json.dumps(measured(int(one[0]), ports=one[1], split=one[2])))
        return
    lines = [
        "| GPUs | connections | ports, split | seconds | goal | of it ways | MiB at most | busbw GB/s |",
        "|---|---|---|---|---|---|---|---|",
        *rows(),
    ]
    at = machine()
    head = f"{at['date']}, {at['processor']} (load {at['load']:.1f} at the start), commit {at['commit']}, one thread:"
    page.write_text(replaced(page.read_text(), "\n\n".join([head, "\n".join(lines)]), MARK))
    print("\n".join([head, *lines]))


def rows() -> Iterator[str]:
    for gpus, goal in SIZES.items():
        for ports, split in WAYS:
            command = [sys.executable, __file__, "--one", str(gpus), ports, split]
            one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300, env=one_thread)
            found = json.loads(said.stdout)
            said_goal = "–" if goal is None else f"{goal:g}: {'holds' if found['seconds'] < goal else 'MISSED'}"
            yield (
                f"| {gpus:,} | {found['flows']:,} | {ports}, {split} | {found['seconds']:.3f} | {said_goal} "
                f"| {found['ways']:.3f} | {found['mib']:.0f} | {found['busbw']:.1f} |"
            )


def measured(gpus: int, **how: object) -> dict[str, float]:
    """The best of REPEATS plays of one case."""
    from headway.cluster import presets
    from headway.fabric import seating, topologies
    from headway.fabric.bench import Case, measure, node
    from headway.fabric.connect import Connecting
    from headway.fabric.ways import ways
    from headway.units import Bytes

    fabric = topologies.named("hpn" if gpus <= 15360 else "hpn pods=8")
    connecting = Connecting(connections=4, **cast(dict[str, Any], how))
    hosts = seating.order(fabric, gpus // 8, "random", 0)
    inside = node(fabric, presets.device("H800"), hosts)
    best = {"seconds": float("inf")}
    for _ in range(REPEATS):
        begin = time.perf_counter()
        every = ways(fabric)
        built = time.perf_counter() - begin
        groups = seating.groups(fabric, hosts, gpus)
        case = Case(kind="all_reduce", groups=groups, size=Bytes(4 * 2**30), how=connecting, node=inside)
        done = measure(every, case, 0, "ring")
        seconds = time.perf_counter() - begin
        if seconds < best["seconds"]:
            best = {
                "seconds": seconds,
                "ways": built,
                "busbw": done.busbw / 1e9,
                "flows": gpus * connecting.connections,
            }
    return best | {"mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


if __name__ == "__main__":
    main()
