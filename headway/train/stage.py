"""The seam: what the executor asks of a rank's stages, and NullStage, which only records (no torch here)."""

from dataclasses import dataclass
from typing import Protocol

from headway.plan.plan import Plan
from headway.plan.work import work
from headway.schedule.action import Action, Kind
from headway.schedule.operation import TOTAL, UPDATE, Operation
from headway.schedule.program import Program
from headway.units import Bytes

_NOTHING = Bytes(0)


class Handle(Protocol):
    """Something under way: where its bytes go (`edge` as in Span), and a wait for its end."""

    @property
    def edge(self) -> str:
        """The edge, empty if nothing is sent."""
        ...

    @property
    def bytes(self) -> Bytes:
        """Size of the message, or of the collective's buffer."""
        ...

    def wait(self) -> None:
        """Return when it has finished; raises JobError if a peer is lost."""
        ...


class Stage(Protocol):
    """The stages that one rank holds. Methods that communicate return at once, with a handle.

    What computes returns when it has finished, with what it has exchanged over the tensor axis meanwhile.
    """

    def begin(self) -> Handle:
        """Count the tokens of the global batch over the data axis."""
        ...

    def forward(self, stage: int, microbatch: int, unit: str) -> Handle:
        """Run a stage (or the one unit named) forward on one micro-batch, keeping what its backward needs."""
        ...

    def backward(self, stage: int, microbatch: int, unit: str) -> Handle:
        """Run a stage (or the one unit named) backward on one micro-batch, adding to the gradients."""
        ...

    def send(self, action: Action) -> Handle:
        """Send what the stage made: its output (SEND_F) or the gradient of its input (SEND_B)."""
        ...

    def receive(self, action: Action) -> Handle:
        """Receive what the stage needs: its input (RECV_F) or the gradient of its output (RECV_B)."""
        ...

    def gather(self, unit: str) -> Handle:
        """Make a unit's parameters whole."""
        ...

    def release(self, unit: str) -> None:
        """Let go of a unit's whole parameters until they are gathered again."""
        ...

    def reduce(self, unit: str) -> Handle:
        """Sum a unit's gradients over the ranks that share it."""
        ...

    def total(self) -> Handle:
        """Sum the squared norm, the loss and the stop flags over all ranks."""
        ...

    def update(self) -> None:
        """Clip by the global norm and step the optimizer."""
        ...


def perform(stage: Stage, operation: Operation) -> Handle:
    """Ask `stage` for one operation: the only place that maps operations to methods."""
    action = operation.action
    handle: Handle = Done()
    match action.kind:
        case Kind.FORWARD:
            handle = stage.forward(_int(action.stage), _int(action.microbatch), operation.part)
        case Kind.BACKWARD:
            handle = stage.backward(_int(action.stage), _int(action.microbatch), operation.part)
        case Kind.SEND_F | Kind.SEND_B:
            handle = stage.send(action)
        case Kind.RECV_F | Kind.RECV_B:
            handle = stage.receive(action)
        case Kind.REDUCE_GRAD:
            handle = stage.reduce(operation.part)
        case Kind.UNSHARD:
            handle = stage.gather(operation.part)
        case Kind.RESHARD:
            stage.release(operation.part)
        case Kind.BEGIN:
            handle = stage.begin()
        case Kind.STEP if operation.part == UPDATE:
            stage.update()
        case Kind.STEP:
            handle = stage.total()
        case _:
            raise NotImplementedError(f"{operation}: the trainer does not play {action.kind} yet")
    return handle


@dataclass(frozen=True, slots=True)
class Done:
    """A handle of something that has happened already."""

    edge: str = ""
    bytes: Bytes = _NOTHING

    def wait(self) -> None:
        """Nothing to wait for."""


@dataclass(frozen=True, slots=True)
class NullStage:
    """Stages that compute nothing and send nothing, but say what would have been sent."""

    plan: Plan
    program: Program
    rank: int

    def begin(self) -> Handle:
        """The edge of the count."""
        return self._done(Operation(Action(Kind.BEGIN)))

    def forward(self, stage: int, microbatch: int, unit: str) -> Handle:
        """The edge of the collectives inside."""
        return self._done(Operation(Action(Kind.FORWARD, stage, microbatch), unit))

    def backward(self, stage: int, microbatch: int, unit: str) -> Handle:
        """The edge of the collectives inside."""
        return self._done(Operation(Action(Kind.BACKWARD, stage, microbatch), unit))

    def send(self, action: Action) -> Handle:
        """The edge of the message."""
        return self._done(Operation(action))

    def receive(self, action: Action) -> Handle:
        """The edge of the message."""
        return self._done(Operation(action))

    def gather(self, unit: str) -> Handle:
        """The edge of the gather."""
        return self._done(Operation(Action(Kind.UNSHARD), unit))

    def release(self, unit: str) -> None:
        """Nothing."""

    def reduce(self, unit: str) -> Handle:
        """The edge of the reduction."""
        return self._done(Operation(Action(Kind.REDUCE_GRAD), unit))

    def total(self) -> Handle:
        """The edge of the packed all-reduce."""
        return self._done(Operation(Action(Kind.STEP), TOTAL))

    def update(self) -> None:
        """Nothing."""

    def _done(self, operation: Operation) -> Done:
        each = work(self.plan, self.program, self.rank, operation)
        return Done(each.edge, each.bytes)


def _int(value: int | None) -> int:
    assert value is not None
    return value
