"""Checks of a fabric: what every one must hold, above all that no switch has more links than ports for them."""

import numpy as np

from headway.errors import PlanError
from headway.fabric.fabric import Column, Fabric, Tier
from headway.units import show_rate


def check(fabric: Fabric) -> Fabric:
    """`fabric` itself. Raises PlanError with the first switch, link or GPU that breaks a rule."""
    _check_links(fabric)
    _check_gpus(fabric)
    _check_ports(fabric)
    return fabric


def used_ports(fabric: Fabric) -> Column:
    """[S]: ports that a switch's links take; slower links share a port that is broken out into whole ones.

    A 51.2T chip with 136 × 200G down and 60 × 400G up uses 68 + 60 of its 128 × 400G.
    """
    first, count = fabric.num_gpus, len(fabric.names)
    rates, which = np.unique(fabric.capacity, return_inverse=True)
    used = np.zeros(count, np.int64)
    for number, rate in enumerate(rates):
        chosen = which == number
        ends = np.concatenate([fabric.lower[chosen], fabric.upper[chosen]]) - first
        links = np.bincount(ends[ends >= 0], minlength=count)
        in_one = np.maximum(1, fabric.port_rate // rate)
        used += np.ceil(links / in_one).astype(np.int64)
    return used.astype(np.int32)


def _check_links(fabric: Fabric) -> None:
    steps = fabric.tier[fabric.upper] - fabric.tier[fabric.lower]
    if (steps != 1).any():
        low, up = _ends(fabric, int(np.argmax(steps != 1)))
        raise PlanError(f"a link of {fabric.name} joins {low} and {up}. Links join a tier to the next one up.")
    if not (fabric.capacity > 0).all():
        low, up = _ends(fabric, int(np.argmin(fabric.capacity > 0)))
        raise PlanError(f"the link of {low} and {up} has no capacity. Give it a speed above 0.")
    for ends in (fabric.lower, fabric.upper):
        switch = ends >= fabric.num_gpus
        most = fabric.port_rate[ends[switch] - fabric.num_gpus]
        if (faster := fabric.capacity[switch] > most).any():
            link = int(np.flatnonzero(switch)[np.argmax(faster)])
            low, up = _ends(fabric, link)
            raise PlanError(
                f"the link of {low} and {up} has {show_rate(fabric.capacity[link])}, a port of its switch "
                f"{show_rate(most[np.argmax(faster)])}. Use slower links, or switches with faster ports."
            )


def _check_gpus(fabric: Fabric) -> None:
    joined = np.bincount(fabric.lower, minlength=fabric.num_nodes)[: fabric.num_gpus]
    if not joined.all():
        alone = fabric.node_name(int(np.argmin(joined)))
        raise PlanError(f"{alone} of {fabric.name} is under no ToR. Name a segment that holds it.")


def _check_ports(fabric: Fabric) -> None:
    used = used_ports(fabric)
    if (over := used > fabric.num_ports).any():
        worst = int(np.argmax(used - fabric.num_ports))
        tier = Tier(int(fabric.tier[fabric.num_gpus + worst]))
        remedy = {
            Tier.TOR: "Use fewer hosts in a segment, or fewer links to Aggs",
            Tier.AGG: "Use fewer segments in a pod, or fewer links to cores",
            Tier.CORE: "Use fewer pods, or more cores",
        }[tier]
        raise PlanError(
            f"{fabric.names[worst]} needs {used[worst]} ports of {show_rate(fabric.port_rate[worst])} for its links "
            f"and has {fabric.num_ports[worst]} ({over.sum()} switches of {fabric.name} lack ports). {remedy}."
        )


def _ends(fabric: Fabric, link: int) -> tuple[str, str]:
    return fabric.node_name(int(fabric.lower[link])), fabric.node_name(int(fabric.upper[link]))
