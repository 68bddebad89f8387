"""ZeRO's stages beside their peers: tokens per second and peak memory on two processes.

    python bench/placement.py [--quick] [--deepspeed PYTHON] [--json FILE]

Peers: torch's ZeroRedundancyOptimizer and FSDP2, and DeepSpeed where an interpreter that has it is given, as of

    python -m venv DIRECTORY && DIRECTORY/bin/pip install torch==2.13.0 deepspeed -e '.[train]'

That interpreter then runs every contestant of the cases that have DeepSpeed in them. How it is measured: paired.py.
"""

import sys
from dataclasses import replace
from pathlib import Path

import click
from cases import PLACED, PLACEMENTS, QUICK
from paired import CONSOLE, report


@click.command()
@click.option("--quick", is_flag=True, help="A tiny model and few steps: shows that everything runs, no figures.")
@click.option("--deepspeed", type=click.Path(exists=True), metavar="PYTHON", help="An interpreter with DeepSpeed.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the figures here too.")
@click.option("--case", "wanted", multiple=True, help="Only the cases whose name has this in it.")
def main(*, quick: bool, deepspeed: str | None, file: Path | None, wanted: tuple[str, ...]) -> None:
    """Run all cases and print their figures."""
    chosen = [case for case in PLACEMENTS if any(text in case.name for text in wanted) or not wanted]
    if deepspeed is None:
        CONSOLE.print("[dim]DeepSpeed: left out, no interpreter was given that has it (--deepspeed PYTHON)[/dim]")
        chosen = [replace(case, peers=tuple(p for p in case.peers if "DeepSpeed" not in p)) for case in chosen]
    report(chosen, QUICK if quick else PLACED, deepspeed or sys.executable, file)


if __name__ == "__main__":
    main()
