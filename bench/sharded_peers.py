"""The peers that cut state over the data axis, of torch: ZeroRedundancyOptimizer, and FSDP2 (`fully_shard`)."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from peers import GPT, Loop, Make, adamw, decayed, settings
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn import functional as F  # noqa: N812 -- the field's name for it

from headway.data.samples import Batch
from headway.plan.plan import Plan


class Redundant(Loop):
    """DistributedDataParallel whose optimizer state is cut, parameter by parameter."""

    def made(self, plan: Plan) -> torch.optim.Optimizer:
        return ZeroRedundancyOptimizer(decayed([self.model], plan), torch.optim.AdamW, **settings(plan))


class FullyShard:
    """FSDP2, each layer a unit; the tied embedding and what is left are the root's.

    `reshard`: parameters are gathered for each forward and each backward, else once a step. `accumulates`: whole
    gradients are reduced behind the last micro-batch, else each micro-batch's into the rank's part.
    """

    def __init__(
        self, plan: Plan, _rank: int, weights: Mapping[str, Tensor], *, reshard: bool, accumulates: bool = False
    ) -> None:
        model = GPT(plan.model, sum(plan.blocks, ()))
        model.load(weights)
        self.reshard, self.accumulates = reshard, accumulates
        self.clip, self.size = plan.optimizer.clip, plan.layout.size("data")
        mesh = init_device_mesh("cpu", (self.size,))
        for layer in model.layers.values():
            fully_shard(layer, mesh=mesh, reshard_after_forward=reshard)
        fully_shard(model, mesh=mesh, reshard_after_forward=False)  # the root is needed first in the backward
        self.model: Any = model  # has become an FSDPModule
        self.optimizer = adamw([model], plan)

    def train_step(self, batch: Batch) -> float:
        tokens, targets = torch.from_numpy(batch.tokens), torch.from_numpy(batch.targets)
        total = torch.zeros(())
        self.optimizer.zero_grad(set_to_none=True)
        for index, (x, y) in enumerate(zip(tokens, targets, strict=True)):
            last = index == len(tokens) - 1
            self.model.set_requires_gradient_sync(last or not self.accumulates)
            self.model.set_reshard_after_backward(last or self.reshard)
            loss = F.cross_entropy(self.model(x).flatten(0, 1), y.flatten()) / len(tokens)
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        return total.item() / self.size


PEERS: dict[str, Make] = {
    "ZeroRedundancyOptimizer": Redundant,
    "FSDP2": partial(FullyShard, reshard=True),
    "FSDP2, no reshard": partial(FullyShard, reshard=False),
    "FSDP2, no reshard, one reduction": partial(FullyShard, reshard=False, accumulates=True),
}
