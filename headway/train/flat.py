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
from headway.placement import Placement, zero
from headway.train.blocks import initial


class FlatUnit:
    """The flat buffers `params` and `grads` of one unit; autograd adds straight into `grads`.

    Of what tensor ranks cut, a rank has its part: shapes are what it holds, padding included.

    `wide` is the type of the gradients, and of the `master` weights that an optimizer updates, where it is not `dtype`;
    else the parameters are their own master.

    `share` is the part of the gradients that this rank counts in their norm, of the `count` that share the unit.

    Of what `placed` cuts over `count` ranks the rank keeps the range `own` alone: `master` is of that range, `shard`
    (its parameters) and `own_grads` (its sums) too, padded to equal parts. A whole buffer that is kept has these as a
    part of itself; one that is not has memory from `gather` or `collect` until it is released.
    """

    def __init__(
        self,
        unit: Unit,
        dtype: torch.dtype,
        device: torch.device,
        *,
        wide: torch.dtype | None = None,
        placed: Placement | None = None,
        index: int = 0,
        count: int = 1,
    ) -> None:
        self.unit, self.placed = unit, placed or zero(0)
        part, cuts = unit.part(count), self.placed.cuts
        mine = slice(index * part, (index + 1) * part) if self.placed.optimizer.cut else slice(0, unit.numel)
        # cut or not, the same elements: so the norm, and what it clips, is the same to the bit
        self.share = unit.own(index, count)
        self.own = self.share if self.placed.optimizer.cut else mine
        self.params = torch.zeros(part * count if cuts else unit.numel, dtype=dtype, device=device)
        self.grads = torch.zeros_like(self.params, dtype=wide)
        cut_params, cut_grads = self.placed.params.cut, self.placed.grads.cut
        self.shard = torch.zeros_like(self.params[mine]) if cut_params else self.params[mine]
        self.own_grads = torch.zeros_like(self.grads[mine]) if cut_grads else self.grads[mine]
        size = self.own.stop - self.own.start
        self.has_master = wide not in (None, dtype)
        self.master = torch.zeros_like(self.own_grads[:size]) if self.has_master else self.shard[:size]
        self._offsets: dict[str, int] = {}
        offset = 0
        for parameter in unit.parameters:
            self._offsets[parameter.name] = offset
            offset += math.prod(held(parameter, unit.tensor))
        self._leaves = {block.name: self._views(block.parameters) for block in unit.blocks}
        self.shared = {} if unit.blocks else self._views(unit.parameters)
        self.release()
        self.scatter()

    def leaves(self, block: Block) -> dict[str, Tensor]:
        """The block's tensors by leaf name, with gradients."""
        return self._leaves[block.name]

    def named(self, flat: Tensor) -> dict[str, Tensor]:
        """Views of `flat` (params, grads, master or an optimizer moment) by global parameter name."""
        return {p.name: self._stacked(flat, [p]) for p in self.unit.parameters}

    def held(self) -> tuple[int, int]:
        """Bytes in memory of parameters and of gradients, master weights left out."""
        pairs = ((self.params, self.shard), (self.grads, self.own_grads))
        params, grads = (
            sum({each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in pair}.values())
            for pair in pairs
        )
        return params, grads

    def initialise(self, spec: ModelSpec, seed: int, index: int = 0) -> None:
        """Fill the weights of tensor rank `index`: a function of seed and name, of which it takes its part."""
        flat = torch.zeros_like(self.params, dtype=self.master.dtype)
        for parameter, view in zip(self.unit.parameters, self.named(flat).values(), strict=True):
            key = hashlib.sha256(f"{seed}:{parameter.name}".encode()).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(key[:7], "little"))
            whole = initial(parameter.shape, parameter.init, spec.layers, generator)
            mine = whole[part(parameter, self.unit.tensor, index)]
            view[tuple(map(slice, mine.shape))].copy_(mine)  # behind it is padding, which stays zero
        self.master.copy_(flat[self.own])
        self.round()

    @torch.no_grad()
    def round(self) -> None:
        """Write the master weights into the parameters that the rank keeps."""
        if self.has_master:
            self.shard[: len(self.master)].copy_(self.master)

    def gather(self) -> Tensor:
        """The whole parameters, for the ranks' parts to be written to; memory for them where it was released.

        Written to unseen by autograd, which may have saved them: they are the same bytes each time within a step.
        """
        _allocate(self.params)
        return self.params.data

    def release(self) -> None:
        """Give back the memory of the whole parameters, if the rank keeps a part alone."""
        if self.placed.params.cut:
            self.params.untyped_storage().resize_(0)

    def clear(self) -> None:
        """Forget the gradients, for a new step; sums of which the rank keeps its part have no memory until `sums`."""
        if self.placed.grads.cut:
            self.own_grads.untyped_storage().resize_(0)
        else:
            self.grads.zero_()

    def sums(self) -> bool:
        """Whether there are sums of this step to add to; memory for the first if there are none."""
        return not _allocate(self.own_grads)

    def collect(self) -> None:
        """Whole gradients to add to: those there are, else memory with zeros."""
        if _allocate(self.grads):
            self.grads.zero_()

    def scatter(self) -> None:
        """Give back the memory of the whole gradients, if the rank keeps its part of their sums alone."""
        if self.placed.grads.cut:
            self.grads.untyped_storage().resize_(0)

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


def _allocate(tensor: Tensor) -> bool:
    """Memory for a tensor whose memory was given back; whether it was."""
    storage, size = tensor.untyped_storage(), tensor.numel() * tensor.element_size()
    if storage.nbytes() == size:
        return False
    storage.resize_(size)
    return True
