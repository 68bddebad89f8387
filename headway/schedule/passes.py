"""Passes: Schedule → Schedule, each adding one thing that the compute rows leave out."""

import numpy as np

from headway.schedule.action import (
    COMPUTE,
    GIVES_INPUT_GRADIENT,
    GIVES_WEIGHT_GRADIENT,
    NEEDS_PARAMETERS,
    NUMBERS,
    Action,
    Kind,
    pack,
)
from headway.schedule.graph import build, walk
from headway.schedule.program import Program
from headway.schedule.row import Column, Row, row
from headway.schedule.schedule import Schedule

_USERS = COMPUTE - {Kind.WEIGHT_BACKWARD}  # what may need a message: a W only needs its I


def add_messages(schedule: Schedule) -> Schedule:
    """Sends and receives between neighbouring stages on different ranks.

    A send follows the action that makes its tensor. A receive is posted one F, B or I ahead of the one that needs it,
    so that it is under way while the rank computes, at the price of one buffer. (Earlier still would cost memory.) What
    the same rank sent before is received before: another order than the sender's is a known cause of deadlock.
    """
    sends = [_sends(schedule, plain) for plain in schedule.rows]
    arrivals: list[list[Column]] = [
        [] for _ in schedule.rows
    ]  # of each rank, one column for each rank that sends to it
    for _, sent, targets in sends:
        for target in np.unique(targets):
            arrivals[target].append(_receives(sent[targets == target]))

    def with_messages(rank: int) -> Row:
        plain, (at, sent, _) = schedule.rows[rank], sends[rank]
        codes = [*arrivals[rank], plain.codes, sent]
        places = [*(_posted(plain, each) * 3 for each in arrivals[rank]), np.arange(len(plain)) * 3 + 1, at * 3 + 2]
        return Row(np.concatenate(codes)[np.argsort(np.concatenate(places), kind="stable")])

    return Schedule(schedule.name, tuple(with_messages(rank) for rank in range(schedule.num_ranks)))


def add_messages_as_made(schedule: Schedule) -> Schedule:
    """Sends and receives as in `add_messages`, but each receive where its tensor is made on free links.

    Rows that can finish without messages can finish with these, whatever the rows are: one order of everything, in
    which what is needed comes first, goes through each of them from left to right. (Posting ahead of the user may put a
    receive before one that has to come first.) The price is that more tensors wait for their user.
    """
    turns = _turns(schedule)
    pieces = [
        [(plain.codes, np.maximum.accumulate(turn) * 3)] for plain, turn in zip(schedule.rows, turns, strict=True)
    ]
    for rank, turn in enumerate(turns):
        at, sent, targets = _sends(schedule, schedule.rows[rank])
        pieces[rank].append((sent, turn[at] * 3 + 1))
        for target in np.unique(targets):
            to_it = targets == target
            pieces[target].append((_receives(sent[to_it]), turn[at[to_it]] * 3 + 2))
    rows = []
    for each in pieces:
        codes, order = (np.concatenate(column) for column in zip(*each, strict=True))
        rows.append(Row(codes[np.argsort(order, kind="stable")]))
    return Schedule(schedule.name, tuple(rows))


def add_reductions(schedule: Schedule, stages: frozenset[int], each: frozenset[int] = frozenset()) -> Schedule:
    """`REDUCE_GRAD` after the last B or W of each of `stages`: those whose gradients other ranks share.

    After every B or W of the stages in `each`, whose gradients no rank keeps whole.
    """
    last = [action.code for stage, action in schedule.final.items() if stage in stages]
    often = np.array(sorted(each), np.int64)

    def with_reductions(plain: Row) -> Row:
        of_each = plain.of(*GIVES_WEIGHT_GRADIENT) & np.isin(plain.stages, often)
        places = np.flatnonzero(np.isin(plain.codes, last) | of_each)
        of = np.where(of_each, plain.microbatches, -1)[places]
        reductions = pack(NUMBERS[Kind.REDUCE_GRAD], plain.stages[places], of)
        return Row(np.insert(plain.codes, places + 1, reductions))

    return Schedule(schedule.name, tuple(map(with_reductions, schedule.rows)))


