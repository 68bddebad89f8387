"""TorchStage: a rank's stages in torch, each unit an island of autograd so that backward goes unit by unit."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.autograd import Variable
from torch.autograd.graph import GradientEdge, get_gradient_edge

from headway.data.samples import IGNORE
from headway.model.block import SHARED, Block
from headway.model.unit import Unit
from headway.plan.dtypes import dtypes
from headway.plan.plan import Plan
from headway.plan.work import TOTALS, sequence_cuts
from headway.schedule.action import Action, Kind
from headway.schedule.program import Program
from headway.train import blocks
from headway.train.blocks import Labels
from headway.train.comm import Comm, Transfer, least
from headway.train.dropout import Draw
from headway.train.endings import Stop
from headway.train.flat import FlatUnit
from headway.train.loss_scale import after, first
from headway.train.optimizer import AdamW
from headway.train.saved import Place, SavedBytes
from headway.train.stage import Done
from headway.train.tensor_axis import TensorAxis
from headway.train.totals import Totals, squared_norm


@dataclass(slots=True)
class _Inbox:
    """Tensors on their way between stages, by (stage that needs them, micro-batch)."""

    inputs: dict[Place, Tensor] = field(default_factory=dict)
    gradients: dict[Place, Tensor] = field(default_factory=dict)


class TorchStage:
    """The stages of one rank. Holds the units' flat buffers, the optimizer, and the tensors in flight."""

    def __init__(self, plan: Plan, program: Program, rank: int, device: torch.device, comm: Comm) -> None:
        self.plan, self.program, self.rank, self.device, self.comm = plan, program, rank, device, comm
        types = dtypes(plan.train)
        self.dtype, self.wide, self._reduced = (getattr(torch, t) for t in (types.params, types.grads, types.reduced))
        held = plan.units_of_rank(rank)
        self._sharers = {unit.name: plan.group(rank, unit) for unit in held}
        self.units = {unit.name: self._flat(unit) for unit in held}
        coord = plan.layout.coord(rank)
        self._data, self._pipeline, self._tensor = coord["data"], coord["pipeline"], coord["tensor"]
        for unit in self.units.values():
            unit.initialise(plan.model, plan.train.seed, self._tensor)
        self.optimizer = AdamW(list(self.units.values()), plan.optimizer)
        self.saved = SavedBytes()
        self.stop = Stop()
        self.totals = Totals(0.0, 0.0, stop=False, tokens=0.0)
        self.norm = 0.0
        self.scale = first(plan.train)
        self.gave_up = False  # whether the last step's totals end the job
        self.step = 0
        self.rate = 0.0  # the learning rate of this step; the loop sets it
        self._last = len(plan.stages) - 1
        # found once: each message and each mask asks for one
        self._rank_of = {
            stage: plan.layout.rank({**coord, "pipeline": pipeline}) for stage, pipeline in plan.schedule.ranks.items()
        }
        self._replicas = plan.layout.size("data")
        self._units_of = {stage: plan.units_of_stage(stage) for stage in plan.schedule.stages(self._pipeline)}
        group = plan.layout.group(rank, "tensor")
        self._axis = TensorAxis(comm, group, self._tensor, cuts_sequence=plan.sequence_parallel)
        self._world, self._data_group = tuple(range(plan.layout.world)), plan.layout.group(rank, "data")
        self._shape = (plan.train.microbatch, plan.data.sequence_length // sequence_cuts(plan), plan.model.hidden)
        self._box = _Inbox()
        self._outputs: dict[Place, Tensor] = {}
        self._half_way: dict[Place, Tensor] = {}  # what the next unit of a stage starts from
        self._input_gradients: dict[Place, Tensor] = {}
        self._islands: dict[Place, list[tuple[str, Tensor, GradientEdge]]] = {}

    def load(self, tokens: Tensor, targets: Tensor) -> None:
        """Take this data rank's batch, [M, b, s] each, and forget the last step's gradients and loss."""
        self._tokens = [each.clone() for each in tokens]
        self._targets = [each.clone() for each in targets]
        self._loss = torch.zeros((), dtype=torch.float64, device=self.device)
        self._count = torch.zeros((), dtype=torch.float64, device=self.device)
        if self.program.trains:
            for unit in self.units.values():
                unit.clear()

    @contextmanager
    def evaluating(self, program: Program) -> Iterator[None]:
        """Play `program`, which has no backward, in place of training."""
        training, self.program = self.program, program
        try:
            with torch.no_grad():
                yield
        finally:
            self.program = training

    def begin(self) -> Transfer:
        """Count this rank's valid targets and start their sum over the data axis."""
        self._count.fill_(sum(int((targets != IGNORE).sum()) for targets in self._targets))
        return self.comm.all_reduce(self._count, self._data_group)

    def forward(self, stage: int, microbatch: int, unit: str) -> Done:
        """Run the stage's units in order (or only `unit`, the next in line), each detached from the one before."""
        place, units = (stage, microbatch), self._units_of[stage]
        if not unit or unit == units[0].name:
            x = self._tokens[microbatch] if stage == 0 else self._box.inputs.pop(place)
            if self.program.trains:
                self._islands[place] = []
        else:
            x = self._half_way.pop(place)
        smoothing = self.plan.train.label_smoothing if self.program.trains else 0.0  # evaluations are of plain labels
        labels = Labels(self._targets[microbatch], smoothing) if stage == self._last else None
        # the micro-batch of the global batch; an evaluation drops nothing
        drawn = microbatch * self._replicas + self._data
        draw = Draw(self.plan.train.seed, self.step, drawn) if self.program.trains else None
        with self.saved.counting(place):
            for each in units:
                if unit not in ("", each.name):
                    continue
                if self.program.trains and x.is_floating_point():
                    x = x.detach().requires_grad_()
                y = x
                for block in each.blocks:
                    leaves = self._leaves(each.name, block)
                    y = blocks.forward(self.plan.model, block, leaves, y, labels, draw, self._axis)
                if self.program.trains:
                    self._islands[place].append((each.name, x, get_gradient_edge(y)))
                x = y.detach()
        if unit and unit != units[-1].name:
            self._half_way[place] = x
        elif stage == self._last:
            self._loss += x
        elif self._is_here(stage + 1):
            self._box.inputs[stage + 1, microbatch] = x
        else:
            self._outputs[place] = x
        return self._axis.taken()

    def backward(self, stage: int, microbatch: int, unit: str) -> Done:
        """Run the units' backward in reverse (or only `unit`'s, the next in line), adding to the flat gradients."""
        place = (stage, microbatch)
        islands = self._islands[place]
        gradient = self._gradient(place)
        final = self.program.schedule.final.get(stage) == Action(Kind.BACKWARD, stage, microbatch)
        while islands:
            name, x, made = islands.pop()
            self._collect(name)
            _backward(made, gradient)
            if x.grad is not None:
                gradient, x.grad = x.grad, None
            if self._axis.cuts_sequence and (final or self.units[name].placed.grads.cut):
                self._sum_gradients_in_parts(self.units[name])
            if name == unit:
                break
        if islands:
            self._box.gradients[place] = gradient
            return self._axis.taken()
        del self._islands[place]
        self.saved.release(place)
        if stage and self._is_here(stage - 1):
            self._box.gradients[stage - 1, microbatch] = gradient
        elif stage:
            self._input_gradients[place] = gradient
        return self._axis.taken()

    def send(self, action: Action) -> Transfer:
        """Start sending the output to the next stage, or the input's gradient to the one before."""
        assert action.stage is not None
        assert action.microbatch is not None
        forward = action.kind is Kind.SEND_F
        made = self._outputs if forward else self._input_gradients
        target = action.stage + (1 if forward else -1)
        tensor = made.pop((action.stage, action.microbatch)).contiguous()
        return self.comm.send(tensor, self._rank_of[target], self._tag(target, action.microbatch), forward=forward)

    def receive(self, action: Action) -> Transfer:
        """Start receiving the stage's input, or the gradient of its output."""
        assert action.stage is not None
        assert action.microbatch is not None
        forward = action.kind is Kind.RECV_F
        source = action.stage + (-1 if forward else 1)
        tensor = torch.empty(self._shape, dtype=self.dtype, device=self.device)
        box = self._box.inputs if forward else self._box.gradients
        box[action.stage, action.microbatch] = tensor
        tag = self._tag(action.stage, action.microbatch)
        return self.comm.receive(tensor, self._rank_of[source], tag, forward=forward)

    def gather(self, unit: str) -> Transfer:
        """Start making a unit's parameters whole, from the part that each of its ranks keeps."""
        flat = self.units[unit]
        return self.comm.all_gather(flat.gather(), flat.shard, self._sharers[unit])

    def release(self, unit: str) -> None:
        """Give back the memory of a unit's whole parameters."""
        self.units[unit].release()

    def reduce(self, unit: str) -> Transfer:
        """Start summing a unit's flat gradients, in place; or each rank its own part, in place or into what it keeps.

        In a copy where they are reduced in another type.
        """
        flat, ranks = self.units[unit], self._sharers[unit]
        if not flat.placed.optimizer.cut:
            return self.comm.all_reduce(flat.grads, ranks, self._reduced)
        if not flat.placed.grads.cut:
            return self.comm.reduce_scatter(flat.own_grads, flat.grads, ranks, self._reduced)
        adding = flat.sums()
        return self.comm.reduce_scatter(
            flat.own_grads, flat.grads, ranks, self._reduced, adding=adding, then=flat.scatter
        )

    def total(self) -> Transfer:
        """Start the packed sum over all ranks; `read_totals` reads it."""
        counts = self._is_here(self._last) and self._tensor == 0  # all tensor ranks have the same loss
        mine = self._loss if counts else 0.0
        tokens = self._count if counts and self._data == 0 else 0.0
        square = squared_norm(self.units.values(), self.device) if self.program.trains else 0.0
        self._packed = torch.zeros(TOTALS, dtype=torch.float64, device=self.device)
        for i, value in enumerate((square, mine, float(self.stop.asked), tokens)):
            self._packed[i] = value
        return self.comm.all_reduce(self._packed, self._world)

    def update(self) -> None:
        """Clip by the global norm and step the optimizer; leave the weights alone if the totals are not finite."""
        totals, scale, clip = self.read_totals(), self.scale, self.plan.optimizer.clip
        self.norm = totals.squared_norm**0.5 / scale.value
        if totals.finite:  # with the loss scale still in the gradients
            # torch's clip_grad_norm_ guards with 1e-6 as well
            clipped = clip / (self.norm + 1e-6) if clip and self.norm > clip else 1.0
            if (factor := clipped / scale.value) != 1.0:
                for unit in self.units.values():
                    unit.own_grads.mul_(factor)
            self.optimizer.step(self.rate)
        stops = scale.exhausted if scale.dynamic else self.plan.train.on_nonfinite == "stop"
        self.gave_up = stops and not totals.finite
        self.scale = after(scale, overflowed=not totals.finite)
        self.step += 1

    def first_nonfinite(self) -> str:
        """The first unit in the order of the backward with a gradient that is not finite on some rank; every rank asks.

        Empty if there is none.
        """
        order = [unit.name for unit in reversed(self.plan.units) if unit.blocks]
        order += [unit.name for unit in self.plan.units if not unit.blocks]  # complete when the others are
        mine = [order.index(name) for name, unit in self.units.items() if not unit.own_grads.isfinite().all()]
        return [*order, ""][least(min(mine, default=len(order)), self.device)]

    def read_totals(self) -> Totals:
        """The sums of the last `total`, once it has finished."""
        square, loss, stop, tokens = self._packed.tolist()
        self.totals = Totals(square, loss / max(tokens, 1.0), stop=stop > 0, tokens=tokens)
        return self.totals

    def _sum_gradients_in_parts(self, unit: FlatUnit) -> None:
        """Sum those of what each tensor rank holds whole but has used on its part of the sequence."""
        for held, copies in unit.unit.copies:
            if copies > 1 and held.stop > held.start:
                self._axis.sum_(unit.grads[held])

    def _gradient(self, place: Place) -> Tensor:
        """The gradient that the next unit's backward starts from; the loss is a mean over the batch's valid tokens."""
        if place in self._box.gradients:
            return self._box.gradients.pop(place)
        assert place[0] == self._last
        return (self.scale.value / self._count.clamp(min=1.0)).to(self.wide)

    def _flat(self, unit: Unit) -> FlatUnit:
        ranks = self._sharers[unit.name]
        sizes = {"index": ranks.index(self.rank), "count": len(ranks)}
        return FlatUnit(unit, self.dtype, self.device, wide=self.wide, placed=self.plan.placed(unit), **sizes)

    def _leaves(self, unit: str, block: Block) -> dict[str, Tensor]:
        leaves = self.units[unit].leaves(block)
        if SHARED in self.units and block.kind != "layer":
            return {**leaves, **self.units[SHARED].shared}
        return leaves

    def _collect(self, unit: str) -> None:
        """Whole gradients of what a unit computes with, to add to."""
        flat = self.units[unit]
        flat.collect()
        if SHARED in self.units and any(block.kind != "layer" for block in flat.unit.blocks):
            self.units[SHARED].collect()

    def _is_here(self, stage: int) -> bool:
        return self.plan.schedule.ranks[stage] == self._pipeline

    def _tag(self, stage: int, microbatch: int) -> int:
        """A number for each message of one direction: of the stage that needs it and its micro-batch."""
        return stage * self.plan.num_microbatches + microbatch


def _backward(made: GradientEdge, gradient: Tensor) -> None:
    """Add to the gradients of all leaves below `made`, whose gradient this is.

    `torch.autograd.backward` would import sympy to compare the two shapes, a second of every rank at its start; the
    engine compares them itself.
    """
    engine = Variable._execution_engine
    flags = {"allow_unreachable": True, "accumulate_grad": True}
    engine.run_backward((made,), (gradient,), keep_graph=False, create_graph=False, inputs=(), **flags)
