"""Work: what one operation of one rank does: FLOPs, traffic, bytes to whom, memory taken and given back."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from headway.model.block import Block
from headway.model.cost import Cost, cost, total
from headway.model.unit import Unit
from headway.plan.dtypes import dtypes
from headway.plan.plan import Plan
from headway.schedule.action import Action, Kind
from headway.schedule.operation import UPDATE, Operation, Program
from headway.units import Bytes, Flops

TOTALS = 4  # numbers in the packed all-reduce of a STEP: squared norm, loss sum, stop flag, tokens
TOTAL_BYTES = Bytes(8 * TOTALS)
COUNT_BYTES = Bytes(8)
_NO_FLOPS, _NO_BYTES = Flops(0), Bytes(0)


@dataclass(frozen=True, slots=True)
class Work:
    """What an operation does.

    `edge` as in Span; `group` the ranks that take part in its collective, `bytes` the size of the message or buffer.
    `takes` is allocated when it starts, `gives` freed when it ends: category → bytes.
    """

    flops: Flops = _NO_FLOPS
    traffic: Bytes = _NO_BYTES
    kernels: int = 0
    edge: str = ""
    group: tuple[int, ...] = ()
    bytes: Bytes = _NO_BYTES
    takes: dict[str, Bytes] = field(default_factory=dict)
    gives: dict[str, Bytes] = field(default_factory=dict)


def work(plan: Plan, program: Program, rank: int, operation: Operation) -> Work:
    """What `operation` of `rank` does, as part of `program` (training or evaluation)."""
    action = operation.action
    match action.kind:
        case Kind.FORWARD:
            return _forward(plan, program, operation)
        case Kind.BACKWARD:
            return _backward(plan, program, operation)
        case Kind.SEND_F | Kind.SEND_B | Kind.RECV_F | Kind.RECV_B:
            return _message(plan, rank, action)
        case Kind.REDUCE_GRAD:
            return _reduction(plan, rank, next(unit for unit in plan.units if unit.name == operation.part))
        case Kind.BEGIN:
            return _collective(plan.layout.group(rank, "data"), COUNT_BYTES)
        case Kind.STEP:
            return _step(plan, program, rank, operation.part)
        case _:
            raise NotImplementedError(f"{operation}: not played yet")


def edge(source: int, target: int) -> str:
    """The edge of a message."""
    return f"{source}→{target}"


def group_edge(ranks: Iterable[int]) -> str:
    """The edge of a collective: its ranks."""
    return f"{{{','.join(map(str, ranks))}}}"


def message_bytes(plan: Plan) -> Bytes:
    """Size of the tensor that passes between stages: micro-batch × sequence × hidden."""
    elements = plan.train.microbatch * plan.data.sequence_length * plan.model.hidden
    return Bytes(elements * plan.train.precision.bytes)


def unit_cost(plan: Plan, unit: Unit) -> Cost:
    """Cost of a unit going forward on one micro-batch."""
    return _sum(plan, unit.blocks)


def model_flops_per_token(plan: Plan) -> float:
    """FLOPs of forward and backward for one token: matrix products, attention over the full s × s, no recompute."""
    forward = sum(_sum(plan, stage).flops for stage in plan.blocks)
    return 3 * forward / (plan.train.microbatch * plan.data.sequence_length)


def _forward(plan: Plan, program: Program, operation: Operation) -> Work:
    action = operation.action
    done = _sum(plan, plan.blocks[_stage(action)], trains=program.trains)
    takes = {"activations": done.saved} if program.trains else {}
    gives: dict[str, Bytes] = {}
    received, sent = _has(program, action, Kind.RECV_F), _has(program, action, Kind.SEND_F)
    if not _passes_on(plan, action, received=received, sent=sent):
        takes |= {"messages": message_bytes(plan)} if sent else {}
        # a received input is among the saved tensors from here on
        gives |= {"messages": message_bytes(plan)} if received else {}
    return Work(done.flops, done.traffic, done.kernels, takes=takes, gives=gives)


def _backward(plan: Plan, program: Program, operation: Operation) -> Work:
    action, part = operation.action, operation.part
    names = program.parts_of(action).computed
    members = [u for u in plan.units_of_stage(_stage(action)) if part in ("", u.name)]
    done = _sum(plan, [block for unit in members for block in unit.blocks])
    gives = {"activations": done.saved}
    takes: dict[str, Bytes] = {}
    received, sent = _has(program, action, Kind.RECV_B), _has(program, action, Kind.SEND_B)
    if not _passes_on(plan, action, received=received, sent=sent):
        gives |= {"messages": message_bytes(plan)} if received and part in ("", *names[-1:]) else {}
        takes |= {"messages": message_bytes(plan)} if sent and part in ("", *names[:1]) else {}
    return Work(Flops(2 * done.flops), Bytes(2 * done.traffic), 2 * done.kernels, takes=takes, gives=gives)


def _passes_on(plan: Plan, action: Action, *, received: bool, sent: bool) -> bool:
    """Whether the stage is empty and sends the very message that it received."""
    return received and sent and not plan.blocks[_stage(action)]


def _message(plan: Plan, rank: int, action: Action) -> Work:
    ranks, coord = plan.schedule.ranks, plan.layout.coord(rank)
    step = 1 if action.kind in {Kind.SEND_F, Kind.RECV_B} else -1
    other = plan.layout.rank({**coord, "pipeline": ranks[_stage(action) + step]})
    size = message_bytes(plan)
    if action.kind in {Kind.SEND_F, Kind.SEND_B}:
        return Work(edge=edge(rank, other), group=(rank, other), bytes=size, gives={"messages": size})
    return Work(edge=edge(other, rank), group=(other, rank), bytes=size, takes={"messages": size})


def _reduction(plan: Plan, rank: int, unit: Unit) -> Work:
    """A unit's gradients summed; in a narrower type they are cast into a buffer, and back when the total needs them."""
    types = dtypes(plan.train)
    done = _collective(plan.group(rank, unit), Bytes(unit.numel * types.reduced.bytes))
    if types.reduced == types.grads or not done.edge:
        return done
    traffic = Bytes(2 * unit.numel * (types.grads.bytes + types.reduced.bytes))
    return replace(done, traffic=traffic, kernels=2, takes={"reductions": done.bytes})


