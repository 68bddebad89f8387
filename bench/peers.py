"""The peers: the same GPT as ordinary modules, trained by plain loops, by DDP and by torch's pipeline schedules."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B
from torch.nn import functional as F  # noqa: N812 -- the field's name for it
from torch.nn.parallel import DistributedDataParallel

from headway.data.samples import Batch
from headway.model.block import Block
from headway.model.spec import ModelSpec
from headway.plan.plan import Plan


class Peer(Protocol):
    """A contestant on one rank."""

    def train_step(self, batch: Batch) -> float:
        """One step on this rank's batch; this rank's part of the mean loss (the parts of all ranks sum to it)."""
        ...


# a peer of a plan's case on a rank, starting from weights by global name
Make = Callable[[Plan, int, Mapping[str, Tensor]], Peer]


class Attention(nn.Module):
    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.width = spec.head_width
        self.qkv = nn.Linear(spec.hidden, 3 * spec.hidden)
        self.output = nn.Linear(spec.hidden, spec.hidden)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (each.unflatten(2, (-1, self.width)).transpose(1, 2) for each in self.qkv(x).chunk(3, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out: Tensor = self.output(y.transpose(1, 2).flatten(2))
        return out


class FeedForward(nn.Module):
    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.up = nn.Linear(spec.hidden, spec.feed_forward)
        self.down = nn.Linear(spec.feed_forward, spec.hidden)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(F.gelu(self.up(x), approximate="tanh"))
        return out


class Layer(nn.Module):
    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(spec.hidden)
        self.attention = Attention(spec)
        self.feed_forward_norm = nn.LayerNorm(spec.hidden)
        self.feed_forward = FeedForward(spec)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        out: Tensor = x + self.feed_forward(self.feed_forward_norm(x))
        return out


class Embedding(nn.Module):
    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.tokens = nn.Embedding(spec.vocabulary, spec.hidden)
        self.positions = nn.Embedding(spec.positions, spec.hidden)

    def forward(self, tokens: Tensor) -> Tensor:
        out: Tensor = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        return out


class Head(nn.Module):
    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(spec.hidden)
        self.output = nn.Linear(spec.hidden, spec.vocabulary, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.output(self.norm(x))
        return out


class GPT(nn.Module):
    """The blocks given, in order: the whole model, or one stage of a pipeline. Parameter names are Headway's."""

    def __init__(self, spec: ModelSpec, blocks: tuple[Block, ...]) -> None:
        super().__init__()
        kinds = [block.kind for block in blocks]
        self.embedding = Embedding(spec) if "embedding" in kinds else None
        numbers = [block.name.rpartition(".")[2] for block in blocks if block.kind == "layer"]
        self.layers = nn.ModuleDict({number: Layer(spec) for number in numbers})
        self.head = Head(spec) if "head" in kinds else None
        if spec.tied and self.embedding and self.head:
            self.head.output.weight = self.embedding.tokens.weight

    def forward(self, x: Tensor) -> Tensor:
        """Logits [b, s, vocabulary] of tokens [b, s]; a stage's output, of its input."""
        if self.embedding is not None:
            x = self.embedding(x)
        for layer in self.layers.values():
            x = layer(x)
        return x if self.head is None else self.head(x)

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Take Headway's weights by global name; q, k and v are one linear here."""
        for name, parameter in self.named_parameters():
            before, fused, after = name.partition(".qkv.")
            parts = [weights[f"{before}.{each}.{after}"] for each in "qkv"] if fused else [weights[name]]
            with torch.no_grad():
                parameter.copy_(torch.cat(parts))


class MixedLoop:
    """Gradient accumulation in a plain loop: a bfloat16 model whose gradients add up in float32 master weights'."""

    def __init__(self, plan: Plan, _rank: int, weights: Mapping[str, Tensor]) -> None:
        self.master = GPT(plan.model, sum(plan.blocks, ()))
        self.master.load(weights)
        self.model = GPT(plan.model, sum(plan.blocks, ())).bfloat16()
        self.clip = plan.optimizer.clip
        self.optimizer = adamw([self.master], plan)
        self.pairs = list(zip(self.model.parameters(), self.master.parameters(), strict=True))
        for _, master in self.pairs:
            master.grad = torch.zeros_like(master)
        self._round()

    def train_step(self, batch: Batch) -> float:
        tokens, targets = torch.from_numpy(batch.tokens), torch.from_numpy(batch.targets)
        total = torch.zeros(())
        self.optimizer.zero_grad(set_to_none=False)
        for x, y in zip(tokens, targets, strict=True):
            loss = F.cross_entropy(self.model(x).flatten(0, 1).float(), y.flatten()) / len(tokens)
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
            for parameter, master in self.pairs:
                assert parameter.grad is not None
                assert master.grad is not None
                master.grad.add_(parameter.grad)
                parameter.grad = None
        nn.utils.clip_grad_norm_(self.master.parameters(), self.clip)
        self.optimizer.step()
        self._round()
        return total.item()

    def _round(self) -> None:
        with torch.no_grad():
            for parameter, master in self.pairs:
                parameter.copy_(master)


