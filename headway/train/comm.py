"""Communication: the only place that calls torch.distributed; every handle says where its bytes go."""

import datetime
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore  # torch.distributed exports them untyped

from headway.env import Worker
from headway.errors import HeadwayError, JobError
from headway.plan.meeting import edge, group_edge
from headway.plan.plan import Plan
from headway.train import device as devices
from headway.train.pulse import START_LIMIT, Awaited, Pulse
from headway.units import Bytes

T = TypeVar("T")
# the watchdog ends what stands still and says why; torch's own limit would come first in a slow save, and not say it
LIMIT = datetime.timedelta(days=1)
# torch 2.13 calls them by new names, and warns of the old ones, which are all that 2.11 has
_gather: Callable[..., Any] = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_scatter: Callable[..., Any] = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


class PeerLostError(JobError):
    """A message or collective failed because a rank at its other end is gone."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """A handle of a message or collective. Its tensor belongs to it until `wait` returns.

    `finish`: what is left to do with what has arrived.
    """

    edge: str
    bytes: Bytes
    pending: tuple[dist.Work, ...]  # none where there is nobody to talk to
    pulse: Pulse
    awaited: Awaited
    finish: Callable[[], object] | None = None

    def wait(self) -> None:
        """Return when it has finished; PeerLostError if it cannot."""
        if self.pending:
            self.pulse.wait(self.awaited)
            try:
                for each in self.pending:
                    each.wait()
            except RuntimeError as error:
                raise PeerLostError(f"{self.edge} failed: {_first_line(error)}") from error
            self.pulse.wait(None)
        if self.finish is not None:
            self.finish()


class Comm:
    """The process groups that one rank belongs to, made once. `pulse` is told of every wait."""

    def __init__(self, plan: Plan, rank: int, pulse: Pulse | None = None) -> None:
        self.rank, self.pulse = rank, pulse or Pulse()
        layout = plan.layout
        self._groups: dict[tuple[int, ...], Any] = {tuple(range(layout.world)): dist.group.WORLD}
        # torch names such a group after its ranks and after how many groups this rank has made: members must agree
        # on both, so what all ranks make comes first, and what only some make last.
        pipeline = layout.group(rank, "pipeline")
        # a group for each direction: on NCCL the messages of a group share a stream, where the two would wait in line
        self._forward = _group(pipeline)
        self._backward = _group(pipeline)
        axes = (layout.group(rank, "tensor"), layout.group(rank, "data"))
        for ranks in (*axes, *(plan.group(rank, unit) for unit in plan.units_of_rank(rank))):
            if ranks not in self._groups:
                self._groups[ranks] = _group(ranks)
        # of their own too: parameters are gathered while gradients are reduced
        self._gathering: dict[tuple[int, ...], Any] = {}
        for unit in plan.units_of_rank(rank):
            ranks = plan.group(rank, unit)
            if plan.placed(unit).params.cut and ranks not in self._gathering:
                self._gathering[ranks] = _group(ranks)

    def send(self, tensor: torch.Tensor, target: int, tag: int, *, forward: bool) -> Transfer:
        """Send an output forward or a gradient backward to a rank of the same pipeline."""
        group = self._forward if forward else self._backward
        call = _guarded(lambda: dist.isend(tensor, target, group=group, tag=tag))
        return self._transfer(edge(self.rank, target), tensor, (call,), (target,))

    def receive(self, tensor: torch.Tensor, source: int, tag: int, *, forward: bool) -> Transfer:
        """Receive into `tensor` what a rank of the same pipeline sends with that tag and direction."""
        group = self._forward if forward else self._backward
        call = _guarded(lambda: dist.irecv(tensor, source, group=group, tag=tag))
        return self._transfer(edge(source, self.rank), tensor, (call,), (source,))

    def all_reduce(
        self, tensor: torch.Tensor, ranks: tuple[int, ...], dtype: torch.dtype | None = None, *, largest: bool = False
    ) -> Transfer:
        """Sum `tensor` in place over `ranks`, as `dtype` if one is given, or keep the `largest`.

        Nothing is sent if this is the only rank.
        """
        if len(ranks) == 1:
            return Transfer("", Bytes(0), (), self.pulse, ("", ()))
        op = dist.ReduceOp.MAX if largest else dist.ReduceOp.SUM
        sent = tensor.to(dtype or tensor.dtype)  # the tensor itself where it is of that type
        call = _guarded(lambda: dist.all_reduce(sent, op, group=self._groups[ranks], async_op=True))
        handle = self._transfer(group_edge(ranks), sent, (call,), ranks)
        return handle if sent is tensor else replace(handle, finish=lambda: tensor.copy_(sent))

    def all_gather(self, whole: torch.Tensor, part: torch.Tensor, ranks: tuple[int, ...]) -> Transfer:
        """Fill `whole` with the `part` of each of `ranks` in their order; a part may lie in its place already."""
        group = self._gathering.get(ranks, self._groups[ranks])
        if whole.device.type == "cpu":
            parts = dict(zip(ranks, whole.view(len(ranks), -1), strict=True))
            own = parts.pop(self.rank)
            if own.data_ptr() != part.data_ptr():
                own.copy_(part.view(-1))
            calls = _exchange(dict.fromkeys(parts, own), parts, group)
        else:
            calls = (_guarded(lambda: _gather(whole.view(-1), part.view(-1), group=group, async_op=True)),)
        return self._transfer(group_edge(ranks), whole, calls, ranks)

    def reduce_scatter(
        self,
        part: torch.Tensor,
        whole: torch.Tensor,
        ranks: tuple[int, ...],
        dtype: torch.dtype | None = None,
        *,
        adding: bool = False,
        then: Callable[[], None] = lambda: None,
    ) -> Transfer:
        """Fill `part` with this rank's one of the equal parts of the sum of `whole` over `ranks`, or add it to `part`.

        Sent as `dtype` if one is given. `part` may be a part of `whole`. `then` is called at the end.
        """
        group, own = self._groups[ranks], ranks.index(self.rank)
        sent = whole.view(len(ranks), -1).to(dtype or whole.dtype)
        if sent.device.type == "cpu":
            arrived = torch.empty_like(sent[1:])
            to = {rank: each for rank, each in zip(ranks, sent, strict=True) if rank != self.rank}
            calls = _exchange(to, dict(zip(to, arrived, strict=True)), group)
            summands = [sent[own], *arrived]
        else:
            mine = torch.empty_like(sent[own])
            calls = (_guarded(lambda: _scatter(mine, sent.view(-1), group=group, async_op=True)),)
            summands = [mine]

        def finish() -> None:
            first, *rest = (each.view_as(part) for each in summands)
            if adding:
                part.add_(first)
            elif part.data_ptr() != first.data_ptr():
                part.copy_(first)
            for each in rest:
                part.add_(each)
            then()

        return replace(self._transfer(group_edge(ranks), sent, calls, ranks), finish=finish)

    def _transfer(
        self, where: str, tensor: torch.Tensor, calls: tuple[dist.Work | None, ...], ranks: tuple[int, ...]
    ) -> Transfer:
        """The handle of the operation that the rank is at."""
        pending = tuple(call for call in calls if call)
        return Transfer(where, Bytes(tensor.nbytes), pending, self.pulse, (self.pulse.operation, ranks))


def start(plan: Plan, worker: Worker) -> torch.device:
    """Join the job's process group; this rank's device."""
    device = devices.choose(plan.cluster.device.kind, worker.local_rank)
    host = f"[{worker.address}]" if ":" in worker.address else worker.address
    try:
        socket.getaddrinfo(worker.address, worker.port)  # torch would look for an unknown name until its time limit
        dist.init_process_group(
            devices.backend(plan.cluster.device.kind),
            init_method=f"tcp://{host}:{worker.port}",
            rank=worker.rank,
            world_size=worker.world,
            timeout=LIMIT,
        )
    except (RuntimeError, socket.gaierror) as error:
        raise JobError(
            f"the ranks do not meet at {host}:{worker.port} ({_first_line(error)}). MASTER_ADDR and MASTER_PORT name "
            f"another place: an address of rank 0's node that every node reaches, and a port that is free there."
        ) from error
    return device


def board(worker: Worker) -> Store:
    """A connection of its own to the store of the job, for what its ranks tell each other beside the training.

    Under torchrun the agent of the first node keeps the store, else rank 0. RuntimeError if nobody does.
    """
    limit = datetime.timedelta(seconds=START_LIMIT)
    store = TCPStore(worker.address, worker.port, is_master=False, wait_for_workers=False, timeout=limit)
    return PrefixStore(f"headway/{worker.attempt}", store)


def stop() -> None:
    """Leave the process group."""
    if dist.is_initialized():
        dist.destroy_process_group()


def from_rank_0(make: Callable[[], str]) -> str:
    """What rank 0 makes, on every rank; if it is refused there, every rank raises that."""
    box: list[Any] = [None]
    if dist.get_rank() == 0:
        try:
            box = [make()]
        except HeadwayError as error:
            box = [error]
    _guarded(lambda: dist.broadcast_object_list(box, src=0))
    if isinstance(box[0], HeadwayError):
        raise box[0]
    return str(box[0])


def to_rank_0(value: object) -> list[Any] | None:
    """Every rank's value in rank order on rank 0, None on the others."""
    box: list[Any] | None = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
    _guarded(lambda: dist.gather_object(value, box, dst=0))
    return box


