"""Fabric: GPUs, switches and links of a training network as columns of numbers."""

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int32]
Rates = NDArray[np.float64]
Flags = NDArray[np.bool_]
NONE = -1  # in a column: a node that has no such thing


class Tier(IntEnum):
    """How far up a node stands. A GPU stands for its network card, whose ports its links are."""

    GPU = 0
    TOR = 1
    AGG = 2
    CORE = 3

    @property
    def label(self) -> str:
        """Its name in tables."""
        return ("GPU", "ToR", "Agg", "core")[self]


@dataclass(frozen=True, eq=False)
class Fabric:
    """A network: N nodes, first the G GPUs host by host, then S switches; L links, each from a tier to the next one up.

    Of nodes, [N]: `tier`; `pod`, `segment`, `rail` and `plane` (−1 where a node belongs to none or to several; segments
    are numbered over all pods, planes and rails anew in each). Of GPUs, [G]: `backup`, whether its host is a spare.
    Of switches, [S]: `names`, `num_ports` and `port_rate`, the bytes a second of a port, which may be broken out into
    slower ones. Of links, [L]: the nodes `lower` and `upper`, and `capacity`, bytes a second of each direction.

    Links of a node are its ports, in the order in which they stand here: link k of a GPU is port k of its card.
    `per_port_core`: cores send what comes in at one port for a pod out at one port, whatever the flow (HPN §7).
    `assumptions`: sentences about what no source says. `name` is, of a family, its text (topologies.parse reads it).
    """

    name: str
    gpus_per_host: int
    tier: Column
    pod: Column
    segment: Column
    rail: Column
    plane: Column
    backup: Flags
    names: tuple[str, ...]
    num_ports: Column
    port_rate: Rates
    lower: Column
    upper: Column
    capacity: Rates
    per_port_core: bool = False
    assumptions: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name

    @property
    def num_gpus(self) -> int:
        """GPUs, those of backup hosts included."""
        return len(self.backup)

    @property
    def num_nodes(self) -> int:
        """GPUs and switches."""
        return len(self.tier)

    @property
    def num_links(self) -> int:
        """Links, each with two directions."""
        return len(self.lower)

    def node_name(self, node: int) -> str:
        """The name of a node: a switch's own, or `host-3/gpu-5`."""
        if node >= self.num_gpus:
            return self.names[node - self.num_gpus]
        return "host-{}/gpu-{}".format(*divmod(node, self.gpus_per_host))

    def nodes(self, tier: Tier) -> Column:
        """[n]: the nodes of a tier."""
        return np.flatnonzero(self.tier == tier).astype(np.int32)

    def links(self, tier: Tier) -> Column:
        """[n]: the links that go up from a tier."""
        return np.flatnonzero(self.tier[self.lower] == tier).astype(np.int32)

    @cached_property
    def card_rates(self) -> Rates:
        """[G]: bytes a second of all ports of each GPU's network card."""
        access = self.links(Tier.GPU)
        return np.bincount(self.lower[access], self.capacity[access], self.num_gpus).astype(float)

    @cached_property
    def lower_port(self) -> Column:
        """[L]: which of its lower node's ports each link takes; a switch counts its links down first."""
        down = np.bincount(self.upper, minlength=self.num_nodes)
        return (_rank_among_equals(self.lower) + down[self.lower]).astype(np.int32)

    @cached_property
    def upper_port(self) -> Column:
        """[L]: which of its upper node's ports each link takes."""
        return _rank_among_equals(self.upper)


def _rank_among_equals(values: Column) -> Column:
    """[n]: how many of the values before it equal each one.

    >>> _rank_among_equals(np.array([7, 3, 7, 7, 3], np.int32)).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = np.searchsorted(ordered, ordered)
    ranks = np.empty(len(values), np.int32)
    ranks[order] = np.arange(len(values)) - first
    return ranks
