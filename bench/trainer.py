"""The trainer beside its peers: tokens per second, peak memory, and where Headway's step time goes.

    python bench/trainer.py [--quick] [--json FILE]

How it is measured: paired.py.
"""

import sys
from pathlib import Path

import click
from cases import CASES, FULL, QUICK, Case
from paired import CONSOLE, report

from headway import env


@click.command()
@click.option("--quick", is_flag=True, help="A tiny model and few steps: shows that everything runs, no figures.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the figures here too.")
@click.option("--case", "wanted", multiple=True, help="Only the cases whose name has this in it.")
def main(*, quick: bool, file: Path | None, wanted: tuple[str, ...]) -> None:
    """Run all cases and print their figures."""
    chosen = [case for case in CASES if any(text in case.name for text in wanted) or not (wanted or slow(case, quick))]
    report(chosen, QUICK if quick else FULL, sys.executable, file)


def slow(case: Case, quick: bool) -> bool:  # noqa: FBT001 -- main's switch
    """Whether the case would take many minutes here, and says so: bfloat16 without AMX is left to `--case bfloat16`."""
    if case.precision == "float32" or quick or "amx_bf16" in env.processor_flags():
        return False
    CONSOLE.print(f"[dim]{case.name}: left out, the processor has no AMX (--case bfloat16 asks for it)[/dim]")
    return True


if __name__ == "__main__":
    main()
