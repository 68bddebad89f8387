"""A plan played against the clock: the predicted Trace of one training step or one evaluation batch."""

from collections.abc import Sequence

from headway.plan.memory import states
from headway.plan.plan import Plan
from headway.plan.work import Work, work
from headway.schedule import graph
from headway.schedule.action import Kind
from headway.schedule.operation import Operation, Program
from headway.sim import cost, engine
from headway.trace import Span, Trace
from headway.units import Bytes, Seconds

Key = tuple[int | None, Kind, str]  # what tells operations of one rank apart, micro-batches being alike


def simulate(plan: Plan, program: Program | None = None) -> Trace:
    """The predicted trace of `program` (default: the plan's training step) on all ranks, memory included.

    Data replicas that share nothing and have links alike do the same at the same time: then one is played for all.
    """
    program = program or plan.program
    works = _works(plan, program)
    prices = {
        rank: {key: cost.seconds(each, plan.cluster, plan.train.precision) for key, each in keys.items()}
        for rank, keys in works.items()
    }
    replicas = plan.layout.size("data")
    played = 1 if _alike(plan, prices) else replicas
    rows = graph.build(program, replicas=played)
    ranks = [plan.layout.rank({"pipeline": r // played, "data": r % played}) for r in rows.ranks]
    keys = [_key(op) for op in rows.operations]
    cores = engine.Cores(plan.cluster.node, plan.cluster.shared_cores) if plan.cluster.shared_cores else None
    seconds = [prices[rank][key] for rank, key in zip(ranks, keys, strict=True)]
    starts, ends = engine.play(rows, seconds, cores)
    names, lanes = [str(op) for op in rows.operations], [str(lane) for lane in rows.lanes]
    spans: list[Span] = []
    peaks: dict[int, dict[str, Bytes]] = {}
    for copy in range(replicas // played):
        stride = plan.layout.rank({"data": copy})
        own = [rank + stride for rank in ranks]
        done = [works[rank][key] for rank, key in zip(own, keys, strict=True)]
        spans += [
            Span(rank, lane, name, Seconds(start), Seconds(end), each.edge, each.bytes)
            for rank, lane, name, start, end, each in zip(own, lanes, names, starts, ends, done, strict=True)
        ]
        peaks |= _peaks(plan, own, done, starts, ends)
    return Trace("predicted", tuple(spans), dict(sorted(peaks.items())))


def _works(plan: Plan, program: Program) -> dict[int, dict[Key, Work]]:
    """Rank → what each of its operations does."""
    one_of_each = [{_key(op): op for op in row} for row in program.rows]
    return {
        rank: {
            key: work(plan, program, rank, op) for key, op in one_of_each[plan.layout.coord(rank)["pipeline"]].items()
        }
        for rank in range(plan.layout.world)
    }


def _key(operation: Operation) -> Key:
    return (operation.action.stage, operation.action.kind, operation.part)


def _alike(plan: Plan, prices: dict[int, dict[Key, Seconds]]) -> bool:
    """Whether all data replicas of each pipeline rank take the same time for everything, and share no cores."""
    if plan.cluster.shared_cores:
        return False
    first = {plan.layout.coord(rank)["pipeline"]: own for rank, own in reversed(prices.items())}
    return all(own == first[plan.layout.coord(rank)["pipeline"]] for rank, own in prices.items())


def _peaks(
    plan: Plan, ranks: Sequence[int], works: Sequence[Work], starts: Sequence[float], ends: Sequence[float]
) -> dict[int, dict[str, Bytes]]:
    """Rank → category → its peak bytes: states as held, the rest by what starts and ends in time order."""
    changes = []
    for i, (rank, each) in enumerate(zip(ranks, works, strict=True)):
        # at one instant, what ends gives back before what starts takes
        changes += [(ends[i], 0, i, rank, kind, -size) for kind, size in each.gives.items()]
        changes += [(starts[i], 1, i, rank, kind, size) for kind, size in each.takes.items()]
    peaks = {rank: states(plan, rank) for rank in set(ranks)}
    held: dict[tuple[int, str], int] = {}
    for _, _, _, rank, kind, change in sorted(changes):
        now = held[rank, kind] = held.get((rank, kind), 0) + change
        peaks[rank][kind] = Bytes(max(peaks[rank].get(kind, 0), now))
    return peaks
