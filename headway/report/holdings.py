"""Who holds what: for each stage its ranks, blocks, parameters, predicted times and memory; and the dearest one."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from headway.plan.memory import states_of
from headway.plan.plan import Plan
from headway.plan.work import unit_cost, work
from headway.report.ranges import numbers
from headway.schedule.action import GIVES_WEIGHT_GRADIENT, Action, Kind
from headway.schedule.operation import Operation
from headway.sim import cost
from headway.units import Bytes, Seconds, show_count, show_seconds

NO_BLOCKS = "(passes on)"


@dataclass(frozen=True, slots=True)
class Holding:
    """One stage. `rank` is its pipeline rank, `ranks` those of the world; a shared weight counts for each stage.

    `parameters` are the model's; of all else, what one rank has.
    `forward` and `backward` are the predicted seconds of one micro-batch on a device of its own, messages left out.
    `saved` are the activations of one micro-batch, of which `in_flight` are kept when the rank keeps most.
    """

    stage: int
    rank: int
    ranks: tuple[int, ...]
    blocks: str
    parameters: int
    forward: Seconds
    backward: Seconds
    states: Bytes
    saved: Bytes
    in_flight: int

    @property
    def seconds(self) -> Seconds:
        """Forward and backward of one micro-batch."""
        return Seconds(self.forward + self.backward)

    @property
    def activations(self) -> Bytes:
        """What the stage keeps when its rank keeps most: for all stages of a rank, that rank's peak."""
        return Bytes(self.in_flight * self.saved)


def holdings(plan: Plan) -> tuple[Holding, ...]:
    """One for each stage, in order."""
    saved = [Bytes(sum(unit_cost(plan, u).saved for u in plan.units_of_stage(s))) for s in range(len(plan.stages))]
    in_flight = _in_flight(plan, saved)
    found = []
    for stage, names in enumerate(plan.stages):
        held = [unit for unit in plan.units if stage in unit.stages]
        pipeline = plan.schedule.ranks[stage]
        first = plan.layout.rank({"pipeline": pipeline})
        forward, backward = (
            cost.seconds(
                work(plan, plan.program, first, Operation(Action(kind, stage, 0))), plan.cluster, plan.train.precision
            )
            for kind in (Kind.FORWARD, Kind.BACKWARD)
        )
        found.append(
            Holding(
                stage,
                pipeline,
                # every axis but the pipeline's runs over this stage
                plan.layout.group(first, "tensor", "context", "data"),
                blocks_text(names),
                sum(unit.num_parameters for unit in held),
                forward,
                backward,
                Bytes(sum(states_of(plan, first, held).values())),
                saved[stage],
                in_flight[stage],
            )
        )
    return tuple(found)


def dearest(all_: Sequence[Holding]) -> tuple[Holding, float]:
    """The stage that takes longest for a micro-batch, and by which fraction longer than the mean of the stages."""
    mean = sum(each.seconds for each in all_) / len(all_)
    found = max(all_, key=lambda each: each.seconds)
    return found, found.seconds / mean - 1


def dearest_text(all_: Sequence[Holding]) -> str:
    """One line about the dearest stage; empty where it is none: one stage, or all alike to a thousandth."""
    found, over = dearest(all_)
    if over < 0.001:
        return ""
    mean = found.seconds / (1 + over)
    return (
        f"Dearest: stage {found.stage} ({found.blocks}) with {show_seconds(found.seconds)} a micro-batch, {over:.1%} "
        f"over the mean of {show_seconds(mean)}."
    )


def runs(all_: Sequence[Holding]) -> tuple[tuple[Holding, ...], ...]:
    """Neighbouring stages that hold and take as much together, whatever is in flight."""
    same = groupby(all_, key=lambda each: (each.parameters, each.seconds, each.states, each.saved))
    return tuple(tuple(run) for _, run in same)


def blocks_text(names: Sequence[str]) -> str:
    """Names of blocks with runs of layers shortened.

    >>> blocks_text(["embedding", "layers.0", "layers.1", "layers.2", "head"])
    'embedding, layers 0–2, head'
    """
    texts = []
    for is_layer, run in groupby(names, key=lambda name: name.startswith("layers.")):
        members = list(run)
        if is_layer:
            layers = [int(name.removeprefix("layers.")) for name in members]
            texts.append(f"layer{'s' if len(layers) > 1 else ''} {numbers(layers)}")
        else:
            texts += members
    return ", ".join(texts) or NO_BLOCKS


def units_text(plan: Plan) -> str:
    """How many units there are, from the smallest to the largest."""
    sizes = sorted(unit.numel for unit in plan.units)
    each = " to ".join(dict.fromkeys(show_count(size) for size in (sizes[0], sizes[-1])))
    return f"{len(sizes)} of {each} parameters"


def _in_flight(plan: Plan, saved: Sequence[Bytes]) -> dict[int, int]:
    """Stage → micro-batches whose activations it keeps when its rank keeps most bytes.

    A compute lane works in row order, so that the row alone tells, whatever the times.
    """
    found: dict[int, int] = {}
    for rank in range(plan.schedule.num_ranks):
        row, stages = plan.schedule.compute(rank), np.array(plan.schedule.stages(rank))
        change = row.of(Kind.FORWARD).astype(int) - row.of(*GIVES_WEIGHT_GRADIENT)
        held = np.cumsum(change[:, None] * (row.stages[:, None] == stages), axis=0)  # [actions, stages]
        at_peak = held[np.argmax(held @ np.array(saved)[stages])]
        found |= zip(stages.tolist(), at_peak.tolist(), strict=True)
    return found
