"""Goodput as tables: fabrics side by side, where their time is lost as bars, and every assumption with its source."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from headway.report import palette
from headway.report.diagram import Line, Piece
from headway.units import show_duration

if TYPE_CHECKING:
    from rich.table import Table

Document = Mapping[str, Any]  # as advise/goodput.py's `document` gives it
_HOUR = 3600.0
_LOSSES = {
    "rework": ("done again", "r"),
    "restart": ("restarts", "s"),
    "checkpoints": ("checkpoints", "c"),
    "degraded": ("half a card", "h"),
    "stalls": ("stalls", "w"),
}
_RARE = 0.001  # network crashes a month below which what one costs is not shown
_LABEL = 12  # columns before a bar and behind it
_RATES = ("link_rate", "tor_rate", "gpu_rate", "host_rate", "flap_rate")


def table(found: Document, *, expected: bool) -> "Table":
    """Fabrics side by side: means with half of the 95 % interval, and the closed form's if `expected`."""
    from rich import box
    from rich.table import Table

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 1))
    drawn.add_column("", no_wrap=True)
    for each in found["fabrics"]:
        drawn.add_column(name(each), justify="right", no_wrap=True)
        if expected:
            drawn.add_column("expected", justify="right", no_wrap=True, style="dim", header_style="dim")

    def add(label: str, cells: Iterable[tuple[str, str]], style: str = "") -> None:
        drawn.add_row(label, *(text for cell in cells for text in (cell if expected else cell[:1])), style=style)

    def of(key: str, unit: str = "", scale: float = 1.0) -> list[tuple[str, str]]:
        return [_cell(each[key], unit, scale) if _has(each[key]) else ("–", "") for each in found["fabrics"]]

    def plain(texts: Iterable[str]) -> list[tuple[str, str]]:
        return [(text, "") for text in texts]

    fabrics = found["fabrics"]
    add("links and ToRs", plain(f"{each['links']:,} and {each['tors']}" for each in fabrics))
    add("checkpoint every", plain(show_duration(each["checkpoint_every"]) for each in fabrics))
    if any(each["optimum"] != each["checkpoint_every"] for each in fabrics):
        add("best would be", plain(show_duration(each["optimum"]) for each in fabrics))
    keys = ("lost_share_at_half", "lost_share_here", "lost_share_at_double")
    add("lost at ½, 1, 2 ×", plain(_three(each[key] for key in keys) for each in fabrics))
    drawn.add_section()
    add("network crashes/month", of("network_crashes"), "bold")
    add("USD a network crash", plain(_cost(each) for each in fabrics))
    add("other crashes/month", of("other_crashes"))
    if any(each["moves"]["mean"] for each in fabrics):
        add("moves/month", of("moves"))
    drawn.add_section()
    for key, (label, _) in _LOSSES.items():
        if any(_has(each[key]) for each in fabrics):
            add(f"GPUh {label}", of(key))
    add("GPUh lost", of("lost"), "bold")
    add("USD lost", of("usd"))
    add("goodput", of("goodput", " %", 100.0), "bold")
    if "job" in found:
        add("tokens", plain(_short(each["goodput"]["mean"] * found["job"]["tokens"]) for each in fabrics))
    return drawn


def bars(found: Document, columns: int, *, coloured: bool) -> tuple[Line, ...]:
    """The lost share of each fabric's time, by what it went into; the longest bar fills the width."""
    width = max(10, columns - 2 * _LABEL)
    hours = found["gpus"] * found["months"] * found["month_seconds"] / _HOUR
    most = max(each["lost"]["mean"] for each in found["fabrics"])
    if not most > 0:
        return ()
    lines = []
    for each in found["fabrics"]:
        edge, done, pieces = 0, 0.0, [Piece(name(each)[: _LABEL - 1].ljust(_LABEL), "bold")]
        for key in _LOSSES:
            done += each[key]["mean"]
            pieces.append(_block(key, round(done / most * width) - edge, coloured=coloured))
            edge = round(done / most * width)
        lines.append((*pieces, Piece(f" {each['lost']['mean'] / hours:.2%}")))
    shown = [key for key in _LOSSES if any(each[key]["mean"] * width > 0.5 * most for each in found["fabrics"])]
    legend = [Piece("  ")]
    for key in shown:
        legend += [_block(key, 2, coloured=coloured), Piece(f" {_LOSSES[key][0]}  ")]
    return (*lines, tuple(legend))


def assumptions(found: Document) -> "Table":
    """Every assumption with its value and where it comes from; what the user changed is said."""
    from rich import box
    from rich.table import Table

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 1))
    drawn.add_column("assumed")
    drawn.add_column("", justify="right", no_wrap=True)
    drawn.add_column("from", style="dim")
    for each in found["assumptions"]:
        source = "your own" if each["changed"] else each["source"]
        drawn.add_row(each["name"].replace("_", " "), _value(each["name"], each["value"]), source)
    return drawn


