"""A fabric drawn as lines of styled text: planes of cores and Aggs, and the rails, ToRs and GPUs of one segment."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headway.fabric.describe import Facts, TierFacts
from headway.fabric.fabric import Fabric, Tier
from headway.report import palette
from headway.report.diagram import Line, Piece
from headway.report.ranges import numbers

LABEL, WIDEST, LEAST = 6, 96, 4  # columns of the label, of the picture, of a cell
_MOST_CELLS = 16
_MOST_PLANES = 4
_NAMED = 12  # columns of a cell that says ToR beside its number


def draw(fabric: Fabric, facts: Facts, columns: int, *, coloured: bool) -> tuple[Line, ...]:
    """The picture, `columns` wide at most; without colours, brackets hold switches together."""
    width = max(LEAST, min(columns, WIDEST) - LABEL)
    lines: list[Line] = []
    for tier in (Tier.CORE, Tier.AGG):
        if facts.tier(tier):
            lines += [_planes(fabric, facts, tier, width, coloured=coloured), *_between(facts, tier)]
    return (*lines, *_segment(fabric, facts, width, coloured=coloured))


def ratio(value: float | None) -> str:
    """An oversubscription as networks write it: `15:1`, `1.067:1`."""
    return "–" if value is None else f"{value:.4g}:1"


def counted(number: int, noun: str) -> str:
    """A number of things: `1 pod`, `1,920 hosts`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def words(label: str, texts: Sequence[str], wide: Sequence[int]) -> Line:
    """A line of texts without boxes, each in the middle of its columns."""
    cells = (text[: size - 1].center(size - 1) + " " for text, size in zip(texts, wide, strict=True))
    return (Piece(label.ljust(LABEL), "bold"), Piece("".join(cells).rstrip()))


def boxed(text: str, width: int, *, coloured: bool) -> str:
    """A text as the box of a picture, `width` wide; without colours, in brackets."""
    return text[:width].center(width) if coloured else f"[{text[: width - 2].center(width - 2)}]"


def edge(text: str) -> Line:
    """What is said of the links between two lines of boxes."""
    return (Piece(" " * LABEL + f"  │ {text}", palette.FAINT),)


def _planes(fabric: Fabric, facts: Facts, tier: Tier, width: int, *, coloured: bool) -> Line:
    """A box for each plane of a tier, as far as few are enough."""
    nodes = fabric.nodes(tier)
    planes = np.unique(fabric.plane[nodes]).tolist()
    count = facts.cores_per_plane if tier is Tier.CORE else facts.aggs_per_plane
    what = counted(count, tier.label)
    left_out = len(planes) - _MOST_PLANES
    shown = planes if left_out <= 0 else planes[: _MOST_PLANES - 1]
    fits = len(f"plane 0: {what}") <= width // min(len(planes), _MOST_PLANES) - 3
    texts = [f"{'plane ' if fits else ''}{plane}: {what}" if len(planes) > 1 else what for plane in shown]
    styles = [palette.plane(plane, deep=True) for plane in shown]
    if left_out > 0:
        texts, styles = [*texts, f"… {left_out + 1} more"], [*styles, palette.FAINT]
    return _row(tier.label, texts, styles, width, coloured=coloured)


def _between(facts: Facts, tier: Tier) -> list[Line]:
    """The links that come up to a tier, and how much is oversubscribed there."""
    below = facts.tier(Tier(tier - 1))
    return [edge(f"{_links(below)} up from each {below.tier.label}, {_over(below)}")] if below else []


