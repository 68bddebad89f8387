"""Plan: the one frozen document that both players play, its file form and its digest."""

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import PlainSerializer, PlainValidator, TypeAdapter, ValidationError

from headway import layout as layouts
from headway.cluster.spec import Cluster
from headway.errors import PlanError
from headway.layout import Layout
from headway.model import cut
from headway.model.block import Block, blocks
from headway.model.recompute import Mode, Recompute
from headway.model.spec import ModelSpec
from headway.model.unit import Unit, units
from headway.placement import Placement, State, zero
from headway.plan.job import Checkpoint, Data, Optimizer, Run, Train
from headway.plan.stages import SplitName
from headway.schedule import schedule as schedules
from headway.schedule.action import Kind
from headway.schedule.check import check
from headway.schedule.operation import Lane, Part, Parts
from headway.schedule.program import Program
from headway.schedule.row import Row
from headway.schedule.schedule import Schedule
from headway.units import Bytes

LayoutText = Annotated[Layout, PlainValidator(lambda value: layouts.parse(str(value))), PlainSerializer(str)]
ScheduleText = Annotated[Schedule, PlainValidator(lambda v: schedules.parse(str(v))), PlainSerializer(str)]


@dataclass(frozen=True)
class Plan:
    """Model, cluster, layout, placement and schedule of a job, with everything derived already computed.

    `stages`: for each stage the names of its blocks, in order, and `split` who cut the model so. `schedule` has all
    passes applied; `evaluation` is forward-only. `num_microbatches` is per data rank and step. `sequence_parallel`: the
    tensor ranks cut the sequence where they do not cut the layers. `recompute`: what backwards compute again.
    `placement` holds for units of at least `whole_below` bytes of parameters (see `placed`); `prefetch` as in Program.
    """

    name: str
    model: ModelSpec
    cluster: Cluster
    layout: LayoutText
    placement: Placement
    split: SplitName
    stages: tuple[tuple[str, ...], ...]
    unit_bytes: Bytes
    whole_below: Bytes
    prefetch: int
    num_microbatches: int
    schedule: ScheduleText
    evaluation: ScheduleText
    data: Data
    optimizer: Optimizer
    train: Train
    checkpoint: Checkpoint
    run: Run
    sequence_parallel: bool = False
    recompute: Recompute = field(default_factory=Recompute)

    def __post_init__(self) -> None:
        """Refuse a file whose parts do not belong together; `build` makes only plans that do."""
        each = self.train.microbatch * self.num_microbatches * self.layout.size("data")
        if self.train.global_batch != each:
            raise PlanError(f"a global batch of {self.train.global_batch} is not the {each} sequences that are played.")
        if self.run.profile != "last" and not 1 <= self.run.profile <= self.train.steps:
            raise PlanError(
                f"run.profile is step {self.run.profile}, but the run has the steps 1 to {self.train.steps} "
                f"(train.steps). Use one of them, or last."
            )
        ranks, stages = self.layout.size("pipeline"), len(self.stages)
        for rows in (self.schedule, self.evaluation):
            if (rows.num_ranks, rows.num_stages, rows.num_microbatches) != (ranks, stages, self.num_microbatches):
                raise PlanError(
                    f"{rows.name} has {rows.num_ranks} rows, {rows.num_stages} stages and {rows.num_microbatches} "
                    f"micro-batches, the plan {ranks}, {stages} and {self.num_microbatches}."
                )
        if self.schedule.ranks != self.evaluation.ranks:
            raise PlanError(f"{self.evaluation.name} has stages on other ranks than {self.schedule.name}.")
        wanted, found = [b.name for b in blocks(self.model)], [name for stage in self.stages for name in stage]
        if found != wanted:
            raise PlanError(f"the stages hold {len(found)} blocks, not the model's {len(wanted)} in order.")
        if self.placement not in map(zero, range(4)):
            raise PlanError(f"no stage of ZeRO places its state so: {self.placement}.")
        if self.prefetch < 0:
            raise PlanError(f"prefetch must not be negative, got {self.prefetch}.")
        tensor = self.layout.size("tensor")
        cut.check(self.model, tensor)
        if self.sequence_parallel:
            cut.check_sequence(self.data.sequence_length, tensor)
        if not (self.stages[0] and self.stages[-1]):
            raise PlanError("the embedding is not in the first stage, or the head not in the last.")

    @property
    def tokens_per_step(self) -> int:
        """Tokens of the global batch."""
        return self.train.global_batch * self.data.sequence_length

    @cached_property
    def blocks(self) -> tuple[tuple[Block, ...], ...]:
        """For each stage its blocks."""
        named = {block.name: block for block in blocks(self.model)}
        return tuple(tuple(named[name] for name in stage) for stage in self.stages)

    def again(self, block: Block) -> Mode:
        """What the backward of a block computes again."""
        return self.recompute.mode if block.name in self._recomputed else "none"

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """All units, in stage order; a shared weight last."""
        tensor = self.layout.size("tensor")
        return units(self.model, self.blocks, unit_bytes=self.unit_bytes, dtype=self.train.precision, tensor=tensor)

    @property
    def num_parameters(self) -> int:
        """Elements of the model, each once, however it is laid out."""
        return sum(unit.num_parameters for unit in self.units)

    @cached_property
    def program(self) -> Program:
        """The training step as operations."""
        return Program(self.schedule, self.parts, self.prefetch)

    @cached_property
    def evaluation_program(self) -> Program:
        """One evaluation batch as operations."""
        return Program(self.evaluation, self.parts, self.prefetch)

    @cached_property
    def parts(self) -> tuple[Parts, ...]:
        """For each stage its units as far as order matters: what computes, what is gathered, what is reduced."""
        return tuple(self._parts(stage) for stage in range(len(self.stages)))

    def unit(self, name: str) -> Unit:
        """The unit of that name."""
        return self._named[name]

    def units_of_stage(self, stage: int) -> tuple[Unit, ...]:
        """The computing units of a stage, in forward order."""
        return tuple(unit for unit in self.units if unit.blocks and unit.stages == (stage,))

    def units_of_rank(self, rank: int) -> tuple[Unit, ...]:
        """Every unit whose parameters `rank` holds, each once."""
        mine = self.schedule.stages(self.layout.coord(rank)["pipeline"])
        return tuple(unit for unit in self.units if set(unit.stages) & set(mine))

    def holders(self, unit: Unit) -> tuple[int, ...]:
        """Pipeline ranks that hold a unit's parameters."""
        return tuple(sorted({self.schedule.ranks[stage] for stage in unit.stages}))

    def num_sharing(self, unit: Unit) -> int:
        """How many ranks `group` has."""
        return self.layout.size("data") * len(self.holders(unit))

    def group(self, rank: int, unit: Unit) -> tuple[int, ...]:
        """Ranks that together reduce a unit's gradients, `rank` being one of them."""
        coord = self.layout.coord(rank)
        holders = self.holders(unit)
        members = (holders, coord["tensor"], coord["context"])
        if members not in self._groups:  # all of thousands of ranks ask for the group that they are in
            self._groups[members] = tuple(
                sorted(
                    self.layout.rank({**coord, "pipeline": pipeline, "data": data})
                    for pipeline in holders
                    for data in range(self.layout.size("data"))
                )
            )
        return self._groups[members]

    def placed(self, unit: Unit) -> Placement:
        """Where a unit's state lives: the plan's table, for what its ranks share and is not too small to be worth it.

        A weight that two stages share is needed and added to at two times: it keeps parameters and gradients whole.
        """
        small = unit.numel * self.train.precision.bytes < max(self.whole_below, 1)
        if small or self.layout.size("data") == 1:
            return zero(0)
        return self.placement if len(unit.stages) == 1 else replace(self.placement, params=State(), grads=State())

    def own(self, rank: int, unit: Unit) -> slice:
        """The range of a unit's flat buffer whose optimizer state `rank` keeps."""
        if not self.placed(unit).optimizer.cut:
            return slice(0, unit.numel)
        group = self.group(rank, unit)
        return unit.own(group.index(rank), len(group))

    def padded(self, unit: Unit) -> int:
        """Elements of a unit's whole flat buffer, padded so that its ranks have equal parts, where anything is cut."""
        count = self.num_sharing(unit)
        return unit.part(count) * count if self.placed(unit).cuts else unit.numel

    @cached_property
    def _recomputed(self) -> frozenset[str]:
        """Names of the layers whose backward computes something again."""
        layers = [[block.name for block in stage if block.kind == "layer"] for stage in self.blocks]
        return frozenset(name for stage in layers for name in stage[: self.recompute.layers])

    @cached_property
    def _groups(self) -> dict[tuple[tuple[int, ...], int, int], tuple[int, ...]]:
        """The groups that were asked for, by pipeline ranks and by the coordinates that all members have."""
        return {}

    @cached_property
    def _named(self) -> dict[str, Unit]:
        return {unit.name: unit for unit in self.units}

    def _parts(self, stage: int) -> Parts:
        names = tuple(unit.name for unit in self.units_of_stage(stage))
        # a tied embedding without positions is a unit without parameters
        held = [u for u in self.units if stage in u.stages and u.numel and self.num_sharing(u) > 1]
        return Parts(names, tuple(self._part(unit, stage, names) for unit in held))

    def _part(self, unit: Unit, stage: int, names: tuple[str, ...]) -> Part:
        placed = self.placed(unit)
        users: tuple[str, ...] = (unit.name,)
        first, lane = stage, None
        if not unit.blocks:  # a tied weight: the embedding and the head compute with it
            ends = ((0, names[0]), (len(self.stages) - 1, names[-1]))
            users = tuple(dict.fromkeys(name for end, name in ends if end == stage))
            # the embedding uses it last where it is here, else only the head does
            first = next(s for s in unit.stages if self.schedule.ranks[s] == self.schedule.ranks[stage])
            lane = Lane.SHARED
        return Part(
            unit.name,
            users,
            reduces=first == stage,
            gathers=placed.optimizer.cut,
            cut_grads=placed.grads.cut,
            cut_params=placed.params.cut,
            lane=lane,
        )


