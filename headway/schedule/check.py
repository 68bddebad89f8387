"""The check of a schedule: every action once and in a possible order, every message paired, and the rows can finish."""

from collections import Counter

from headway.errors import ScheduleError
from headway.schedule import graph
from headway.schedule.action import Action, Kind
from headway.schedule.operation import Program
from headway.schedule.schedule import Schedule

_PAIRS = {Kind.SEND_F: (Kind.RECV_F, 1), Kind.RECV_F: (Kind.SEND_F, -1), Kind.SEND_B: (Kind.RECV_B, -1)}
_PAIRS[Kind.RECV_B] = (Kind.SEND_B, 1)


def check(schedule: Schedule) -> Schedule:
    """`schedule` itself if it is sound, also when a send completes only with its receive; else a ScheduleError."""
    _each_once(schedule)
    _pairs(schedule)
    rows = graph.build(Program(schedule))  # what finishes under rendezvous finishes without it, with fewer needs
    done = graph.walk(rows)
    if not all(done):
        raise ScheduleError(f"{schedule.name} cannot finish: its rows wait for each other.\n{rows.explain(done)}")
    return schedule


def _each_once(schedule: Schedule) -> None:
    for rank, row in enumerate(schedule.rows):
        for action, times in Counter(row).items():
            if times > 1:
                raise ScheduleError(f"{schedule.name}: rank {rank} has {action} {times} times; once is right.")
            if action.stage is not None and schedule.ranks[action.stage] != rank:
                raise ScheduleError(
                    f"{schedule.name}: stage {action.stage} sits on rank {schedule.ranks[action.stage]}, "
                    f"but rank {rank} has {action}. Put all actions of a stage into one row."
                )
    stages, m = range(schedule.num_stages), schedule.num_microbatches
    wanted = {Action(Kind.FORWARD, s, i) for s in stages for i in range(m)}
    if any(a.kind is Kind.BACKWARD for a in schedule.actions):
        wanted |= {Action(Kind.BACKWARD, s, i) for s in stages for i in range(m)}
    missing = sorted(map(str, wanted - schedule.actions))
    if missing:
        raise ScheduleError(
            f"{schedule.name}: {len(missing)} actions are missing for {len(stages)} stages and {m} micro-batches, "
            f"the first {missing[0]}. Every stage takes every micro-batch forward, and backward if any is."
        )


def _pairs(schedule: Schedule) -> None:
    for action in (a for row in schedule.rows for a in row):
        if action.kind in _PAIRS:
            kind, step = _PAIRS[action.kind]
            other = Action(kind, (action.stage or 0) + step, action.microbatch)
            if other not in schedule.actions:
                raise ScheduleError(f"{schedule.name}: {action} has no {other} to meet.")
