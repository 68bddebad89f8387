"""A plan played against the clock: the predicted Trace of one training step or one evaluation batch."""

from collections.abc import Sequence

from headway.plan.memory import states
from headway.plan.plan import Plan
from headway.plan.work import Work, work
from headway.schedule import graph
from headway.schedule.action import Kind
from headway.schedule.graph import Graph
from headway.schedule.operation import Program
from headway.sim import cost, engine
from headway.trace import Span, Trace
from headway.units import Bytes, Seconds


def simulate(plan: Plan, program: Program | None = None) -> Trace:
    """The predicted trace of `program` (default: the plan's training step) on all ranks, memory included."""
    program = program or plan.program
    replicas = plan.layout.size("data")
    rows = graph.build(program, replicas=replicas)
    ranks = [plan.layout.rank({"pipeline": r // replicas, "data": r % replicas}) for r in rows.ranks]
    works = _works(plan, program, rows, ranks)
    prices: dict[int, float] = {}
    for each in works:
        if id(each) not in prices:
            prices[id(each)] = cost.seconds(each, plan.cluster, plan.train.precision)
    cores = _cores(plan)
    starts, ends = engine.play(rows, [prices[id(each)] for each in works], cores)
    spans = tuple(
        Span(rank, str(lane), str(op), Seconds(start), Seconds(end), each.edge, each.bytes)
        for rank, lane, op, start, end, each in zip(
            ranks, rows.lanes, rows.operations, starts, ends, works, strict=True
        )
    )
    return Trace("predicted", spans, _peaks(plan, ranks, works, starts, ends))


def _works(plan: Plan, program: Program, rows: Graph, ranks: Sequence[int]) -> list[Work]:
    """Work of each operation. Micro-batches are alike, so one of each kind is asked for and shared."""
    known: dict[tuple[int, int | None, Kind, str], Work] = {}
    found = []
    for rank, op in zip(ranks, rows.operations, strict=True):
        key = (rank, op.action.stage, op.action.kind, op.part)
        if key not in known:
            known[key] = work(plan, program, rank, op)
        found.append(known[key])
    return found


def _cores(plan: Plan) -> engine.Cores | None:
    cluster = plan.cluster
    return engine.Cores(cluster.node, cluster.shared_cores) if cluster.shared_cores else None


def _peaks(
    plan: Plan, ranks: Sequence[int], works: Sequence[Work], starts: Sequence[float], ends: Sequence[float]
) -> dict[int, dict[str, Bytes]]:
    """Rank → category → its peak bytes: states as held, the rest by what starts and ends in time order."""
    changes = []
    for i, (rank, each) in enumerate(zip(ranks, works, strict=True)):
        # at one instant, what ends gives back before what starts takes
        changes += [(ends[i], 0, i, rank, kind, -size) for kind, size in each.gives.items()]
        changes += [(starts[i], 1, i, rank, kind, size) for kind, size in each.takes.items()]
    peaks = {rank: states(plan, rank) for rank in range(plan.layout.world)}
    held: dict[tuple[int, str], int] = {}
    for _, _, _, rank, kind, change in sorted(changes):
        now = held[rank, kind] = held.get((rank, kind), 0) + change
        peaks[rank][kind] = Bytes(max(peaks[rank].get(kind, 0), now))
    return peaks
