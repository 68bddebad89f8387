"""One rank of a case: times Headway and its peer in turns in this process, or measures one of them's memory.

RANK=… WORLD_SIZE=… MASTER_ADDR=… MASTER_PORT=… python ranks.py TASK.json OUT.json     (started by trainer.py)
"""

import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from cases import Case, Size
from peers import Peer, make

from headway import env
from headway.data.samples import Batch, Slice
from headway.plan.plan import Plan
from headway.train import comm, weights
from headway.train.loop import StepResult, Trainer
from headway.train.torch_stage import TorchStage

CHECKED = 3  # first steps whose losses must agree; they also warm up
TOLERANCE = {"float32": 1e-4, "bfloat16": 1e-2}  # of a mean loss near log(vocabulary)
COMPUTING = {"F": "forward", "B": "backward", "total": "norm", "update": "update"}
WAITING = {"receive": "wait receive", "send": "wait send", "reduce": "wait reduce", "shared": "wait reduce"}


class Headway:
    """Headway's contestant on one rank; `parts` are where the time of each of its steps went."""

    def __init__(self, plan: Plan, rank: int) -> None:
        self.plan = plan
        self.stage = TorchStage(plan, plan.program, rank, torch.device("cpu"), comm.Comm(plan, rank))
        self.trainer = Trainer(plan, self.stage, lambda *_: None)
        self.parts: list[dict[str, float]] = []

    def train_step(self, batch: Batch) -> float:
        result = self.trainer.train_step(batch)
        self.parts.append(parts(result))
        return result.loss / dist.get_world_size()

    def weights(self) -> dict[str, torch.Tensor] | None:
        """This rank's parameters by global name; over tensor ranks all of them on rank 0, None on the others."""
        if self.plan.layout.size("tensor") > 1:
            return weights.gather(self.plan, self.stage, self.stage.comm.pulse)
        units = self.stage.units.values()
        return {name: view.detach() for unit in units for name, view in unit.named(unit.master).items()}


def parts(result: StepResult) -> dict[str, float]:
    """Where a step's seconds went, from its spans.

    Operations end one after another; what lies between two ends is the later one's: computing, or waiting for it where
    it is a message or a reduction. The rest (loading the batch, zeroing, the executor itself) is "other".
    """
    found = dict.fromkeys([*COMPUTING.values(), *WAITING.values()], 0.0)
    at = 0.0
    for span in sorted(result.spans, key=lambda span: span.end):
        action, _, part = span.operation.partition("/")
        kind = part if action == "STEP" else action.strip("0123456789")
        found[WAITING.get(span.lane) or COMPUTING[kind]] += span.end - max(at, span.start)
        at = span.end
    return {**found, "other": result.seconds - sum(found.values())}


def batches(plan: Plan, rank: int) -> Callable[[int], Batch]:
    """Step → this rank's batch of random tokens, the same for both contestants."""
    data = plan.layout.coord(rank)["data"]
    places = Slice(data, plan.layout.size("data"), plan.train.microbatch, plan.num_microbatches).places()

    def batch(step: int) -> Batch:
        shape = (plan.train.global_batch, plan.data.sequence_length + 1)
        tokens = np.random.default_rng(step).integers(0, plan.model.vocabulary, shape)
        return Batch(tokens[places, :-1], tokens[places, 1:])

    return batch


def compare(case: Case, size: Size, rank: int) -> dict[str, Any]:
    """Check that both contestants compute the same, then time them in turns: ABBA, a block each."""
    plan = case.plan(size)
    batch = batches(plan, rank)
    headway = Headway(plan, rank)
    peer = make(plan, rank, headway.weights())
    difference = max(_difference(headway, peer, batch(step)) for step in range(CHECKED))
    if not difference < TOLERANCE[case.precision]:
        raise AssertionError(f"{case.name}: the losses of the first {CHECKED} steps differ by {difference}: void")
    seconds: dict[str, list[float]] = {"headway": [], "peer": []}
    steps = {name: count(CHECKED) for name in seconds}
    headway.parts.clear()
    for pair in range(size.pairs):
        for name in ("headway", "peer") if pair % 2 == 0 else ("peer", "headway"):
            contestant: Peer = headway if name == "headway" else peer
            inputs = [batch(next(steps[name])) for _ in range(size.steps)]
            dist.barrier()
            start = time.perf_counter()
            for each in inputs:
                contestant.train_step(each)
            seconds[name].append(time.perf_counter() - start)
    median = {name: statistics.median(step[name] for step in headway.parts) for name in headway.parts[0]}
    return {"seconds": seconds, "parts": median, "loss_difference": difference}


def memory(case: Case, size: Size, rank: int, contestant: str) -> dict[str, Any]:
    """Peak memory of a contestant alone: ru_maxrss after some steps, over what was resident before it was built."""
    plan = case.plan(size)
    batch = batches(plan, rank)
    inputs = [batch(step) for step in range(CHECKED)]
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    one: Peer = Headway(plan, rank) if contestant == "headway" else make(plan, rank)
    for each in inputs:
        one.train_step(each)
    return {"bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - resident}


def _difference(headway: Peer, peer: Peer, batch: Batch) -> float:
    losses = torch.tensor([headway.train_step(batch), peer.train_step(batch)], dtype=torch.float64)
    dist.all_reduce(losses)
    return abs(float(losses[0] - losses[1]))


def main(task: Path, out: Path) -> None:
    """Do the task as one rank, on a core of its own; rank 0 writes the list of what each rank found."""
    given = json.loads(task.read_text())
    case, size = Case(**given["case"]), Size(**given["size"])
    worker = env.worker()
    assert worker is not None, "started by trainer.py, which sets RANK and the rest"
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[worker.rank % len(cores)]})
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    name = given["contestant"]
    found = comm.to_rank_0(memory(case, size, worker.rank, name) if name else compare(case, size, worker.rank))
    if found is not None:
        out.write_text(json.dumps(found))
    comm.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
