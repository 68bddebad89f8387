"""Shares: of what several ranks hold alike, which of them writes which range."""

from collections.abc import Iterator, Mapping
from itertools import pairwise

from headway.model.unit import Unit
from headway.plan.plan import Plan

LEAST = 16384  # elements of a share: smaller ones make more boxes than they spread bytes


def share(plan: Plan, unit: Unit, rank: int, owned: Mapping[int, slice], *, least: int = LEAST) -> tuple[slice, ...]:
    """The ranges of a unit's flat buffer that `rank` writes, so that all ranks together write each element once.

    `owned`: for each rank that holds the unit, the range of the flat buffer that it keeps the optimizer's state of.
    What k ranks keep is divided evenly among them, or among so many that none has less than `least` elements.
    """
    return tuple(_merged(_share(plan, unit, rank, owned, least)))


def _share(plan: Plan, unit: Unit, rank: int, owned: Mapping[int, slice], least: int) -> Iterator[slice]:
    turn = plan.units.index(unit)  # small units do not all go to the first rank
    for held, copies in unit.copies:
        tensor_ranks = plan.layout.group(rank, "tensor") if copies > 1 else (rank,)
        alike = sorted({member for each in tensor_ranks for member in plan.group(each, unit)})
        ends = {end for member in alike for end in (owned[member].start, owned[member].stop)}
        edges = sorted({held.start, held.stop} | {end for end in ends if held.start < end < held.stop})
        for start, stop in pairwise(edges):
            keepers = [r for r in alike if owned[r].start <= start and stop <= owned[r].stop]
            if rank in keepers:
                parts = min(len(keepers), max(1, (stop - start) // least))
                place = (keepers.index(rank) - turn) % len(keepers)
                if place < parts:
                    first, last = ((stop - start) * each // parts for each in (place, place + 1))
                    yield slice(start + first, start + last)


def _merged(ranges: Iterator[slice]) -> Iterator[slice]:
    """Neighbours as one range, empty ones left out."""
    open_: slice | None = None
    for each in ranges:
        if each.start == each.stop:
            continue
        if open_ is not None and open_.stop == each.start:
            open_ = slice(open_.start, each.stop)
        else:
            if open_ is not None:
                yield open_
            open_ = each
    if open_ is not None:
        yield open_
