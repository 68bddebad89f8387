"""Shape: the few numbers that a fabric of rails, planes and pods is built from, and the families known by name."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from headway.errors import PlanError, nearest
from headway.units import parse_bandwidth

Hash = Literal["flow", "port"]
MOST = 2**24  # links of a fabric that is built: 40 times those of 122,880 GPUs, a few hundred megabytes
MOST_PORTS = 2**16  # of a switch


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The sizes of a fabric; `family` is where they come from.

    Hosts. `pods`; `segments` of a pod; `hosts` and `backup_hosts` of a segment; `gpus_per_host`, each with a network
    card of `nic_ports` ports of `nic_speed`.
    ToRs. `rails` of a segment: GPU g of a host is on rail g mod rails; `tors` of a rail in a segment: port p of a card
    goes to ToR p mod tors.
    Aggs. `planes`: ToR t of rail r is on plane (r · tors + t) mod planes; `aggs` of a plane in a pod; `tor_links` from
    a ToR to each Agg of its plane.
    Cores. `cores` of a plane, for all pods; `core_links` of an Agg upwards (0 of both: none). `core_hash`: cores choose
    by flow, or by the port at which a packet came.
    Switches have `switch_ports` of `switch_speed`; `link_speed` is that of links between switches.
    """

    family: str
    pods: int = 1
    segments: int = 1
    hosts: int = 1
    backup_hosts: int = 0
    gpus_per_host: int = 8
    nic_ports: int = 2
    nic_speed: str = "200Gbps"
    rails: int = 1
    tors: int = 1
    planes: int = 1
    aggs: int = 1
    tor_links: int = 1
    cores: int = 0
    core_links: int = 0
    core_hash: Hash = "flow"
    link_speed: str = "400Gbps"
    switch_ports: int = 128
    switch_speed: str = "400Gbps"

    def __post_init__(self) -> None:
        for name in _COUNTS:
            least = 0 if name in _MAY_BE_NONE else 1
            if getattr(self, name) < least:
                raise PlanError(f"{self.family}: {name} is {getattr(self, name)}. Use {least} or more.")
        if self.switch_ports > MOST_PORTS:
            raise PlanError(f"{self.family}: switch_ports is {self.switch_ports}. Use {MOST_PORTS} or fewer.")
        for name in ("nic_speed", "link_speed", "switch_speed"):
            if not parse_bandwidth(getattr(self, name)) > 0:
                raise PlanError(f"{self.family}: {name} is {getattr(self, name)}. Use one above 0, like 400Gbps.")
        if self.core_hash not in get_args(Hash):
            raise PlanError(
                f"{self.family}: core_hash is '{self.core_hash}'. {nearest(self.core_hash, get_args(Hash))}"
            )
        self._check_division("gpus_per_host", "rails", "each rail has as many GPUs of a host")
        self._check_division("nic_ports", "tors", "each ToR of a rail takes as many ports of a card")
        if self.tors * self.rails % self.planes:
            raise PlanError(
                f"{self.family}: {self.planes} planes cannot share the {self.rails} rails × {self.tors} ToRs of a "
                f"segment evenly. Use a number of planes that divides {self.rails * self.tors}."
            )
        self._check_cores()
        if self.num_links > MOST:
            raise PlanError(
                f"{self.family}: {self.num_links:,} links are more than the {MOST:,} that are built. "
                "Use fewer pods, segments or hosts."
            )

    def __str__(self) -> str:
        """The family and what differs from it: `hpn segments=2`."""
        base = FAMILIES.get(self.family, PLAIN)
        values = (
            (field.name, getattr(self, field.name)) for field in dataclasses.fields(self) if field.name != "family"
        )
        return " ".join([self.family, *(f"{name}={value}" for name, value in values if value != getattr(base, name))])

    @property
    def num_tors(self) -> int:
        """ToRs of all pods."""
        return self.pods * self.segments * self.rails * self.tors

    @property
    def num_links(self) -> int:
        """Links of all tiers."""
        hosts = self.pods * self.segments * (self.hosts + self.backup_hosts)
        up = self.num_tors * self.aggs * self.tor_links + self.pods * self.planes * self.aggs * self.core_links
        return hosts * self.gpus_per_host * self.nic_ports + up

    @property
    def core_groups(self) -> int:
        """Groups of a plane's cores: an Agg reaches each core of one group. 0: there are no cores."""
        return self.cores // math.gcd(self.cores, self.core_links) if self.cores else 0

    def _check_division(self, whole: str, part: str, why: str) -> None:
        if getattr(self, whole) % getattr(self, part):
            raise PlanError(
                f"{self.family}: {part} {getattr(self, part)} does not divide {whole} {getattr(self, whole)}, "
                f"but {why}. Use a divisor."
            )

    def _check_cores(self) -> None:
        if bool(self.cores) != bool(self.core_links):
            raise PlanError(
                f"{self.family}: cores is {self.cores} and core_links is {self.core_links}. "
                "Set both, or both to 0 for a fabric without cores."
            )
        if not self.cores:
            if self.pods > 1:
                raise PlanError(f"{self.family}: {self.pods} pods have no cores between them. Set cores, or pods 1.")
            return
        if self.cores % self.core_links and self.core_links % self.cores:
            raise PlanError(
                f"{self.family}: core_links {self.core_links} of an Agg cannot reach the {self.cores} cores of its "
                "plane evenly. Use a divisor or a multiple of cores."
            )
        if self.aggs % self.core_groups:
            raise PlanError(
                f"{self.family}: {self.aggs} Aggs of a plane cannot be shared by {self.core_groups} groups of cores "
                f"({self.cores} cores, {self.core_links} links of an Agg). Use a multiple of {self.core_groups} Aggs, "
                "or fewer cores."
            )