def notes(found: Document) -> list[str]:
    """Sentences below the tables: what the paper's own figures give, what decides, what is left out."""
    said = [
        f"GPUh and USD are of {months(found)}. ± is half of a 95 % interval over {found['trials']:,} lives (seed "
        f"{found['seed']}); expected is the closed form. Checkpoints are best where they lose least."
    ]
    one = next((each for each in found["fabrics"] if each["homes"] == 1), None)
    if one and one["network_alone"][0]["crashes"]:
        said.append(_paper(one))
    if found["break_even_link_repair"]:
        said.append(_decides(found))
    said += [
        f"{name(each)}: a ToR takes {each['hosts_under_tor']} hosts of the job with it, and {each['spare_hosts']} are "
        "free, so the job waits until it is repaired."
        for each in found["fabrics"]
        if each["waits_for_tor"]
    ]
    said.append(
        "A broken host is replaced at once by a free one. Left out: Aggs and cores (59 of 60 paths remain), links "
        "between switches, NVLink, software, planned maintenance, checkpoints beside the work."
    )
    return said


def name(each: Document) -> str:
    """The fabric's name without the pods that were needed."""
    return _short_name(each["fabric"])


def months(found: Document) -> str:
    """How long was played: `1 month`, `6 months`."""
    return f"{found['months']:g} month{'' if found['months'] == 1 else 's'}"


def _short_name(fabric: str) -> str:
    return fabric.partition(" pods=")[0]


def _paper(one: Document) -> str:
    early, late = one["network_alone"]
    every = f"{early['checkpoint_every'] / _HOUR:g} to {late['checkpoint_every'] / _HOUR:g} h"
    share = f"{late['checkpoints_share'] * 100:.1f} to {early['checkpoints_share'] * 100:.1f} %"
    return (
        f"Network failures alone on {name(one)}, saved every {every} as HPN §2.3 tells: {early['crashes']:.2f} crashes "
        f"a month of {early['crash_usd']:,.0f} to {late['crash_usd']:,.0f} USD each. The paper has 1 to 2 a month for "
        f"one job, and about 30,000 USD each for 3,000 GPUs. Such checkpoints are {share} of the time: the paper's 5 % "
        "is an input (a longer --checkpoint-seconds), no result."
    )


def _decides(found: Document) -> str:
    """Which mean repair of links makes two ToRs a card better than one, or that none makes a difference."""
    times = found["break_even_link_repair"]
    known = [f"{show_duration(time)} ({_short_name(fabric)})" for fabric, time in times.items() if time is not None]
    if not known:
        one, two = (next(e["lost_share_here"] for e in found["fabrics"] if e["homes"] == homes) for homes in (1, 2))
        word = "less" if two < one else "more"
        return f"Two ToRs a card lose {word} than one at any mean repair of links from a minute to a year."
    return (
        f"Two ToRs a card lose less than one where the mean repair of links is below {' and '.join(known)}. Beyond it, "
        "to go on with half a card costs more than to crash and go on elsewhere; --move-after leaves such hosts sooner."
    )


def _cost(each: Document) -> str:
    return f"{each['network_crash_usd']:,.0f}" if each["network_crashes"]["expected"] >= _RARE else "–"


def _has(figure: Document) -> bool:
    return bool(figure["mean"] or figure["expected"])


def _cell(figure: Document, unit: str, scale: float) -> tuple[str, str]:
    mean, half = figure["mean"] * scale, (figure["high"] - figure["mean"]) * scale
    if unit:
        return f"{mean:.2f} ±{half:.2f}{unit}", f"{figure['expected'] * scale:.2f}{unit}"
    if not mean and half:
        return f"< {_short(half, 1)}", _short(figure["expected"] * scale)
    return f"{_short(mean)} ±{_short(half, 2)}", _short(figure["expected"] * scale)


def _short(value: float, digits: int = 3) -> str:
    """Few digits and a decimal prefix.

    >>> _short(336381.4), _short(1.7078), _short(0.0), _short(0.000179), _short(51234567), _short(293.0, 2)
    ('336 K', '1.71', '0', '0.00018', '51.2 M', '290')
    """
    rounded = float(f"{value:.{digits}g}")
    for sign, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("K", 1e3)):
        if abs(rounded) >= size:
            return f"{rounded / size:g} {sign}"
    return f"{value:.2g}" if abs(value) < 0.1 else f"{rounded:g}"


def _three(shares: Iterable[float]) -> str:
    return "/".join(f"{share * 100:.2f}" for share in shares) + " %"


def _block(key: str, width: int, *, coloured: bool) -> Piece:
    return Piece(" " * width, f"on {palette.loss(key)}") if coloured else Piece(_LOSSES[key][1] * width)


def _value(key: str, value: float | None) -> str:
    if value is None:
        return "never"
    if key in _RATES:
        return f"{value * 100:.3g} % a month"
    if key in {"slowdown", "spares"}:
        return f"{value * 100:.4g} %"
    return f"{value:g} USD" if key == "cost" else show_duration(value)
