"""Whether the inside of a node fits the hosts of a fabric: GPUs, ports, speeds, and rails and planes that both tell."""

from collections.abc import Sequence
from dataclasses import dataclass

from headway.errors import PlanError
from headway.fabric.export import host_ports
from headway.fabric.fabric import NONE, Fabric
from headway.fabric.node import Group, Node, Port, groups
from headway.units import show_rate

_MOST_NAMED = 8  # ports or GPUs of a message


@dataclass(frozen=True, slots=True)
class Fit:
    """What was found equal: GPUs of a host, ports near them, and whether rails and planes are told by both."""

    gpus: int
    ports: int
    rails: bool
    planes: bool


@dataclass(frozen=True, slots=True)
class _Socket:
    """What a fabric expects of one port of a card, or what a node's port is."""

    rate: float
    rail: int
    plane: int


def fit(node: Node, fabric: Fabric) -> Fit:
    """What a node and a fabric's hosts have in common. Raises PlanError with the first difference.

    GPU g of a host is the node's GPU with the g-th dev. Its ports are those nearest to it; where GPUs share them, all
    ports of these GPUs are compared with all that the fabric has there. A port that is nearest to no GPU, as of a
    frontend card, is left out.
    """
    found, per_host = groups(node), fabric.gpus_per_host
    if len(node.gpus) != per_host:
        raise PlanError(
            f"{node.name} has {len(node.gpus)} GPUs, a host of {fabric.name} has {per_host}. "
            f"Use a fabric of {len(node.gpus)} GPUs a host, or another node."
        )
    columns = host_ports(fabric)
    index = {gpu.dev: place for place, gpu in enumerate(node.gpus)}
    compared = set()
    for group in found:
        places = [index[gpu.dev] for gpu in group.gpus]
        wanted = [_Socket(float(rate), int(rail), int(plane)) for gpu, rail, plane, rate in columns if gpu in places]
        compared.add(_compare(node, fabric, group, wanted))
    return Fit(per_host, sum(len(group.ports) for group in found), *(all(each) for each in zip(*compared, strict=True)))


def _compare(node: Node, fabric: Fabric, group: Group, wanted: Sequence[_Socket]) -> tuple[bool, bool]:
    """Whether both tell rails, and planes, of a group's ports, which are equal then."""
    where = f"near GPU {_some([str(gpu.dev) for gpu in group.gpus])} of {node.name}"
    if len(group.ports) != len(wanted):
        raise PlanError(
            f"the number of ports {where} is {len(group.ports)} ({_names(group.ports)}), in {fabric.name} it is "
            f"{len(wanted)}. Use a fabric with as many, or another node."
        )
    has, wants = (sorted(each.rate for each in some) for some in (group.ports, wanted))
    if has != wants:
        raise PlanError(
            f"the ports {where} have {_rates(has)} ({_names(group.ports)}), in {fabric.name} {_rates(wants)}. "
            "Use a fabric of this speed, or another node."
        )
    sides = group.ports, wanted
    rails, planes = (all(getattr(each, key) != NONE for some in sides for each in some) for key in ("rail", "plane"))
    told = [sorted((each.rail if rails else NONE, each.plane if planes else NONE) for each in some) for some in sides]
    if told[0] != told[1]:
        raise PlanError(
            f"the ports {where} are on {_places(told[0])} ({_names(group.ports)}), in {fabric.name} on "
            f"{_places(told[1])}. Mend NCCL_IB_HCA (--nccl FILE writes it), or use the fabric of this wiring."
        )
    return rails, planes


def _names(ports: Sequence[Port]) -> str:
    return _some([str(port) for port in ports]) or "none"


def _rates(rates: Sequence[float]) -> str:
    return " + ".join(f"{rates.count(rate)} × {show_rate(rate)}" for rate in dict.fromkeys(rates))


def _places(places: Sequence[tuple[int, int]]) -> str:
    pairs = [zip(("rail", "plane"), each, strict=True) for each in places]
    return _some([" ".join(f"{key} {value}" for key, value in pair if value != NONE) for pair in pairs])


def _some(words: Sequence[str]) -> str:
    """As many as a message can hold."""
    return ", ".join([*words[:_MOST_NAMED], *(["…"] if len(words) > _MOST_NAMED else [])])
