"""The peer over tensor ranks: DTensor with a loss over the cut vocabulary, and with the sequence whole or cut."""

from collections.abc import Mapping

import torch
import torch.distributed as dist
from peers import GPT, Embedding, Make, adamw
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import functional as F  # noqa: N812 -- the field's name for it

from headway.data.samples import Batch
from headway.model.spec import ModelSpec
from headway.plan.plan import Plan


class TensorParallel:
    """Gradient accumulation in a plain loop over a GPT cut as torch's tutorial and torchtitan cut theirs.

    Queries, keys and values stay one product: its rows are ordered so that each rank's are its heads'.
    """

    def __init__(self, plan: Plan, _rank: int, weights: Mapping[str, Tensor]) -> None:
        size = plan.layout.size("tensor")
        self.cut, self.clip = plan.sequence_parallel, plan.optimizer.clip
        mesh = init_device_mesh("cpu", (size,))
        self.model = GPT(plan.model, sum(plan.blocks, ()))
        if self.cut:
            self.model.embedding = CutEmbedding(plan.model, mesh)
        _tie(self.model)
        self.model.load(weights)
        _same_everywhere(self.model, size)
        parallelize(self.model, mesh, cut=self.cut)
        self.optimizer = adamw([self.model], plan)

    def train_step(self, batch: Batch) -> float:
        tokens, targets = torch.from_numpy(batch.tokens), torch.from_numpy(batch.targets)
        total = torch.zeros(())
        self.optimizer.zero_grad(set_to_none=True)
        for x, y in zip(tokens, targets, strict=True):
            with loss_parallel():
                loss = F.cross_entropy(self.model(x).flatten(0, 1), y.flatten()) / len(tokens)
                loss.backward()  # type: ignore[no-untyped-call]
            total += _local(loss.detach())
        self._clip()
        self.optimizer.step()
        return total.item() / dist.get_world_size()

    def _clip(self) -> None:
        """Clip by the norm of the whole gradients; what is no DTensor all ranks have alike."""
        if self.cut:  # each rank has had its part of the sequence
            assert self.model.embedding
            dist.all_reduce(_gradient(self.model.embedding.positions.weight))
        parameters = list(self.model.parameters())
        kinds = [[p for p in parameters if isinstance(p, DTensor) is cut] for cut in (True, False)]
        norms = [_local(nn.utils.get_total_norm([_gradient(p) for p in kind])) for kind in kinds if kind]
        norm = torch.stack(norms).norm()
        for kind in kinds:
            if kind:
                nn.utils.clip_grads_with_norm_(kind, self.clip, norm)


def parallelize(model: GPT, mesh: DeviceMesh, *, cut: bool) -> None:
    """Cut the model's products and its vocabulary over the mesh; with `cut`, the sequence where they are not."""
    outside = Shard(1) if cut else Replicate()
    styles: dict[str, ParallelStyle] = {
        "embedding.tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=outside),
        "layers.*.attention.qkv": ColwiseParallel(input_layouts=outside),
        "layers.*.attention.output": RowwiseParallel(output_layouts=outside),
        "layers.*.feed_forward.up": ColwiseParallel(input_layouts=outside),
        "layers.*.feed_forward.down": RowwiseParallel(output_layouts=outside),
        "head.output": ColwiseParallel(input_layouts=outside, output_layouts=Shard(-1), use_local_output=False),
    }
    if cut:
        norms = ("layers.*.attention_norm", "layers.*.feed_forward_norm", "head.norm")
        styles |= {name: SequenceParallel(use_local_output=True) for name in norms}
    parallelize_module(model, mesh, styles)
    _tie(model)  # each was cut by itself


class CutEmbedding(Embedding):
    """An embedding whose tokens come out as this rank's part of the sequence."""

    def __init__(self, spec: ModelSpec, mesh: DeviceMesh) -> None:
        super().__init__(spec)
        self.index, self.size = mesh.get_local_rank(), mesh.size()

    def forward(self, tokens: Tensor) -> Tensor:
        each = tokens.shape[1] // self.size
        out: Tensor = self.tokens(tokens) + self.positions.weight[each * self.index :][:each]
        return out


def _tie(model: GPT) -> None:
    assert model.embedding
    assert model.head
    model.head.output.weight = model.embedding.tokens.weight


def _same_everywhere(model: GPT, size: int) -> None:
    """Rank 0's weights on all ranks, rows of queries, keys and values in the order of the ranks' heads."""
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            dist.broadcast(parameter, 0)
            if ".qkv." in name:
                parts = parameter.clone().view(3, size, -1, *parameter.shape[1:])
                parameter.copy_(parts.transpose(0, 1).reshape(parameter.shape))


def _gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


def _local(value: Tensor) -> Tensor:
    """A scalar that all ranks have."""
    whole: Tensor = value.full_tensor() if isinstance(value, DTensor) else value
    return whole


PEERS: dict[str, Make] = {
    "DTensor, loss parallel": TensorParallel,
    "DTensor, loss and sequence parallel": TensorParallel,
}
