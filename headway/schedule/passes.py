"""Passes: Schedule → Schedule, each adding one thing that the compute rows leave out."""

from headway.schedule.action import COMPUTE, Action, Kind
from headway.schedule.schedule import Row, Schedule


def add_messages(schedule: Schedule) -> Schedule:
    """Sends and receives between neighbouring stages on different ranks.

    A send follows the action that makes its tensor. A receive is posted one compute action ahead of the one that needs
    it, so that it is under way while the rank computes, at the price of one buffer. (Earlier still would cost memory;
    receiving greedily in another order than the sender's is a known cause of deadlock.)
    """

    def with_messages(row: Row) -> Row:
        new: list[Action] = []
        computes = [a for a in row if a.kind in COMPUTE]
        new += [r for a in computes[:1] for r in _receives(schedule, a)]
        ahead = iter([*computes[1:], None])
        for action in row:
            if action.kind in COMPUTE and (following := next(ahead)):
                new += _receives(schedule, following)
            new.append(action)
            new += _sends(schedule, action)
        return tuple(new)

    return Schedule(schedule.name, tuple(map(with_messages, schedule.rows)))


def add_reductions(schedule: Schedule, stages: frozenset[int]) -> Schedule:
    """`REDUCE_GRAD` after the last backward of each of `stages`: those whose gradients other ranks share."""

    def with_reductions(row: Row) -> Row:
        last = {stage: a for a in row if a.kind is Kind.BACKWARD and (stage := a.stage) in stages}.values()
        return tuple(new for a in row for new in ((a, Action(Kind.REDUCE_GRAD, a.stage)) if a in last else (a,)))

    return Schedule(schedule.name, tuple(map(with_reductions, schedule.rows)))


def add_steps(schedule: Schedule) -> Schedule:
    """`STEP` at the end of each row, and `BEGIN` at the start of the one with the last stage, whose loss needs it."""
    last = schedule.ranks[schedule.num_stages - 1]
    begin, step = (Action(Kind.BEGIN),), (Action(Kind.STEP),)
    rows = (((*begin, *row, *step) if rank == last else (*row, *step)) for rank, row in enumerate(schedule.rows))
    return Schedule(schedule.name, tuple(rows))


def _receives(schedule: Schedule, action: Action) -> Row:
    stage, index = action.stage, action.microbatch
    assert stage is not None
    if action.kind is Kind.FORWARD and _apart(schedule, stage - 1, stage):
        return (Action(Kind.RECV_F, stage, index),)
    if action.kind is Kind.BACKWARD and _apart(schedule, stage, stage + 1):
        return (Action(Kind.RECV_B, stage, index),)
    return ()


def _sends(schedule: Schedule, action: Action) -> Row:
    stage, index = action.stage, action.microbatch
    if action.kind is Kind.FORWARD and stage is not None and _apart(schedule, stage, stage + 1):
        return (Action(Kind.SEND_F, stage, index),)
    if action.kind is Kind.BACKWARD and stage is not None and _apart(schedule, stage - 1, stage):
        return (Action(Kind.SEND_B, stage, index),)
    return ()


def _apart(schedule: Schedule, before: int, after: int) -> bool:
    ranks = schedule.ranks
    return before in ranks and after in ranks and ranks[before] != ranks[after]
