"""SimAI's topology text as a fabric: tiers, segments, rails, pods and planes are found from its links."""

import dataclasses
from pathlib import Path

import numpy as np

from headway.errors import PlanError
from headway.fabric.check import check, used_ports
from headway.fabric.fabric import NONE, Column, Fabric, Flags, Rates, Tier
from headway.fabric.joined import joined
from headway.fabric.shape import MOST
from headway.units import parse_bandwidth

_HEAD, _LINK = 6, 5  # words of the first line and of a link's
_ASSUMPTIONS = (
    "The file tells no ports: each switch has as many as its links take, of the speed of its fastest.",
    "Hosts under a common ToR are a segment, segments under a common Agg a pod, what ToR-Agg links join a plane.",
)


def parse(text: str, name: str) -> Fabric:
    """The fabric of a topology file; links inside a server, and latencies and error rates, are left out.

    Line 1: `nodes gpus_per_server nvswitches switches links GPU_TYPE`; line 2: numbers of all switches, NVSwitches
    first; then `source destination 400Gbps 0.0005ms error_rate` a link. Raises PlanError with the line that is wrong.
    """
    lines = text.splitlines()
    nodes, per_host, nvswitches, switches, links = _head(lines, name)
    gpus = nodes - nvswitches - switches
    if gpus < 1 or switches < 1 or per_host < 1 or gpus % per_host:
        raise PlanError(
            f"{name}: {nodes} nodes with {nvswitches} NVSwitches and {switches} switches leave {gpus} GPUs in servers "
            f"of {per_host}. Use at least one switch, and GPUs that fill their servers."
        )
    told = lines[1].split() if len(lines) > 1 else []
    if sorted(told) != sorted(map(str, range(gpus, nodes))):
        raise PlanError(
            f"{name}, line 2 does not name the {nodes - gpus} switches. They are {gpus} to {nodes - 1}, once each."
        )
    rows = [(number, line.split()) for number, line in enumerate(lines[2:], 3) if line.strip()]
    if len(rows) != links:
        raise PlanError(f"{name}: line 1 says {links} links, {len(rows)} follow. The file may be cut short.")
    first = gpus + nvswitches
    ends, rates = _ends(rows, nodes, name)
    outside = ~_inside(ends, gpus, first, per_host, name)
    ends, rates = ends[:, outside], rates[outside]
    ends[ends >= first] -= nvswitches
    return _fabric(ends, rates, gpus, switches, per_host, name)


def _head(lines: list[str], name: str) -> list[int]:
    words = lines[0].split() if lines else []
    if len(words) != _HEAD or not all(word.isascii() and word.isdecimal() for word in words[:-1]):
        raise PlanError(
            f"{name}, line 1 is no head of a SimAI topology: `nodes gpus_per_server nvswitches switches links TYPE`. "
            "Name a family, a .yaml file or such a topology."
        )
    found = [int(word) for word in words[:-1]]
    if max(found) > MOST:
        raise PlanError(f"{name}, line 1: {max(found):,} of something is more than the {MOST:,} that are built.")
    return found


def _ends(rows: list[tuple[int, list[str]]], nodes: int, name: str) -> tuple[Column, Rates]:
    """[2, L] and [L]: the two nodes of each link, and its bytes a second."""
    ends, rates = np.empty((2, len(rows)), np.int32), np.empty(len(rows))
    known: dict[str, float] = {}
    for place, (number, words) in enumerate(rows):
        if len(words) != _LINK or not all(word.isdecimal() and int(word) < nodes for word in words[:2]):
            raise PlanError(
                f"{name}, line {number} is no link: '{' '.join(words)[:60]}'. Write `source destination speed latency "
                f"error_rate`, with nodes from 0 to {nodes - 1}."
            )
        ends[:, place] = int(words[0]), int(words[1])
        if words[2] not in known:
            known[words[2]] = float(parse_bandwidth(words[2]))
        rates[place] = known[words[2]]
    return ends, rates


