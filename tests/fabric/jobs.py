"""Small jobs for tests of faults: one GPU a host and rail unless told otherwise, a collective of 4 GiB."""

from headway.cluster.presets import preset
from headway.fabric import seating
from headway.fabric.bench import Case
from headway.fabric.connect import Connecting
from headway.fabric.topologies import named

BOTH_PORTS = Connecting(connections=2, ports="round_robin", split="equal")
SMALL = "backup_hosts=0 rails=1 gpus_per_host=1"
HPN = f"hpn {SMALL} segments=2 hosts=2 aggs=3 cores=0 core_links=0 core_hash=flow"
DCN = f"dcn+ {SMALL} segments=2 hosts=2 aggs=3 tor_links=1 cores=0 core_links=0"
SINGLE_PLANE = f"{HPN} planes=1"
SINGLE_TOR = f"single-tor {SMALL} segments=2 hosts=2 aggs=3 tor_links=1 cores=0 core_links=0"


def job(text, hosts=None, kind="all_reduce", how=BOTH_PORTS, *, by_rail=True):
    """A fabric, and a case on its first hosts."""
    fabric = named(text)
    count = fabric.num_gpus // fabric.gpus_per_host if hosts is None else hosts
    order = seating.order(fabric, count, "packed", 0)
    groups = seating.groups(fabric, order, count * fabric.gpus_per_host, by_rail=by_rail)
    return fabric, Case(kind=kind, groups=groups, size=4 * 2**30, how=how, node=preset("h800-hpn"))