def add_gathers(schedule: Schedule, once: frozenset[int], each: frozenset[int] = frozenset()) -> Schedule:
    """`UNSHARD` before the first forward of the stages in `once`, whose parameters are then whole until the step ends.

    Of the stages in `each` before every action that needs parameters, and `RESHARD` after it.
    """

    def with_gathers(plain: Row) -> Row:
        needing = plain.of(*NEEDS_PARAMETERS)
        codes, places = [plain.codes], [np.arange(len(plain)) * 3 + 1]
        for stage in sorted(once | each):
            at = np.flatnonzero(needing & (plain.stages == stage))
            numbers = np.arange(len(at))
            if stage in once:
                codes.append(pack(NUMBERS[Kind.UNSHARD], plain.stages[at[:1]], numbers[:1] - 1))
                places.append(at[:1] * 3)
            if stage in each:
                codes += [pack(NUMBERS[kind], plain.stages[at], numbers) for kind in (Kind.UNSHARD, Kind.RESHARD)]
                places += [at * 3, at * 3 + 2]
        return Row(np.concatenate(codes)[np.argsort(np.concatenate(places), kind="stable")])

    return Schedule(schedule.name, tuple(map(with_gathers, schedule.rows)))


def add_steps(schedule: Schedule) -> Schedule:
    """`STEP` at the end of each row, and `BEGIN` at the start of the one with the last stage, whose loss needs it."""
    last = schedule.ranks[schedule.num_stages - 1]
    begin, step = (row([Action(kind)]).codes for kind in (Kind.BEGIN, Kind.STEP))
    rows = [
        [begin, each.codes, step] if rank == last else [each.codes, step] for rank, each in enumerate(schedule.rows)
    ]
    return Schedule(schedule.name, tuple(Row(np.concatenate(parts)) for parts in rows))


def _sends(schedule: Schedule, plain: Row) -> tuple[Column, Column, Column]:
    """What a row sends: the place of the action that makes it, the send's code, and the rank that it goes to."""
    owner = np.full(max(schedule.ranks, default=0) + 3, -1)  # of stage −1 up to one past the last; −1: nobody's
    owner[np.array(list(schedule.ranks), int) + 1] = list(schedule.ranks.values())
    stages, forward = plain.stages, plain.of(Kind.FORWARD)
    target = owner[stages + np.where(forward, 2, 0)]
    at = np.flatnonzero((forward | plain.of(*GIVES_INPUT_GRADIENT)) & (target >= 0) & (target != owner[stages + 1]))
    kinds = np.where(forward[at], NUMBERS[Kind.SEND_F], NUMBERS[Kind.SEND_B])
    return at, pack(kinds, stages[at], plain.microbatches[at]), target[at]


def _turns(schedule: Schedule) -> list[Column]:
    """[n] for each row: the turn of each action if all take as long and links are free. No two have the same.

    What needs another comes behind it.
    """
    graph = build(Program(schedule))
    ends = walk(graph, np.ones(graph.num_events))[1][graph.events]
    turns = np.empty(len(graph), np.int64)
    turns[np.argsort(ends, kind="stable")] = np.arange(len(graph))
    return np.split(turns, np.cumsum([len(each) for each in schedule.rows])[:-1])


def _receives(sends: Column) -> Column:
    """The receives that meet sends, in their order."""
    sent = Row(sends)
    forward = sent.of(Kind.SEND_F)
    kinds = np.where(forward, NUMBERS[Kind.RECV_F], NUMBERS[Kind.RECV_B])
    return pack(kinds, sent.stages + np.where(forward, 1, -1), sent.microbatches)


def _posted(plain: Row, receives: Column) -> Column:
    """The place in the row before which each receive is posted: that of the user ahead of its own; −1: before all.

    No later than any receive behind it in `receives`, which are in the order of their sender.
    """
    users = np.flatnonzero(plain.of(*_USERS))
    got = Row(receives)
    needed = np.where(got.of(Kind.RECV_F), NUMBERS[Kind.FORWARD], NUMBERS[Kind.BACKWARD])
    forward = plain.of(Kind.FORWARD)[users]
    as_full = pack(
        np.where(forward, NUMBERS[Kind.FORWARD], NUMBERS[Kind.BACKWARD]),  # an I needs what a B would
        plain.stages[users],
        plain.microbatches[users],
    )
    order = np.argsort(as_full, kind="stable")
    user = order[np.searchsorted(as_full[order], pack(needed, got.stages, got.microbatches))]
    ahead = np.where(user > 0, users[user - 1], -1)
    return np.minimum.accumulate(ahead[::-1])[::-1]