class Loop:
    """Gradient accumulation in a plain loop; over data ranks with DistributedDataParallel."""

    def __init__(self, plan: Plan, _rank: int, weights: Mapping[str, Tensor]) -> None:
        model = GPT(plan.model, sum(plan.blocks, ()))
        model.load(weights)
        self.model: nn.Module = model
        self.clip, self.size = plan.optimizer.clip, plan.layout.size("data")
        self.optimizer = self.made(plan)
        if self.size > 1:
            self.model = DistributedDataParallel(model, gradient_as_bucket_view=True)

    def made(self, plan: Plan) -> torch.optim.Optimizer:
        """The optimizer of this loop's model."""
        return adamw([self.model], plan)

    def train_step(self, batch: Batch) -> float:
        tokens, targets = torch.from_numpy(batch.tokens), torch.from_numpy(batch.targets)
        total = torch.zeros(())
        # Zeroed gradients stay in DDP's buckets: 3 to 5 % faster than new ones, which it must copy there. Buckets of 1
        # and 4 MiB were no faster; nor was a static graph, which fails if the first step uses no_sync (torch 2.13).
        self.optimizer.zero_grad(set_to_none=self.size == 1)
        for index, (x, y) in enumerate(zip(tokens, targets, strict=True)):
            with self._accumulating(last=index == len(tokens) - 1):
                loss = F.cross_entropy(self.model(x).flatten(0, 1), y.flatten()) / len(tokens)
                loss.backward()  # type: ignore[no-untyped-call]
                total += loss.detach()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        return total.item() / self.size

    def _accumulating(self, *, last: bool) -> contextlib.AbstractContextManager[None]:
        """DDP reduces the gradients in the backward of the last micro-batch only."""
        if isinstance(self.model, DistributedDataParallel) and not last:
            return self.model.no_sync()
        return contextlib.nullcontext()


class Pipeline:
    """torch.distributed.pipelining: 1F1B with one stage a rank, interleaved 1F1B with more."""

    def __init__(self, plan: Plan, rank: int, weights: Mapping[str, Tensor]) -> None:
        mine = plan.schedule.stages(rank)
        self.models = [GPT(plan.model, plan.blocks[stage]) for stage in mine]
        for model in self.models:
            model.load(weights)
        self.optimizer = adamw(self.models, plan)
        self.clip = plan.optimizer.clip
        device = torch.device("cpu")
        stages = [
            PipelineStage(model, stage, len(plan.stages), device)
            for model, stage in zip(self.models, mine, strict=True)
        ]
        count = plan.num_microbatches

        def loss(logits: Tensor, targets: Tensor) -> Tensor:
            return F.cross_entropy(logits.flatten(0, 1), targets.flatten()) / count

        # the loss is scaled already: a pass over the gradients less
        self.schedule: Any = (
            Schedule1F1B(stages[0], count, loss_fn=loss, scale_grads=False)
            if len(stages) == 1
            else ScheduleInterleaved1F1B(list(stages), count, loss_fn=loss, scale_grads=False)
        )
        self.first, self.last = 0 in mine, len(plan.stages) - 1 in mine

    def train_step(self, batch: Batch) -> float:
        tokens, targets = torch.from_numpy(batch.tokens).flatten(0, 1), torch.from_numpy(batch.targets).flatten(0, 1)
        losses: list[Tensor] = []
        self.optimizer.zero_grad(set_to_none=True)
        self.schedule.step(
            *([tokens] if self.first else []),
            target=targets if self.last else None,
            losses=losses if self.last else None,
            return_outputs=False,
        )
        self._clip()
        self.optimizer.step()
        return torch.stack(losses).sum().item() if losses else 0.0

    def _clip(self) -> None:
        """Clip by the norm over all ranks."""
        parameters = [parameter for model in self.models for parameter in model.parameters()]
        norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        square = norm.square()
        dist.all_reduce(square)
        nn.utils.clip_grads_with_norm_(parameters, self.clip, square.sqrt())


def decayed(models: Sequence[nn.Module], plan: Plan) -> list[dict[str, Any]]:
    """Parameter groups: only matrices decay; a fused step takes tensors of one class, as DTensors are not."""
    kinds: dict[tuple[type, bool], list[Tensor]] = {}
    for parameter in (parameter for model in models for parameter in model.parameters()):
        kinds.setdefault((type(parameter.data), parameter.dim() >= 2), []).append(parameter)
    decay = plan.optimizer.weight_decay
    return [{"params": each, "weight_decay": decay if matrices else 0.0} for (_, matrices), each in kinds.items()]


def settings(plan: Plan) -> dict[str, Any]:
    """Of a fused AdamW. The case's learning rate is constant."""
    return {"lr": plan.optimizer.lr, "betas": plan.optimizer.betas, "eps": plan.optimizer.eps, "fused": True}


def adamw(models: Sequence[nn.Module], plan: Plan) -> torch.optim.Optimizer:
    """The optimizer of all parameters of the models."""
    return torch.optim.AdamW(decayed(models, plan), **settings(plan))


PEERS: dict[str, Make] = {
    "plain PyTorch loop": Loop,
    "plain PyTorch loop, float32 masters": MixedLoop,
    "DistributedDataParallel": Loop,
    "Schedule1F1B": Pipeline,
    "ScheduleInterleaved1F1B": Pipeline,
}
