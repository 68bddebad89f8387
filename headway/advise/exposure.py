"""Exposure: what of a fabric a job touches and may lose, counted in the fabric's arrays."""

from dataclasses import dataclass

import numpy as np

from headway.errors import PlanError
from headway.fabric import shape
from headway.fabric.check import used_ports
from headway.fabric.fabric import Fabric, Tier
from headway.plan import fabric as fabrics


@dataclass(frozen=True, slots=True)
class Exposure:
    """A job packed on the fewest segments of a fabric.

    `links`: access links of its GPUs. `tors`: ToRs at the other end of those, `homes` of them above each GPU.
    `hosts_under_tor`: hosts of the job that share one ToR, the most.
    """

    fabric: str
    gpus: int
    hosts: int
    segments: int
    links: int
    tors: int
    homes: int
    hosts_under_tor: int


def exposure(fabric: Fabric, gpus: int) -> Exposure:
    """What a job of `gpus` touches. Raises PlanError where the fabric has fewer, or cards of other kinds than known."""
    chosen = _packed(fabric, gpus)
    mine = np.zeros(fabric.num_nodes, bool)
    mine[chosen] = True
    links = mine[fabric.lower] & (fabric.tier[fabric.lower] == Tier.GPU)
    card, tor = fabric.lower[links].astype(np.int64), fabric.upper[links]
    ports = np.bincount(card)[chosen]
    homes = np.bincount(np.unique(np.stack([card, tor]), axis=1)[0])[chosen]
    if (homes != homes[0]).any() or (ports != homes).any() or homes[0] > 2:
        raise PlanError(
            f"{fabric}: a card has {ports.min()} to {ports.max()} links to {homes.min()} to {homes.max()} ToRs. "
            "Failures are counted for cards with one link to one ToR, or one to each of two."
        )
    under = np.unique(np.stack([tor, card // fabric.gpus_per_host]), axis=1)[0]
    return Exposure(
        fabric=str(fabric),
        gpus=gpus,
        hosts=len(np.unique(chosen // fabric.gpus_per_host)),
        segments=len(np.unique(fabric.segment[chosen])),
        links=int(links.sum()),
        tors=len(np.unique(tor)),
        homes=int(homes[0]),
        hosts_under_tor=int(np.bincount(under).max()),
    )


def house(wanted: str, gpus: int) -> Fabric:
    """The fabric that `wanted` names; of a family as many pods as `gpus` take. Raises PlanError for too many."""
    built = fabrics.fabric(wanted)
    room = int((~built.backup).sum())
    if gpus <= room or wanted not in shape.FAMILIES:
        return built
    cores = built.nodes(Tier.CORE) - built.num_gpus
    most = int((built.num_ports[cores] // used_ports(built)[cores]).min()) if len(cores) else 1
    pods = -(-gpus // room)
    if pods > most:
        raise PlanError(
            f"{wanted} has room for {most * room:,} GPUs ({most} pods of {room:,}), but the job takes {gpus:,}. "
            "Use fewer GPUs, or a larger fabric."
        )
    return fabrics.fabric(wanted, sizes={"pods": str(pods)})


def _packed(fabric: Fabric, gpus: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """[gpus]: the first active GPUs of the largest segments, host by host."""
    active = np.flatnonzero(~fabric.backup)
    if not 1 <= gpus <= len(active):
        raise PlanError(
            f"the job takes {gpus:,} GPUs, but {fabric} has {len(active):,}. Use 1 to {len(active):,} GPUs, "
            "or a larger fabric."
        )
    segment = fabric.segment[active]
    size = np.bincount(segment)[segment]
    return active[np.lexsort((active, segment, -size))[:gpus]]