def _segment(fabric: Fabric, facts: Facts, width: int, *, coloured: bool) -> list[Line]:
    """The largest segment: the ToRs of each rail that fit, and the GPUs of a host below them."""
    rails = _rails(fabric)
    most = max(len(rail.tors) for rail in rails)
    least = len(f"[{most - 1}] ")
    if most * len(rails) > min(width // least, _MOST_CELLS):
        width -= len("… 10 more rails")  # what follows the ToRs that fit
    room = max(1, min(width // least, _MOST_CELLS))
    shown = rails[: max(1, room // most)]
    cell = max(least, width // sum(min(room, len(rail.tors)) for rail in shown))
    wide = [cell * min(room, len(rail.tors)) for rail in shown]
    spare = f" and {facts.backup_hosts_per_segment} in reserve" if facts.backup_hosts_per_segment else ""
    segments = f"one of {facts.segments} segments" if facts.segments > 1 else "the one segment"
    return [
        *([words("", [f"rail {rail.number}" for rail in shown], wide)] if len(rails) > 1 else []),
        _tors(fabric, rails, len(shown), room, cell, coloured=coloured),
        edge(f"{' + '.join(map(str, facts.nic_ports))} from each GPU"),
        words("GPU", [f"GPU {numbers(rail.gpus, ',')}" for rail in shown], wide),
        (
            Piece(
                f"{'':{LABEL}}in each of {counted(facts.hosts_per_segment, 'host')}{spare}; {segments}", palette.FAINT
            ),
        ),
    ]


@dataclass(frozen=True, slots=True)
class _Rail:
    """A rail of a segment: its ToRs, and which GPUs of a host are on it."""

    number: int
    tors: list[int]
    gpus: list[int]


def _rails(fabric: Fabric) -> list[_Rail]:
    """Those of the segment with most active GPUs, as the cards of its first host see them."""
    segment, per_host = fabric.segment[: fabric.num_gpus], fabric.gpus_per_host
    place = int(np.bincount(segment[~fabric.backup]).argmax())
    first = int(np.flatnonzero((segment == place) & ~fabric.backup)[0]) // per_host * per_host
    host = fabric.lower // per_host * per_host == first
    reached, ports = fabric.upper[host], fabric.rail[fabric.lower[host]]
    rails = fabric.rail[first : first + per_host]
    return [
        _Rail(rail, np.unique(reached[ports == rail]).tolist(), np.flatnonzero(rails == rail).tolist())
        for rail in np.unique(rails).tolist()
    ]


def _tors(fabric: Fabric, rails: Sequence[_Rail], shown: int, room: int, cell: int, *, coloured: bool) -> Line:
    """The ToRs of the first `shown` rails, up to `room` of each, and what is left out."""
    pieces = [Piece(Tier.TOR.label.ljust(LABEL), "bold")]
    for rail in rails[:shown]:
        for number, tor in enumerate(rail.tors[:room]):
            text = f"ToR {number}" if cell >= _NAMED else f"{number}"
            style = palette.plane(int(fabric.plane[tor])) if coloured else ""
            pieces += [Piece(boxed(text, cell - 1, coloured=coloured), style), Piece(" ")]
    if more := len(rails) - shown:
        pieces.append(Piece(f"… {more} more {'rail' if more == 1 else 'rails'}", palette.FAINT))
    elif (more := max(len(rail.tors) for rail in rails) - room) > 0:
        pieces.append(Piece(f"… {more} more", palette.FAINT))
    return tuple(pieces)


def _row(label: str, texts: Sequence[str], styles: Sequence[str], width: int, *, coloured: bool) -> Line:
    wide = max(LEAST, width // len(texts))
    pieces = [Piece(label.ljust(LABEL), "bold")]
    for text, style in zip(texts, styles, strict=True):
        shown = style if coloured or style == palette.FAINT else ""
        box = text.center(wide - 1) if style == palette.FAINT else boxed(text, wide - 1, coloured=coloured)
        pieces += [Piece(box, shown), Piece(" ")]
    return tuple(pieces)


def _links(facts: TierFacts) -> str:
    return " + ".join(map(str, facts.up)) or "nothing"


def _over(facts: TierFacts) -> str:
    over = facts.oversubscription
    return "not oversubscribed" if over is None or over <= 1 else f"oversubscribed {ratio(over)}"
