"""A fabric drawn as lines of styled text: planes of cores and Aggs, and the rails, ToRs and GPUs of one segment."""

from collections.abc import Sequence

import numpy as np

from headway.fabric.describe import Facts, TierFacts
from headway.fabric.fabric import Column, Fabric, Tier
from headway.report import palette
from headway.report.diagram import Line, Piece
from headway.report.ranges import numbers

_LABEL, _WIDEST, _MOST_CELLS, _LEAST = 6, 96, 16, 4  # columns of the label and of the picture; cells of a row, columns
_MOST_PLANES = 4


def draw(fabric: Fabric, facts: Facts, columns: int, *, coloured: bool) -> tuple[Line, ...]:
    """The picture, `columns` wide at most; without colours, brackets hold switches together."""
    width = max(_LEAST, min(columns, _WIDEST) - _LABEL)
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
    return [_edge(f"{_links(below)} up from each {below.tier.label}, {_over(below)}")] if below else []


def _segment(fabric: Fabric, facts: Facts, width: int, *, coloured: bool) -> list[Line]:
    """The largest segment: the ToRs of each rail, and the GPUs of a host below them."""
    tors, gpus = fabric.nodes(Tier.TOR), np.arange(fabric.num_gpus)
    place = int(np.bincount(fabric.segment[gpus[~fabric.backup]]).argmax())
    tors = tors[fabric.segment[tors] == place]
    first = int(np.flatnonzero((fabric.segment[gpus] == place) & ~fabric.backup)[0]) // facts.gpus_per_host
    host = np.arange(first * facts.gpus_per_host, (first + 1) * facts.gpus_per_host)
    rails = np.unique(fabric.rail[host]).tolist()
    widest = max(1, min(width // _LEAST, _MOST_CELLS))
    per_rail = [tors[fabric.rail[tors] == rail] for rail in rails]
    fit = max(1, widest // max(1, *(len(each) for each in per_rail), 1))
    shown = rails if len(rails) <= fit else rails[: max(1, fit - 1)]
    more = "" if len(shown) == len(rails) else f"… {len(rails) - len(shown)} more rails"
    below = [numbers((host[fabric.rail[host] == rail] - host[0]).tolist(), ",") for rail in shown]
    cell = _cell(width, per_rail[: len(shown)])
    wide = [cell * max(1, len(each)) for each in per_rail[: len(shown)]]
    lines = [_tors(fabric, per_rail[: len(shown)], cell, coloured=coloured, more=more)]
    if len(rails) > 1:
        lines.insert(0, _words("", [f"rail {rail}" for rail in shown], wide))
    nics = " + ".join(map(str, facts.nic_ports))
    spare = f" and {facts.backup_hosts_per_segment} in reserve" if facts.backup_hosts_per_segment else ""
    segments = f"one of {facts.segments} segments" if facts.segments > 1 else "the one segment"
    return [
        *lines,
        _edge(f"{nics} from each GPU"),
        _words("GPU", [f"GPU {text}" for text in below], wide),
        (
            Piece(
                " " * _LABEL + f"in each of {counted(facts.hosts_per_segment, 'host')}{spare}; {segments}",
                palette.FAINT,
            ),
        ),
    ]


def _tors(fabric: Fabric, per_rail: Sequence[Column], cell: int, *, coloured: bool, more: str) -> Line:
    pieces = [Piece(Tier.TOR.label.ljust(_LABEL), "bold")]
    for tors in per_rail:
        for number, tor in enumerate(tors.tolist()):
            text = f"{number}" if cell < len("plane 0 ") + 4 else f"ToR {number}"
            style = palette.plane(int(fabric.plane[tor]))
            pieces += [Piece(_boxed(text, cell - 1, coloured=coloured), style if coloured else ""), Piece(" ")]
    return (*pieces, Piece(more, palette.FAINT)) if more else tuple(pieces)


def _cell(width: int, per_rail: Sequence[Column]) -> int:
    """Columns of a ToR, so that those of all rails shown fill the width."""
    return max(_LEAST, width // max(1, sum(len(each) for each in per_rail)))


def _row(label: str, texts: Sequence[str], styles: Sequence[str], width: int, *, coloured: bool) -> Line:
    wide = max(_LEAST, width // len(texts))
    pieces = [Piece(label.ljust(_LABEL), "bold")]
    for text, style in zip(texts, styles, strict=True):
        shown = style if coloured or style == palette.FAINT else ""
        box = text.center(wide - 1) if style == palette.FAINT else _boxed(text, wide - 1, coloured=coloured)
        pieces += [Piece(box, shown), Piece(" ")]
    return tuple(pieces)


def _words(label: str, texts: Sequence[str], wide: Sequence[int]) -> Line:
    cells = (text[: size - 1].center(size - 1) + " " for text, size in zip(texts, wide, strict=True))
    return (Piece(label.ljust(_LABEL), "bold"), Piece("".join(cells).rstrip()))


def _boxed(text: str, width: int, *, coloured: bool) -> str:
    return text[:width].center(width) if coloured else f"[{text[: width - 2].center(width - 2)}]"


def _edge(text: str) -> Line:
    return (Piece(" " * _LABEL + f"  │ {text}", palette.FAINT),)


def _links(facts: TierFacts) -> str:
    return " + ".join(map(str, facts.up)) or "nothing"


def _over(facts: TierFacts) -> str:
    return (
        "not oversubscribed"
        if facts.oversubscription in {None, 1.0}
        else f"oversubscribed {ratio(facts.oversubscription)}"
    )