def _inside(ends: Column, gpus: int, first: int, per_host: int, name: str) -> Flags:
    """[L]: whether a link is inside a server: to an NVSwitch, or between two of its GPUs."""
    low, high = ends.min(axis=0), ends.max(axis=0)
    between = high < gpus
    if (apart := between & (low // per_host != high // per_host)).any():
        one, other = ends[:, int(np.argmax(apart))].tolist()
        raise PlanError(f"{name}: a link joins the GPUs {one} and {other} of two servers. Join them by switches.")
    found: Flags = between | ((ends >= gpus) & (ends < first)).any(axis=0)
    return found


def _fabric(ends: Column, rates: Rates, gpus: int, switches: int, per_host: int, name: str) -> Fabric:
    count = gpus + switches
    tier = _tiers(ends, gpus, count, name)
    upwards = tier[ends[0]] <= tier[ends[1]]
    lower, upper = np.where(upwards, ends[0], ends[1]), np.where(upwards, ends[1], ends[0])
    pod, segment, rail, plane = _places(tier, lower, upper, per_host)
    fastest = np.zeros(count)
    for side in (lower, upper):
        np.maximum.at(fastest, side, rates)
    made = Fabric(
        name=Path(name).name,
        gpus_per_host=per_host,
        tier=tier,
        pod=pod,
        segment=segment,
        rail=rail,
        plane=plane,
        backup=np.zeros(gpus, bool),
        names=tuple(f"{Tier(t).label.lower()}-{gpus + n}" for n, t in enumerate(tier[gpus:].tolist())),
        num_ports=np.full(switches, MOST, np.int32),
        port_rate=fastest[gpus:],
        lower=lower,
        upper=upper,
        capacity=rates,
        assumptions=_ASSUMPTIONS,
    )
    return dataclasses.replace(made, num_ports=used_ports(check(made)))


def _tiers(ends: Column, gpus: int, count: int, name: str) -> Column:
    """[N]: how many links up from a GPU each node is."""
    tier = np.where(np.arange(count) < gpus, 0, NONE).astype(np.int32)
    for level in Tier:
        for one, other in (ends, ends[::-1]):
            tier[other[(tier[one] == level) & (tier[other] == NONE)]] = level + 1
    if (tier == NONE).any() or tier.max() > Tier.CORE:
        far = int(np.flatnonzero((tier == NONE) | (tier > Tier.CORE))[0])
        raise PlanError(
            f"{name}: switch {far} is more than {int(Tier.CORE)} links from every GPU. Fabrics have 3 tiers."
        )
    return tier


def _places(tier: Column, lower: Column, upper: Column, per_host: int) -> tuple[Column, Column, Column, Column]:
    """Pods, segments, rails and planes of nodes, from who joins whom; a group is called by its least node."""
    count, nodes = len(tier), np.arange(len(tier), dtype=np.int32)
    access, joins = tier[lower] == Tier.GPU, tier[lower] == Tier.TOR
    host = np.where(tier == Tier.GPU, nodes // per_host * per_host, nodes)
    segment = joined(count, host[lower[access]], upper[access])[host]
    pod = joined(count, segment[lower[joins]], upper[joins])[segment]
    plane = joined(count, lower[joins], upper[joins])
    rail = np.full(count, count, np.int32)  # of a GPU the ToR of its first port, of a ToR that of its GPUs
    rail[lower[access][::-1]] = upper[access][::-1]
    np.minimum.at(rail, upper[access], rail[lower[access]])
    planes = _numbers(plane, pod, (tier == Tier.TOR) | (tier == Tier.AGG))
    above = tier[lower] == Tier.AGG
    planes[upper[above]] = planes[lower[above]]
    return (
        _numbers(pod, np.zeros_like(pod), tier < Tier.CORE),
        _numbers(segment, np.zeros_like(pod), tier <= Tier.TOR),
        _numbers(rail, segment, tier <= Tier.TOR),
        planes,
    )


def _numbers(values: Column, groups: Column, chosen: Flags) -> Column:
    """[N]: values of the chosen as numbers from 0 on in each group, in their order; −1 for the others.

    >>> _numbers(np.array([7, 9, 7, 5]), np.array([0, 0, 0, 1]), np.array([True, True, True, True])).tolist()
    [0, 1, 0, 0]
    """
    pairs, which = np.unique(np.stack([groups[chosen], values[chosen]]), axis=1, return_inverse=True)
    first = np.searchsorted(pairs[0], pairs[0])
    found = np.full(len(values), NONE, np.int32)
    found[chosen] = (np.arange(len(first)) - first)[which.ravel()]
    return found
