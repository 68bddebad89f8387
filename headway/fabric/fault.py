"""Fault: what breaks in a fabric, when, for how long, and which links are dead then."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations
from math import inf, isfinite
from typing import Any, Literal, assert_never, cast, get_args

import numpy as np

from headway.errors import PlanError, nearest
from headway.fabric.fabric import NONE, Fabric, Flags, Tier
from headway.units import Seconds, parse_seconds

Kind = Literal["link", "port", "nic", "tor", "agg", "core", "plane"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NEVER, _AT_ONCE = Seconds(inf), Seconds(0.0)
MOST_DOWNS = 1_000  # times that a flapping fault breaks within what is looked at
LATEST = 1e6  # seconds; later than that, floats blur what is one moment
_SHORTEST, _LONGEST = 1e-6, 1e9
_FORMS: dict[Kind, str] = {
    "link": "link NODE NODE, each with :PORT where several cables join them",
    "port": "port NODE:PORT, as port host-3/gpu-5:0",
    "nic": "nic CARD, as nic host-3/gpu-5",
    "tor": "tor NAME",
    "agg": "agg NAME",
    "core": "core NAME",
    "plane": "plane NUMBER, or plane NUMBER of pod NUMBER",
}
_CARD = re.compile(r"host-(\d{1,9})/gpu-(\d{1,9})")
_PLANE = re.compile(r"(\d{1,9})(?: of pod (\d{1,9}))?")
_TIERS = {"tor": Tier.TOR, "agg": Tier.AGG, "core": Tier.CORE}


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that breaks; its text is `tor tor-s0-r0-1 at 10s for 30s`, which `parse` reads.

    `target`, as the list of cables has it: the two ends of a link, NODE:PORT of a port, a card of a nic, a switch, or
    the number of a plane, of which all switches go down (`1 of pod 0`: those of one pod). It is down from `at` on, for
    `lasts` seconds (NEVER comes back else); with `every` it flaps: it is down for the first half of every so many.
    """

    kind: Kind
    target: str
    at: Seconds = _AT_ONCE
    lasts: Seconds = NEVER
    every: Seconds = NEVER

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise PlanError(f"no fault is called '{self.kind}'. {nearest(self.kind, KINDS)}")
        if not self.target:
            raise PlanError(f"a {self.kind} breaks, but which is not said. Write it as {_FORMS[self.kind]}.")
        if not 0 <= self.at <= LATEST:
            raise PlanError(f"{self.kind} {self.target} breaks at {self.at:g} s. Use 0s to {LATEST:.0f}s.")
        for name, value in (("for", self.lasts), ("flapping every", self.every)):
            if not (_SHORTEST <= value <= _LONGEST or value == NEVER):
                raise PlanError(f"{self.kind} {self.target}: {name} {value:g} s. Use 1us to 10000d, or leave it out.")

    def __str__(self) -> str:
        words = [f"{self.kind} {self.target} at {_text(self.at)}"]
        words += [f"for {_text(self.lasts)}"] if isfinite(self.lasts) else []
        words += [f"flapping every {_text(self.every)}"] if isfinite(self.every) else []
        return " ".join(words)

    @property
    def end(self) -> Seconds:
        """When it is over."""
        return Seconds(self.at + self.lasts)

    def downs(self, until: Seconds) -> list[tuple[float, float]]:
        """From when to when it is down, each time that begins before `until`."""
        if not isfinite(self.every):
            return [(self.at, self.end)] if self.at < until else []
        last = min(until, self.end)
        if (times := (last - self.at) / self.every) > MOST_DOWNS:
            raise PlanError(
                f"{self}: it flaps {times:,.0f} times in {last:g} s, more than the {MOST_DOWNS:,} that are played. "
                f"Flap every {_text(Seconds((last - self.at) / MOST_DOWNS))}, or longer."
            )
        starts = [self.at + turn * self.every for turn in range(MOST_DOWNS + 1)]
        return [(start, min(start + self.every / 2, self.end)) for start in starts if start < last]


