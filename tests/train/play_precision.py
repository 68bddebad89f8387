"""One of 4 processes that train in 16 bits, with gradients spoiled on one of them, and leave what each saw as JSON.

RANK=… WORLD_SIZE=4 … python play_precision.py OUT.json
"""

import hashlib
import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from headway.data.samples import Batch, Slice
from headway.plan.build import build
from headway.plan.job import Job
from headway.plan.read import decode
from headway.train import comm
from headway.train.loop import Trainer
from headway.train.loss_scale import LossScale
from headway.train.torch_stage import TorchStage

NOISE = 8  # a token is 3 times the one before and one of so many more: no model's loss is below log(8)
VOCABULARY = 64
SPOILED = "layers.1"  # lives on the ranks 2 and 3


class SpoiledStage(TorchStage):
    """A stage in whose gradients a value appears at some steps, on the rank whose `spoiled` says so."""

    spoiled: dict[int, float] = {}  # noqa: RUF012 -- replaced by the test

    def load(self, tokens, targets):
        super().load(tokens, targets)
        if self.step in self.spoiled:
            self.units[SPOILED].grads[5] = self.spoiled[self.step]


def trainer(steps, lr=1e-2, **train):
    sizes = {"layers": 2, "hidden": 32, "heads": 2, "feed_forward": 64, "vocabulary": VOCABULARY, "positions": 32}
    document = {
        "model": sizes,
        "parallel": {"pipeline": 2, "data": 2, "unit_bytes": 0},
        "data": {"sequence_length": 32, "tokenizer": "none"},
        "optimizer": {"lr": lr, "min_lr": 1e-3, "warmup_steps": 5},
        "train": {"steps": steps, "global_batch": 8, "microbatch": 2, **train},
    }
    plan, rank = build(decode(Job, document, "job")), dist.get_rank()
    stage = SpoiledStage(plan, plan.program, rank, torch.device("cpu"), comm.Comm(plan, rank))
    return Trainer(plan, stage, lambda *_: None)


def batch(trainer, step):
    plan = trainer.plan
    generator = torch.Generator().manual_seed(step)
    tokens = torch.randint(0, VOCABULARY, (plan.train.global_batch, 33), generator=generator)
    noise = torch.randint(0, NOISE, tokens.shape, generator=generator)
    for place in range(1, 33):
        tokens[:, place] = (3 * tokens[:, place - 1] + noise[:, place]) % VOCABULARY
    data = plan.layout.coord(trainer.stage.rank)["data"]
    places = Slice(data, plan.layout.size("data"), plan.train.microbatch, plan.num_microbatches).places()
    return Batch(tokens[places, :-1].numpy(), tokens[places, 1:].numpy())


def digest(stage):
    found = hashlib.sha256()
    for unit in stage.units.values():
        found.update(unit.master.detach().numpy().tobytes())
    return found.hexdigest()


def spoiled(steps, values, scale=None, **train):
    """Every step's result with `values` (step → value) put into gradients on rank 2 alone."""
    made = trainer(steps, **train)
    if dist.get_rank() == 2:
        made.stage.spoiled = values
    if scale is not None:
        made.stage.scale = scale
    found = []
    for step in range(steps):
        before = digest(made.stage)
        result = made.train_step(batch(made, step))
        found.append(
            {
                "finite": result.finite,
                "scale": result.loss_scale,
                "gave_up": made.stage.gave_up,
                "moved": digest(made.stage) != before,
                "unit": made.stage.first_nonfinite(),
                "learning_rate": result.learning_rate,
                # of the optimizer's, which has one for each of its slices, and of the rank
                "counters": sorted({int(each) for each in made.stage.optimizer.tensors() if each.dim() == 0}),
                "step": made.stage.step,
            }
        )
    return found


def losses(**train):
    made = trainer(**train)
    return [made.train_step(batch(made, step)).loss for step in range(made.plan.train.steps)]


def main(out):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    infinity, nothing = float("inf"), float("nan")
    found = {
        "ten overflows": spoiled(
            14,
            dict.fromkeys(range(10), infinity),
            LossScale(16.0, patience=1, window=2),
            precision="float16",
        ),
        "float16 fixed": spoiled(3, {1: infinity}, precision="float16", loss_scale=256.0, on_nonfinite="skip"),
        "bfloat16 skips": spoiled(3, {1: nothing}, precision="bfloat16", on_nonfinite="skip"),
        "bfloat16 stops": spoiled(2, {1: nothing}, precision="bfloat16"),
        "losses": {
            name: losses(steps=STEPS, **train)
            for name, train in {
                "float32": {},
                "bfloat16": {"precision": "bfloat16"},
                "bfloat16 reduced": {"precision": "bfloat16", "reduce_dtype": "bfloat16"},
                "float16": {"precision": "float16"},
            }.items()
        },
    }
    ranks = comm.to_rank_0(found)
    if ranks is not None:
        out.write_text(json.dumps(ranks))
    dist.destroy_process_group()


STEPS = 32

if __name__ == "__main__":
    main(Path(sys.argv[1]))
