"""Loads of links as a heat map and a table: rows of lower nodes, columns of upper ones, hotter where fuller."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from headway.fabric.fabric import Fabric, Rates, Tier
from headway.fabric.loads import HopLoads
from headway.fabric.route import Hop
from headway.report import palette
from headway.report.diagram import Line, Piece

_ROWS, _LABEL = 8, 12
_SHADES = " ▁▂▃▄▅▆▇█"
_TITLES = {
    Hop.CARD_UP: "cards to ToRs",
    Hop.TOR_UP: "ToRs to Aggs",
    Hop.AGG_UP: "Aggs to cores",
    Hop.CORE_DOWN: "cores to Aggs",
    Hop.AGG_DOWN: "Aggs to ToRs",
    Hop.TOR_DOWN: "ToRs to cards",
}


def title(hop: Hop) -> str:
    """What a hop is called."""
    return _TITLES[hop]


def heat(fabric: Fabric, hops: Sequence[HopLoads], columns: int, *, coloured: bool) -> Iterator[Line]:
    """A map of each hop, `columns` wide at most: the fullest link of each cell, as a colour or as a height.

    Cards: a row for each port, cards from left to right. Others: rows of lower switches, upper ones from left to right,
    neighbours in one cell where there are too many.
    """
    for each in hops:
        yield (Piece(f"{title(each.hop)}: {each.most:.0%} at most, {each.mean:.0%} on average", "bold"),)
        yield from _map(fabric, each, max(1, columns - _LABEL), coloured=coloured)
        yield ()
    yield _legend(coloured=coloured)


def _map(fabric: Fabric, hop: HopLoads, width: int, *, coloured: bool) -> Iterator[Line]:
    links = hop.links % fabric.num_links
    lower, upper = fabric.lower[links], fabric.upper[links]
    cards = fabric.tier[lower[0]] == Tier.GPU
    rows, across = (fabric.lower_port[links], lower) if cards else (lower, upper)
    loaded = hop.share > 0
    cells, names = _cells(rows, across, hop.share, loaded, (_ROWS, width))
    for row, number in zip(cells, names, strict=True):
        label = f"port {number}" if cards else fabric.node_name(number)
        yield (Piece(label[: _LABEL - 1].ljust(_LABEL), palette.FAINT), *_row(row, coloured=coloured))


def _cells(
    rows: NDArray[np.int32], across: NDArray[np.int32], share: Rates, loaded: NDArray[np.bool_], most: tuple[int, int]
) -> tuple[Rates, list[int]]:
    """[rows, columns]: the largest share in each cell (NaN: no link), and the first of what each row stands for."""
    places, names = [], []
    for values, room in zip((rows, across), most, strict=True):
        known = np.unique(values[loaded])
        place = np.searchsorted(known, values)
        inside = (place < len(known)) & (known[np.minimum(place, len(known) - 1)] == values)
        count = min(room, len(known))
        places.append(np.where(inside, place * count // len(known), -1))
        names.append(known[-(-np.arange(count) * len(known) // count)])
    chosen = (places[0] >= 0) & (places[1] >= 0)
    found = np.full((len(names[0]), len(names[1])), -1.0)
    np.maximum.at(found, (places[0][chosen], places[1][chosen]), share[chosen])
    return np.where(found < 0, np.nan, found), names[0].tolist()


def _row(cells: Rates, *, coloured: bool) -> Iterator[Piece]:
    for value in cells.tolist():
        if math.isnan(value):
            yield Piece("·", palette.FAINT)
        elif coloured:
            yield Piece(" ", palette.heat(value))
        else:
            yield Piece(_shade(value))


def _shade(value: float) -> str:
    return _SHADES[min(len(_SHADES) - 1, round(value * (len(_SHADES) - 1)))] if value > 0 else "0"


def _legend(*, coloured: bool) -> Line:
    steps = [place / 8 for place in range(9)]
    ramp = [Piece(" ", palette.heat(each)) if coloured else Piece(_shade(each)) for each in steps]
    return (Piece("idle ", palette.FAINT), *ramp, Piece(" full; · no link", palette.FAINT))
