"""headway validate: predictions beside what others measured, by source, and one row explained."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.errors import PlanError, nearest

if TYPE_CHECKING:
    from rich.table import Table

    from headway.advise.inputs import Lacking
    from headway.advise.published import Published
    from headway.advise.validate import Judged

    Found = list[tuple[Published, Judged | Lacking]]


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option("--row", metavar="ID", help="Explain one row: its inputs, what was predicted, and of what it is made.")
@click.option("--source", "sources", multiple=True, metavar="GROUP", help="Only rows of this source_group; may repeat.")
@click.option("--rows", "with_rows", is_flag=True, help="Every row with its prediction too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")
def validate(
    *, files: tuple[Path, ...], row: str | None, sources: tuple[str, ...], with_rows: bool, as_json: bool
) -> None:
    """Predict the published training results in FILES and compare; without FILES, the set that comes with Headway.

    FILES are CSV with the columns of docs/validation.md. Errors are of the prediction: above 0, too much was predicted.

    \b
    Example:
      headway validate
      headway validate --source torchtitan --rows
      headway validate --row korthikanti-t5-0006
      headway validate my-measurements.csv --json
    """
    from headway.advise import published
    from headway.advise.results import document, explanation
    from headway.cli.show import print_json

    chosen = _of_sources(published.read(files) if files else published.packaged(), sources)
    if row is not None:
        chosen = _of_id(chosen, row)
    found = _judge(chosen, as_json=as_json)
    result = document(found, rows=with_rows or row is not None)
    if row is not None:
        result["explained"] = [explanation(*each) for each in found]
    if as_json:
        print_json(result)
    elif row is not None:
        _print_explained(result["explained"])
    else:
        _print(result, with_rows=with_rows)


def _of_sources(rows: "list[Published]", sources: tuple[str, ...]) -> "list[Published]":
    known = dict.fromkeys(row.source for row in rows)
    for source in sources:
        if source not in known:
            raise PlanError(f"no row is of the source '{source}'. {nearest(source, known)}")
    return [row for row in rows if not sources or row.source in sources]


def _of_id(rows: "list[Published]", name: str) -> "list[Published]":
    found = [row for row in rows if row.id == name]
    if not found:
        import difflib

        like = difflib.get_close_matches(name, {row.id for row in rows}, n=3)
        hint = f"Did you mean {' or '.join(like)}?" if like else "--rows lists the rows with their ids."
        raise PlanError(f"no row has the id '{name}'. {hint}")
    return found


def _judge(rows: "list[Published]", *, as_json: bool) -> "Found":
    from headway.advise.validate import judge
    from headway.cli.show import progress
    from headway.sim.estimate import estimate

    with progress(len(rows), "predicting", quiet=as_json) as advance:
        found = []
        for row in rows:
            found.append((row, judge(row, estimate)))
            advance()
    return found


def _print(result: dict[str, Any], *, with_rows: bool) -> None:
    from headway.cli.show import console
    from headway.report import validation as report

    tables = [report.accuracy, report.kinds, report.worst, report.sweeps, report.fits, report.skipped]
    out = console()
    for table in [*([report.rows] if with_rows else []), *tables]:
        if (drawn := table(result)).row_count:
            out.print(drawn)
            out.print()
    for note in report.notes(result):
        out.print(note)
    out.print(
        "Error: mean of the absolute errors, median of them; bias: mean of the signed ones, above 0 where too much was "
        "predicted. Rank: Spearman's correlation within sweeps (rows of equal source, model, sequence, devices and "
        "batch, at least 3), averaged by rows. Loss: how much slower than a sweep's best row the one is that we rank "
        "first.",
        style="dim",
    )


def _print_explained(explained: list[dict[str, Any]]) -> None:
    from headway.cli.show import console
    from headway.report import explain
    from headway.report import validation as report

    out = console()
    for each in explained:
        out.print(each["id"], style="bold")
        tables: list[tuple[Callable[[dict[str, Any]], Table], dict[str, Any]]] = [(report.facts, each)]
        if "lacking" not in each:
            why = each["explain"]
            tables += [(report.outline, each), (report.stack, each), (explain.where, why), (explain.faster, why)]
            tables += [(report.memory, each), (report.verdict, each)]
        for table, document in tables:
            out.print(table(document))
            out.print()
        if "lacking" in each:
            out.print(f"This row is not predicted: {each['lacking']}.")
