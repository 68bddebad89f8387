"""One rank of a case: times Headway and its peers in turns in this process, or measures one of them's memory.

RANK=… WORLD_SIZE=… MASTER_ADDR=… MASTER_PORT=… python ranks.py TASK.json OUT.json     (started by paired.py)
"""

import importlib
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from cases import HEADWAY, Case, Size
from peers import Make, Peer

from headway import env
from headway.data.samples import Batch, Slice
from headway.model.unit import units
from headway.plan.plan import Plan
from headway.train import comm
from headway.train.flat import FlatUnit
from headway.train.loop import StepResult, Trainer
from headway.train.torch_stage import TorchStage

CHECKED = 3  # first steps whose losses must agree; they also warm up
TOLERANCE = {"float32": 1e-4, "bfloat16": 1e-2}  # of a mean loss near log(vocabulary)
COMPUTING = {"F": "forward", "B": "backward", "total": "norm", "update": "update", "RESHARD": "other"}
WAITING = {
    "receive": "wait receive",
    "send": "wait send",
    "reduce": "wait reduce",
    "shared": "wait reduce",
    "gather": "wait gather",
}


class Headway:
    """Headway's contestant on one rank; `parts` are where the time of each of its steps went."""

    def __init__(self, plan: Plan, rank: int, _weights: Mapping[str, torch.Tensor] | None = None) -> None:
        self.stage = TorchStage(plan, plan.program, rank, torch.device("cpu"), comm.Comm(plan, rank))
        self.trainer = Trainer(plan, self.stage, lambda *_: None)
        self.parts: list[dict[str, float]] = []

    def train_step(self, batch: Batch) -> float:
        result = self.trainer.train_step(batch)
        self.parts.append(parts(result))
        return result.loss / dist.get_world_size()


def maker(name: str) -> Make:
    """The constructor of a contestant, with all that it needs imported."""
    if name == HEADWAY:
        return Headway
    modules = map(
        importlib.import_module, ("peers", "tensor_peer", "sharded_peers", "deepspeed_peers")
    )  # no further than it is found
    found: Make = next(module.PEERS[name] for module in modules if name in module.PEERS)
    return found


def first_weights(plan: Plan, rank: int) -> dict[str, torch.Tensor]:
    """Headway's first weights of a rank by global name, whole whatever is cut."""
    mine = set(plan.schedule.stages(plan.layout.coord(rank)["pipeline"]))
    every = units(plan.model, plan.blocks, unit_bytes=plan.unit_bytes, dtype=plan.train.precision)
    flats = [FlatUnit(unit, torch.float32, torch.device("cpu")) for unit in every if mine & set(unit.stages)]
    for flat in flats:
        flat.initialise(plan.model, plan.train.seed)
    return {name: view.detach() for flat in flats for name, view in flat.named(flat.master).items()}


def parts(result: StepResult) -> dict[str, float]:
    """Where a step's seconds went, from its spans.

    Operations end one after another; what lies between two ends is the later one's: computing, or waiting for it where
    it is a message or a reduction. The rest (loading the batch, zeroing, the executor itself) is "other".
    """
    found = dict.fromkeys([*COMPUTING.values(), *WAITING.values(), "other"], 0.0)
    at = 0.0
    for span in sorted(result.spans, key=lambda span: span.end):
        action, _, part = span.operation.partition("/")
        kind = part if action == "STEP" else action.strip("0123456789")
        found[WAITING.get(span.lane) or COMPUTING[kind]] += span.end - max(at, span.start)
        at = span.end
    found["other"] += result.seconds - sum(found.values())
    return found


def batches(plan: Plan, rank: int) -> Callable[[int], Batch]:
    """Step → this rank's batch of random tokens, the same for all contestants."""
    data = plan.layout.coord(rank)["data"]
    places = Slice(data, plan.layout.size("data"), plan.train.microbatch, plan.num_microbatches).places()

    def batch(step: int) -> Batch:
        shape = (plan.train.global_batch, plan.data.sequence_length + 1)
        tokens = np.random.default_rng(step).integers(0, plan.model.vocabulary, shape)
        return Batch(tokens[places, :-1], tokens[places, 1:])

    return batch


def compare(case: Case, size: Size, rank: int) -> dict[str, Any]:
    """Check that all contestants compute the same, then time them in turns, a block each: there and back."""
    plan = case.plan(size)
    batch = batches(plan, rank)
    weights = first_weights(plan, rank)
    headway = Headway(plan, rank)
    every: dict[str, Peer] = {HEADWAY: headway, **{name: maker(name)(plan, rank, weights) for name in case.peers}}
    difference = max(_difference(list(every.values()), batch(step)) for step in range(CHECKED))
    if not difference < TOLERANCE[case.precision]:
        raise AssertionError(f"{case.name}: the losses of the first {CHECKED} steps differ by {difference}: void")
    seconds: dict[str, list[float]] = {name: [] for name in every}
    processor: dict[str, list[float]] = {name: [] for name in every}
    steps = {name: count(CHECKED) for name in every}
    headway.parts.clear()
    for pair in range(size.pairs):
        for name in list(every)[:: 1 if pair % 2 == 0 else -1]:
            inputs = [batch(next(steps[name])) for _ in range(size.steps)]
            dist.barrier()
            start, used = time.perf_counter(), time.process_time()
            for each in inputs:
                every[name].train_step(each)
            seconds[name].append(time.perf_counter() - start)
            processor[name].append(time.process_time() - used)
    median = {name: statistics.median(step[name] for step in headway.parts) for name in headway.parts[0]}
    return {"seconds": seconds, "processor_seconds": processor, "parts": median, "loss_difference": difference}


def memory(case: Case, size: Size, rank: int, contestant: str) -> dict[str, Any]:
    """Peak memory of a contestant alone: the most resident in some steps, over what was before it was built."""
    plan = case.plan(size)
    batch, make, weights = batches(plan, rank), maker(contestant), first_weights(plan, rank)
    inputs = [batch(step) for step in range(CHECKED)]
    resident = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten, as that of the imports
    one = make(plan, rank, weights)
    for each in inputs:
        one.train_step(each)
    return {"bytes": status("VmHWM") - resident}


def status(name: str) -> int:
    """Bytes of this process in Linux's count of that name."""
    found = re.search(rf"^{name}:\s*(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None, "Linux is what this is measured on"
    return 1024 * int(found[1])


def _difference(contestants: Sequence[Peer], batch: Batch) -> float:
    """How far the losses of a step lie apart."""
    losses = torch.tensor([one.train_step(batch) for one in contestants], dtype=torch.float64)
    dist.all_reduce(losses)
    return float(losses.max() - losses.min())


def main(task: Path, out: Path) -> None:
    """Do the task as one rank, on a core of its own; rank 0 writes the list of what each rank found."""
    given = json.loads(task.read_text())
    case, size = Case(**given["case"]), Size(**given["size"])
    worker = env.worker()
    assert worker is not None, "started by paired.py, which sets RANK and the rest"
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[worker.rank % len(cores)]})
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    name = given["contestant"]
    found = comm.to_rank_0(memory(case, size, worker.rank, name) if name else compare(case, size, worker.rank))
    if found is not None:
        out.write_text(json.dumps(found))
    dist.barrier()  # a rank that leaves early can abort the others' closing groups
    comm.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
