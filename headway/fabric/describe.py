"""Facts about a fabric, each counted in its arrays: tiers, ports, oversubscription, GPUs, paths, what a GPU costs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.fabric.check import used_ports
from headway.fabric.fabric import NONE, Column, Fabric, Flags, Rates, Tier
from headway.fabric.paths import num_paths
from headway.units import BytesPerSecond, show_rate


@dataclass(frozen=True, slots=True)
class Links:
    """So many links of one speed."""

    count: int
    rate: BytesPerSecond

    def __str__(self) -> str:
        return f"{self.count} × {show_rate(self.rate)}"


@dataclass(frozen=True, slots=True)
class TierFacts:
    """One tier of switches.

    `down` and `up`: the links of the switch with the least ports to spare, slowest first; `used_ports` of `num_ports`:
    its ports. `oversubscription`: capacity down over capacity up of the most oversubscribed switch, backup hosts left
    out; None at the top, where nothing goes up.
    """

    tier: Tier
    count: int
    down: tuple[Links, ...]
    up: tuple[Links, ...]
    used_ports: int
    num_ports: int
    port_rate: BytesPerSecond
    oversubscription: float | None


@dataclass(frozen=True, slots=True)
class Facts:
    """What `headway fabric describe` says of a fabric.

    `gpus` are those of active hosts; `per_segment` and `per_pod` those of the largest. `tors_per_segment` and
    `aggs_per_plane` (of one pod) likewise. `planes` are sets of Aggs that share no ToR.
    `paths`: path_search_space, the shortest paths from a NIC port to a GPU of the same rail in another segment of the
    pod (HPN's is 60: Qian et al. 2024, table 1); `paths_of_pods`: to one in another pod. None where there is none.
    `links` and `switches` are over all; of a GPU, over active ones.
    """

    name: str
    gpus_per_host: int
    pods: int
    segments: int
    hosts: int
    backup_hosts: int
    gpus: int
    backup_gpus: int
    hosts_per_segment: int
    backup_hosts_per_segment: int
    gpus_per_segment: int
    backup_gpus_per_segment: int
    gpus_per_pod: int
    rails: int
    planes: int
    tors_per_segment: int
    segments_per_pod: int
    aggs_per_plane: int
    aggs_per_pod: int
    cores_per_plane: int
    nic_ports: tuple[Links, ...]
    paths: int | None
    paths_of_pods: int | None
    links: dict[str, int]
    switches: int
    tiers: tuple[TierFacts, ...]
    assumptions: tuple[str, ...]

    @property
    def links_per_gpu(self) -> float:
        """Links of all tiers over active GPUs."""
        return sum(self.links.values()) / self.gpus

    @property
    def switches_per_gpu(self) -> float:
        """Switches of all tiers over active GPUs."""
        return self.switches / self.gpus

    def tier(self, tier: Tier) -> TierFacts | None:
        """The facts of one tier, if the fabric has it."""
        return next((each for each in self.tiers if each.tier is tier), None)


def describe(fabric: Fabric) -> Facts:
    """The facts of a fabric. Nothing is taken from its name or its shape."""
    count, per_host = fabric.num_gpus, fabric.gpus_per_host
    segment, pod = fabric.segment[:count], fabric.pod[:count]
    active, spare = _largest(segment[~fabric.backup]), _largest(segment[fabric.backup])
    tors, aggs, cores = (fabric.nodes(tier) for tier in (Tier.TOR, Tier.AGG, Tier.CORE))
    other, away = _partners(fabric)
    return Facts(
        name=str(fabric),
        gpus_per_host=per_host,
        pods=len(np.unique(pod)),
        segments=len(np.unique(segment)),
        hosts=int((~fabric.backup).sum()) // per_host,
        backup_hosts=int(fabric.backup.sum()) // per_host,
        gpus=int((~fabric.backup).sum()),
        backup_gpus=int(fabric.backup.sum()),
        hosts_per_segment=active // per_host,
        backup_hosts_per_segment=spare // per_host,
        gpus_per_segment=active,
        backup_gpus_per_segment=spare,
        gpus_per_pod=_largest(pod[~fabric.backup]),
        rails=len(np.unique(fabric.rail[:count])),
        planes=max(1, len(np.unique(fabric.plane[aggs]))),
        tors_per_segment=_largest(fabric.segment[tors]),
        segments_per_pod=max(len(np.unique(segment[pod == each])) for each in np.unique(pod)),
        aggs_per_plane=_largest(fabric.pod[aggs].astype(np.int64) * (1 + len(aggs)) + fabric.plane[aggs]),
        aggs_per_pod=_largest(fabric.pod[aggs]),
        cores_per_plane=_largest(fabric.plane[cores]),
        nic_ports=_links_of(fabric, fabric.lower == _first_active(fabric)),
        paths=None if other is None else num_paths(fabric, _first_active(fabric), 0, other),
        paths_of_pods=None if away is None else num_paths(fabric, _first_active(fabric), 0, away),
        links={tier.name.lower(): len(fabric.links(tier)) for tier in (Tier.GPU, Tier.TOR, Tier.AGG)},
        switches=len(fabric.names),
        tiers=tuple(_tier(fabric, tier) for tier in (Tier.TOR, Tier.AGG, Tier.CORE) if len(fabric.nodes(tier))),
        assumptions=fabric.assumptions,
    )


def document(facts: Facts) -> dict[str, object]:
    """Facts for JSON: counts flat, by the names that others look for; tiers as a list, rates in bits a second."""
    flat = {name: getattr(facts, name) for name in _FLAT}
    counts = {f"{each.label.lower()}s": getattr(facts.tier(each), "count", 0) for each in list(Tier)[1:]}
    over = {each.tier.name.lower(): each.oversubscription for each in facts.tiers}
    return {
        **flat,
        **counts,
        "nic_ports": [_json(each) for each in facts.nic_ports],
        "path_search_space": facts.paths,
        "path_search_space_of_pods": facts.paths_of_pods,
        "oversubscription": over,
        "links": {"gpu_tor": facts.links["gpu"], "tor_agg": facts.links["tor"], "agg_core": facts.links["agg"]},
        "tiers": [
            {
                "tier": each.tier.name.lower(),
                "count": each.count,
                "down": [_json(links) for links in each.down],
                "up": [_json(links) for links in each.up],
                "used_ports": each.used_ports,
                "num_ports": each.num_ports,
                "port_bits_per_second": each.port_rate * 8,
                "oversubscription": each.oversubscription,
            }
            for each in facts.tiers
        ],
        "assumptions": list(facts.assumptions),
    }


_FLAT = (
    *("name", "gpus", "backup_gpus", "gpus_per_host", "gpus_per_segment", "backup_gpus_per_segment", "gpus_per_pod"),
    *("hosts", "backup_hosts", "hosts_per_segment", "backup_hosts_per_segment", "pods", "segments", "segments_per_pod"),
    *("rails", "planes", "tors_per_segment", "aggs_per_plane", "aggs_per_pod", "cores_per_plane"),
    *("switches", "switches_per_gpu", "links_per_gpu"),
)


def oversubscription(fabric: Fabric) -> Rates:
    """[S]: a switch's capacity down, backup hosts left out, over its capacity up; inf where nothing goes up."""
    first, count = fabric.num_gpus, len(fabric.names)
    spare = np.zeros(fabric.num_nodes, bool)
    spare[:first] = fabric.backup
    down = np.bincount(fabric.upper, fabric.capacity * ~spare[fabric.lower], fabric.num_nodes)[first:]
    up = np.bincount(fabric.lower, fabric.capacity, fabric.num_nodes)[first:]
    over: Rates = np.divide(down, up, out=np.full(count, np.inf), where=up > 0)
    return over


def _tier(fabric: Fabric, tier: Tier) -> TierFacts:
    nodes = fabric.nodes(tier)
    switches = nodes - fabric.num_gpus
    used = used_ports(fabric)[switches]
    fullest = int(np.argmax(used - fabric.num_ports[switches]))
    over = oversubscription(fabric)[switches]
    bounded = over[np.isfinite(over)]
    return TierFacts(
        tier=tier,
        count=len(nodes),
        down=_links_of(fabric, fabric.upper == nodes[fullest]),
        up=_links_of(fabric, fabric.lower == nodes[fullest]),
        used_ports=int(used[fullest]),
        num_ports=int(fabric.num_ports[switches[fullest]]),
        port_rate=BytesPerSecond(float(fabric.port_rate[switches[fullest]])),
        oversubscription=float(bounded.max()) if len(bounded) else None,
    )


def _json(links: Links) -> dict[str, float]:
    return {"links": links.count, "bits_per_second": links.rate * 8}


def _links_of(fabric: Fabric, chosen: Flags) -> tuple[Links, ...]:
    rates, counts = np.unique(fabric.capacity[chosen], return_counts=True)
    return tuple(Links(n, BytesPerSecond(rate)) for rate, n in zip(rates.tolist(), counts.tolist(), strict=True))


def _largest(groups: "Column | NDArray[np.int64]") -> int:
    """Members of the group with most, of those that have a number; 0 where none has."""
    return int(np.unique(groups[groups != NONE], return_counts=True)[1].max(initial=0))


def _first_active(fabric: Fabric) -> int:
    return int(np.argmin(fabric.backup))


def _partners(fabric: Fabric) -> tuple[int | None, int | None]:
    """A GPU of the first one's rail in another segment of its pod, and one in another pod."""
    first, count = _first_active(fabric), fabric.num_gpus
    alike = (fabric.rail[:count] == fabric.rail[first]) & ~fabric.backup
    home = fabric.pod[:count] == fabric.pod[first]
    found = [
        np.flatnonzero(alike & home & (fabric.segment[:count] != fabric.segment[first])),
        np.flatnonzero(alike & ~home),
    ]
    other, away = (int(each[0]) if len(each) else None for each in found)
    return other, away
