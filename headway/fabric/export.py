"""What others read of a fabric: its cables as CSV, Slurm's topology.conf, the rails and planes of NCCL's cards."""

from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np

from headway.errors import PlanError
from headway.fabric.fabric import Fabric, Tier
from headway.units import show_rate


def cables(fabric: Fabric) -> Iterator[str]:
    """Lines of a CSV: a header, then both ends of each link with their ports, numbered from 0, and its speed."""
    yield "lower,lower_port,upper,upper_port,speed"
    names = [fabric.node_name(node) for node in range(fabric.num_nodes)]
    rates, which = np.unique(fabric.capacity, return_inverse=True)
    speeds = [show_rate(rate) for rate in rates.tolist()]
    columns = (fabric.lower, fabric.lower_port, fabric.upper, fabric.upper_port, which)
    for low, low_port, up, up_port, speed in zip(*(each.tolist() for each in columns), strict=True):
        yield f"{names[low]},{low_port},{names[up]},{up_port},{speeds[speed]}"


def slurm(fabric: Fabric) -> Iterator[str]:
    """Lines of a topology.conf for topology/tree: a switch for each segment, for each pod and for the cores.

    The tree wants one switch above a node, so the ToRs of a segment are one: what a job is to stay under. Nodes are
    called host0, host1, … Raises PlanError for pods without cores between them.
    """
    hosts: dict[int, list[int]] = defaultdict(list)
    pods: dict[int, set[int]] = defaultdict(set)
    of_host = fabric.segment[: fabric.num_gpus : fabric.gpus_per_host].tolist()
    for host, (segment, pod) in enumerate(zip(of_host, fabric.pod[:: fabric.gpus_per_host].tolist(), strict=False)):
        hosts[segment].append(host)
        pods[pod].add(segment)
    for segment, members in sorted(hosts.items()):
        yield f"SwitchName=segment{segment} Nodes=host{_hostlist(members)}"
    for pod, segments in sorted(pods.items()):
        yield f"SwitchName=pod{pod} Switches=segment{_hostlist(sorted(segments))}"
    if len(pods) > 1:
        if not len(fabric.nodes(Tier.CORE)):
            raise PlanError(f"{fabric.name} has {len(pods)} pods and no cores, which is no tree. Export one by one.")
        yield f"SwitchName=core Switches=pod{_hostlist(sorted(pods))}"


def nccl(fabric: Fabric) -> Iterator[str]:
    """The line of an environment file that tells NCCL the rail and plane of each port of a host's cards.

    `NCCL_IB_HCA==card:port:rail:plane,…`, where cards are mlx5_0, mlx5_1, … in the order of GPUs and ports, each with
    one port, as a driver lists them. Raises PlanError where hosts differ.
    """
    ports = host_ports(fabric)
    cards = (f"mlx5_{card}:1:{rail}:{plane}" for card, (_, rail, plane, _) in enumerate(ports))
    yield f"NCCL_IB_HCA=={','.join(cards)}"


def host_ports(fabric: Fabric) -> list[tuple[int, int, int, float]]:
    """GPU of the host, rail, plane and bytes a second of each port of a host's cards, as all hosts have them.

    Raises PlanError where hosts differ.
    """
    links = fabric.links(Tier.GPU)
    links = links[np.lexsort((fabric.lower_port[links], fabric.lower[links]))]
    gpus, tors = fabric.lower[links], fabric.upper[links]
    ports = np.stack([gpus % fabric.gpus_per_host, fabric.rail[gpus], fabric.plane[tors], fabric.capacity[links]])
    hosts = fabric.num_gpus // fabric.gpus_per_host
    each = ports[:, : len(links) // hosts]
    if each.shape[1] * hosts != len(links) or (ports != np.tile(each, hosts)).any():
        raise PlanError(
            f"the hosts of {fabric.name} differ in rails or planes, or in the speed of their ports, so none stands for "
            "all. Take a part of it."
        )
    return [(int(gpu), int(rail), int(plane), rate) for gpu, rail, plane, rate in each.T.tolist()]


def _hostlist(values: list[int]) -> str:
    """Numbers as Slurm writes them: `3`, `[0-3,8]`."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    texts = [f"{low}" if low == high else f"{low}-{high}" for low, high in runs]
    return texts[0] if len(values) == 1 else f"[{','.join(texts)}]"


KINDS: dict[str, Callable[[Fabric], Iterator[str]]] = {"cables": cables, "slurm": slurm, "nccl": nccl}