def of_all_ranks(value: T) -> list[T]:
    """Every rank's value in rank order, on every rank."""
    box: list[Any] = [None] * dist.get_world_size()
    _guarded(lambda: dist.all_gather_object(box, value))
    return box


def least(value: int, device: torch.device) -> int:
    """The smallest of all ranks' values, on every rank."""
    found = torch.tensor(value, device=device)
    _guarded(lambda: dist.all_reduce(found, op=dist.ReduceOp.MIN))
    return int(found)


def move_to_rank_0(tensor: torch.Tensor, owner: int) -> torch.Tensor | None:
    """Rank `owner`'s tensor on rank 0, None elsewhere; every rank gives one of that shape and type."""
    rank = dist.get_rank()
    if owner == 0:
        return tensor if rank == 0 else None
    if rank == owner:
        _guarded(lambda: dist.send(tensor, 0))
    elif rank == 0:
        received = torch.empty_like(tensor)
        _guarded(lambda: dist.recv(received, owner))
        return received
    return None


def _group(ranks: tuple[int, ...]) -> dist.ProcessGroup | None:
    """A group that only its members make; None for one rank alone."""
    if len(ranks) == 1:
        return None
    made = dist.new_group(list(ranks), timeout=LIMIT, use_local_synchronization=True)
    assert isinstance(made, dist.ProcessGroup)  # what is no member's is a number
    return made


def _exchange(
    outgoing: dict[int, torch.Tensor], incoming: dict[int, torch.Tensor], group: dist.ProcessGroup
) -> tuple[dist.Work | None, ...]:
    """Send and receive a tensor of each other rank, straight from where it is to where it belongs.

    gloo's own all-gather takes 1.4 to 1.7 times as long of the processor's time, its reduce-scatter 2 to 4 times (two
    ranks, 3 and 16 MiB, torch 2.13), and both take a buffer of the whole.
    """
    receives = [_guarded(partial(dist.irecv, tensor, rank, group=group)) for rank, tensor in incoming.items()]
    return (*receives, *(_guarded(partial(dist.isend, tensor, rank, group=group)) for rank, tensor in outgoing.items()))


def _guarded(call: Callable[[], T]) -> T:
    try:
        return call()
    except RuntimeError as error:
        raise PeerLostError(_first_line(error)) from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
