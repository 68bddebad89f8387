"""An explained step as tables: where it goes, with bars and rates, and what would change if one thing were faster."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headway.report.validation import percent, table
from headway.units import show_count, show_seconds

if TYPE_CHECKING:
    from rich.table import Table

_BARS = " ▏▎▍▌▋▊▉█"
_WIDTH = 24  # columns of a bar that is the whole step
_WORDS: Mapping[str, str] = {
    "products": "matrix products",
    "attention": "attention kernel",
    "host": "host, where it is behind",
    "tensor exchange": "exchange of tensor ranks",
    "context exchange": "exchange of context ranks",
    "gathers": "gathers and reductions of ZeRO-3",
    "recompute": "computed again",
    "bubble": "pipeline bubble",
    "gradients": "gradients, updated parameters",
}
Document = Mapping[str, Any]  # as sim/explain.py's `document` gives it


def where(found: Document) -> "Table":
    """Seconds of a step by what they are for, with their share as a bar, and the rates that are reached."""
    drawn = table("where the step goes", "seconds", "share", "", "reached", left=("", "reached"))
    for part in found["parts"]:
        if part["seconds"]:
            name = _WORDS.get(part["name"], part["name"])
            drawn.add_row(name, show_seconds(part["seconds"]), percent(part["share"]), bar(part["share"]), _rate(part))
    drawn.add_row("all", show_seconds(found["seconds"]), percent(1.0), "", "")
    return drawn


def faster(found: Document) -> "Table":
    """What one thing twice as fast would save, the most first."""
    drawn = table("if it were twice as fast", "saved", "of the step", "", left=("",))
    for gain in found["twice_as_fast"]:
        drawn.add_row(gain["name"], show_seconds(gain["gain_seconds"]), percent(gain["gain"]), bar(gain["gain"]))
    return drawn


def agreement(found: Document) -> str:
    """How far an explained step is from the one that was played."""
    off = found["seconds"] / found["played_seconds"] - 1
    said = (
        f"Explained by an estimate of {show_seconds(found['seconds'])}, {percent(off, signed=True)} from the "
        f"{show_seconds(found['played_seconds'])} that playing every operation gives."
    )
    if found["shared_cores"]:
        ranks, cores = found["ranks"], found["shared_cores"]
        said += f" It takes each rank to have a core of its own, but {ranks} ranks share {cores}: that is not in it."
    return said


def bar(share: float) -> str:
    """A share as a bar of eighths of columns.

    >>> bar(0.5), bar(0.02), bar(0.0)
    ('████████████', '▌', '')
    """
    full, rest = divmod(round(min(max(share, 0.0), 1.0) * _WIDTH * 8), 8)
    return "█" * full + _BARS[rest].strip()


def _rate(part: Document) -> str:
    if "rate" not in part:
        return ""
    of = f", {part['of_peak']:.0%} of the peak" if "of_peak" in part else ""
    return f"{show_count(part['rate'])}{part['unit']}{of}"
