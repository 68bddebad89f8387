"""Communication: the only place that calls torch.distributed; every handle says where its bytes go."""

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from headway.env import Worker
from headway.errors import JobError
from headway.plan.plan import Plan
from headway.plan.work import edge, group_edge
from headway.train import device as devices
from headway.units import Bytes


class PeerLostError(JobError):
    """A message or collective failed because a rank at its other end is gone."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """A handle of a message or collective. Its tensor belongs to it until `wait` returns."""

    edge: str
    bytes: Bytes
    pending: dist.Work | None  # None where there is nobody to talk to

    def wait(self) -> None:
        """Return when it has finished; PeerLostError if it cannot."""
        if self.pending is not None:
            try:
                self.pending.wait()
            except RuntimeError as error:
                raise PeerLostError(f"{self.edge} failed: {_first_line(error)}") from error


class Comm:
    """The process groups that one rank belongs to, made once."""

    def __init__(self, plan: Plan, rank: int) -> None:
        self.rank = rank
        layout = plan.layout
        self._groups: dict[tuple[int, ...], Any] = {tuple(range(layout.world)): dist.group.WORLD}
        # torch names such a group after its ranks and after how many groups this rank has made: members must agree
        # on both, so what all ranks make comes first, and what only some make last.
        wanted = [layout.group(rank, "pipeline"), layout.group(rank, "data")]
        wanted += [plan.group(rank, unit) for unit in plan.units_of_rank(rank)]
        for ranks in wanted:
            if len(ranks) > 1 and ranks not in self._groups:
                self._groups[ranks] = dist.new_group(list(ranks), use_local_synchronization=True)
        self._pipeline = self._groups.get(layout.group(rank, "pipeline"))

    def send(self, tensor: torch.Tensor, target: int, tag: int) -> Transfer:
        """Send to one rank of the same pipeline; messages with one tag arrive in order."""
        call = _guarded(lambda: dist.isend(tensor, target, group=self._pipeline, tag=tag))
        return Transfer(edge(self.rank, target), Bytes(tensor.nbytes), call)

    def receive(self, tensor: torch.Tensor, source: int, tag: int) -> Transfer:
        """Receive into `tensor` from one rank of the same pipeline."""
        call = _guarded(lambda: dist.irecv(tensor, source, group=self._pipeline, tag=tag))
        return Transfer(edge(source, self.rank), Bytes(tensor.nbytes), call)

    def all_reduce(self, tensor: torch.Tensor, ranks: tuple[int, ...]) -> Transfer:
        """Sum `tensor` in place over `ranks`; nothing is sent if this is the only one."""
        if len(ranks) == 1:
            return Transfer("", Bytes(0), None)
        call = _guarded(lambda: dist.all_reduce(tensor, group=self._groups[ranks], async_op=True))
        return Transfer(group_edge(ranks), Bytes(tensor.nbytes), call)


def start(plan: Plan, worker: Worker) -> torch.device:
    """Join the job's process group; this rank's device."""
    device = devices.choose(plan.cluster.device.kind, worker.local_rank)
    dist.init_process_group(devices.backend(device.type), timeout=datetime.timedelta(seconds=plan.train.hang_after))
    return device


def stop() -> None:
    """Leave the process group."""
    if dist.is_initialized():
        dist.destroy_process_group()


def from_rank_0(make: Callable[[], str]) -> str:
    """What rank 0 makes, on every rank."""
    box: list[str | None] = [make() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(box, src=0)
    assert box[0] is not None
    return box[0]


def to_rank_0(value: object) -> list[Any] | None:
    """Every rank's value in rank order on rank 0, None on the others."""
    box: list[Any] | None = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
    dist.gather_object(value, box, dst=0)
    return box


def move_to_rank_0(tensor: torch.Tensor, owner: int) -> torch.Tensor | None:
    """Rank `owner`'s tensor on rank 0, None elsewhere; every rank gives one of that shape and type."""
    rank = dist.get_rank()
    if owner == 0:
        return tensor if rank == 0 else None
    if rank == owner:
        dist.send(tensor, 0)
    elif rank == 0:
        received = torch.empty_like(tensor)
        dist.recv(received, owner)
        return received
    return None


def _guarded(call: Callable[[], dist.Work | None]) -> dist.Work | None:
    try:
        return call()
    except RuntimeError as error:
        raise PeerLostError(_first_line(error)) from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
