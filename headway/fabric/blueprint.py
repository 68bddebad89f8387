"""Blueprint: any fabric, told switch by switch, segment by segment and bundle by bundle of links."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headway.errors import PlanError, nearest
from headway.fabric.check import check
from headway.fabric.fabric import NONE, Column, Fabric, Flags, Rates, Tier
from headway.fabric.shape import MOST, MOST_PORTS
from headway.units import parse_bandwidth

_TIERS = {"tor": Tier.TOR, "agg": Tier.AGG, "core": Tier.CORE}
_MOST_NAMES = 2**17  # switches or hosts of one entry
_NAME = re.compile(r"[\w.:/+-]+")  # what a CSV needs no quotes for
_RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """Alike switches of one tier; `names` may hold a range, as in `tor-[0-3,8]`."""

    names: str
    tier: Literal["tor", "agg", "core"]
    ports: int = 128
    speed: str = "400Gbps"
    plane: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Hosts under the same ToRs, like `0-15`. `rails`: for each rail the ToR of each port of a card.

    GPU g of a host is on rail g mod the number of rails. `backup_hosts` are spares under the same ToRs.
    """

    hosts: int | str
    rails: tuple[tuple[str, ...], ...]
    backup_hosts: int | str = ""
    pod: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """`count` links from each switch of `lower` to each of `upper`; both may hold ranges."""

    lower: str
    upper: str
    count: int = 1
    speed: str = "400Gbps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """A fabric as it is told."""

    name: str
    switches: tuple[Switches, ...]
    segments: tuple[Segment, ...]
    links: tuple[Bundle, ...] = ()
    gpus_per_host: int = 8
    nic_speed: str = "200Gbps"


def build(told: Blueprint) -> Fabric:
    """The fabric of a blueprint, checked.

    Raises PlanError: an unknown switch, a host or a ToR in two segments, hosts left out, links between wrong tiers, a
    switch that lacks ports.
    """
    if not told.name or not told.name.isprintable():
        raise PlanError(f"a fabric's name is {told.name!r}. Use letters that can be printed.")
    if told.gpus_per_host < 1:
        raise PlanError(f"{told.name}: gpus_per_host is {told.gpus_per_host}. Use 1 or more.")
    number, tiers, planes, ports, rates = _switches(told)
    home, spare = _hosts(told)
    first = len(home) * told.gpus_per_host
    under = _under(told, number)
    gpus = np.arange(first, dtype=np.int32)
    rails = np.array([len(each.rails) for each in told.segments], np.int32)
    pods = np.array([each.pod for each in told.segments], np.int32)
    of_gpu = np.repeat(home, told.gpus_per_host)
    lower, upper, capacity = _links(told, number, of_gpu, first)
    segment = np.concatenate([of_gpu, np.full(len(tiers), NONE, np.int32)])
    rail = np.concatenate([gpus % told.gpus_per_host % rails[of_gpu], np.full(len(tiers), NONE, np.int32)])
    for switch, (place, lane) in under.items():
        segment[first + switch], rail[first + switch] = place, lane
    pod = np.where(segment == NONE, NONE, pods[segment]).astype(np.int32)
    tier = np.concatenate([np.zeros(first, np.int32), tiers])
    return check(
        Fabric(
            name=told.name,
            gpus_per_host=told.gpus_per_host,
            tier=tier,
            pod=_with_aggs(pod, tier, lower, upper),
            segment=segment,
            rail=rail,
            plane=np.concatenate([np.full(first, NONE, np.int32), planes]),
            backup=np.repeat(spare, told.gpus_per_host),
            names=tuple(number),
            num_ports=ports,
            port_rate=rates,
            lower=lower,
            upper=upper,
            capacity=capacity,
        )
    )


def expand(text: str) -> list[str]:
    """The names that a range stands for.

    >>> expand("tor-[0-2,7]"), expand("core")
    (['tor-0', 'tor-1', 'tor-2', 'tor-7'], ['core'])
    """
    match = re.fullmatch(r"([^\[\]]*)\[([^\[\]]*)\]([^\[\]]*)", text)
    if not match:
        if not text or "[" in text or "]" in text:
            raise PlanError(f"'{text}' names no switches. Write a name, or one range of them like tor-[0-3,8].")
        return [text]
    return [f"{match[1]}{number}{match[3]}" for number in _numbers(match[2])]


def _numbers(text: int | str) -> list[int]:
    """The numbers of `0-3,8`, in the order written."""
    found: list[int] = []
    for part in str(text).split(",") if text != "" else []:
        match = _RANGE.fullmatch(part.strip())
        if not match or (last := int(match[2] or match[1])) < int(match[1]) or last - int(match[1]) >= _MOST_NAMES:
            raise PlanError(f"'{part}' is not a number or a range of them, of up to {_MOST_NAMES:,}. Write 0-3,8.")
        found += range(int(match[1]), last + 1)
    return found


def _switches(told: Blueprint) -> tuple[dict[str, int], Column, Column, Column, Rates]:
    """Name → number, and by number: tier, plane, ports and bytes a second of a port."""
    number: dict[str, int] = {}
    columns: list[tuple[int, int, int]] = []
    rates: list[float] = []
    for each in told.switches:
        if not 1 <= each.ports <= MOST_PORTS:
            raise PlanError(f"{told.name}: {each.names} has {each.ports} ports. Use 1 to {MOST_PORTS}.")
        if not 0 <= each.plane < MOST_PORTS:
            raise PlanError(f"{told.name}: {each.names} is on plane {each.plane}. Count planes from 0.")
        names = expand(each.names)
        for name in names:
            if not _NAME.fullmatch(name):
                raise PlanError(
                    f"{told.name}: '{name[:60]}' is no name of a switch. Use letters, digits and . : / _ + -."
                )
            if name in number:
                raise PlanError(f"{told.name}: the switch {name} stands twice. Name it once.")
            number[name] = len(number)
        columns += [(_TIERS[each.tier], each.plane, each.ports)] * len(names)
        rates += [_rate(told, each.speed, each.names)] * len(names)
    if not columns:
        raise PlanError(f"{told.name} has no switches. Give at least one ToR.")
    tiers, planes, ports = np.array(columns, np.int32).T
    return number, tiers, planes, ports, np.array(rates)


def _hosts(told: Blueprint) -> tuple[Column, Flags]:
    """The segment of each host, and whether it is a spare."""
    found: dict[int, tuple[int, bool]] = {}
    for place, segment in enumerate(told.segments):
        active, spares = _numbers(segment.hosts), _numbers(segment.backup_hosts)
        for host, spare in [*((host, False) for host in active), *((host, True) for host in spares)]:
            if host in found:
                raise PlanError(
                    f"{told.name}: the GPUs of host {host} are in segments {found[host][0]} and {place}. Name it once."
                )
            found[host] = place, spare
    if not found:
        raise PlanError(f"{told.name} has no hosts. Give a segment with hosts, like 0-15.")
    missing = next((host for host in range(len(found)) if host not in found), None)
    if missing is not None:
        raise PlanError(f"{told.name}: host {missing} is in no segment. Number hosts from 0 without gaps.")
    if len(found) * told.gpus_per_host > MOST:
        raise PlanError(
            f"{told.name}: {len(found):,} hosts of {told.gpus_per_host:,} GPUs are too many. Use {MOST:,} GPUs."
        )
    if all(spare for _, spare in found.values()):
        raise PlanError(f"{told.name} has backup hosts only. Give a segment with hosts.")
    ordered = [found[host] for host in range(len(found))]
    return np.array([place for place, _ in ordered], np.int32), np.array([spare for _, spare in ordered], bool)


def _under(told: Blueprint, number: dict[str, int]) -> dict[int, tuple[int, int]]:
    """Number of a ToR → its segment and rail."""
    found: dict[int, tuple[int, int]] = {}
    for place, segment in enumerate(told.segments):
        if not segment.rails or not all(segment.rails) or told.gpus_per_host % len(segment.rails):
            raise PlanError(
                f"{told.name}: segment {place} has {len(segment.rails)} rails for hosts of {told.gpus_per_host} GPUs. "
                "Use a number that divides them, each rail with the ToR of each port."
            )
        if not 0 <= segment.pod < MOST_PORTS:
            raise PlanError(f"{told.name}: segment {place} is of pod {segment.pod}. Count pods from 0.")
        for rail, tors in enumerate(segment.rails):
            for name in tors:
                switch = _known(told, number, name)
                if found.setdefault(switch, (place, rail))[0] != place:
                    raise PlanError(
                        f"{told.name}: {name} is in segments {found[switch][0]} and {place}. Name it in one."
                    )
    return found


def _links(told: Blueprint, number: dict[str, int], of_gpu: Column, first: int) -> tuple[Column, Column, Rates]:
    """Lower node, upper node and capacity: cards to ToRs port by port, then the bundles."""
    lower, upper, rates = [], [], []
    nic = _rate(told, told.nic_speed, "nic_speed")
    by_segment = [[[_known(told, number, name) for name in tors] for tors in each.rails] for each in told.segments]
    for gpu, place in enumerate(of_gpu.tolist()):
        rails = by_segment[place]
        tors = rails[gpu % told.gpus_per_host % len(rails)]
        lower += [gpu] * len(tors)
        upper += [first + tor for tor in tors]
    rates += [nic] * len(lower)
    for each in told.links:
        below, above = ([_known(told, number, name) for name in expand(text)] for text in (each.lower, each.upper))
        if each.count < 1 or len(lower) + len(below) * len(above) * each.count > MOST:
            raise PlanError(
                f"{told.name}: {each.count} links from each of {each.lower} to each of {each.upper}. "
                f"Use 1 or more, and at most {MOST:,} in all."
            )
        lower += [first + low for low in below for _ in range(len(above) * each.count)]
        upper += [first + up for up in above for _ in range(each.count)] * len(below)
        rates += [_rate(told, each.speed, each.lower)] * (len(lower) - len(rates))
    return np.array(lower, np.int32), np.array(upper, np.int32), np.array(rates)


def _with_aggs(pod: Column, tier: Column, lower: Column, upper: Column) -> Column:
    """Pods of nodes, each Agg in that of the ToRs below it."""
    links = tier[upper] == Tier.AGG
    found = pod.copy()
    found[upper[links]] = pod[lower[links]]
    return found


def _known(told: Blueprint, number: dict[str, int], name: str) -> int:
    if name not in number:
        raise PlanError(f"{told.name}: no switch is called '{name}'. {nearest(name, _first_of(tuple(number)))}")
    return number[name]


def _first_of(names: Sequence[str]) -> Sequence[str]:
    """Enough names for a hint."""
    return names[:200]


def _rate(told: Blueprint, text: str, of: str) -> float:
    rate = float(parse_bandwidth(text))
    if not rate > 0:
        raise PlanError(f"{told.name}: the speed of {of} is {text}. Use one above 0, like 400Gbps.")
    return rate