def dumps(plan: Plan) -> str:
    """The plan as JSON text; `loads` gives it back."""
    return _ADAPTER.dump_json(plan, indent=1).decode()


def loads(text: str | bytes, where: str = "plan") -> Plan:
    """The plan in JSON text; `where` is named in the error."""
    try:
        plan = _ADAPTER.validate_json(text)
        for rows in (plan.schedule, plan.evaluation):
            _check_parts(check(rows), plan)
        return plan
    except PlanError as error:
        raise PlanError(f"{where} is not a plan that Headway can play: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise PlanError(f"{where} is not a plan that Headway wrote ({key}: {first['msg']}).") from None


def read(path: Path) -> Plan:
    """The plan in a file."""
    try:
        return loads(path.read_bytes(), str(path))
    except OSError as error:
        problem = error.strerror or error
        raise PlanError(f"{path} cannot be read ({problem}). Make one with headway plan JOB --output FILE.") from None


def _check_parts(rows: Schedule, plan: Plan) -> None:
    """Refuse rows that do not gather, release and reduce as often as the placement of their stages' units has it."""
    every, kinds = Row(rows.codes), (Kind.UNSHARD, Kind.RESHARD, Kind.REDUCE_GRAD)
    counts = [np.bincount(every.stages[every.of(kind)], minlength=len(plan.stages)) for kind in kinds]
    uses = plan.num_microbatches * (2 if rows.trains else 1)
    for stage, each in enumerate(plan.parts):
        once, cut = (any(p.gathers and p.cut_params is is_cut for p in each.shared) for is_cut in (False, True))
        sums = any(p.reduces for p in each.shared) and rows.trains
        often = any(p.cut_grads for p in each.shared)
        wanted = once + cut * uses, cut * uses, sums * (plan.num_microbatches if often else 1)
        for kind, count, times in zip(kinds, counts, wanted, strict=True):
            if count[stage] != times:
                raise PlanError(
                    f"{rows.name} has {kind} of stage {stage} {count[stage]} times, but {times} times are right for "
                    f"{plan.placement}. Change parallel.zero or whole_below in the job file, and plan again."
                )


def digest(plan: Plan) -> str:
    """Twelve hexadecimal digits that name the plan: equal plans have equal digests.

    Names, the place of the run's files and its checkpoints are left out: they change nothing that is played.
    """
    text = _ADAPTER.dump_json(plan, exclude={"name", "split", "run", "checkpoint"})
    return hashlib.sha256(text).hexdigest()[:12]


_ADAPTER = TypeAdapter(Plan)
