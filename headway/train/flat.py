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
    """The flat buffers `params` and `grads` of one unit; autograd adds straight into `grads`.

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
        """Views of `flat` (params, grads, master or an optimizer moment) by global parameter name."""
        return {p.name: flat[(at := self._offsets[p.name]) : at + p.numel].view(p.shape) for p in self.unit.parameters}

    def slices(self) -> tuple[tuple[slice, bool], ...]:
        """The flat buffer as optimizer groups: (slice, whether weight decay applies)."""
        cut, end = self.unit.num_decayed, self.unit.numel
        return tuple((slice(a, b), decayed) for a, b, decayed in ((0, cut, True), (cut, end, False)) if b > a)

    def initialise(self, spec: ModelSpec, seed: int) -> None:
        """Fill the weights with their first values: a pure function of seed and name, whatever the layout."""
        for parameter, view in zip(self.unit.parameters, self.named(self.master).values(), strict=True):
            key = hashlib.sha256(f"{seed}:{parameter.name}".encode()).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(key[:7], "little"))
            view.copy_(initial(parameter.shape, parameter.init, spec.layers, generator))
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
            at = self._offsets[stacked[0].name]
            size = sum(p.numel for p in stacked)
            shape = (sum(p.shape[0] for p in stacked), *stacked[0].shape[1:])
            view = self.params[at : at + size].view(shape).requires_grad_()
            view.grad_dtype = self.grads.dtype  # autograd casts each micro-batch's gradient and adds it up there
            view.grad = self.grads[at : at + size].view(shape)
            found[leaf] = view
        return found
