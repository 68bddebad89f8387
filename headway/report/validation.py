"""A validation's results as tables: accuracy by source, sweeps, what fits, what was skipped, and one row explained."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from headway.units import show_bytes, show_seconds

if TYPE_CHECKING:
    from rich.table import Table

NONE = "–"
GOOD = "  at least 20 % MFU"  # the second line of a source that publishes lower ones too
Document = Mapping[str, Any]  # as `headway validate --json` prints it


def lines(document: Document) -> list[tuple[str, Document]]:
    """Name and figures of each line: a source; beneath it its rows of at least 20 % MFU if it has lower ones."""
    found: list[tuple[str, Document]] = []
    for name, figures in document["sources"].items():
        found.append((name, figures))
        good = figures["at_least_20_mfu"]
        if good and good["mfu_rows"] < figures["mfu_rows"]:
            found.append((GOOD, good))
    return found


def accuracy(document: Document) -> "Table":
    """Errors of time and memory by source; sources of which nothing was predicted are left to `skipped`."""
    columns = ("rows", "error", "median", "bias", "memory", "rank")
    found = table("time and memory", *columns)
    for name, each in lines(document):
        if each["time_rows"] or each["memory_rows"]:
            found.add_row(
                name,
                str(each["rows"]),
                percent(each["time_mape"]),
                percent(each["time_median"]),
                percent(each["time_bias"], signed=True),
                percent(each["memory_mape"]),
                NONE if each["spearman"] is None else f"{each['spearman']:.3f}",
            )
    return found


def worst(document: Document) -> "Table":
    """The row of each source whose time is predicted worst."""
    found = table("worst row", "error of time", "of memory", left=("worst row",))
    for each in document["sources"].values():
        time, memory = each["time_worst"], each["memory_worst"]
        if time:
            found.add_row(time["id"], percent(time["error"], signed=True), NONE)
        if memory:
            found.add_row(memory["id"], NONE, percent(memory["error"], signed=True))
    return found


def kinds(document: Document) -> "Table":
    """Errors of memory by what was measured."""
    found = table("memory measured as", "rows", "error", "bias")
    for name, each in document["sources"].items():
        for kind, errors in each["memory_by_kind"].items():
            bias = percent(errors["memory_bias"], signed=True)
            found.add_row(f"{name}: {kind}", str(errors["memory_rows"]), percent(errors["memory_mape"]), bias)
    return found


def sweeps(document: Document) -> "Table":
    """How layouts of one job are ranked: sweeps have equal source, model, sequence, devices and batch."""
    found = table("sweeps", "rows", "rank", "picks within 5 %", "loss", "worst")
    for name, each in lines(document):
        if each["sweeps"]:
            found.add_row(
                name,
                str(each["sweep_rows"]),
                NONE if each["spearman"] is None else f"{each['spearman']:.3f}",
                f"{each['picks_within_5_percent']} of {each['sweeps']}",
                percent(each["pick_loss"]),
                percent(each["worst_pick"]["loss"]),
            )
    return found


def fits(document: Document) -> "Table":
    """Rows that ran and rows that did not, and how many of them were predicted not to fit."""
    found = table("predicted not to fit", "did not run", "of them", "ran", "of them")
    for name, each in [*document["sources"].items(), ("all", document["fits"])]:
        if each["ran"] or each["did_not_run"]:
            found.add_row(
                name,
                str(each["did_not_run"]),
                percent(each["did_not_run_flagged"]),
                str(each["ran"]),
                percent(each["ran_flagged"]),
            )
    return found


def skipped(document: Document) -> "Table":
    """Why rows were not predicted, and how many for each reason."""
    found = table("skipped, because of", "rows", left=("skipped, because of",))
    for reason, count in document["skipped"].items():
        found.add_row(reason, str(count))
    return found


def rows(document: Document) -> "Table":
    """Every row that was predicted."""
    found = table("row", "predicted", "published", "error", "memory", "published", "fits", left=("row",))
    for each in document["rows"]:
        found.add_row(
            each["id"],
            show_seconds(each["predicted_s"]),
            NONE if each["published_s"] is None else show_seconds(each["published_s"]),
            percent(each["time_error"], signed=True),
            f"{each['predicted_gb']:.1f} {each['unit']}",
            NONE if each["published_gb"] is None else f"{each['published_gb']:g}",
            "yes" if each["fits"] else "no",
        )
    return found


def notes(document: Document) -> list[str]:
    """Sentences about what the tables do not show."""
    found = []
    if generic := document["generic_stack"]:
        names = ", ".join(f"{name} ({count} {_plural(count)})" for name, count in generic.items())
        found.append(f"Frameworks that Headway does not know were predicted with its stack 'generic': {names}.")
    if kept := document["memory_not_compared"]:
        names = ", ".join(f"{count} {_plural(count)}: {reason}" for reason, count in kept.items())
        found.append(f"Published memory that was not compared: {names}.")
    return found


def facts(explained: Document) -> "Table":
    """What a row says, column by column."""
    return _pairs("published", explained["facts"].items())


def outline(explained: Document) -> "Table":
    """What the row became: the inputs of its prediction, those of nouns inside with their names before them."""
    return _pairs("input of the prediction", _flat(explained["outline"]))


def stack(explained: Document) -> "Table":
    """What is known of the software that ran it, each entry with its reason."""
    found = table(f"stack {explained['stack']}", "is", "why", left=("is", "why"))
    for name, entry in explained["stack_entries"].items():
        found.add_row(name, _text(entry["is"]), entry["why"])
    return found


def memory(explained: Document) -> "Table":
    """What lies in the fullest rank's memory at its peak."""
    found = table(f"predicted memory of pipeline rank {explained['worst_rank']}", "bytes", "of the device")
    peak, room = sum(explained["memory"].values()), explained["room"]
    for name, size in {**explained["memory"], "all": peak, "the device has": room}.items():
        found.add_row(name, show_bytes(size), percent(size / room))
    return found


def verdict(explained: Document) -> "Table":
    """Predicted beside published."""
    found = table("", "predicted", "published", "error")
    time, size, unit = explained["published_s"], explained["published_gb"], explained["unit"]
    error = percent(explained["time_error"], signed=True)
    found.add_row("step time", show_seconds(explained["predicted_s"]), show_seconds(time) if time else NONE, error)
    error = percent(explained["memory_error"], signed=True)
    found.add_row("memory", f"{explained['predicted_gb']:.1f} {unit}", f"{size:g} {unit}" if size else NONE, error)
    found.add_row("fits", "yes" if explained["fits"] else "no", "it ran" if explained["ran"] else "it did not run", "")
    return found


def percent(value: float | None, *, signed: bool = False) -> str:
    """A fraction for people.

    >>> percent(0.0312), percent(-0.5, signed=True), percent(None)
    ('3.1 %', '-50.0 %', '–')
    """
    return NONE if value is None else f"{100 * value:+.1f} %" if signed else f"{100 * value:.1f} %"


def _flat(values: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", _text(value)


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _pairs(title: str, values: Iterable[tuple[str, str]]) -> "Table":
    found = table(title, "", left=("",))
    for name, value in values:
        found.add_row(name, value)
    return found


def _plural(count: int) -> str:
    return "row" if count == 1 else "rows"


def table(first: str, *columns: str, left: tuple[str, ...] = ()) -> "Table":
    """Names in a first column, numbers in the others; those in `left` hold texts, which may be folded."""
    from rich import box
    from rich.table import Table

    found = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 1))
    found.add_column(first, overflow="fold")
    for name in columns:
        found.add_column(name, justify="left" if name in left else "right", overflow="fold")
    return found
