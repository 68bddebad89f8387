"""Seconds of an operation on a cluster: products, traffic and kernel launches; latency plus bytes over bandwidth."""

from headway.cluster.spec import Cluster
from headway.plan.work import Work
from headway.units import Dtype, Seconds


def seconds(work: Work, cluster: Cluster, dtype: Dtype) -> Seconds:
    """How long `work` takes once it starts: computing, then communicating.

    A collective is a ring over its slowest link class:
    2(n − 1) messages of 1/n of the buffer (Thakur et al. 2005, §4). No contention.
    """
    computing = cluster.device.computing(work.flops, work.traffic, work.kernels, dtype)
    if not work.edge:
        return Seconds(computing)
    link, n = cluster.link(*work.group), len(work.group)
    if "→" in work.edge:
        return Seconds(computing + link.latency + work.bytes / link.bandwidth)
    return Seconds(computing + 2 * (n - 1) * (link.latency + work.bytes / n / link.bandwidth))