def parse(text: str) -> Fault:
    """The fault of a text: KIND TARGET [at TIME] [for TIME] [flapping every TIME]; without `at` from the beginning.

    >>> str(parse("port host-3/gpu-5:0 at 10s for 1.5min"))
    'port host-3/gpu-5:0 at 10s for 90s'
    """
    kind, *words = text.split() or [""]
    told: dict[str, list[str]] = {"": []}
    clause = ""
    for word in words:
        if word in _CLAUSES:
            if word in told:
                raise PlanError(f"'{text}' says '{word}' twice. Say it once.")
            clause = word
            told[clause] = []
        elif (clause, word) != ("flapping", "every") or told[clause]:
            told[clause].append(word)
    times: dict[str, Any] = {}
    for word, name in _CLAUSES.items():
        if word in told:
            try:
                times[name] = parse_seconds(" ".join(told[word]))
            except PlanError as error:
                raise PlanError(f"'{text}', {word}: {error}") from None
    return Fault(cast(Kind, kind), " ".join(told[""]), **times)


_CLAUSES = {"at": "at", "for": "lasts", "flapping": "every"}


def links(fabric: Fabric, fault: Fault) -> Flags:
    """[L]: the links that are dead while the fault lasts. Raises PlanError where the fabric has no such thing."""
    words = fault.target.split()
    if len(words) != (2 if fault.kind == "link" else 1) and fault.kind != "plane":
        raise PlanError(f"'{fault.kind} {fault.target}' names {len(words)} things. Write it as {_FORMS[fault.kind]}.")
    match fault.kind:
        case "link":
            return _cable(fabric, words)
        case "port":
            node, port = _end(fabric, words[0])
            if port is None:
                raise PlanError(f"port {words[0]} names no port. Write it as {_FORMS['port']}.")
            return _at(fabric, node, port)
        case "nic":
            if (card := _node(fabric, words[0])) >= fabric.num_gpus:
                raise PlanError(f"nic {words[0]} is a switch. Write it as {_FORMS['nic']}.")
            return _of(fabric, np.arange(fabric.num_nodes) == card)
        case "tor" | "agg" | "core":
            switch = _node(fabric, words[0], _TIERS[fault.kind])
            return _of(fabric, np.arange(fabric.num_nodes) == switch)
        case "plane":
            return _of(fabric, _of_plane(fabric, fault.target))
        case _:
            assert_never(fault.kind)


def check(fabric: Fabric, faults: Sequence[Fault]) -> None:
    """Raises PlanError where a fault breaks nothing, or two break the same links at once."""
    dead = [links(fabric, each) for each in faults]
    for one, other in combinations(range(len(faults)), 2):
        first, second = faults[one], faults[other]
        if max(first.at, second.at) < min(first.end, second.end) and (dead[one] == dead[other]).all():
            raise PlanError(
                f"'{first}' and '{second}' break the same at the same time, so that they contradict each other. "
                "Say it once, or one after the other."
            )


def effect(fabric: Fabric, dead: Flags) -> str:
    """What dead links leave, in words: `136 cards keep 1 of 2 ports, 4 ToRs keep 59 of 60 links up`."""
    parts = []
    ends = np.concatenate([fabric.lower, fabric.upper])
    gone = np.bincount(ends, ~np.concatenate([dead, dead]), fabric.num_nodes) == 0  # a switch with no link left
    gone[: fabric.num_gpus] = False
    for tier, thing in ((Tier.GPU, "card"), (Tier.TOR, "ToR"), (Tier.AGG, "Agg")):
        each = fabric.links(tier)
        had = np.bincount(fabric.lower[each], minlength=fabric.num_nodes)
        keep = np.bincount(fabric.lower[each], ~dead[each], fabric.num_nodes).astype(int)
        hit = np.flatnonzero((keep < had) & ~gone)
        if len(hit):
            worst = hit[np.argmin(keep[hit] / had[hit])]
            verb, s = ("keeps", "") if len(hit) == 1 else ("keep", "s")
            what = "ports" if tier is Tier.GPU else "links up"
            parts.append(f"{len(hit):,} {thing}{s} {verb} {keep[worst]} of {had[worst]} {what}")
    return ", ".join(parts) or "nothing that anybody uses is lost"


def _of(fabric: Fabric, nodes: Flags) -> Flags:
    """[L]: the links of nodes, [N]."""
    return nodes[fabric.lower] | nodes[fabric.upper]


