"""The model written once more in plain PyTorch, one process, no Headway but its first weights: what is right."""

import hashlib

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from headway.model.block import blocks, shared
from headway.plan.plan import Plan
from headway.train.blocks import initial


class Reference:
    """A GPT whose parameters are named tensors, trained on whole global batches by torch's own optimizer."""

    def __init__(self, plan: Plan):
        self.plan, spec = plan, plan.model
        self.p: dict[str, Tensor] = {}
        for parameter in [p for block in blocks(spec) for p in block.parameters] + list(shared(spec)):
            key = hashlib.sha256(f"{plan.train.seed}:{parameter.name}".encode()).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(key[:7], "little"))
            value = initial(parameter.shape, parameter.init, spec.layers, generator)
            self.p[parameter.name] = value.to(getattr(torch, plan.train.precision)).requires_grad_()
        o = plan.optimizer
        decayed = [value for value in self.p.values() if value.dim() > 1]
        rest = [value for value in self.p.values() if value.dim() == 1]
        groups = [{"params": decayed, "weight_decay": o.weight_decay}, {"params": rest, "weight_decay": 0.0}]
        self.adamw = torch.optim.AdamW(groups, lr=o.lr, betas=o.betas, eps=o.eps, foreach=False)

    def step(self, tokens: Tensor, targets: Tensor, lr: float) -> tuple[float, float]:
        """Loss and gradient norm of one step on [B, s]."""
        self.adamw.zero_grad()
        logits = self.logits(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(list(self.p.values()), self.plan.optimizer.clip)
        for group in self.adamw.param_groups:
            group["lr"] = lr
        self.adamw.step()
        return loss.item(), norm.item()

    def evaluate(self, tokens: Tensor, targets: Tensor) -> float:
        """Loss on [B, s], nothing learned."""
        with torch.no_grad():
            logits = self.logits(tokens)
            return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100).item()

    def logits(self, tokens: Tensor) -> Tensor:
        spec, p = self.plan.model, self.p
        x = p["embedding.tokens.weight"][tokens] + p["embedding.positions.weight"][: tokens.shape[1]]
        mask = torch.full((tokens.shape[1],) * 2, float("-inf"), dtype=x.dtype).triu(1)
        for i in range(spec.layers):
            n = self.norm(f"layers.{i}.attention_norm", x)
            q, k, v = (self.heads(self.linear(f"layers.{i}.attention.{name}", n)) for name in "qkv")
            scores = q @ k.transpose(-1, -2) / (spec.hidden // spec.heads) ** 0.5 + mask
            attended = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
            x = x + self.linear(f"layers.{i}.attention.output", attended)
            up = F.gelu(
                self.linear(f"layers.{i}.feed_forward.up", self.norm(f"layers.{i}.feed_forward_norm", x)),
                approximate="tanh",
            )
            x = x + self.linear(f"layers.{i}.feed_forward.down", up)
        output = p["embedding.tokens.weight"] if spec.tied else p["head.output.weight"]
        return self.norm("head.norm", x) @ output.T

    def heads(self, x: Tensor) -> Tensor:
        b, s, h = x.shape
        return x.view(b, s, self.plan.model.heads, h // self.plan.model.heads).transpose(1, 2)

    def linear(self, name: str, x: Tensor) -> Tensor:
        return x @ self.p[f"{name}.weight"].T + self.p[f"{name}.bias"]

    def norm(self, name: str, x: Tensor) -> Tensor:
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
        return (x - mean) / (variance + 1e-5).sqrt() * self.p[f"{name}.weight"] + self.p[f"{name}.bias"]
