"""The check of a schedule: every action once and in a possible order, every message paired, and the rows can finish."""

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from headway.errors import ScheduleError
from headway.schedule import graph, passes
from headway.schedule.action import NUMBERS, Action, Kind, from_code, pack, unpack
from headway.schedule.program import Program
from headway.schedule.row import Row
from headway.schedule.schedule import Schedule

_HALVES = (Kind.INPUT_BACKWARD, Kind.WEIGHT_BACKWARD)
# what must be there as well: of an action's kind, that of the other with its micro-batch, so many stages on
_PAIRS = {Kind.SEND_F: (Kind.RECV_F, 1), Kind.RECV_F: (Kind.SEND_F, -1), Kind.SEND_B: (Kind.RECV_B, -1)}
_PAIRS |= {Kind.RECV_B: (Kind.SEND_B, 1), Kind.EVICT: (Kind.RESTORE, 0), Kind.RESTORE: (Kind.EVICT, 0)}
_MAKERS = {Kind.SEND_F: (Kind.FORWARD,), Kind.EVICT: (Kind.FORWARD,), Kind.SEND_B: (Kind.BACKWARD, Kind.INPUT_BACKWARD)}
_MANY = 10_000  # missing actions are counted up to here


def check(schedule: Schedule) -> Schedule:
    """`schedule` itself if it is sound, also when a send completes only with its receive; else a ScheduleError."""
    _each_once(schedule)
    _complete(schedule)
    _pairs(schedule)
    _end_with_their_step(schedule)
    rows = graph.build(Program(schedule))
    done = graph.walk(rows, np.zeros(rows.num_events))[1][rows.events] >= 0
    if not done.all():
        raise ScheduleError(
            f"{schedule.name} cannot finish: its rows wait for each other.\n{graph.explain(rows, done)}"
        )
    return schedule


def with_messages(rows: Schedule, finish: Callable[[Schedule], Schedule] = lambda found: found) -> Schedule:
    """The rows with messages, and with what `finish` adds to that, checked: whatever can finish without can finish so.

    Receives are posted ahead of their users, or, where rows of one's own wait for each other then, as tensors are made.
    """
    try:
        return check(finish(passes.add_messages(rows)))
    except ScheduleError:
        return check(finish(passes.add_messages_as_made(check(rows))))


def _end_with_their_step(schedule: Schedule) -> None:
    for rank, row in enumerate(schedule.rows):
        if row.of(Kind.STEP)[:-1].any():
            raise ScheduleError(f"{schedule.name}: rank {rank} goes on behind its STEP. Put that last.")


def _each_once(schedule: Schedule) -> None:
    for rank, row in enumerate(schedule.rows):
        once = np.sort(row.codes[~row.of(Kind.USE)])  # a weight version may be used again
        for code in once[1:][once[1:] == once[:-1]][:1].tolist():
            action, number = from_code(code), int(np.count_nonzero(row.codes == code))
            raise ScheduleError(f"{schedule.name}: rank {rank} has {action} {number} times; once is right.")
        for stage in np.unique(row.stages[row.stages >= 0]).tolist():
            if schedule.ranks[stage] != rank:
                action = row[int(np.flatnonzero(row.stages == stage)[0])]
                raise ScheduleError(
                    f"{schedule.name}: stage {stage} sits on rank {schedule.ranks[stage]}, "
                    f"but rank {rank} has {action}. Put all actions of a stage into one row."
                )


def _complete(schedule: Schedule) -> None:
    every = Row(schedule.codes)
    places = pack(0, every.stages, every.microbatches)
    forward, full, give, weigh = (places[every.of(kind)] for kind in (Kind.FORWARD, Kind.BACKWARD, *_HALVES))
    for half, mine in zip(_HALVES, (give, weigh), strict=True):
        both_ways = np.sort(np.concatenate([full, mine]))
        for place in both_ways[1:][both_ways[1:] == both_ways[:-1]][:1].tolist():
            _, stage, microbatch = unpack(place)
            both = f"{Action(Kind.BACKWARD, stage, microbatch)} and {Action(half, stage, microbatch)}"
            raise ScheduleError(f"{schedule.name}: {both}. A backward is full (B) or split (I and W).")
    wanted, trained = schedule.num_stages * schedule.num_microbatches, len(full) + len(give)
    in_order = list(schedule.ranks) == list(range(schedule.num_stages))  # then as many as wanted are all that are
    halves = np.array_equal(np.sort(give), np.sort(weigh))
    if in_order and halves and len(forward) == wanted and trained == wanted * schedule.trains:
        return
    missing = list(islice(_missing(schedule), _MANY + 1))
    number = f"{len(missing)}" if len(missing) <= _MANY else f"more than {_MANY}"
    raise ScheduleError(
        f"{schedule.name}: {number} actions are missing for {schedule.num_stages} stages and "
        f"{schedule.num_microbatches} micro-batches, the first {missing[0]}. Every stage takes every micro-batch "
        f"forward, and backward if any is: with a full B, or with an I and a W."
    )


def _missing(schedule: Schedule) -> Iterator[Action]:
    """What no row has, stage by stage."""
    for stage, index in ((s, i) for s in range(schedule.num_stages) for i in range(schedule.num_microbatches)):
        wanted = [Action(Kind.FORWARD, stage, index)]
        full = Action(Kind.BACKWARD, stage, index)
        if schedule.trains and full not in schedule:
            halves = [Action(kind, stage, index) for kind in _HALVES]
            wanted += halves if any(half in schedule for half in halves) else [full]
        yield from (action for action in wanted if action not in schedule)


def _pairs(schedule: Schedule) -> None:
    """Every message has its partner, and everything that sends, evicts or reduces has something to."""
    every = Row(schedule.codes)
    for kind, (other, step) in _PAIRS.items():
        action, partner = _alone(schedule, kind, step, other)
        if action:
            raise ScheduleError(f"{schedule.name}: {action} has no {partner} to meet.")
        action, maker = _alone(schedule, kind, 0, *_MAKERS.get(kind, (kind,)))
        if action:
            raise ScheduleError(f"{schedule.name}: {action} has no {maker} to follow.")
    for code in every.codes[every.of(Kind.REDUCE_GRAD)].tolist():
        reduction = from_code(code)
        if reduction.stage not in schedule.final:
            maker = Action(Kind.BACKWARD, reduction.stage, 0)
            raise ScheduleError(f"{schedule.name}: {reduction} has no {maker} to follow.")


def _alone(schedule: Schedule, kind: Kind, step: int, *others: Kind) -> tuple[Action, Action] | tuple[None, None]:
    """The first action of a kind for which no other is `step` stages on with its micro-batch, and the first other."""
    here = schedule.codes[Row(schedule.codes).of(kind)]
    _, stages, microbatches = unpack(here)
    partners = [pack(NUMBERS[other], stages + step, microbatches) for other in others]
    found = np.flatnonzero(~np.any([schedule.has(each) for each in partners], axis=0))
    if not len(found):
        return None, None
    return from_code(int(here[found[0]])), from_code(int(partners[0][found[0]]))
