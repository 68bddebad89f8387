"""The only statement of dependency: what an operation needs finished, and whom it meets."""

from collections.abc import Iterator

from headway.schedule.action import Action, Kind
from headway.schedule.operation import TOTAL, UPDATE, Operation, Program

UNSENT = 2  # messages of one stage and direction that may be under way before the stage makes another


def needs(program: Program, rank: int, operation: Operation) -> tuple[Operation, ...]:
    """Operations, on any rank, that must be finished before `operation` of pipeline rank `rank` starts.

    Operations without a stage (BEGIN, STEP) are those of the same rank.
    """
    return tuple(dict.fromkeys(_needs(program, rank, operation)))


def meeting(operation: Operation) -> tuple[str, ...] | None:
    """The key that operations on different ranks share when they can only run together; None for the others.

    A send meets its receive; a collective meets its members.
    """
    action, stage = operation.action, operation.action.stage
    match action.kind:
        case Kind.SEND_F | Kind.RECV_F:
            sender = (stage or 0) - (action.kind is Kind.RECV_F)
            return ("F", str(sender), str(action.microbatch))
        case Kind.SEND_B | Kind.RECV_B:
            sender = (stage or 0) + (action.kind is Kind.RECV_B)
            return ("B", str(sender), str(action.microbatch))
        case Kind.REDUCE_GRAD:
            return ("REDUCE_GRAD", operation.part or str(stage))
        case Kind.BEGIN:
            return ("BEGIN",)
        case Kind.STEP if operation.part == TOTAL:
            return ("STEP",)
        case _:
            return None


def is_message(operation: Operation) -> bool:
    """Whether the operation sends to or receives from one other rank."""
    return operation.action.kind in {Kind.SEND_F, Kind.RECV_F, Kind.SEND_B, Kind.RECV_B}


def _needs(program: Program, rank: int, operation: Operation) -> Iterator[Operation]:
    action = operation.action
    stage, index = action.stage, action.microbatch
    match action.kind:
        case Kind.BEGIN | Kind.UNSHARD | Kind.RESHARD | Kind.USE:
            pass
        case Kind.RESTORE:
            yield Operation(Action(Kind.EVICT, stage, index))
        case Kind.STEP if operation.part == UPDATE:
            yield Operation(action, TOTAL)
        case Kind.STEP:
            row = program.rows[rank]
            yield from (op for op in row if op.action.kind in {Kind.BEGIN, Kind.REDUCE_GRAD})
        case Kind.REDUCE_GRAD:
            assert stage is not None
            after = next((unit for name, unit, _ in program.parts_of(action).reduced if name == operation.part), "")
            yield Operation(program.schedule.final[stage], after)
        case Kind.SEND_F | Kind.EVICT:
            yield Operation(Action(Kind.FORWARD, stage, index))
        case Kind.SEND_B:
            assert stage is not None
            yield program.last(program.schedule.backward(stage, index))
        case Kind.RECV_F | Kind.RECV_B:
            assert stage is not None
            forward = action.kind is Kind.RECV_F
            send, sender = (Kind.SEND_F, stage - 1) if forward else (Kind.SEND_B, stage + 1)
            yield Operation(Action(send, sender, index))
        case Kind.FORWARD:
            yield from _forward(program, action)
        case Kind.BACKWARD | Kind.INPUT_BACKWARD | Kind.WEIGHT_BACKWARD:
            yield from _backward(program, operation)


def _forward(program: Program, action: Action) -> Iterator[Operation]:
    actions, stage, index = program.schedule.actions, action.stage, action.microbatch
    assert stage is not None
    received, before = Action(Kind.RECV_F, stage, index), Action(Kind.FORWARD, stage - 1, index)
    yield from (Operation(a) for a in [received if received in actions else before] if a in actions)
    yield from _room(program, action, Kind.SEND_F)
    if action in program.schedule.room:
        yield Operation(program.schedule.room[action])


def _backward(program: Program, operation: Operation) -> Iterator[Operation]:
    action, actions = operation.action, program.schedule.actions
    stage, index = action.stage, action.microbatch
    assert stage is not None
    computed = program.parts_of(action).computed
    if operation.part and operation.part != computed[-1]:
        yield Operation(action, computed[computed.index(operation.part) + 1])
        return
    if action.kind is Kind.WEIGHT_BACKWARD:
        yield Operation(Action(Kind.INPUT_BACKWARD, stage, index))
        return
    yield Operation(Action(Kind.FORWARD, stage, index))
    restored = Action(Kind.RESTORE, stage, index)
    if restored in actions:
        yield Operation(restored)
    received, after = Action(Kind.RECV_B, stage, index), program.schedule.backward(stage + 1, index)
    if received in actions:
        yield Operation(received)
    elif after in actions:
        yield program.last(after)
    elif any(a.kind is Kind.BEGIN for a in program.schedule.rows[program.schedule.ranks[stage]]):
        yield Operation(Action(Kind.BEGIN))
    yield from _room(program, action, Kind.SEND_B)


def _room(program: Program, action: Action, send: Kind) -> Iterator[Operation]:
    """The message that must have left before the stage makes another, so that unsent ones do not pile up in memory."""
    stage = action.stage
    assert stage is not None
    made, index = program.schedule.made[stage, send], action.microbatch
    assert index is not None
    place = program.schedule.place[stage, send, index] - UNSENT
    if place >= 0 and Action(send, stage, made[place]) in program.schedule.actions:
        yield Operation(Action(send, stage, made[place]))
