"""The check of a schedule: every action once and in a possible order, every message paired, and the rows can finish."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from headway.errors import ScheduleError
from headway.schedule import graph
from headway.schedule.action import Action, Kind
from headway.schedule.operation import Program
from headway.schedule.schedule import Schedule

_PAIRS = {Kind.SEND_F: (Kind.RECV_F, 1), Kind.RECV_F: (Kind.SEND_F, -1), Kind.SEND_B: (Kind.RECV_B, -1)}
_PAIRS |= {Kind.RECV_B: (Kind.SEND_B, 1), Kind.EVICT: (Kind.RESTORE, 0), Kind.RESTORE: (Kind.EVICT, 0)}
_MANY = 10_000  # missing actions are counted up to here


def check(schedule: Schedule) -> Schedule:
    """`schedule` itself if it is sound, also when a send completes only with its receive; else a ScheduleError."""
    _each_once(schedule)
    _complete(schedule)
    _pairs(schedule)
    rows = graph.build(Program(schedule))  # what finishes under rendezvous finishes without it, with fewer needs
    done = graph.walk(rows)
    if not all(done):
        raise ScheduleError(f"{schedule.name} cannot finish: its rows wait for each other.\n{rows.explain(done)}")
    return schedule


def _each_once(schedule: Schedule) -> None:
    for rank, row in enumerate(schedule.rows):
        for action, times in Counter(row).items():
            if times > 1 and action.kind is not Kind.USE:  # a weight version may be used again
                raise ScheduleError(f"{schedule.name}: rank {rank} has {action} {times} times; once is right.")
            if action.stage is not None and schedule.ranks[action.stage] != rank:
                raise ScheduleError(
                    f"{schedule.name}: stage {action.stage} sits on rank {schedule.ranks[action.stage]}, "
                    f"but rank {rank} has {action}. Put all actions of a stage into one row."
                )


def _complete(schedule: Schedule) -> None:
    for action in (a for row in schedule.rows for a in row if a.kind is Kind.BACKWARD):
        for kind in (Kind.INPUT_BACKWARD, Kind.WEIGHT_BACKWARD):
            half = Action(kind, action.stage, action.microbatch)
            if half in schedule.actions:
                raise ScheduleError(f"{schedule.name}: {action} and {half}. A backward is full (B) or split (I and W).")
    missing = list(islice(_missing(schedule), _MANY + 1))
    if missing:
        number = f"{len(missing)}" if len(missing) <= _MANY else f"more than {_MANY}"
        raise ScheduleError(
            f"{schedule.name}: {number} actions are missing for {schedule.num_stages} stages and "
            f"{schedule.num_microbatches} micro-batches, the first {missing[0]}. Every stage takes every micro-batch "
            f"forward, and backward if any is: with a full B, or with an I and a W."
        )


def _missing(schedule: Schedule) -> Iterator[Action]:
    """What no row has, stage by stage."""
    actions = schedule.actions
    for stage, index in ((s, i) for s in range(schedule.num_stages) for i in range(schedule.num_microbatches)):
        wanted = [Action(Kind.FORWARD, stage, index)]
        full = Action(Kind.BACKWARD, stage, index)
        if schedule.trains and full not in actions:
            halves = [Action(kind, stage, index) for kind in (Kind.INPUT_BACKWARD, Kind.WEIGHT_BACKWARD)]
            wanted += halves if any(half in actions for half in halves) else [full]
        yield from (action for action in wanted if action not in actions)


def _pairs(schedule: Schedule) -> None:
    for action in (a for row in schedule.rows for a in row):
        if action.kind in _PAIRS:
            kind, step = _PAIRS[action.kind]
            assert action.stage is not None
            other = Action(kind, action.stage + step, action.microbatch)
            if other not in schedule.actions:
                raise ScheduleError(f"{schedule.name}: {action} has no {other} to meet.")
        maker = _maker(schedule, action)
        if maker is not None and maker not in schedule.actions:
            raise ScheduleError(f"{schedule.name}: {action} has no {maker} to follow.")


def _maker(schedule: Schedule, action: Action) -> Action | None:
    """What makes the tensors that an action sends, evicts or reduces."""
    match action.kind:
        case Kind.SEND_F | Kind.EVICT:
            return Action(Kind.FORWARD, action.stage, action.microbatch)
        case Kind.SEND_B:
            assert action.stage is not None
            maker = schedule.backward(action.stage, action.microbatch)
            return maker if maker in schedule.actions else Action(Kind.BACKWARD, action.stage, action.microbatch)
        case Kind.REDUCE_GRAD if not schedule.trains:
            return Action(Kind.BACKWARD, action.stage, 0)
        case _:
            return None
