"""Meeting: which ranks an operation exchanges something with, and the name of the edge between them."""

from collections.abc import Iterable

from headway.plan.plan import Plan
from headway.schedule.action import RECEIVES, SENDS, Kind
from headway.schedule.operation import Operation


def meeting(plan: Plan, rank: int, operation: Operation) -> tuple[int, ...]:
    """The ranks that meet in an operation of `rank`, itself included; of a message, the sender first."""
    action, layout = operation.action, plan.layout
    match action.kind:
        case Kind.SEND_F | Kind.SEND_B | Kind.RECV_F | Kind.RECV_B:
            assert action.stage is not None
            other = action.stage + (1 if action.kind in {Kind.SEND_F, Kind.RECV_B} else -1)
            peer = layout.along(rank, {"pipeline": (plan.schedule.ranks[other],)})[0]
            return (rank, peer) if action.kind in SENDS else (peer, rank)
        case Kind.REDUCE_GRAD | Kind.UNSHARD | Kind.RESHARD:
            return plan.group(rank, plan.unit(operation.part))
        case Kind.BEGIN:
            return layout.group(rank, "data")
        case Kind.STEP:
            return tuple(range(layout.world))
        case _:
            return layout.group(rank, "tensor")


def name(operation: Operation, ranks: tuple[int, ...]) -> str:
    """The edge of an operation in which `ranks` meet."""
    return edge(*ranks) if operation.action.kind in {*SENDS, *RECEIVES} else group_edge(ranks)


def edge(source: int, target: int) -> str:
    """The edge of a message."""
    return f"{source}→{target}"


def group_edge(ranks: Iterable[int]) -> str:
    """The edge of a collective: its ranks."""
    return f"{{{','.join(map(str, ranks))}}}"
