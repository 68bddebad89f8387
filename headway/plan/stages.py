"""Stages of a job: the blocks that each one holds, balanced by predicted time or as `parallel.split` says."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from headway.cluster.spec import Cluster, Device
from headway.errors import PlanError
from headway.model import pipeline_layout, recompute
from headway.model.block import Block, blocks
from headway.model.cost import cost
from headway.model.pieces import Pieces
from headway.model.recompute import Recompute
from headway.model.sizes import Sizes
from headway.model.spec import ModelSpec
from headway.model.split import balanced, by_layers
from headway.plan.job import Data, Job, Parallel, Train
from headway.plan.price import price
from headway.stack.spec import HEADWAY
from headway.units import Seconds

BALANCED = "balanced"
SplitName = Literal["balanced", "by hand"]
_PICOSECONDS = 1e12  # whole ones: equal layers must cost exactly the same


@dataclass(frozen=True, slots=True)
class Split:
    """For each stage the names of its blocks, in order, and who said so."""

    name: SplitName
    stages: tuple[tuple[str, ...], ...]


def split(job: Job, parallel: Parallel, model: ModelSpec, cluster: Cluster, again: Recompute) -> Split:
    """The stages of a job. Raises PlanError where a split by hand does not fit the model or the stages."""
    each = blocks(model)
    name: SplitName = "balanced" if parallel.split == BALANCED else "by hand"
    if name == "balanced":
        runs = balanced(_costs(job, parallel, model, cluster, again), parallel.pipeline * parallel.chunks)
    else:
        runs = by_layers(_by_hand(parallel, model))
    return Split(name, tuple(tuple(each[i].name for i in run) for run in runs))


def layout_text(stages: Sequence[Sequence[str]]) -> str:
    """Stages as a pipeline layout: what `parallel.split` would have to say to get them.

    >>> layout_text([["embedding", "layers.0"], [], ["layers.1", "head"]])
    'Et||tL'
    """
    return pipeline_layout.show([sum(name.startswith("layers.") for name in names) for names in stages])


def sizes(train: Train, data: Data, *, tensor: int, sequence_parallel: bool) -> Sizes:
    """Of a micro-batch in training, on a tensor rank."""
    smoothed = train.label_smoothing > 0
    return Sizes(train.microbatch, data.sequence_length, train.precision, tensor, sequence_parallel, smoothed)


def _costs(job: Job, parallel: Parallel, model: ModelSpec, cluster: Cluster, again: Recompute) -> list[int]:
    """Picoseconds of each block going forward on one micro-batch; backward takes twice as long for all alike.

    Of a layer that is computed again, a third of that more. Where only some of a stage's layers are, all count as much
    as those on average, since which they are hangs on the cut.
    """
    train, device = job.train, cluster.device
    each = sizes(train, job.data, tensor=parallel.tensor, sequence_parallel=parallel.sequence_parallel)
    share = min(1.0, again.layers * parallel.pipeline * parallel.chunks / model.layers)
    found = []
    for block in blocks(model):
        one = price(device, cost(model, block, each).forward, train.precision)
        more = share * _again(model, block, each, again, train, device) / 3 if block.kind == "layer" else 0.0
        found.append(round((one.seconds + more) * _PICOSECONDS))
    return found


def _again(model: ModelSpec, block: Block, each: Sizes, again: Recompute, train: Train, device: Device) -> Seconds:
    made = recompute.again(again.mode, Pieces(model, each, HEADWAY), cost(model, block, each))
    return price(device, made.effort, train.precision).seconds


def _by_hand(parallel: Parallel, model: ModelSpec) -> tuple[int, ...]:
    """Layers of each stage as the job lists them, or as its layout says."""
    if isinstance(parallel.split, str):
        try:
            counts = pipeline_layout.parse(parallel.split)
        except PlanError as error:
            raise PlanError(
                f"parallel.split: {error} Or write {BALANCED}, or the layers of each stage in a list."
            ) from None
    else:
        counts = tuple(parallel.split)
    if negative := [count for count in counts if count < 0]:
        raise PlanError(f"parallel.split has a stage of {negative[0]} layers. Use 0 for a stage without any.")
    wanted = parallel.pipeline * parallel.chunks
    if len(counts) != wanted:
        chunks, rest = divmod(len(counts), parallel.pipeline)
        other = f", or set parallel.chunks {chunks}" if chunks and not rest else ""
        raise PlanError(
            f"parallel.split has {_number(len(counts), 'stage')}, but parallel.pipeline {parallel.pipeline} × "
            f"parallel.chunks {parallel.chunks} makes {wanted}. Say for each of the {wanted} how many layers it holds "
            f"(0 is a stage that passes on what it gets){other}."
        )
    if sum(counts) != model.layers:
        more = model.layers - sum(counts)
        raise PlanError(
            f"parallel.split holds {' + '.join(map(str, counts))} = {_number(sum(counts), 'layer')}, but the model has "
            f"{model.layers}. {'Add' if more > 0 else 'Take away'} {abs(more)}, or set model.layers."
        )
    return counts


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
