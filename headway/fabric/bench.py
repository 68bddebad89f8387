"""Bench: what a test of collectives would measure on a fabric: seconds, bus bandwidth, and what bounds it."""

from dataclasses import dataclass
from typing import assert_never

import numpy as np

from headway.cluster.presets import of_devices
from headway.cluster.spec import Cluster, Device, spread
from headway.errors import PlanError
from headway.fabric.collectives import Algorithm, Cards, Collective, Group, algorithms, traffic, volume
from headway.fabric.connect import Connecting, connect
from headway.fabric.fabric import Fabric
from headway.fabric.hashing import hashing
from headway.fabric.spray import sprayed
from headway.fabric.traffic import Carried, Traffic, capacities, carry
from headway.fabric.ways import Ways
from headway.units import Bytes, BytesPerSecond, Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A test. `groups` that call `kind` at once with buffers of `size` bytes; `node`: what is inside their hosts."""

    kind: Collective
    groups: tuple[Group, ...]
    size: Bytes
    how: Connecting
    node: Cluster
    shared_seed: bool = False

    def __post_init__(self) -> None:
        if self.size < 1:
            raise PlanError(f"a buffer has {self.size} bytes. Use 1 or more.")
        if all(each.ranks == 1 for each in self.groups):
            raise PlanError("each group has 1 rank, which has nothing to exchange. Use GPUs of several hosts.")


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """One run of `gpus` on so many `hosts` of so many `segments`, by one algorithm.

    `busbw`: bytes that each rank must pass on over `seconds`, as nccl-tests have it; of the slowest group. `network`
    and `inside`: the seconds of each alone, of which the longer one counts; `latency` comes on top. `ideal`: the bus
    bandwidth if packets were sprayed over all paths.
    """

    algorithm: Algorithm
    gpus: int
    hosts: int
    segments: int
    size: Bytes
    seconds: Seconds
    busbw: BytesPerSecond
    network: Seconds
    inside: Seconds
    latency: Seconds
    ideal: BytesPerSecond
    carried: Carried


def measure(ways: Ways, case: Case, seed: int, algorithm: Algorithm | None = None) -> Measured:
    """The case under the hashes and source ports that `seed` gives.

    By `algorithm`, or by the one that `choose` takes.
    """
    return run(ways, case, choose(ways, case, algorithm), seed)


def run(ways: Ways, case: Case, attempt: "Attempt", seed: int) -> Measured:
    """The case by an attempt that was chosen, which no seed changes."""
    sent, fabric = attempt.sent, ways.fabric
    hashes = hashing(fabric, seed, shared=case.shared_seed)
    connected = connect(ways, hashes, sent.source, sent.destination, case.how, seed)
    return finish(fabric, case, attempt, carry(sent, connected, capacities(fabric, ways.alive), case.how.split))


def choose(ways: Ways, case: Case, algorithm: Algorithm | None = None) -> "Attempt":
    """The case by `algorithm`, or as libraries choose, which know the network's speed and not its collisions.

    That is by the one that would take least if packets were sprayed.
    """
    known = algorithms(case.kind)
    if algorithm and algorithm not in known:
        raise PlanError(f"{case.kind} has no algorithm '{algorithm}'. Use {' or '.join(known)}.")
    tries = [_attempt(ways, case, each) for each in ([algorithm] if algorithm else known)]
    return min(tries, key=lambda each: each.seconds(each.sprayed))


def node(fabric: Fabric, device: Device, hosts: Cards) -> Cluster:
    """What is inside these hosts of a fabric with such devices, each with a card as the first host's first GPU has."""
    card = BytesPerSecond(float(fabric.card_rates[hosts[0] * fabric.gpus_per_host]))
    return of_devices(device, nodes=len(hosts), per_node=fabric.gpus_per_host, inside="", network=card)


def finish(fabric: Fabric, case: Case, attempt: "Attempt", carried: Carried) -> Measured:
    """What the attempt comes to where the network carries its traffic so; a bus bandwidth of 0: never done."""
    network = float(carried.seconds.max(initial=0.0))
    moved = volume(case.kind, max(each.ranks for each in case.groups)) * case.size
    taken = [attempt.seconds(each) for each in (network, attempt.sprayed)]
    busbw, ideal = (BytesPerSecond(moved / each if each > 0 else 0.0) for each in taken)
    cards = np.concatenate([each.cards.ravel() for each in case.groups])
    return Measured(
        algorithm=attempt.algorithm,
        gpus=sum(each.ranks for each in case.groups),
        hosts=len(np.unique(cards // fabric.gpus_per_host)),
        segments=len(np.unique(fabric.segment[cards])),
        size=case.size,
        seconds=Seconds(taken[0]),
        busbw=busbw,
        network=Seconds(network),
        inside=Seconds(attempt.inside),
        latency=Seconds(attempt.latency),
        ideal=ideal,
        carried=carried,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """An algorithm, what it sends, and seconds: inside hosts, of latency, and between hosts if packets were sprayed."""

    algorithm: Algorithm
    sent: Traffic
    inside: float
    latency: float
    sprayed: float

    def seconds(self, network: float) -> float:
        """All, where the network takes so long: bytes flow inside and between hosts at once."""
        return self.latency + max(self.inside, network)


def _attempt(ways: Ways, case: Case, algorithm: Algorithm) -> Attempt:
    sent = traffic(ways.fabric, case.groups, case.kind, algorithm, case.size)
    most = max(case.groups, key=lambda each: each.ranks)
    best = float(sprayed(sent, ways).ends.max(initial=0.0))
    return Attempt(algorithm, sent, _inside(case, most, algorithm), _latency(case, most, algorithm), best)


def _inside(case: Case, of: Group, algorithm: Algorithm) -> float:
    """Seconds that the links inside the hosts need; those of several groups are different cards'."""
    link, n, members = case.node.inside, of.ranks, of.ranks / of.hosts
    if members == 1:
        return 0.0
    rate, passed = link.bandwidth, volume(case.kind, n)
    match algorithm:
        case "ring":
            pass
        case "tree":  # a chain inside each host, up and down
            passed = 2.0
        case "hierarchical" if link.in_switch:
            rate = link.in_switch
        case "hierarchical":
            passed = volume(case.kind, round(members))
        case "pairs" if case.kind == "all_to_all":  # what stays inside, and what is handed to the card of another rail
            passed = (members - 1) / n + (n - members) / n * (members - 1) / members
        case "pairs":
            pass
        case _:
            assert_never(algorithm)
    return passed * case.size / rate


def _latency(case: Case, of: Group, algorithm: Algorithm) -> float:
    """Seconds until a message of one byte is through."""
    node, inside = case.node, round(of.ranks / of.hosts)
    around = spread(node, of.ranks, inside)
    match algorithm:
        case "ring":
            return around.call + (2 if case.kind == "all_reduce" else 1) * around.around
        case "tree" | "hierarchical":
            steps = (of.hosts - 1).bit_length() if algorithm == "tree" else of.hosts - 1
            hops = (inside - 1) if algorithm == "tree" else min(1, inside - 1)
            return around.call + 2 * (steps * node.between.latency + hops * node.inside.latency)
        case _:
            return around.call + (node.between.latency if of.hosts > 1 else node.inside.latency)
