"""What the ranks that share weights move in a step to gather and reduce them, against plain data parallelism."""

from collections import Counter
from dataclasses import dataclass

from headway.model.exchange import Call, passed_on
from headway.plan.dtypes import dtypes
from headway.plan.plan import Plan
from headway.plan.work import work
from headway.schedule.action import Action, Kind
from headway.schedule.operation import Operation
from headway.units import Bytes, show_bytes


@dataclass(frozen=True, slots=True)
class Sharing:
    """Of the rank that moves most in a step: its `gathers` and `reductions`, the bytes that it sends for them.

    `plain`: what it would send if nothing were cut.
    """

    rank: int
    gathers: int
    reductions: int
    sent: Bytes
    plain: Bytes


def sharing(plan: Plan) -> Sharing | None:
    """None where no rank shares weights with another.

    Rings: (n − 1)/n of a buffer to gather it, or to reduce and scatter it.
    """
    first = [plan.layout.rank({"pipeline": pipeline}) for pipeline in range(plan.layout.size("pipeline"))]
    found = [each for each in (_of(plan, rank) for rank in first) if each.reductions]
    return max(found, key=lambda each: each.sent) if found else None


def sharing_text(plan: Plan) -> str:
    """What is cut and what that costs, in a line; empty where no rank shares weights and nothing was to be cut.

    Where `parallel.zero` asks for a cut and there is none it says why.
    """
    found = sharing(plan)
    kinds = [name for name in ("params", "grads", "optimizer") if getattr(plan.placement, name).cut]
    if found is None:
        return f"nothing cut: {_why_whole(plan)}" if kinds else ""
    sends = f"{found.reductions} reductions a step send {show_bytes(found.sent)} a rank"
    units = [plan.placed(unit) for unit in plan.units if unit.numel]
    cut = [placed for placed in units if placed.cuts]
    if not cut:
        return f"nothing cut{f' ({_why_whole(plan)})' if kinds else ''}: {sends}"
    over = f"cut over {plan.layout.size('data')} data ranks"
    whole = f", {len(units) - len(cut)} of {len(units)} units whole" if len(cut) < len(units) else ""
    times = found.sent / found.plain
    much = f"{times:.2g}" if times < 10 else f"{times:,.0f}"
    return (
        f"{', '.join(kinds)} {over}{whole}: {found.gathers} gathers and {sends}, {much} × as much as with nothing cut"
    )


def _why_whole(plan: Plan) -> str:
    if plan.layout.size("data") == 1:
        return "parallel.zero cuts over the data ranks, of which there is 1"
    return f"every unit has fewer bytes than parallel.whole_below {show_bytes(plan.whole_below)}"


def _of(plan: Plan, rank: int) -> Sharing:
    row = plan.program.rows[plan.layout.coord(rank)["pipeline"]]
    # those of a unit move the same each time
    moving = Counter((op.action.kind, op.part) for op in row[row.of(Kind.UNSHARD, Kind.REDUCE_GRAD).nonzero()[0]])
    sent = 0.0
    for (kind, unit), times in moving.items():
        done = work(plan, plan.program, rank, Operation(Action(kind), unit))
        sent += times * sum(_sent(call, len(done.group)) for call in done.calls)
    size = dtypes(plan.train).reduced.bytes
    whole = [(Call("all_reduce", Bytes(u.numel * size)), plan.num_sharing(u)) for u in plan.units_of_rank(rank)]
    plain = sum(_sent(call, ranks) for call, ranks in whole)
    gathers = sum(times for (kind, _), times in moving.items() if kind is Kind.UNSHARD)
    return Sharing(rank, gathers, moving.total() - gathers, Bytes(round(sent)), Bytes(round(plain)))


def _sent(call: Call, ranks: int) -> float:
    return passed_on(call.kind, ranks) * call.bytes
