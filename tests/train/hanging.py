"""One of two processes that train until one of them hangs, in a way of its own.

RANK=… WORLD_SIZE=2 … python hanging.py CASE DIRECTORY
"""

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from headway import checkpoints, env
from headway.data.samples import Batch
from headway.plan.build import build
from headway.plan.job import Job
from headway.plan.plan import Plan
from headway.plan.read import decode
from headway.schedule import schedule as schedules
from headway.train import comm
from headway.train.keeper import Keeper
from headway.train.loop import Trainer
from headway.train.metrics import Metrics
from headway.train.pulse import Pulse
from headway.train.saver import Saver
from headway.train.stage import Done
from headway.train.torch_stage import TorchStage
from headway.train.watch import Watch

HANG_AFTER = 4
# rank 0 wants the gradient of micro-batch 0 before it sends 1, rank 1 wants micro-batch 1 before it sends that gradient
CIRCLE = "# circle\n0F0,0SEND_F0,0RECV_B0,0B0,0F1,0SEND_F1,0RECV_B1,0B1,STEP\n" + (
    "BEGIN,1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1,STEP\n"
)


class Slow(Saver):
    """A saver to whose disk rank 0 needs longer than a rank may stand still."""

    def _save(self, *words: object) -> None:
        if self.rank == 0:
            time.sleep(1.5 * HANG_AFTER)
        super()._save(*words)


class Sleeper(TorchStage):
    """A stage whose forward falls asleep in the fourth step of rank 1."""

    def forward(self, stage: int, microbatch: int, unit: str) -> Done:
        if self.rank == 1 and self.step == 3:
            time.sleep(600)
        return super().forward(stage, microbatch, unit)


def plan() -> Plan:
    sections = {
        "cluster": "a100-80gb-hdr",
        "model": {"layers": 2, "hidden": 8, "heads": 2, "feed_forward": 8, "vocabulary": 256, "positions": 8},
        "parallel": {"pipeline": 2, "data": 1},
        "data": {"sequence_length": 8},
        "train": {"global_batch": 2, "microbatch": 1, "hang_after": HANG_AFTER},
    }
    sections["model"]["tied"] = False
    made = build(decode(Job, sections, "job"))
    return replace(made, cluster=replace(made.cluster, device=replace(made.cluster.device, kind="cpu")))


def main(case: str, directory: Path) -> None:
    torch.set_num_threads(1)
    worker, pulse, job = env.worker(), Pulse(), plan()
    assert worker is not None
    if case == "circle":
        job = replace(job, schedule=schedules.parse(CIRCLE))
    with Watch(job, worker.rank, pulse, lambda: comm.board(worker)) as watch:
        device = comm.start(job, worker)
        pulse.write_to(directory / "log" / f"rank-{worker.rank}.at")
        watch.joined(directory)
        made = Sleeper if case == "sleeps" else TorchStage
        stage = made(job, job.program, worker.rank, device, comm.Comm(job, worker.rank, pulse))
        trainer = Trainer(job, stage, pulse)
        batch = Batch(np.zeros((2, 1, 8), dtype=np.int64), np.ones((2, 1, 8), dtype=np.int64))
        saver = Slow(directory / "checkpoints", worker.rank, 2, lambda: comm.board(worker), keep=1)
        keeper = Keeper(job, stage, saver, watch, Metrics(job, directory, 1, lambda _: None), 9)
        watch.started()
        while True:
            trainer.train_step(batch)
            if case == "sleeps" and stage.step == 2:
                keeper.told_to_stop()
                assert checkpoints.is_complete(checkpoints.path_of(saver.directory, 2))
            (directory / f"rank-{worker.rank}.steps").write_text(str(stage.step))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
