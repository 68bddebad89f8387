"""A unit in memory: parameters and gradients each in one flat buffer, with views for arithmetic and by global name."""

import hashlib
import math
from itertools import groupby

import torch
from torch import Tensor

from headway.model.block import Block, Parameter
from headway.model.cut import held, part
from headway.model.spec import ModelSpec
from headway.model.unit import Unit
from headway.train.blocks import initial


class FlatUnit:
    """The flat buffers `params` and `grads` of one unit; autograd adds straight into `grads`.

    Of what tensor ranks cut, a rank has its part: shapes are what it holds, padding included.

    `wide` is the type of the gradients, and of the `master` weights that an optimizer updates, where it is not `dtype`;
    else the parameters are their own master.
    """

    def __init__(
        self, unit: Unit, dtype: torch.dtype, device: torch.device, *, wide: torch.dtype | None = None
    ) -> None:
        self.unit = unit
        self.params = torch.zeros(unit.numel, dtype=dtype, device=device)
        self.grads = torch.zeros_like(self.params, dtype=wide)
        self.master = self.params if wide in (None, dtype) else torch.zeros_like(self.grads)
        self.own = slice(0, unit.numel)  # of the flat buffer, what this rank keeps master weights and moments of
        self._offsets: dict[str, int] = {}
        offset = 0
        for parameter in unit.parameters:
            self._offsets[parameter.name] = offset
            offset += math.prod(held(parameter, unit.tensor))
        self._leaves = {block.name: self._views(block.parameters) for block in unit.blocks}
        self.shared = {} if unit.blocks else self._views(unit.parameters)

    def leaves(self, block: Block) -> dict[str, Tensor]:
        """The block's tensors by leaf name, with gradients."""
        return self._leaves[block.name]

    def named(self, flat: Tensor) -> dict[str, Tensor]:
        """Views of `flat` (params, grads, master or an optimizer moment) by global parameter name."""
        return {p.name: self._stacked(flat, [p]) for p in self.unit.parameters}

    def slices(self) -> tuple[tuple[slice, bool], ...]:
        """The flat buffer as optimizer groups: (slice, whether weight decay applies)."""
        cut, end = self.unit.num_decayed, self.unit.numel
        return tuple((slice(a, b), decayed) for a, b, decayed in ((0, cut, True), (cut, end, False)) if b > a)

    def initialise(self, spec: ModelSpec, seed: int, index: int = 0) -> None:
        """Fill the weights of tensor rank `index`: a function of seed and name, of which it takes its part."""
        for parameter, view in zip(self.unit.parameters, self.named(self.master).values(), strict=True):
            key = hashlib.sha256(f"{seed}:{parameter.name}".encode()).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(key[:7], "little"))
            whole = initial(parameter.shape, parameter.init, spec.layers, generator)
            mine = whole[part(parameter, self.unit.tensor, index)]
            view[tuple(map(slice, mine.shape))].copy_(mine)  # behind it is padding, which stays zero
        self.round()

    @torch.no_grad()
    def round(self) -> None:
        """Write the master weights into the parameters."""
        if self.master is not self.params:
            self.params.copy_(self.master)

    def _views(self, parameters: tuple[Parameter, ...]) -> dict[str, Tensor]:
        """One tensor for each leaf: neighbours of one leaf stacked along dim 0."""
        found = {}
        for leaf, members in groupby(parameters, key=lambda p: p.leaf):
            stacked = list(members)
            view = self._stacked(self.params, stacked).requires_grad_()
            view.grad_dtype = self.grads.dtype  # autograd casts each micro-batch's gradient and adds it up there
            view.grad = self._stacked(self.grads, stacked)
            found[leaf] = view
        return found

    def _stacked(self, flat: Tensor, parameters: list[Parameter]) -> Tensor:
        """Neighbours in the flat buffer as one tensor, stacked along dim 0."""
        shapes = [held(p, self.unit.tensor) for p in parameters]
        at = self._offsets[parameters[0].name]
        shape = (sum(rows for rows, *_ in shapes), *shapes[0][1:])
        return flat[at : at + math.prod(shape)].view(shape)
