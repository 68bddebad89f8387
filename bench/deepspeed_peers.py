"""The peers that need an environment of their own: the GPT of peers.py trained by DeepSpeed's ZeRO on CPUs."""

import importlib
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from peers import GPT, Make, adamw
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 -- the field's name for it

from headway.data.samples import Batch
from headway.plan.plan import Plan

deepspeed: Any = importlib.import_module("deepspeed")  # not in Headway's own environment, and without types


class DeepSpeed:
    """Gradient accumulation by DeepSpeed's engine with ZeRO's `stage` 1 or 2."""

    def __init__(self, plan: Plan, _rank: int, weights: Mapping[str, Tensor], *, stage: int) -> None:
        logging.disable(logging.INFO)
        # its operator for shared memory is compiled for many minutes when it starts
        importlib.import_module("deepspeed.ops").__compatible_ops__["deepspeed_shm_comm"] = False
        deepspeed.init_distributed("gloo")
        model = GPT(plan.model, sum(plan.blocks, ()))
        model.load(weights)
        self.size, self.count = plan.layout.size("data"), plan.num_microbatches
        config = {
            "train_batch_size": plan.train.global_batch,
            "train_micro_batch_size_per_gpu": plan.train.microbatch,
            "gradient_accumulation_steps": self.count,
            "gradient_clipping": plan.optimizer.clip,
            "zero_optimization": {"stage": stage},
            "zero_allow_untested_optimizer": True,  # torch's fused AdamW, as all contestants
        }
        self.engine = deepspeed.initialize(model=model, optimizer=adamw([model], plan), config=config)[0]

    def train_step(self, batch: Batch) -> float:
        tokens, targets = torch.from_numpy(batch.tokens), torch.from_numpy(batch.targets)
        total = torch.zeros(())
        for x, y in zip(tokens, targets, strict=True):
            loss = F.cross_entropy(self.engine(x).flatten(0, 1), y.flatten())
            self.engine.backward(loss)  # over the number of micro-batches
            self.engine.step()  # counts them
            total += loss.detach() / self.count
        return total.item() / self.size


PEERS: dict[str, Make] = {f"DeepSpeed ZeRO-{stage}": partial(DeepSpeed, stage=stage) for stage in (1, 2)}
