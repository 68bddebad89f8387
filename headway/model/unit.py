"""Units: layer-sized pieces whose parameters lie in one flat buffer and move together."""

from collections.abc import Sequence
from dataclasses import dataclass

from headway.model.block import SHARED, Block, Parameter, num_parameters, shared
from headway.model.spec import ModelSpec
from headway.units import Bytes, Dtype


@dataclass(frozen=True, slots=True)
class Unit:
    """One or more neighbouring blocks of one stage; or weights that two stages share, which is a unit without blocks.

    `parameters` are in the order of the flat buffer: decayed ones first, so that each optimizer group is one slice.
    """

    name: str
    stages: tuple[int, ...]
    blocks: tuple[Block, ...]
    parameters: tuple[Parameter, ...]

    @property
    def numel(self) -> int:
        """Elements of the flat buffer."""
        return num_parameters(self.parameters)

    @property
    def num_decayed(self) -> int:
        """Elements of the leading slice that weight decay applies to."""
        return num_parameters([p for p in self.parameters if p.decayed])


def units(spec: ModelSpec, stages: Sequence[Sequence[Block]], *, unit_bytes: Bytes, dtype: Dtype) -> tuple[Unit, ...]:
    """All units of the model, in stage order; the shared one last.

    Neighbouring small blocks of a stage are merged while together they stay within `unit_bytes`; none is ever split.
    """
    found: list[Unit] = []
    for stage, members in enumerate(stages):
        run: list[Block] = []
        for block in members:
            if run and _size([*run, block], dtype) > unit_bytes:
                found.append(_unit(stage, run))
                run = []
            run.append(block)
        if run:
            found.append(_unit(stage, run))
    both = shared(spec)
    if both:
        found.append(Unit(SHARED, tuple(sorted({0, len(stages) - 1})), (), both))
    return tuple(found)


def _size(run: Sequence[Block], dtype: Dtype) -> int:
    return sum(num_parameters(block.parameters) for block in run) * dtype.bytes


def _unit(stage: int, run: Sequence[Block]) -> Unit:
    name = run[0].name if len(run) == 1 else f"{run[0].name}–{run[-1].name}"
    parameters = sorted((p for block in run for p in block.parameters), key=lambda p: not p.decayed)
    return Unit(name, (stage,), tuple(run), tuple(parameters))
