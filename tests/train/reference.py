"""The model once more in plain PyTorch, one process, no Headway but its first weights and masks: what is right."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from cases import FLOAT16_SCALE
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from headway.data.samples import IGNORE
from headway.model.block import blocks, shared
from headway.model.spec import ModelSpec
from headway.plan.job import Data, Optimizer, Train
from headway.plan.plan import Plan
from headway.train.blocks import initial
from headway.train.dropout import Draw, keep
from headway.train.rate import learning_rate


@dataclass(frozen=True)
class Training:
    """All that a result depends on: a plan but for its layout, and how many targets of each sequence are valid."""

    model: ModelSpec
    data: Data
    optimizer: Optimizer
    train: Train
    valid: tuple[int, ...]

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """The global batch of a step, [B, s] each."""
        generator = torch.Generator().manual_seed(step)
        shape = (self.train.global_batch, self.data.sequence_length)
        tokens = torch.randint(0, self.model.vocabulary, shape, generator=generator)
        targets = torch.randint(0, self.model.vocabulary, shape, generator=generator)
        for row, valid in enumerate(self.valid):
            targets[row, valid:] = IGNORE
        return tokens, targets


@dataclass(frozen=True)
class Trained:
    """What a training must come to: loss and norm of each step, and an evaluation after the last.

    `flat` [steps + 1, n] holds the gradients of each step and then the weights, all tensors behind one another.
    """

    shapes: dict[str, torch.Size]
    numbers: tuple[tuple[float, float], ...]
    flat: Tensor
    evaluation: float

    @property
    def steps(self) -> Iterator[tuple[float, float, dict[str, Tensor]]]:
        """Loss, norm and gradients of each step."""
        return ((*each, self._named(row)) for each, row in zip(self.numbers, self.flat[:-1], strict=True))

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The weights after the last step."""
        return self._named(self.flat[-1])

    def _named(self, row: Tensor) -> dict[str, Tensor]:
        parts = row.split([shape.numel() for shape in self.shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}


def trained(training: Training) -> Trained:
    """The training in one process."""
    reference, numbers, rows = Reference(training), [], []
    for step in range(training.train.steps):
        lr = learning_rate(training.optimizer, step, training.train.steps)
        numbers.append(reference.step(*training.batch(step), step, lr))
        # clip_grad_norm_ has clipped them, as the stages' own are
        rows.append(torch.cat([value.grad.flatten() for value in reference.p.values()]))
    evaluation = reference.evaluate(*training.batch(training.train.steps))
    rows.append(torch.cat([value.detach().flatten() for value in reference.p.values()]))
    shapes = {name: value.shape for name, value in reference.p.items()}
    return Trained(shapes, tuple(numbers), torch.stack(rows), evaluation)


class Reference:
    """A GPT or Llama whose parameters are named tensors, trained on whole global batches by torch's own optimizer."""

    def __init__(self, plan: Plan | Training):
        self.plan, spec = plan, plan.model
        self.p: dict[str, Tensor] = {}  # in float32 where the arithmetic is narrower
        self.precision, self.wide = (getattr(torch, each) for each in (plan.train.precision, plan.train.precision.wide))
        self.drawn: int | None = None  # the step that masks are drawn for
        for parameter in [p for block in blocks(spec) for p in block.parameters] + list(shared(spec)):
            key = hashlib.sha256(f"{plan.train.seed}:{parameter.name}".encode()).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(key[:7], "little"))
            value = initial(parameter.shape, parameter.init, spec.layers, generator)
            self.p[parameter.name] = value.to(self.wide).requires_grad_()

    @cached_property
    def adamw(self) -> torch.optim.AdamW:
        """Made at the first step: a reference that only reads out its weights waits for no compiler's import."""
        o = self.plan.optimizer
        decayed = [value for value in self.p.values() if value.dim() > 1]
        rest = [value for value in self.p.values() if value.dim() == 1]
        groups = [{"params": decayed, "weight_decay": o.weight_decay}, {"params": rest, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=o.lr, betas=o.betas, eps=o.eps, foreach=False)

    def step(self, tokens: Tensor, targets: Tensor, step: int, lr: float) -> tuple[float, float]:
        """Loss and gradient norm of one step on [B, s]."""
        self.adamw.zero_grad()
        self.drawn = step
        loss = self.loss(tokens, targets)
        scale = FLOAT16_SCALE if self.precision is torch.float16 else 1.0
        (loss * scale).backward()
        for value in self.p.values():
            value.grad /= scale
        norm = torch.nn.utils.clip_grad_norm_(list(self.p.values()), self.plan.optimizer.clip)
        for group in self.adamw.param_groups:
            group["lr"] = lr
        self.adamw.step()
        return loss.item(), norm.item()

    def evaluate(self, tokens: Tensor, targets: Tensor) -> float:
        """Loss on [B, s] with nothing dropped."""
        self.drawn = None
        with torch.no_grad():
            return self.loss(tokens, targets).item()

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        logits = self.logits(tokens).flatten(0, 1).to(self.wide)
        smoothing = 0.0 if self.drawn is None else self.plan.train.label_smoothing
        return F.cross_entropy(logits, targets.flatten(), ignore_index=-100, label_smoothing=smoothing)

    def logits(self, tokens: Tensor) -> Tensor:
        self.rounded = p = {name: value.to(self.precision) for name, value in self.p.items()}
        spec = self.plan.model
        x = p["embedding.tokens.weight"][tokens]
        if spec.family == "gpt":
            x = x + p["embedding.positions.weight"][: tokens.shape[1]]
        x = x * self.mask("embedding", spec.hidden_dropout, x)
        for i in range(spec.layers):
            attended = self.attention(f"layers.{i}.attention", self.norm(f"layers.{i}.attention_norm", x))
            x = x + attended * self.mask(f"layers.{i}.attention", spec.hidden_dropout, x)
            made = self.feed_forward(f"layers.{i}.feed_forward", self.norm(f"layers.{i}.feed_forward_norm", x))
            x = x + made * self.mask(f"layers.{i}.feed_forward", spec.hidden_dropout, x)
        output = p["embedding.tokens.weight"] if spec.tied else p["head.output.weight"]
        return self.norm("head.norm", x) @ output.T

    def attention(self, name: str, x: Tensor) -> Tensor:
        spec = self.plan.model
        q, k, v = (self.heads(self.linear(f"{name}.{each}", x)) for each in "qkv")
        if spec.family == "llama":
            q, k = self.rotated(q), self.rotated(k)
            k, v = (each.repeat_interleave(spec.heads // spec.key_value_heads, dim=1) for each in (k, v))
        future = torch.full((x.shape[1],) * 2, float("-inf"), dtype=x.dtype).triu(1)
        scores = q @ k.transpose(-1, -2) / (spec.hidden // spec.heads) ** 0.5 + future
        chances = scores.softmax(-1, dtype=self.wide).to(x.dtype)
        chances = chances * self.mask(f"{name}.probabilities", spec.attention_dropout, chances)
        return self.linear(f"{name}.output", (chances @ v).transpose(1, 2).flatten(2))

    def feed_forward(self, name: str, x: Tensor) -> Tensor:
        up = self.linear(f"{name}.up", x)
        if self.plan.model.family == "llama":
            gate = self.linear(f"{name}.gate", x)
            return self.linear(f"{name}.down", gate * torch.sigmoid(gate) * up)
        return self.linear(f"{name}.down", F.gelu(up, approximate="tanh"))

    def rotated(self, x: Tensor) -> Tensor:
        """The pairs (j, j + d/2) of [B, n, s, d] as complex numbers, turned by multiplying them."""
        s, half = x.shape[2], x.shape[3] // 2
        pairs = torch.complex(x[..., :half].to(self.wide), x[..., half:].to(self.wide))
        speeds = torch.tensor([self.plan.model.rope_theta ** (-j / half) for j in range(half)], dtype=self.wide)
        angles = torch.arange(s, dtype=self.wide)[:, None] * speeds
        turned = pairs * torch.polar(torch.ones_like(angles), angles)
        return torch.cat([turned.real, turned.imag], -1).to(x.dtype)

    def mask(self, site: str, rate: float, x: Tensor) -> Tensor | float:
        """What [B, …] is multiplied by: the masks of the global micro-batches one after another."""
        if rate == 0 or self.drawn is None:
            return 1.0
        b = self.plan.train.microbatch
        draws = [Draw(self.plan.train.seed, self.drawn, j) for j in range(len(x) // b)]
        masks = [keep(draw.key(site), rate, (b, *x.shape[1:]), x.device) for draw in draws]
        return torch.cat(masks).to(x.dtype) / (1 - rate)

    def heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.plan.model.hidden // self.plan.model.heads)).transpose(1, 2)

    def linear(self, name: str, x: Tensor) -> Tensor:
        p = self.rounded
        y = x @ p[f"{name}.weight"].T
        return y + p[f"{name}.bias"] if f"{name}.bias" in p else y

    def norm(self, name: str, x: Tensor) -> Tensor:
        return self.wide_norm(name, x.to(self.wide)).to(x.dtype)

    def wide_norm(self, name: str, x: Tensor) -> Tensor:
        p = self.rounded
        if self.plan.model.family == "llama":
            return x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * p[f"{name}.weight"]
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
        return (x - mean) / (variance + 1e-5).sqrt() * p[f"{name}.weight"] + p[f"{name}.bias"]
