"""A unit in memory: parameters and gradients each in one flat buffer, with views for arithmetic and by global name."""

import hashlib
from itertools import groupby

import torch
from torch import Tensor

from headway.model.block import Block, Parameter
from headway.model.spec import ModelSpec
from headway.model.unit import Unit
from headway.train.blocks import initial


class FlatUnit:
    """The flat buffers `params` and `grads` of one unit; autograd adds straight into `grads`."""

    def __init__(self, unit: Unit, dtype: torch.dtype, device: torch.device) -> None:
        self.unit = unit
        self.params = torch.zeros(unit.numel, dtype=dtype, device=device)
        self.grads = torch.zeros_like(self.params)
        self._offsets: dict[str, int] = {}
        offset = 0
        for parameter in unit.parameters:
            self._offsets[parameter.name] = offset
            offset += parameter.numel
        self._leaves = {block.name: self._views(block.parameters) for block in unit.blocks}
        self.shared = {} if unit.blocks else self._views(unit.parameters)

    def leaves(self, block: Block) -> dict[str, Tensor]:
        """The block's tensors by leaf name, with gradients."""
        return self._leaves[block.name]

    def named(self, flat: Tensor) -> dict[str, Tensor]:
        """Views of `flat` (params, grads or an optimizer moment) by global parameter name."""
        return {p.name: flat[(at := self._offsets[p.name]) : at + p.numel].view(p.shape) for p in self.unit.parameters}

    def slices(self) -> tuple[tuple[slice, bool], ...]:
        """The flat buffer as optimizer groups: (slice, whether weight decay applies)."""
        cut, end = self.unit.num_decayed, self.unit.numel
        return tuple((slice(a, b), decayed) for a, b, decayed in ((0, cut, True), (cut, end, False)) if b > a)

    def initialise(self, spec: ModelSpec, seed: int) -> None:
        """Fill the parameters with their first values: a pure function of seed and name, whatever the layout."""
        for parameter, view in zip(self.unit.parameters, self.named(self.params).values(), strict=True):
            key = hashlib.sha256(f"{seed}:{parameter.name}".encode()).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(key[:7], "little"))
            view.copy_(initial(parameter.shape, parameter.init, spec.layers, generator))

    def _views(self, parameters: tuple[Parameter, ...]) -> dict[str, Tensor]:
        """One tensor for each leaf: neighbours of one leaf stacked along dim 0."""
        found = {}
        for leaf, members in groupby(parameters, key=lambda p: p.leaf):
            stacked = list(members)
            at = self._offsets[stacked[0].name]
            size = sum(p.numel for p in stacked)
            shape = (sum(p.shape[0] for p in stacked), *stacked[0].shape[1:])
            view = self.params[at : at + size].view(shape).requires_grad_()
            view.grad = self.grads[at : at + size].view(shape)
            found[leaf] = view
        return found
