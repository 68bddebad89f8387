"""Seconds of an operation on a cluster: what the device computes, and latency plus bytes over bandwidth of links."""

from collections.abc import Iterable

from headway.cluster.spec import Cluster, Link, Ring, ring
from headway.model.exchange import ROUNDS, Call
from headway.model.pieces import Effort
from headway.plan.price import price, waiting
from headway.plan.work import Work
from headway.stack.spec import HEADWAY
from headway.units import Dtype, Seconds


def seconds(work: Work, cluster: Cluster, dtype: Dtype) -> Seconds:
    """How long `work` of Headway takes once it starts: computing, then communicating. No contention."""
    effort = Effort(work.products, work.attention, work.traffic, work.kernels)
    both = (price(cluster.device, work.again, dtype), price(cluster.device, effort, dtype, backward=work.backward))
    taken = sum((float(each.seconds) for each in both), 0.0) + communicating(work, cluster)
    if work.products:
        started = work.kernels + work.again.kernels, len(work.calls)
        taken += waiting(cluster.device, HEADWAY, taken, started, backward=work.backward)
    return Seconds(taken)


def communicating(work: Work, cluster: Cluster) -> Seconds:
    """How long the message or the collectives of `work` take."""
    match way(work, cluster):
        case Link() as link:
            return Seconds(link.call + link.latency + work.bytes / link.bandwidth)
        case Ring() as over:
            return collectives(work.calls, over)
        case None:
            return Seconds(0.0)


def way(work: Work, cluster: Cluster) -> Link | Ring | None:
    """What a message or the collectives of `work` go over; None where nothing is sent."""
    if not work.edge:
        return None
    return cluster.link(*work.group) if "→" in work.edge else ring(cluster, work.group)


def collectives(calls: Iterable[Call], over: Ring) -> Seconds:
    """How long `calls` take one after another.

    Each is a ring: n − 1 messages of 1/n of the buffer to gather or to reduce and scatter, twice as many to reduce for
    all (Thakur et al. 2005, §4), at the rate of the ring's narrowest place.
    """
    n = over.ranks
    if n == 1:
        return Seconds(0.0)
    once = sum(
        over.call + ROUNDS[call.kind] * (over.around + (n - 1) / n * call.bytes / over.bandwidth) for call in calls
    )
    return Seconds(once)