def _step(plan: Plan, program: Program, rank: int, part: str) -> Work:
    held = plan.units_of_rank(rank) if program.trains else ()
    numel, types = sum(unit.numel for unit in held), dtypes(plan.train)
    if part == UPDATE:
        # AdamW reads weight, gradient and both moments, and writes all but the gradient; a master is then rounded
        updated = types.master or types.params
        moved = 2 * updated.bytes + types.grads.bytes + 4 * types.moments.bytes
        rounded = updated.bytes + types.params.bytes if types.master else 0
        return Work(traffic=Bytes(numel * (moved + rounded)), kernels=(3 if types.master else 2) * len(held))
    # each data rank squares its share of the gradients
    traffic = numel * types.grads.bytes // plan.layout.size("data")
    every = _collective(tuple(range(plan.layout.world)), TOTAL_BYTES)
    buffers = sum(_reduction(plan, rank, unit).takes.get("reductions", 0) for unit in held)
    gives = {"reductions": Bytes(buffers)} if buffers else {}
    return replace(every, traffic=Bytes(traffic), kernels=len(held), gives=gives)


def _collective(ranks: tuple[int, ...], size: Bytes) -> Work:
    """A collective's work; among one rank there is nothing to send."""
    return Work(edge=group_edge(ranks), group=ranks, bytes=size) if len(ranks) > 1 else Work()


def _sum(plan: Plan, members: Iterable[Block], *, trains: bool = True) -> Cost:
    train, sequence = plan.train, plan.data.sequence_length
    model = plan.model if trains else plan.model.without_dropout
    return total(cost(model, b, batch=train.microbatch, sequence=sequence, dtype=train.precision) for b in members)


def _has(program: Program, action: Action, kind: Kind) -> bool:
    return Action(kind, action.stage, action.microbatch) in program.schedule


def _stage(action: Action) -> int:
    assert action.stage is not None
    return action.stage
