"""Exchanges of a plan: which ranks meet, or send to which, by what they meet for."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Literal, get_args

from headway.plan.plan import Plan
from headway.schedule.action import Kind
from headway.schedule.operation import Operation

# tensor ranks; what passes along a pipeline, and its gradients; data ranks; those of a weight of two stages; all ranks
Exchange = Literal["tensor", "forward", "backward", "data", "shared", "world"]
EXCHANGES: tuple[Exchange, ...] = get_args(Exchange)
Ranks = tuple[int, ...]


def of_operation(plan: Plan, operation: Operation) -> Exchange:
    """What the ranks meet for in an operation, if they do."""
    match operation.action.kind:
        case Kind.SEND_F | Kind.RECV_F:
            return "forward"
        case Kind.SEND_B | Kind.RECV_B:
            return "backward"
        case Kind.REDUCE_GRAD | Kind.UNSHARD | Kind.RESHARD:
            return "data" if len(plan.holders(plan.unit(operation.part))) == 1 else "shared"
        case Kind.BEGIN:
            return "data"
        case Kind.STEP:
            return "world"
        case _:
            return "tensor"


def groups(plan: Plan, exchange: Exchange) -> tuple[Ranks, ...]:
    """The groups that meet at once, of two ranks at least; none of a pipeline's messages."""
    match exchange:
        case "tensor" | "data":
            found: Iterable[Ranks] = plan.layout.groups(exchange)
        case "world":
            found = [tuple(range(plan.layout.world))]
        case "shared":
            unit = next((each for each in plan.units if len(plan.holders(each)) > 1), None)
            found = [] if unit is None else dict.fromkeys(plan.group(rank, unit) for rank in _copies(plan, "data"))
        case "forward" | "backward":
            found = []
    return tuple(each for each in found if len(each) > 1)


def messages(plan: Plan, exchange: Exchange) -> tuple[tuple[Ranks, ...], ...]:
    """Pairs of sender and receiver. In each part a rank sends one message at most and receives one: they go at once."""
    if exchange not in {"forward", "backward"}:
        return ()
    parts: list[dict[int, int]] = []
    for source, target in _neighbours(plan, exchange):
        free = [each for each in parts if source not in each and target not in each.values()]
        if not free:
            parts.append({})
            free = parts[-1:]
        free[0][source] = target
    copies = [plan.layout.coord(rank) for rank in _copies(plan)]
    return tuple(
        tuple(
            (plan.layout.rank({**coord, "pipeline": source}), plan.layout.rank({**coord, "pipeline": target}))
            for source, target in part.items()
            for coord in copies
        )
        for part in parts
    )


def _neighbours(plan: Plan, exchange: Exchange) -> Iterator[tuple[int, int]]:
    """Pipeline ranks of neighbouring stages, each pair once, as its messages go."""
    ranks = list(plan.schedule.ranks.values())
    if exchange == "backward":
        ranks.reverse()
    yield from dict.fromkeys(pair for pair in pairwise(ranks) if pair[0] != pair[1])


def _copies(plan: Plan, *but: Literal["data"]) -> Ranks:
    """The ranks at the beginning of each copy of the pipeline; of one for each tensor rank, without the data axis."""
    axes = [axis for axis, _ in plan.layout.sizes if axis != "pipeline" and axis not in but]
    return plan.layout.group(0, *axes)
