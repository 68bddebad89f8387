"""One process that counts the FLOPs of a step with torch's counter, and leaves them beside the planned ones.

RANK=0 WORLD_SIZE=1 … python count_flops.py OUT.json
"""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from cases import Case
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from headway.data.samples import Batch
from headway.plan.work import model_flops_per_token, work
from headway.train import comm
from headway.train.loop import Trainer
from headway.train.torch_stage import TorchStage


def main(out: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    found = {}
    dropped = {"attention_dropout": 0.1, "hidden_dropout": 0.1}
    cases = [Case(1, 1, 1, "1f1b", 2), Case(1, 1, 1, "gpipe", 3, tied=False), Case(1, 2, 1, "interleaved", 2)]
    cases += [Case(1, 1, 1, "1f1b", 2, key_value_heads=heads) for heads in (4, 2, 1)]
    cases += [Case(1, 1, 1, "1f1b", 2, key_value_heads=heads, **dropped) for heads in (0, 4, 2, 1)]
    for case in cases:
        plan = case.plan()
        stage = TorchStage(plan, plan.program, 0, torch.device("cpu"), comm.Comm(plan, 0))
        tokens = torch.zeros(
            (plan.num_microbatches, plan.train.microbatch, plan.data.sequence_length), dtype=torch.long
        )
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            Trainer(plan, stage, lambda *_: None).train_step(Batch(tokens.numpy(), tokens.numpy()))
        planned = sum(work(plan, plan.program, 0, operation).flops for operation in plan.program.rows[0])
        assert planned == round(model_flops_per_token(plan) * plan.tokens_per_step)
        found[case.id] = [counter.get_total_flops(), planned]
    dist.destroy_process_group()
    out.write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
