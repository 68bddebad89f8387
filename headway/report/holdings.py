"""Who holds what: for each stage its ranks, blocks, units, parameters and share of the FLOPs."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from headway.plan.plan import Plan
from headway.plan.work import unit_cost
from headway.report.ranges import numbers
from headway.units import show_count


@dataclass(frozen=True, slots=True)
class Holding:
    """One stage. `rank` is its pipeline rank, `ranks` those of the world; a shared weight counts for each stage."""

    stage: int
    rank: int
    ranks: tuple[int, ...]
    blocks: str
    num_units: int
    parameters: int
    share: float


def holdings(plan: Plan) -> tuple[Holding, ...]:
    """One for each stage, in order."""
    flops = [sum(unit_cost(plan, unit).flops for unit in plan.units_of_stage(s)) for s in range(len(plan.stages))]
    found = []
    for stage, names in enumerate(plan.stages):
        held = [unit for unit in plan.units if stage in unit.stages]
        rank = plan.schedule.ranks[stage]
        # every axis but the pipeline's runs over this stage
        ranks = plan.layout.group(plan.layout.rank({"pipeline": rank}), "tensor", "context", "data")
        parameters, share = sum(unit.numel for unit in held), flops[stage] / sum(flops)
        found.append(Holding(stage, rank, ranks, blocks_text(names), len(held), parameters, share))
    return tuple(found)


def runs(all_: Sequence[Holding]) -> tuple[tuple[Holding, ...], ...]:
    """Neighbouring stages with as many units, parameters and FLOPs together."""
    same = groupby(all_, key=lambda each: (each.num_units, each.parameters, each.share))
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
    return ", ".join(texts)


def units_text(plan: Plan) -> str:
    """How many units there are, from the smallest to the largest."""
    sizes = sorted(unit.numel for unit in plan.units)
    each = " to ".join(dict.fromkeys(show_count(size) for size in (sizes[0], sizes[-1])))
    return f"{len(sizes)} of {each} parameters"
