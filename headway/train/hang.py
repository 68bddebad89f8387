"""The verdict on a job that stands still: from all ranks' positions, who is the cause and who waits for whom."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from headway.errors import PlanError
from headway.plan.plan import Plan
from headway.schedule.action import Action, Kind
from headway.schedule.needs import meetings
from headway.schedule.operation import TOTAL, UPDATE, Operation, parse
from headway.schedule.program import Program

EVALUATION = "evaluation"  # what the turns of an evaluation begin with
MOST_LINES = 32  # ranks of a large job that the text tells of, the cause first
_TOTAL, _UPDATE = (str(Operation(Action(Kind.STEP), part)) for part in (TOTAL, UPDATE))
_WORDS = {
    Kind.FORWARD: "forward",
    Kind.BACKWARD: "backward",
    Kind.INPUT_BACKWARD: "input-backward",
    Kind.WEIGHT_BACKWARD: "weight-backward",
    Kind.SEND_F: "output to the next stage",
    Kind.RECV_F: "input from the stage before",
    Kind.SEND_B: "gradient to the stage before",
    Kind.RECV_B: "gradient from the next stage",
    Kind.REDUCE_GRAD: "reduction of gradients",
    Kind.UNSHARD: "gather of parameters",
    Kind.RESHARD: "release of parameters",
    Kind.BEGIN: "count of the tokens",
    Kind.STEP: "norm, loss and update",
}


@dataclass(frozen=True, slots=True)
class Position:
    """Where a rank was when it last said so; the fields are those of Pulse.

    `age`: seconds without progress then. `limit`: seconds that this may last, None if as long as it takes.
    `beat` counts how often the rank has said where it is; `ended`: it left the job as it should.
    """

    rank: int
    host: str
    pid: int
    turn: int
    what: str
    operation: str
    awaited: str
    peers: tuple[int, ...]
    age: float
    limit: float | None
    beat: int = 0
    ended: bool = False

    @property
    def stuck(self) -> bool:
        """Whether it has stood still for longer than it may."""
        return self.limit is not None and self.age >= self.limit and not self.ended


@dataclass(frozen=True)
class Standstill:
    """The last known positions of a job's ranks; `silent`: rank → seconds without an answer, at least.

    A rank without a position has never joined.
    """

    plan: Plan
    positions: Mapping[int, Position]
    silent: Mapping[int, float] = field(default_factory=dict)

    @cached_property
    def waits(self) -> Mapping[int, tuple[int, ...]]:
        """For each rank the ranks that it waits for: those that have not come to what it does with them."""
        return {rank: self._waits(rank) for rank in range(self.plan.layout.world)}

    @cached_property
    def causes(self) -> tuple[int, ...]:
        """The ranks that hold up the job, in rank order; empty if none does.

        From the ranks that have stood still for too long, follow the waits. Who is found there and waits for nobody
        is a cause if it is silent, absent, gone or too long at one thing itself. Where all that is found waits, it is
        a circle. A rank that saves, or that still makes progress, excuses those that wait for it.
        """
        found: set[int] = set()
        for rank in (r for r, p in self.positions.items() if p.stuck and r not in self.silent):
            reached = self._reached(rank)
            last = [each for each in reached if not self.waits[each]]
            found |= {each for each in last if self._is_to_blame(each)} if last else self._circle(rank)
        return tuple(sorted(found))

    def __str__(self) -> str:
        """The causes in a sentence each, then a line for each rank."""
        causes = self.causes
        circle = [rank for rank in causes if self.waits[rank]]
        lines = [self._cause(rank) for rank in causes if rank not in circle]
        if circle:
            asks = ", ".join(f"rank {r} ({self._awaited(r)}) for {_ranks(self.waits[r])}" for r in circle)
            lines.append(f"{_ranks(circle)} wait for each other in a circle: {asks}.")
        if any(rank in self.positions and rank not in self.silent and rank not in circle for rank in causes):
            limit = max(self.positions[r].limit or 0 for r in causes if r in self.positions)
            lines.append(f"If it only needs longer, raise train.hang_after above {limit:.0f} seconds.")
        near = sorted(self.waits, key=lambda r: (r not in causes, not set(self.waits[r]) & set(causes), r))
        shown = sorted(near[:MOST_LINES])
        lines += [f"  {self._line(rank)}" for rank in shown]
        if len(near) > len(shown):
            lines.append(f"  … and {len(near) - len(shown)} more ranks")
        return "\n".join(lines)

    def _waits(self, rank: int) -> tuple[int, ...]:
        mine = self.positions.get(rank)
        if mine is None or mine.ended or rank in self.silent:
            return ()
        awaited, peers = mine.awaited, mine.peers
        if not awaited and mine.operation == _UPDATE:
            # on an accelerator the processor runs ahead of the sum and first waits where it reads it: in the update
            awaited, peers = _TOTAL, tuple(range(self.plan.layout.world))
        others = [peer for peer in peers if peer != rank]
        missing = tuple(peer for peer in others if not self._has_come(peer, mine, awaited))
        return missing or tuple(peer for peer in others if peer in self.silent)

    def _has_come(self, peer: int, mine: Position, awaited: str) -> bool:
        """Whether `peer` has issued its part of what `mine` waits for."""
        its = self.positions.get(peer)
        if its is None or its.turn != mine.turn:
            return its is not None and its.turn > mine.turn
        here, there = self._row(mine), self._row(its)
        if awaited not in here.places:
            return its.ended or awaited in (its.operation, its.awaited)
        key, place = here.keys[here.places[awaited]], there.places.get(its.operation, -1)
        if key < 0:  # tensor ranks wait for each other inside an operation of the row that they share
            return place > here.places[awaited] or its.awaited == awaited
        return place >= there.meetings.get(key, 0)

    def _reached(self, rank: int) -> list[int]:
        reached, queue = [rank], [rank]
        while queue:
            new = [each for each in self.waits[queue.pop()] if each not in reached]
            reached += new
            queue += new
        return reached

    def _is_to_blame(self, rank: int) -> bool:
        its = self.positions.get(rank)
        if its is None or its.ended or its.stuck:
            return True
        return rank in self.silent and its.limit is not None

    def _circle(self, rank: int) -> set[int]:
        seen = [rank]
        while (after := self.waits[seen[-1]][0]) not in seen:
            seen.append(after)
        return set(seen[seen.index(after) :])

    def _cause(self, rank: int) -> str:
        waiting = [each for each in self.waits if each != rank and rank in self._reached(each)]
        others = f"; {_ranks(waiting)} {'waits' if len(waiting) == 1 else 'wait'} for it" if waiting else ""
        its = self.positions.get(rank)
        if its is None:
            return f"rank {rank} has not joined the job{others}."
        if rank in self.silent:
            silence = (
                f"rank {rank} (process {its.pid} on {its.host}) has not answered for {self.silent[rank]:.1f} s or more"
            )
            return f"{silence}: it was last in {_place(its, its.operation)}{others}."
        if its.ended:
            return f"rank {rank} has left the job{others}."
        if its.awaited:
            peers = [peer for peer in its.peers if peer != rank]
            hosts = " and ".join(dict.fromkeys(self.positions[each].host for each in (rank, *peers)))
            return (
                f"rank {rank} has waited {its.age:.0f} s in {_place(its, its.awaited)}, and {_ranks(peers)} "
                f"{'has' if len(peers) == 1 else 'have'} come to it: look at the network of {hosts}."
            )
        return (
            f"rank {rank} has made no progress for {its.age:.0f} s: it is in {_place(its, its.operation)} "
            f"and waits for nobody{others}."
        )

    def _awaited(self, rank: int) -> str:
        its = self.positions[rank]
        return its.awaited or its.operation

    def _line(self, rank: int) -> str:
        its = self.positions.get(rank)
        if its is None:
            return f"rank {rank}: not there"
        if its.ended:
            return f"rank {rank}: has left the job"
        if rank in self.silent:
            return f"rank {rank}: {its.what} · {its.operation}, silent for {self.silent[rank]:.1f} s or more"
        if not self.waits[rank]:
            return f"rank {rank}: {its.what} · {its.awaited or its.operation} for {its.age:.1f} s"
        asked = "; ".join(f"rank {peer}, {self._standing(peer)}" for peer in self.waits[rank][:2])
        more = f" and {len(self.waits[rank]) - 2} more" if len(self.waits[rank]) > 2 else ""
        return f"rank {rank}: {its.what} · {self._awaited(rank)}, waits {its.age:.1f} s for {asked}{more}"

    def _standing(self, rank: int) -> str:
        its = self.positions.get(rank)
        if its is None:
            return "which is not there"
        if rank in self.silent:
            return f"which does not answer, last in {its.operation}"
        verb = "waits in" if self.waits[rank] else "is in"
        return f"which {verb} {self._awaited(rank)} since {its.age:.1f} s"

    def _row(self, position: Position) -> "_Row":
        evaluates = position.what.startswith(EVALUATION)
        return self._rows[evaluates][self.plan.layout.coord(position.rank)["pipeline"]]

    @cached_property
    def _rows(self) -> tuple[list["_Row"], list["_Row"]]:
        programs = (self.plan.program, self.plan.evaluation_program)
        training, evaluation = ([_Row(p, rank) for rank in range(len(p.rows))] for p in programs)
        return training, evaluation


class _Row:
    """Where a pipeline rank's operations, and what it does together with others, stand in its row."""

    def __init__(self, program: Program, rank: int) -> None:
        row = program.rows[rank]
        self.places = {str(operation): place for place, operation in enumerate(row)}
        self.keys = meetings(row).tolist()
        self.meetings = {key: place for place, key in enumerate(self.keys)}


def _place(position: Position, operation: str) -> str:
    """`step 4 at 1F3 (forward, stage 1, micro-batch 3)`."""
    try:
        action = parse(operation).action
    except PlanError:
        return f"{position.what}: {operation}"  # something around the steps
    words = [_WORDS.get(action.kind, str(action.kind))]
    words += [f"stage {action.stage}"] if action.stage is not None else []
    numbered = "number" if action.kind in {Kind.UNSHARD, Kind.RESHARD} else "micro-batch"
    words += [f"{numbered} {action.microbatch}"] if action.microbatch is not None else []
    return f"{position.what} at {operation} ({', '.join(words)})"


def _ranks(ranks: Collection[int]) -> str:
    found = sorted(ranks)
    shown = ", ".join(map(str, found if len(found) <= 8 else found[:3]))
    return f"rank{'' if len(found) == 1 else 's'} {shown}{f' … ({len(found)})' if len(found) > 8 else ''}"
