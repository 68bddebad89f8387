"""Predictions beside published results: writes the tables of docs/validation.md.

    python bench/validation.py [--page FILE]

One core, one process; the seconds include reading the rows. Only what stands between the two marks of the page is
replaced.
"""

import re
import statistics
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from paired import machine

from headway.advise.published import packaged
from headway.advise.results import document
from headway.advise.validate import judge
from headway.report.validation import GOOD, lines, percent

PAGE = Path(__file__).parent.parent / "docs" / "validation.md"
MARK = "bench/validation.py"
PLAYBOOK = "nanotron-playbook"
# what must hold: mean absolute error of time by source; the Playbook's is for its rows of at least 20 % MFU
TIME = {"korthikanti-t5": 0.04, "megatron-sc21-t1": 0.06, "vtrain-single": 0.10, "torchtitan": 0.10}
TIME |= {"llm-foundry-mpt": 0.10}
OTHERS, RANK, MEASURED_MEMORY, PLAYBOOK_MEMORY, CAUGHT, WRONGLY = 0.15, 0.85, 0.08, 0.12, 0.80, 0.03


@click.command()
@click.option("--page", type=click.Path(path_type=Path), default=PAGE, help="The page to write into.")
def main(*, page: Path) -> None:
    """Predict the packaged rows and write the tables."""
    begin, took, found = time.perf_counter(), [], []
    for row in packaged():
        at = time.perf_counter()
        found.append((row, judge(row)))
        took.append(time.perf_counter() - at)
    seconds = time.perf_counter() - begin
    page.write_text(replaced(page.read_text(), "\n\n".join(tables(document(found), seconds, took)), MARK))
    print(f"{page}: {len(found)} rows in {seconds:.1f} s")


def replaced(text: str, new: str, by: str) -> str:
    """The page with what stands between the marks of the script `by` replaced."""
    begin, end = (f"<!-- written by {by}: {word} -->" for word in ("begin", "end"))
    if begin not in text or end not in text:
        raise SystemExit(f"the page lacks the marks {begin} and {end}")
    return re.sub(rf"(?s){re.escape(begin)}.*{re.escape(end)}", lambda _: f"{begin}\n{new}\n{end}", text)


def tables(result: dict[str, Any], seconds: float, took: list[float]) -> list[str]:
    """Paragraphs and tables of the page."""
    at = machine()
    return [
        f"{at['date']}, {at['processor']}, {at['cores']} cores (load {at['load']:.1f} at the start), Python "
        f"{at['python']}, commit {at['commit']}: {len(took)} rows in {seconds:.1f} s on one core, "
        f"{1e3 * statistics.median(took):.2f} ms a row (median), {1e3 * max(took):.0f} ms the slowest.",
        "Time of a step (error: mean of absolute errors):",
        _table(("source", "rows", "error", "goal", "", "median", "bias", "worst row"), _times(result)),
        "Memory of the fullest rank, by what was measured:",
        _table(("source: measured as", "rows", "error", "goal", "", "bias"), _memory(result)),
        "Sweeps (rows of equal source, model, sequence, devices and batch, at least 3); rank correlation averaged by "
        "rows; a pick is the row that is predicted fastest, its loss how much longer it took than the best row:",
        _table(
            (
                "source",
                "sweeps",
                "rows",
                "rank correlation",
                "goal",
                "",
                "picks within 5 %",
                "",
                "mean loss",
                "worst pick",
            ),
            _sweeps(result),
        ),
        "Rows that were predicted not to fit:",
        _table(("rows", "number", "flagged", "goal", ""), _fits(result["fits"])),
        "Skipped: " + ("; ".join(f"{count} × {reason}" for reason, count in result["skipped"].items()) or "none") + ".",
    ]


def _times(result: dict[str, Any]) -> Iterable[tuple[str, ...]]:
    for name, each in _lines(result):
        if not each["time_rows"]:
            continue
        goal = TIME.get(name, OTHERS)
        good = name.startswith(f"{PLAYBOOK},")
        judged = good or ("," not in name and name != PLAYBOOK)
        worst = each["time_worst"]
        yield (
            name,
            str(each["time_rows"]),
            percent(each["time_mape"]),
            *(_goal(f"≤ {100 * goal:.0f} %", met=each["time_mape"] <= goal) if judged else ("", "")),
            percent(each["time_median"]),
            percent(each["time_bias"], signed=True),
            f"{worst['id']} {percent(worst['error'], signed=True)}",
        )


def _memory(result: dict[str, Any]) -> Iterable[tuple[str, ...]]:
    for name, source in result["sources"].items():
        for kind, each in source["memory_by_kind"].items():
            goal = PLAYBOOK_MEMORY if name == PLAYBOOK else MEASURED_MEMORY if kind != "unstated" else None
            error = each["memory_mape"]
            yield (
                f"{name}: {kind}",
                str(each["memory_rows"]),
                percent(error),
                *(_goal(f"≤ {100 * goal:.0f} %", met=error <= goal) if goal else ("", "")),
                percent(each["memory_bias"], signed=True),
            )


def _sweeps(result: dict[str, Any]) -> Iterable[tuple[str, ...]]:
    for name, each in _lines(result):
        if not each["sweeps"]:
            continue
        rank = each["spearman"]
        judged = name == PLAYBOOK and rank is not None
        yield (
            name,
            str(each["sweeps"]),
            str(each["sweep_rows"]),
            "–" if rank is None else f"{rank:.3f}",
            *(_goal(f"≥ {RANK}", met=rank >= RANK) if judged else ("", "")),
            f"{each['picks_within_5_percent']} of {each['sweeps']}",
            _met(met=each["picks_within_5_percent"] == each["sweeps"]) if "," not in name else "",
            percent(each["pick_loss"]),
            f"{each['worst_pick']['id']} {percent(each['worst_pick']['loss'], signed=True)}",
        )


def _fits(shares: dict[str, Any]) -> Iterable[tuple[str, ...]]:
    caught, wrongly = shares["did_not_run_flagged"], shares["ran_flagged"]
    yield (
        "did not run",
        str(shares["did_not_run"]),
        percent(caught),
        *_goal(f"≥ {100 * CAUGHT:.0f} %", met=caught >= CAUGHT),
    )
    yield "ran", str(shares["ran"]), percent(wrongly), *_goal(f"< {100 * WRONGLY:.0f} %", met=wrongly < WRONGLY)


def _lines(result: dict[str, Any]) -> Iterable[tuple[str, dict[str, Any]]]:
    """Lines of the report; one of rows of good MFU has its source's name before it."""
    source = ""
    for name, each in lines(result):
        source = source if name == GOOD else name
        yield (f"{source}, {name.strip()}" if name == GOOD else name), dict(each)


def _goal(text: str, *, met: bool) -> tuple[str, str]:
    return text, _met(met=met)


def _met(*, met: bool) -> str:
    return "met" if met else "**missed**"


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    cells = [columns, ("---",) * len(columns), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells).replace("|  |", "| |").replace("|  |", "| |")


if __name__ == "__main__":
    main()
