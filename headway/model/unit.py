"""Units: layer-sized pieces whose parameters lie in one flat buffer and move together."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from headway.model.block import SHARED, Block, Parameter, num_parameters, shared
from headway.model.cut import num_held
from headway.model.spec import ModelSpec
from headway.units import Bytes, Dtype

ALIGNED = 16  # elements in the widest vector of any processor (AVX-512, of float32), which treats a rest otherwise


@dataclass(frozen=True)  # no slots: a large plan asks for a unit's size a million times
class Unit:
    """One or more neighbouring blocks of one stage; or weights that two stages share, which is a unit without blocks.

    `parameters` are in the order of the flat buffer: decayed ones first, so that each optimizer group is one slice, and
    those that the `tensor` ranks cut in the middle, so that they are one slice too.
    """

    name: str
    stages: tuple[int, ...]
    blocks: tuple[Block, ...]
    parameters: tuple[Parameter, ...]
    tensor: int = 1

    @cached_property
    def numel(self) -> int:
        """Elements of a rank's flat buffer: its part of what is cut, padding included, and what each rank has whole."""
        return num_held(self.parameters, self.tensor)

    @property
    def num_parameters(self) -> int:
        """Elements of the model that all tensor ranks together hold, each once, without padding."""
        return num_parameters(self.parameters)

    @property
    def num_decayed(self) -> int:
        """Elements of the flat buffer's leading slice that weight decay applies to."""
        return num_held([p for p in self.parameters if p.decayed], self.tensor)

    def part(self, count: int) -> int:
        """Elements of each of `count` equal parts of the flat buffer, which is padded to that."""
        return _aligned(-(-self.numel // count)) if count > 1 else self.numel

    def own(self, index: int, count: int) -> slice:
        """The elements in part `index` of `count`, without padding; the last parts of a small unit have none."""
        part = self.part(count)
        return slice(min(index * part, self.numel), min((index + 1) * part, self.numel))

    def groups(self, own: slice) -> tuple[tuple[slice, bool], ...]:
        """A range of the flat buffer as slices of it for the optimizer: (slice, whether weight decay applies).

        Each begins where the parameters do or at a multiple of ALIGNED, whatever the range: so an element is updated
        by the same instructions, whichever rank does it.
        """
        decayed = self.num_decayed
        edges = [0, decayed, min(_aligned(decayed), self.numel), self.numel]
        inside = [min(max(edge, own.start), own.stop) - own.start for edge in edges]
        found = zip(inside[:-1], inside[1:], (True, False, False), strict=True)
        return tuple((slice(first, end), each) for first, end, each in found if end > first)

    @property
    def copies(self) -> tuple[tuple[slice, int], ...]:
        """The flat buffer as slices, each with the number of tensor ranks that hold the same elements."""
        sizes = (num_held([p for p in self.parameters if _place(p) == i], self.tensor) for i in range(4))
        first, *cut, last = sizes
        end = first + sum(cut)
        found = ((slice(0, first), self.tensor), (slice(first, end), 1), (slice(end, end + last), self.tensor))
        return found if self.tensor > 1 else ((slice(0, end + last), 1),)


def units(
    spec: ModelSpec, stages: Sequence[Sequence[Block]], *, unit_bytes: Bytes, dtype: Dtype, tensor: int = 1
) -> tuple[Unit, ...]:
    """All units of the model, in stage order; the shared one last.

    Neighbouring small blocks of a stage are merged while a rank's part of them together stays within `unit_bytes`;
    none is ever split.
    """
    found: list[Unit] = []
    for stage, members in enumerate(stages):
        run: list[Block] = []
        for block in members:
            if run and _size([*run, block], dtype, tensor) > unit_bytes:
                found.append(_unit(stage, run, tensor))
                run = []
            run.append(block)
        if run:
            found.append(_unit(stage, run, tensor))
    both = shared(spec)
    if both:
        found.append(Unit(SHARED, tuple(sorted({0, len(stages) - 1})), (), both, tensor))
    return tuple(found)


def _aligned(elements: int) -> int:
    return -(-elements // ALIGNED) * ALIGNED


def _size(run: Sequence[Block], dtype: Dtype, tensor: int) -> int:
    return sum(num_held(block.parameters, tensor) for block in run) * dtype.bytes


def _unit(stage: int, run: Sequence[Block], tensor: int) -> Unit:
    name = run[0].name if len(run) == 1 else f"{run[0].name}–{run[-1].name}"
    parameters = sorted((p for block in run for p in block.parameters), key=_place)
    return Unit(name, (stage,), tuple(run), tuple(parameters), tensor)


def _place(parameter: Parameter) -> int:
    """0 and 1 are decayed, 1 and 2 are cut."""
    if parameter.decayed:
        return 0 if parameter.cut is None else 1
    return 3 if parameter.cut is None else 2
