"""headway compare: a run's prediction beside its measurement: pictures, seconds by kind, bytes and memory."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.errors import JobError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from headway.report.compare import KindTime
    from headway.report.run import Run

MOST_RANKS = 16  # drawn


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of pictures and tables.")
def compare(run: Path, as_json: bool) -> None:
    """Lay the predicted and the measured step of RUN, the directory that `headway train` made, side by side.

    Exit status 1 if counts or bytes, which must agree exactly, differ.

    \b
    Example:
      headway compare runs/stdlib-20261129-120000
    """
    from headway.cli.show import print_json
    from headway.report import compare as report
    from headway.report.run import read

    found = read(run)
    times = report.kind_times(found.predicted, found.measured)
    wrong = report.disagreements(found.predicted, found.measured)
    if as_json:
        print_json(_document(found, times, wrong))
    else:
        _print(found, times, exact=not wrong)
    if wrong:
        raise JobError(f"predicted and measured must agree exactly, but differ in {', '.join(wrong)}.")


def _document(run: "Run", times: "tuple[KindTime, ...]", wrong: tuple[str, ...]) -> dict[str, Any]:
    from headway.plan.plan import digest

    predicted, measured = run.predicted, run.measured
    return {
        "run_directory": str(run.directory),
        "plan": digest(run.plan),
        "traced_step": run.traced_step,
        "agree": not wrong,
        "disagreements": wrong,
        "step_seconds": {"predicted": predicted.makespan, "measured": run.measured_step},
        "bubble": {"predicted": predicted.bubble(), "measured": measured.bubble()},
        "operations": {
            each.kind: {
                "count": {"predicted": each.predicted_count, "measured": each.measured_count},
                "seconds": {"predicted": each.predicted, "measured": each.measured},
                "ratio": each.ratio,
            }
            for each in times
        },
        "edges": {"predicted": predicted.edges(), "measured": measured.edges()},
        "memory": {"predicted": predicted.memory, "measured": measured.memory},
    }


def _print(run: "Run", times: "tuple[KindTime, ...]", *, exact: bool) -> None:
    from headway.cli.show import console, title
    from headway.report.compare import compare as rows
    from headway.report.compare import table

    out = console()
    out.print(title(run.plan))
    _draw(out, run)
    out.print(table(rows(run.predicted, run.measured, measured_step=run.measured_step)))
    out.print()
    out.print(_times(times))
    out.print()
    out.print(
        f"The measured step is step {run.traced_step}, its step time the median of the run. Seconds of operations are "
        f"those of all ranks together; messages and collectives include waiting for a peer.",
        style="dim",
    )
    if exact:
        operations, edges = len(run.measured.spans), len(run.measured.edges())
        out.print(
            f"Counts and bytes agree exactly: {operations} operations in their order, the bytes of {edges} edges, and "
            f"parameters, gradients and optimizer of each rank.",
            style="green",
        )


def _draw(out: "Console", run: "Run") -> None:
    """Both steps under each other on one time axis."""
    from headway.cli.show import is_coloured, print_lines
    from headway.report import diagram
    from headway.units import show_seconds

    ranks = run.plan.layout.world
    if ranks > MOST_RANKS:
        out.print(f"No pictures here: they would take 2 × {ranks} lines. The traces open at ui.perfetto.dev.\n")
        return
    scale = diagram.fit([run.predicted, run.measured], columns=out.width, coloured=is_coloured(out))
    if scale.is_cut:  # all of both in the room there is, though narrow blocks lose their numbers
        scale = replace(scale, rate=scale.columns / scale.span)
    pictures = [("predicted", run.predicted), (f"measured, step {run.traced_step}", run.measured)]
    print_lines(out, diagram.stack(pictures, scale, show_seconds))
    out.print()


def _times(times: "tuple[KindTime, ...]") -> "Table":
    from headway.cli.show import table
    from headway.units import show_seconds

    columns = ("count", "predicted", "measured", "ratio")
    found = table("operations", *columns, right=columns)
    for each in times:
        same = each.predicted_count == each.measured_count
        count = str(each.measured_count) if same else f"{each.predicted_count} ≠ {each.measured_count}"
        ratio = "–" if each.ratio is None else f"{each.ratio:.2f}"
        found.add_row(each.kind, count, show_seconds(each.predicted), show_seconds(each.measured), ratio)
    return found
