"""Work: what one operation of one rank does: FLOPs, traffic, bytes to whom, memory taken and given back."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial

from headway.model import exchange, recompute
from headway.model.block import Block
from headway.model.cost import cost
from headway.model.cut import vocabulary
from headway.model.exchange import Call
from headway.model.pieces import Cost, Effort, Pieces, Product, effort, total
from headway.model.recompute import Again
from headway.model.sizes import Sizes
from headway.model.unit import Unit
from headway.plan import stages
from headway.plan.dtypes import Dtypes, dtypes
from headway.plan.meeting import group_edge, meeting, name
from headway.plan.plan import Plan
from headway.schedule.action import SENDS, Action, Kind
from headway.schedule.operation import UPDATE, Operation
from headway.schedule.program import Program
from headway.stack.spec import HEADWAY
from headway.units import Bytes, Dtype, Flops

TOTALS = 4  # numbers in the packed all-reduce of a STEP: squared norm, loss sum, stop flag, tokens
TOTAL_BYTES = Bytes(8 * TOTALS)
COUNT_BYTES = Bytes(8)
_NO_FLOPS, _NO_BYTES = Flops(0), Bytes(0)


@dataclass(frozen=True, slots=True)
class Work:
    """What an operation does.

    `flops` as papers count them; `products`, `attention`, `traffic` and `kernels` are those of an Effort. `again`: what
    a backward computes again before that, of which `flops` counts nothing.
    `edge` as in Span; `group` the ranks that take part in its collectives, `calls` those, one after another; `bytes`
    the size of the message, or of the collectives' buffers together.
    `takes` is allocated when it starts, `gives` freed when it ends, `within` both: category → bytes.
    """

    flops: Flops = _NO_FLOPS
    products: tuple[Product, ...] = ()
    attention: Flops = _NO_FLOPS
    traffic: Bytes = _NO_BYTES
    kernels: int = 0
    backward: bool = False
    again: Effort = field(default_factory=Effort)
    edge: str = ""
    group: tuple[int, ...] = ()
    bytes: Bytes = _NO_BYTES
    calls: tuple[Call, ...] = ()
    takes: dict[str, Bytes] = field(default_factory=dict)
    gives: dict[str, Bytes] = field(default_factory=dict)
    within: dict[str, Bytes] = field(default_factory=dict)


def work(plan: Plan, program: Program, rank: int, operation: Operation) -> Work:
    """What `operation` of `rank` does, as part of `program` (training or evaluation)."""
    action = operation.action
    match action.kind:
        case Kind.FORWARD:
            return _forward(plan, program, rank, operation)
        case Kind.BACKWARD:
            return _backward(plan, program, rank, operation)
        case Kind.SEND_F | Kind.SEND_B | Kind.RECV_F | Kind.RECV_B:
            return _message(plan, rank, operation)
        case Kind.REDUCE_GRAD | Kind.UNSHARD | Kind.RESHARD:
            of_unit = _reduction if action.kind is Kind.REDUCE_GRAD else partial(_gather, action.kind)
            return of_unit(plan, rank, plan.unit(operation.part))
        case Kind.BEGIN:
            return _collectives(meeting(plan, rank, operation), [Call("all_reduce", COUNT_BYTES)])
        case Kind.STEP:
            return _step(plan, program, rank, operation.part)
        case _:
            raise NotImplementedError(f"{operation}: not played yet")


def on_copy(plan: Plan, program: Program, operation: Operation, done: Work, rank: int) -> Work:
    """What `operation` does on another copy of its row, where it is `rank`'s: `done`, among other ranks.

    What a rank updates alone depends on more: on how much it keeps.
    """
    if operation.part == UPDATE:
        return work(plan, program, rank, operation)
    ranks = meeting(plan, rank, operation) if done.edge else ()
    return done if ranks == done.group else replace(done, edge=name(operation, ranks), group=ranks)


def message_bytes(plan: Plan) -> Bytes:
    """Size of the tensor that passes between stages: micro-batch × sequence (or a rank's part of it) × hidden."""
    elements = plan.train.microbatch * (plan.data.sequence_length // sequence_cuts(plan)) * plan.model.hidden
    return Bytes(elements * plan.train.precision.bytes)


def sequence_cuts(plan: Plan) -> int:
    """Into how many parts tensor ranks cut the sequence outside of products and attention."""
    return _sizes(plan).cuts


def unit_cost(plan: Plan, unit: Unit) -> Cost:
    """Cost of a unit on one micro-batch, on one of its tensor ranks, in training."""
    return total(_cost(plan, block) for block in unit.blocks)


def model_flops_per_token(plan: Plan) -> float:
    """FLOPs of forward and backward for one token: matrix products, attention over the full s × s, no recompute.

    Of the whole model: what padding of the vocabulary adds on tensor ranks does not count.
    """
    alone = replace(_sizes(plan), tensor=1, sequence_parallel=False)
    forward = sum(cost(plan.model, block, alone).flops for stage in plan.blocks for block in stage)
    return 3 * forward / (plan.train.microbatch * plan.data.sequence_length)


def _forward(plan: Plan, program: Program, rank: int, operation: Operation) -> Work:
    action, part, model = operation.action, operation.part, plan.model
    names, sizes = program.parts_of(action).computed, _sizes(plan)
    members = [block for unit in _units(plan, operation) for block in unit.blocks]
    if not program.trains:
        sizes, model = replace(sizes, smoothed=False), model.without_dropout
    done = total(cost(model, block, sizes) for block in members)
    takes = {"activations": total(_cost(plan, block) for block in members).saved} if program.trains else {}
    gives: dict[str, Bytes] = {}
    received, sent = _has(program, action, Kind.RECV_F), _has(program, action, Kind.SEND_F)
    if not _passes_on(plan, action, received=received, sent=sent):
        takes |= {"messages": message_bytes(plan)} if sent and part in ("", *names[-1:]) else {}
        # a received input is among the saved tensors from here on
        gives |= {"messages": message_bytes(plan)} if received and part in ("", *names[:1]) else {}
    calls = [call for block in members for call in exchange.forward(model, block, sizes)]
    both = _collectives(meeting(plan, rank, operation), calls)
    return replace(_computing(both, done.flops, done.forward, takes, gives), within=_within(plan, members))


def _backward(plan: Plan, program: Program, rank: int, operation: Operation) -> Work:
    action, part = operation.action, operation.part
    names, sizes = program.parts_of(action).computed, _sizes(plan)
    units = _units(plan, operation)
    members = [block for unit in units for block in unit.blocks]
    done = total(_cost(plan, block) for block in members)
    gives = {"activations": done.saved}
    takes: dict[str, Bytes] = {}
    received, sent = _has(program, action, Kind.RECV_B), _has(program, action, Kind.SEND_B)
    if not _passes_on(plan, action, received=received, sent=sent):
        gives |= {"messages": message_bytes(plan)} if received and part in ("", *names[-1:]) else {}
        takes |= {"messages": message_bytes(plan)} if sent and part in ("", *names[:1]) else {}
    # gradients of which no rank keeps the whole are made whole in a buffer, from the first that adds to them on
    begun = [each.name for each in program.parts_of(action).shared if each.cut_grads and each.users[-1] == part]
    if unreduced := sum(_whole_gradients(plan, plan.unit(name)) for name in begun):
        takes |= {"unreduced": Bytes(unreduced)}
    again = [block for block in members if plan.again(block) == "full"]
    calls = [call for block in again for call in exchange.forward(plan.model, block, sizes)]
    calls += [call for block in members for call in exchange.backward(plan.model, block, sizes)]
    if plan.sequence_parallel:
        last = program.schedule.final.get(_stage(action)) == action
        calls += [call for u in units if last or plan.placed(u).grads.cut for call in _gradients_in_parts(plan, u)]
    both = _collectives(meeting(plan, rank, operation), calls)
    computed = _computing(both, Flops(2 * done.flops), done.backward, takes, gives)
    agains = [_again(plan, block) for block in members]
    held = max((each.held for each in agains), default=0)  # of one layer at a time
    within = _within(plan, members) | ({"recomputed": Bytes(held)} if held else {})
    return replace(computed, backward=True, again=effort(each.effort for each in agains), within=within)


def _computing(exchanged: Work, flops: Flops, effort: Effort, takes: dict[str, Bytes], gives: dict[str, Bytes]) -> Work:
    return replace(
        exchanged,
        flops=flops,
        products=effort.products,
        attention=effort.attention,
        traffic=effort.traffic,
        kernels=effort.kernels,
        takes=takes,
        gives=gives,
    )


def _cost(plan: Plan, block: Block) -> Cost:
    """Cost of a block in training, where what its backward computes again is not kept."""
    return replace(cost(plan.model, block, _sizes(plan)), saved=_again(plan, block).saved)


def _again(plan: Plan, block: Block) -> Again:
    """What the backward of a block computes again."""
    sizes = _sizes(plan)
    pieces = Pieces(plan.model, sizes, HEADWAY)
    return recompute.again(plan.again(block), pieces, cost(plan.model, block, sizes))


def _within(plan: Plan, members: Iterable[Block]) -> dict[str, Bytes]:
    """What an operation holds only while it computes: logits beside what is kept of the loss, or their gradients."""
    if not any(block.kind == "head" for block in members):
        return {}
    sizes = _sizes(plan)
    each = (HEADWAY.loss_peak - HEADWAY.loss_saves) * sizes.dtype.wide.bytes // Dtype.FLOAT32.bytes
    return {"logits": Bytes(sizes.tokens * vocabulary(plan.model, sizes.tensor) * each)}


def _units(plan: Plan, operation: Operation) -> list[Unit]:
    """The computing units that an operation is about."""
    units = plan.units_of_stage(_stage(operation.action))
    return [unit for unit in units if operation.part in ("", unit.name)]


def _passes_on(plan: Plan, action: Action, *, received: bool, sent: bool) -> bool:
    """Whether the stage is empty and sends the very message that it received."""
    return received and sent and not plan.blocks[_stage(action)]


def _message(plan: Plan, rank: int, operation: Operation) -> Work:
    ranks, size = meeting(plan, rank, operation), message_bytes(plan)
    moved, sends = {"messages": size}, operation.action.kind in SENDS
    edge = name(operation, ranks)
    return Work(edge=edge, group=ranks, bytes=size, gives=moved if sends else {}, takes={} if sends else moved)


def _reduction(plan: Plan, rank: int, unit: Unit) -> Work:
    """A unit's gradients summed, whole or each rank's own part.

    In a narrower type they are cast into a buffer, and back: when the total needs them, or at once where no rank keeps
    the whole.
    """
    types, placed, group = dtypes(plan.train), plan.placed(unit), plan.group(rank, unit)
    numel = plan.padded(unit)
    size = Bytes(numel * types.reduced.bytes)
    done = _collectives(group, [Call("reduce_scatter" if placed.optimizer.cut else "all_reduce", size)])
    if not done.edge:
        return done
    gives = {"unreduced": _whole_gradients(plan, unit)} if placed.grads.cut else {}
    if types.reduced == types.grads:
        return replace(done, gives=gives)
    traffic = Bytes(2 * numel * (types.grads.bytes + types.reduced.bytes))
    buffer = {"reductions": size}
    return replace(done, traffic=traffic, kernels=2, takes=buffer, gives=gives | buffer if placed.grads.cut else {})


def _whole_gradients(plan: Plan, unit: Unit) -> Bytes:
    """The buffer in which a unit's gradients are whole until they are reduced."""
    return Bytes(plan.padded(unit) * dtypes(plan.train).grads.bytes)


def _gather(kind: Kind, plan: Plan, rank: int, unit: Unit) -> Work:
    """A unit's parameters gathered from the ranks that have a part each, or the buffer with them given back."""
    whole = Bytes(plan.padded(unit) * plan.train.precision.bytes)
    buffer = {"gathered": whole} if plan.placed(unit).params.cut else {}
    if kind is Kind.RESHARD:
        return Work(gives=buffer)
    return replace(_collectives(plan.group(rank, unit), [Call("all_gather", whole)]), takes=buffer)


def _step(plan: Plan, program: Program, rank: int, part: str) -> Work:
    held = plan.units_of_rank(rank) if program.trains else ()
    owned = [plan.own(rank, unit) for unit in held]
    types = dtypes(plan.train)
    if part == UPDATE:
        numel = sum(own.stop - own.start for own in owned)
        return Work(traffic=Bytes(numel * update_bytes(types)), kernels=(3 if types.master else 2) * len(held))
    # each of the ranks that share a unit squares its share of the gradients
    squared = sum(min(unit.part(plan.num_sharing(unit)), unit.numel) for unit in held)
    every = _collectives(tuple(range(plan.layout.world)), [Call("all_reduce", TOTAL_BYTES)])
    works = [_reduction(plan, rank, unit) for unit in held]
    buffers = sum(each.takes.get("reductions", 0) for each in works if "reductions" not in each.gives)
    gives = {"reductions": Bytes(buffers)} if buffers else {}
    return replace(every, traffic=Bytes(squared * types.grads.bytes), kernels=len(held), gives=gives)


def update_bytes(types: Dtypes) -> int:
    """Traffic of updating a parameter: AdamW reads weight, gradient and both moments, and writes all but the gradient.

    A master weight is then rounded to the parameter.
    """
    updated = types.master or types.params
    moved = 2 * updated.bytes + types.grads.bytes + 4 * types.moments.bytes
    return moved + (updated.bytes + types.params.bytes if types.master else 0)


def _collectives(ranks: tuple[int, ...], calls: list[Call]) -> Work:
    """The work of collectives one after another; among one rank there is nothing to send."""
    if len(ranks) == 1 or not calls:
        return Work()
    return Work(edge=group_edge(ranks), group=ranks, bytes=Bytes(sum(c.bytes for c in calls)), calls=tuple(calls))


def _gradients_in_parts(plan: Plan, unit: Unit) -> list[Call]:
    """The sums of the gradients of which each tensor rank has that of its part of the sequence."""
    sizes = [held.stop - held.start for held, copies in unit.copies if copies > 1]
    return [Call("all_reduce", Bytes(n * dtypes(plan.train).grads.bytes)) for n in sizes if n]


def _sizes(plan: Plan) -> Sizes:
    tensor = plan.layout.size("tensor")
    return stages.sizes(plan.train, plan.data, tensor=tensor, sequence_parallel=plan.sequence_parallel)


def _has(program: Program, action: Action, kind: Kind) -> bool:
    return Action(kind, action.stage, action.microbatch) in program.schedule


def _stage(action: Action) -> int:
    assert action.stage is not None
    return action.stage