_COUNTS = tuple(field.name for field in dataclasses.fields(Shape) if field.type is int)
_MAY_BE_NONE = frozenset(("backup_hosts", "cores", "core_links"))
PLAIN = Shape(family="clos")

# Qian et al. 2024 (HPN, SIGCOMM): §5 and figure 7, table 1; the cores' number is read off figure 7.
_HPN = Shape(
    family="hpn",
    segments=15,
    hosts=128,
    backup_hosts=8,
    rails=8,
    tors=2,
    planes=2,
    aggs=60,
    cores=32,
    core_links=8,
    core_hash="port",
)
# The same, §9, appendix C and figure 20 (whose 64 uplinks make it full bisection; the text says one link an Agg).
_DCN = Shape(family="dcn+", segments=4, hosts=16, tors=2, aggs=8, tor_links=8, cores=128, core_links=64)

FAMILIES: dict[str, Shape] = {
    each.family: each
    for each in (
        _HPN,
        _DCN,
        # DCN+ with one ToR for each 64 GPUs, which takes the whole 400 Gbps of a card.
        dataclasses.replace(_DCN, family="single-tor", segments=8, hosts=8, tors=1, nic_ports=1, nic_speed="400Gbps"),
        # HPN with both ToRs of a rail on the same Aggs, which reach half as many segments (table 2).
        dataclasses.replace(_HPN, family="single-plane", segments=7, planes=1),
        # Table 4: a plane for each rail and port, 120 segments of a pod; other rails are reached inside a host only.
        dataclasses.replace(_HPN, family="rail-only", segments=120, planes=16, cores=0, core_links=0, core_hash="flow"),
    )
}


def family(name: str) -> Shape:
    """The sizes of the family called `name`, one pod of it."""
    if name not in FAMILIES:
        raise PlanError(f"no fabric is called '{name}'. {nearest(name, FAMILIES)}")
    return FAMILIES[name]


def parse(text: str) -> Shape:
    """The shape whose `str` is `text`.

    >>> str(parse("hpn pods=2 segments=3"))
    'hpn pods=2 segments=3'
    """
    name, *words = text.split() or [""]
    base = PLAIN if name == PLAIN.family else family(name)
    return changed(base, dict(word.partition("=")[::2] for word in words))


def changed(base: Shape, values: dict[str, str]) -> Shape:
    """`base` with other sizes, given as words: `{"pods": "2"}`."""
    known = [field.name for field in dataclasses.fields(Shape) if field.name != "family"]
    found: dict[str, Any] = {}
    for name, word in values.items():
        if name not in known:
            raise PlanError(f"a fabric has no '{name}'. {nearest(name, known)}")
        if name in _COUNTS and not (word.isascii() and word.removeprefix("-").isdecimal() and len(word) < 10):
            raise PlanError(f"{name}={word}: write a whole number of {name}.")
        found[name] = int(word) if name in _COUNTS else word
    return dataclasses.replace(base, **found)
