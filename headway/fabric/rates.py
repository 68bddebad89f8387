"""Rates: what flows get of the links that they share, max-min fair."""

from dataclasses import dataclass

import numpy as np

from headway.fabric.fabric import Column, Flags, Rates

_EQUAL = 1e-9  # relative: shares of a link that differ by less are the same, whatever the order of sums


@dataclass(frozen=True, slots=True, eq=False)
class Uses:
    """Who uses what. [U] each: flow `flow`, a number below `flows`, takes `weight` times its rate of link `link`.

    A flow is whatever has one rate: a connection, or all edges of a ring with all their connections.
    """

    flows: int
    flow: Column
    link: Column
    weight: Rates

    def of(self, active: Flags) -> "Uses":
        """Those of some of the flows, whose numbers stay."""
        return self.some(active[self.flow])

    def some(self, rows: Flags) -> "Uses":
        """Some of them, of the same flows."""
        return Uses(self.flows, self.flow[rows], self.link[rows], self.weight[rows])

    def loads(self, rates: Rates, links: int) -> Rates:
        """[links]: bytes a second on each link where flows have `rates`."""
        found: Rates = np.bincount(self.link, self.weight * rates[self.flow], links).astype(float)
        return found


def max_min(capacity: Rates, uses: Uses) -> tuple[Rates, Column]:
    """[flows] each: the max-min fair rate, and the link that bounds it (0 and −1 for a flow that uses none).

    No flow could have more without another that has no more having less. All flows grow alike until a link is full.
    Rather than level by level, each round freezes every flow that crosses a local bottleneck: a link whose even share
    is the least that any of its flows gets anywhere. Freezing others can only raise the share that such a link would
    leave, so nothing changes in the result (hundreds of levels, a dozen rounds).
    """
    rates, bound = np.zeros(uses.flows), np.full(uses.flows, -1, np.int32)
    left, links = capacity.astype(float), len(capacity)
    active = uses.some(uses.weight > 0)  # what is taken of a link with weight 0 is bound by no link
    while len(active.flow):
        total = np.bincount(active.link, active.weight, links)
        share = np.divide(left, total, out=np.full(links, np.inf), where=total > 0)
        here = share[active.link]
        least = np.full(uses.flows, np.inf)
        np.minimum.at(least, active.flow, here)
        of_flow = least[active.flow]
        lowest = np.full(links, np.inf)
        np.minimum.at(lowest, active.link, of_flow)
        full = lowest >= share * (1 - _EQUAL)  # of links that are used
        ends = full[active.link] & (here <= of_flow * (1 + _EQUAL))
        frozen = np.zeros(uses.flows, bool)
        frozen[active.flow[ends]] = True
        bound[active.flow[ends]] = active.link[ends]
        rates[frozen] = least[frozen]
        gone = frozen[active.flow]
        left -= np.bincount(active.link[gone], (active.weight * rates[active.flow])[gone], links)
        np.maximum(left, 0.0, out=left)
        active = active.of(~frozen)
    return rates, bound


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """[flows] each: when a flow has moved all its bytes (inf: never), and its rate and its bound at the beginning."""

    ends: Rates
    rates: Rates
    bound: Column


def play(capacity: Rates, uses: Uses, sizes: Rates, *, together: float = 1e-6) -> Played:
    """Flows that move `sizes` bytes each; those of none have ended at 0.

    Rates are found anew when flows end. Those that end within `together` of the time since the last one end as one.
    Once all have as much left no rate changes any more: on the link that bounds a flow nobody has a higher rate, so
    nobody ends earlier, and what others leave elsewhere is of no use to it. Thousands of channels of an all-to-all are
    then done without as many events.
    """
    left, ends = sizes.astype(float), np.where(sizes > 0, np.inf, 0.0)
    now, active = 0.0, sizes > 0
    first = rates, _ = max_min(capacity, uses.of(active))
    while active.any():
        takes = np.divide(left, rates, out=np.full(len(left), np.inf), where=active & (rates > 0))
        step = float(takes.min())
        if not np.isfinite(step):
            break
        if np.ptp(left[active]) == 0:
            ends[active] = now + takes[active]
            break
        done = active & (takes <= step * (1 + together))
        step = float(takes[done].max())
        now += step
        left -= np.where(active, rates * step, 0.0)
        ends[done] = now
        active &= ~done
        rates, _ = max_min(capacity, uses.of(active))
    return Played(ends, *first)
