"""Passes: Schedule → Schedule, each adding one thing that the compute rows leave out."""

from collections.abc import Iterator, Mapping

from headway.schedule.action import COMPUTE, GIVES_INPUT_GRADIENT, Action, Kind
from headway.schedule.schedule import Row, Schedule

_USERS = COMPUTE - {Kind.WEIGHT_BACKWARD}  # what may need a message: a W only needs its I


def add_messages(schedule: Schedule) -> Schedule:
    """Sends and receives between neighbouring stages on different ranks.

    A send follows the action that makes its tensor. A receive is posted one F, B or I ahead of the one that needs it,
    so that it is under way while the rank computes, at the price of one buffer. (Earlier still would cost memory.) What
    the same rank sent before is received before: another order than the sender's is a known cause of deadlock.
    """
    arrivals = _arrivals(schedule)

    def with_messages(rank: int, row: Row) -> Row:
        new: list[Action] = []
        users = [a for a in row if a.kind in _USERS]
        waiting = {source: dict.fromkeys(queue) for (source, target), queue in arrivals.items() if target == rank}
        new += _posted(schedule, users[0], waiting) if users else ()
        ahead = iter([*users[1:], None])
        for action in row:
            if action.kind in _USERS and (following := next(ahead)):
                new += _posted(schedule, following, waiting)
            new.append(action)
            new += _sends(schedule, action)
        return tuple(new)

    return Schedule(schedule.name, tuple(with_messages(rank, row) for rank, row in enumerate(schedule.rows)))


def add_reductions(schedule: Schedule, stages: frozenset[int]) -> Schedule:
    """`REDUCE_GRAD` after the last B or W of each of `stages`: those whose gradients other ranks share."""
    last = {a for stage, a in schedule.final.items() if stage in stages}

    def with_reductions(row: Row) -> Row:
        return tuple(new for a in row for new in ((a, Action(Kind.REDUCE_GRAD, a.stage)) if a in last else (a,)))

    return Schedule(schedule.name, tuple(map(with_reductions, schedule.rows)))


def add_steps(schedule: Schedule) -> Schedule:
    """`STEP` at the end of each row, and `BEGIN` at the start of the one with the last stage, whose loss needs it."""
    last = schedule.ranks[schedule.num_stages - 1]
    begin, step = (Action(Kind.BEGIN),), (Action(Kind.STEP),)
    rows = (((*begin, *row, *step) if rank == last else (*row, *step)) for rank, row in enumerate(schedule.rows))
    return Schedule(schedule.name, tuple(rows))


def _arrivals(schedule: Schedule) -> dict[tuple[int, int], list[Action]]:
    """(source rank, target rank) → the target's receives, in the order in which the source sends."""
    found: dict[tuple[int, int], list[Action]] = {}
    for source, row in enumerate(schedule.rows):
        for send in (send for action in row for send in _sends(schedule, action)):
            assert send.stage is not None
            kind, stage = (Kind.RECV_F, send.stage + 1) if send.kind is Kind.SEND_F else (Kind.RECV_B, send.stage - 1)
            found.setdefault((source, schedule.ranks[stage]), []).append(Action(kind, stage, send.microbatch))
    return found


def _posted(schedule: Schedule, action: Action, waiting: Mapping[int, dict[Action, None]]) -> Iterator[Action]:
    """The receive that a compute action needs, after those of earlier messages from the same rank."""
    stage, index = action.stage, action.microbatch
    assert stage is not None
    if action.kind is Kind.FORWARD and _apart(schedule, stage - 1, stage):
        receive, source = Action(Kind.RECV_F, stage, index), schedule.ranks[stage - 1]
    elif action.kind in GIVES_INPUT_GRADIENT and _apart(schedule, stage, stage + 1):
        receive, source = Action(Kind.RECV_B, stage, index), schedule.ranks[stage + 1]
    else:
        return
    while receive in waiting[source]:
        first = next(iter(waiting[source]))
        del waiting[source][first]
        yield first


def _sends(schedule: Schedule, action: Action) -> Row:
    stage, index = action.stage, action.microbatch
    if action.kind is Kind.FORWARD and stage is not None and _apart(schedule, stage, stage + 1):
        return (Action(Kind.SEND_F, stage, index),)
    if action.kind in GIVES_INPUT_GRADIENT and stage is not None and _apart(schedule, stage - 1, stage):
        return (Action(Kind.SEND_B, stage, index),)
    return ()


def _apart(schedule: Schedule, before: int, after: int) -> bool:
    ranks = schedule.ranks
    return before in ranks and after in ranks and ranks[before] != ranks[after]