def _cable(fabric: Fabric, words: list[str]) -> Flags:
    (one, first), (other, second) = (_end(fabric, word) for word in words)
    found = np.zeros(fabric.num_links, bool)
    for (low, low_port), (up, up_port) in (((one, first), (other, second)), ((other, second), (one, first))):
        joins = (fabric.lower == low) & (fabric.upper == up)
        for port, ports in ((low_port, fabric.lower_port), (up_port, fabric.upper_port)):
            joins &= True if port is None else ports == port
        found |= joins
    if not found.any():
        near = _neighbours(fabric, one)
        raise PlanError(f"no cable joins {words[0]} and {words[1]}. {fabric.node_name(one)} is joined to {near}.")
    if found.sum() > 1:
        link = int(np.argmax(found))
        names = [fabric.node_name(int(ends[link])) for ends in (fabric.lower, fabric.upper)]
        raise PlanError(
            f"{found.sum()} cables join {words[0]} and {words[1]}. "
            f"Name one by its port: link {names[0]}:{fabric.lower_port[link]} {names[1]}."
        )
    return found


def _neighbours(fabric: Fabric, node: int) -> str:
    above, below = fabric.upper[fabric.lower == node], fabric.lower[fabric.upper == node]
    names = [fabric.node_name(each) for each in np.unique(np.concatenate([above, below])).tolist()]
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def _end(fabric: Fabric, word: str) -> tuple[int, int | None]:
    """The node of `NODE` or `NODE:PORT`, and the port."""
    name, colon, port = word.rpartition(":")
    if not colon or word in fabric.names:
        return _node(fabric, word), None
    node = _node(fabric, name)
    if not (port.isascii() and port.isdecimal() and len(port) < 10) or not _at(fabric, node, int(port)).any():
        many = int(((fabric.lower == node) | (fabric.upper == node)).sum())
        raise PlanError(f"{name} has no port '{port}'. Use one of 0 to {many - 1}.")
    return node, int(port)


def _at(fabric: Fabric, node: int, port: int) -> Flags:
    low = (fabric.lower == node) & (fabric.lower_port == port)
    found: Flags = low | ((fabric.upper == node) & (fabric.upper_port == port))
    return found


def _node(fabric: Fabric, name: str, tier: Tier | None = None) -> int:
    """The node of this name, of `tier` where one is wanted."""
    if tier is None and (card := _CARD.fullmatch(name)):
        host, gpu = map(int, card.groups())
        hosts, each = fabric.num_gpus // fabric.gpus_per_host, fabric.gpus_per_host
        if host >= hosts or gpu >= each:
            raise PlanError(f"{fabric} has no {name}. Its hosts are 0 to {hosts - 1}, their GPUs 0 to {each - 1}.")
        return host * each + gpu
    if name in fabric.names:
        node = fabric.num_gpus + fabric.names.index(name)
        if tier in (None, fabric.tier[node]):
            return node
        label = Tier(int(fabric.tier[node])).name.lower()
        raise PlanError(f"{name} is no {tier.label}. Write {label} {name}.")
    known = [each for node, each in enumerate(fabric.names, fabric.num_gpus) if tier in (None, fabric.tier[node])]
    if not known:
        raise PlanError(f"{fabric} has no {tier.label if tier else 'switch'}, so none is called '{name}'.")
    raise PlanError(f"{fabric} has no {tier.label if tier else 'node'} '{name}'. {nearest(name, known)}")


def _of_plane(fabric: Fabric, target: str) -> Flags:
    """[N]: the switches of a plane, of one pod where the target says so."""
    match = _PLANE.fullmatch(target)
    if not match:
        raise PlanError(f"'plane {target}' is no plane. Write it as {_FORMS['plane']}.")
    found: Flags = (fabric.tier != Tier.GPU) & (fabric.plane == int(match[1]))
    if match[2]:
        found &= fabric.pod == int(match[2])
    if not found.any():
        planes = np.unique(fabric.plane[fabric.plane != NONE]).tolist()
        raise PlanError(
            f"{fabric} has no plane {target}. Its planes are {planes[0]} to {planes[-1]}, its pods 0 to "
            f"{fabric.pod.max()}."
        )
    return found


def _text(value: Seconds) -> str:
    """A duration that parse_seconds reads back exactly."""
    digits = format(Decimal(repr(float(value))), "f")
    return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits}s"
