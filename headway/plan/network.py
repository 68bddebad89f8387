"""The fabric of a cluster as a plan keeps it, checked against nodes, network cards and the hosts that a job needs."""

import json
from pathlib import Path
from typing import Any

from headway.cluster.spec import Cluster
from headway.errors import PlanError
from headway.fabric import topologies
from headway.fabric.fabric import Fabric, Tier
from headway.fabric.shape import Shape
from headway.plan import fabric as fabrics

_SAME = 1e-6  # relative: rates of cards that differ by less are the same


def kept(wanted: str, folder: Path = Path()) -> str:
    """The fabric that `wanted` names as a plan keeps it: the text of its shape, or all that a file tells, as JSON."""
    found = fabrics.told(wanted, folder)
    if isinstance(found, Shape):
        return str(found)
    fabrics.built(found, wanted)  # refuses what is no document at all
    return json.dumps(found, ensure_ascii=False)


def name(text: str) -> str:
    """What a fabric that a plan keeps as `text` is called."""
    return str(_document(text).get("name")) if _is_document(text) else text


def loads(text: str) -> Fabric:
    """The fabric that a plan keeps as `text`."""
    return fabrics.built(_document(text), "cluster.fabric") if _is_document(text) else topologies.named(text)


def _is_document(text: str) -> bool:
    return text.startswith("{")


def _document(text: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        raise PlanError("cluster.fabric of the plan is no JSON document. Plan the job again.") from None
    return found


def of_cluster(cluster: Cluster, world: int) -> Fabric:
    """The fabric of a cluster. Raises PlanError where it cannot be between these nodes, or lacks hosts for the job."""
    found = loads(cluster.fabric)
    each = cluster.devices_per_node
    if found.gpus_per_host != each:
        raise PlanError(
            f"cluster.fabric {found} has {found.gpus_per_host} GPUs a host, but {cluster.name} has {each} devices a "
            f"node. Use a fabric with gpus_per_host={each}, or another cluster."
        )
    needed, hosts = -(-world // each), int((~found.backup).sum()) // each
    if needed > hosts:
        raise PlanError(
            f"the layout needs {needed:,} hosts of {each} devices, but cluster.fabric {found} has {hosts:,} active "
            f"ones. {_larger(found, needed, hosts)}"
        )
    _check_cards(cluster, found)
    return found


def _larger(fabric: Fabric, needed: int, hosts: int) -> str:
    """What would help where there are too few hosts."""
    pods = int(fabric.pod.max()) + 1
    if not fabrics.is_shape(str(fabric)) or not (fabric.tier == Tier.CORE).any():
        return "Use smaller axes or a larger fabric."
    name = " ".join(word for word in str(fabric).split() if not word.startswith("pods="))
    return f"Use smaller axes, or more pods: {name} pods={-(-needed * pods // hosts)}."


def _check_cards(cluster: Cluster, fabric: Fabric) -> None:
    """Refuse network cards that are not those of the cluster."""
    rates, card = fabric.card_rates, cluster.between
    least, most = float(rates.min()), float(rates.max())
    if card.line and not card.line * (1 - _SAME) <= least <= most <= card.line * (1 + _SAME):
        raise PlanError(
            f"the network cards of {cluster.name} have {_gigabits(card.line)} (cluster.between.line), but the ports of "
            f"a card of {fabric} have {_gigabits(least)} together. Use a fabric with another nic_speed or nic_ports, "
            "or another cluster."
        )
    if card.bandwidth > least:
        raise PlanError(
            f"collectives reach {_gigabits(card.bandwidth)} of a network card of {cluster.name} "
            f"(cluster.between.bandwidth), but the ports of a card of {fabric} have {_gigabits(least)} together. Use a "
            "fabric with a higher nic_speed, or another cluster."
        )


def _gigabits(rate: float) -> str:
    return f"{rate * 8e-9:g} Gbps"
