"""One of 8 processes that play many layouts, compare each with the reference, and leave the differences as JSON.

Layouts of fewer ranks are played side by side.

RANK=… WORLD_SIZE=8 … python play_cases.py CASES.json OUT.json
"""

import contextlib
import hashlib
import json
import math
import os
import sys
import time
from datetime import timedelta
from functools import lru_cache
from pathlib import Path

import torch
import torch.distributed as dist
from cases import Case, seats
from reference import Trained, Training, trained
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from headway.data.samples import Batch, Slice
from headway.model.block import SHARED
from headway.model.cut import part
from headway.plan.plan import Plan
from headway.plan.work import work
from headway.sim.simulate import simulate
from headway.trace import Trace, as_columns
from headway.train import comm, weights
from headway.train.executor import instructions, play
from headway.train.flat import FlatUnit
from headway.train.loop import Trainer
from headway.train.stage import Done, NullStage
from headway.train.torch_stage import TorchStage
from headway.units import Dtype

LIMIT = timedelta(minutes=20)  # for references on a busy machine
COUNTED = 0  # the micro-batch whose FLOPs are counted: counting is slow, and all do the same


class Faulty(TorchStage):
    """Stages of which a fault may spoil one gradient, of a norm at the end of a unit, before it is counted.

    Their reductions may be waited for at once, or start late on one rank.
    """

    spoiled = False
    timing = ""
    counter: "Flops | None" = None
    gathered = 0  # the most bytes of parameters that were whole though the rank keeps a part alone

    def forward(self, stage: int, microbatch: int, unit: str) -> Done:
        with self.counting(microbatch):
            return super().forward(stage, microbatch, unit)

    def backward(self, stage: int, microbatch: int, unit: str) -> Done:
        with self.counting(microbatch):
            return super().backward(stage, microbatch, unit)

    def counting(self, microbatch: int) -> contextlib.AbstractContextManager[object]:
        return self.counter if self.counter is not None and microbatch == COUNTED else contextlib.nullcontext()

    def gather(self, unit: str) -> comm.Transfer:
        handle = super().gather(unit)
        cut = [each.params.untyped_storage().nbytes() for each in self.units.values() if each.placed.params.cut]
        if self.program.trains:
            self.gathered = max(self.gathered, sum(cut))
        return handle

    def reduce(self, unit: str) -> comm.Transfer | Done:
        if self.timing == "late" and self.rank == 0 and self.step < 2:
            time.sleep(0.05)  # the others go on computing meanwhile
        handle = super().reduce(unit)
        if self.timing != "at once":
            return handle
        handle.wait()
        return Done(handle.edge, handle.bytes)

    def total(self) -> comm.Transfer:
        if self.spoiled:
            ends = [unit for unit in self.units.values() if unit.share.start < unit.share.stop == unit.unit.numel]
            unit = next(unit for unit in reversed(ends) if unit.unit.blocks)
            unit.own_grads[len(unit.master) - 1] = math.nan  # which this rank counts
        return super().total()


class Flops(TorchDispatchMode):
    """Adds up what torch's own formulas say of each operation; its counter, which also walks modules, is slower."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        made = function(*arguments, **(keywords or {}))
        if formula := flop_registry.get(function.overloadpacket):
            self.total += formula(*arguments, **(keywords or {}), out_val=made)
        return made


def training_of(case: Case, plan: Plan) -> Training:
    return Training(plan.model, plan.data, plan.optimizer, plan.train, case.valid)


def leave_references(every: list[Case], process: int, makers: int, folder: Path) -> None:
    """This process's share of what all trainings must come to, each in a file: layouts have many in common."""
    for number, training in enumerate(dict.fromkeys(training_of(case, case.plan()) for case in every)):
        if number % makers == process:
            torch.save(trained(training), folder / _name(training))


@lru_cache(maxsize=1)  # neighbours in the order of play are layouts of one training
def reference(training: Training, folder: Path) -> Trained:
    return torch.load(folder / _name(training), weights_only=False)


def _name(training: Training) -> str:
    return hashlib.sha256(repr(training).encode()).hexdigest()


def one(case: Case, plan: Plan, folder: Path) -> dict[str, object]:
    rank = dist.get_rank()
    channel = comm.Comm(plan, rank)
    stage = Faulty(plan, plan.program, rank, torch.device("cpu"), channel)
    stage.timing = case.timing
    trainer = Trainer(plan, stage, lambda *_: None)
    coord = plan.layout.coord(rank)
    places = Slice(coord["data"], plan.layout.size("data"), plan.train.microbatch, plan.num_microbatches).places()
    training = training_of(case, plan)
    expected = reference(training, folder)
    peak, largest, first = 0, 0.0, 0.0
    history = []
    worst = dict.fromkeys(("loss", "norm", "gradients", "parameters", "gathered", "evaluation"), 0.0)
    for step, (loss, norm, gradients) in enumerate(expected.steps):
        tokens, targets = training.batch(step)
        if step == 1:
            stage.saved.start(unit.params for unit in stage.units.values())
        result = trainer.train_step(Batch(tokens[places].numpy(), targets[places].numpy()))
        if step == 1:
            peak = stage.saved.stop()
        history.append((result.loss, result.grad_norm))
        assert math.isfinite(result.loss), "max() would swallow a NaN"
        assert math.isfinite(result.grad_norm)
        worst["loss"] = max(worst["loss"], abs(result.loss - loss))
        worst["norm"] = max(worst["norm"], abs(result.grad_norm - norm))
        for unit in stage.units.values():
            worst["gradients"] = max(
                worst["gradients"], difference(unit, unit.own_grads[: len(unit.master)], gradients, coord["tensor"])
            )
        largest = max(largest, *(value.abs().max().item() for value in gradients.values()))
        if step == 0:
            first = worst["gradients"] / largest
    tokens, targets = training.batch(plan.train.steps)
    evaluated = trainer.evaluate([Batch(tokens[places].numpy(), targets[places].numpy())])
    worst["evaluation"] = abs(evaluated - expected.evaluation)
    for unit in stage.units.values():
        worst["parameters"] = max(
            worst["parameters"], difference(unit, unit.master.detach(), expected.parameters, coord["tensor"])
        )
    whole = weights.gather(plan, stage, channel.pulse)
    if whole is not None:
        wanted = expected.parameters
        assert {name: value.shape for name, value in whole.items()} == {n: v.shape for n, v in wanted.items()}
        worst["gathered"] = max((value - wanted[name]).abs().max().item() for name, value in whole.items())
    units = stage.units.values()
    live = {
        "parameters": sum(unit.held()[0] for unit in units),
        "gradients": sum(unit.held()[1] for unit in units),
        "optimizer": sum(tensor.nbytes for tensor in stage.optimizer.tensors()),
        "activations": peak,
        "gathered": stage.gathered,
    }
    null = play(
        instructions(plan.program, coord["pipeline"]),
        NullStage(plan, plan.program, rank),
        rank,
        lambda: 0.0,
        lambda _: None,
    )
    kept = digests(stage.units)
    spoiled = fault(plan, trainer, tokens[places], targets[places]) if case.tensor > 1 else {"fault": None}
    return {
        "worst": worst,
        **kept,
        "weights": hashlib.sha256(b"".join(_raw(value) for _, value in sorted((whole or {}).items()))).hexdigest(),
        "spans": result.spans,
        "null": null,
        "live": live,
        "largest": largest,
        "first": first,
        "history": history,
        **spoiled,
    }


def digests(units: dict[str, FlatUnit]) -> dict[str, str | None]:
    """Of what a rank keeps: all, units that nobody cuts, gradients that all tensor ranks have; and of a tied weight."""
    own, whole, replicated = hashlib.sha256(), hashlib.sha256(), hashlib.sha256()
    for unit in units.values():
        own.update(_raw(unit.shard) + _raw(unit.master))
        if not unit.placed.cuts:
            whole.update(_raw(unit.params) + _raw(unit.master))
        flat = torch.zeros_like(unit.params, dtype=unit.own_grads.dtype)
        flat[unit.own] = unit.own_grads[: len(unit.master)]
        views = unit.named(flat)
        for parameter in unit.unit.parameters:
            if parameter.cut is None:
                replicated.update(_raw(views[parameter.name]))
    tied = units.get(SHARED)
    return {
        "digest": own.hexdigest(),
        "whole units": whole.hexdigest(),
        "replicated": replicated.hexdigest(),
        "shared": _raw(tied.params).hex() if tied and not tied.placed.cuts else None,
    }


def difference(unit: FlatUnit, flat: torch.Tensor, expected: dict[str, torch.Tensor], index: int) -> float:
    """The largest between what tensor rank `index` keeps of a unit and the whole tensors; its padding must be zero."""
    wanted = torch.zeros(unit.params.shape, dtype=flat.dtype)
    views = unit.named(wanted)
    for parameter in unit.unit.parameters:
        theirs = expected[parameter.name][part(parameter, unit.unit.tensor, index)]
        views[parameter.name][tuple(map(slice, theirs.shape))] = theirs
    assert flat.isfinite().all()
    return (flat - wanted[unit.own]).abs().max().item() if len(flat) else 0.0


def fault(plan: Plan, trainer: Trainer, tokens: torch.Tensor, targets: torch.Tensor) -> dict[str, object]:
    """One more step, in which the last rank has a NaN: whether this rank thinks all is well, and whether it updated.

    Its FLOPs: as torch counts them, and as planned.
    """
    stage = trainer.stage
    counter = stage.counter = Flops()
    before = {name: unit.master.detach().clone() for name, unit in stage.units.items()}
    stage.spoiled = stage.rank == plan.layout.world - 1
    with sdpa_kernel(SDPBackend.MATH):
        finite = trainer.train_step(Batch(tokens.numpy(), targets.numpy())).finite
    stage.spoiled = False
    moved = any(not torch.equal(unit.master, before[name]) for name, unit in stage.units.items())
    row = plan.program.rows[plan.layout.coord(stage.rank)["pipeline"]]
    counted = [operation for operation in row if operation.action.microbatch == COUNTED]
    planned = sum(work(plan, plan.program, stage.rank, operation).flops for operation in counted)
    return {"fault": (finite, moved), "flops": (counter.total, planned)}


def _raw(tensor: torch.Tensor) -> bytes:
    """The bits of a flat tensor; numpy knows no bfloat16."""
    return tensor.detach().view(torch.uint8).numpy().tobytes()


def judge(plan: Plan, ranks: list[dict[str, object]]) -> dict[str, object]:
    """All ranks together against the simulated trace."""
    simulated = simulate(plan)
    out: dict[str, object] = {"worst": {key: max(r["worst"][key] for r in ranks) for key in ranks[0]["worst"]}}
    layout = plan.layout
    out["digest"] = [r["digest"] for r in ranks]
    out["first"] = max(r["first"] for r in ranks)  # gradients of the first step, of their largest entry
    out["history"] = ranks[0]["history"]
    out["replicas"] = [[ranks[r]["whole units"] for r in group] for group in layout.groups("data")]
    out["weights"] = ranks[0]["weights"]
    out["replicated"] = [[ranks[r]["replicated"] for r in group] for group in layout.groups("tensor")]
    out["shared"] = [[s for r in group if (s := ranks[r]["shared"])] for group in layout.groups("data", "pipeline")]
    out["fault"] = [r["fault"] for r in ranks]
    out["flops"] = [r.get("flops") for r in ranks]
    out["largest"] = max(r["largest"] for r in ranks)
    rows, edges = simulated.rows(), simulated.edges()
    for player in ("spans", "null"):
        trace = Trace("measured", as_columns(span for r in ranks for span in r[player]))
        out[f"rows of {player}"] = trace.rows() == rows
        out[f"edges of {player}"] = trace.edges() == edges
    out["live"] = [r["live"] for r in ranks]
    out["planned"] = [simulated.memory[rank] for rank in range(len(ranks))]
    return out


def main(cases: Path, out: Path) -> None:
    """Every case in a process group of its own, in an order that all processes know; they meet where they share one."""
    torch.set_num_threads(1)
    process, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    port = int(os.environ["MASTER_PORT"])
    store = dist.TCPStore("127.0.0.1", port, world, is_master=process == 0)
    every = [
        Case(**{**fields, "valid": tuple(fields["valid"]), "precision": Dtype(fields["precision"])})
        for fields in json.loads(cases.read_text())
    ]
    makers = min(world, os.cpu_count() or 1)
    if process < makers:
        leave_references(every, process, makers, out.parent)
        store.set(f"references {process}", "")
    store.wait([f"references {maker}" for maker in range(makers)], LIMIT)
    for number, first in seats(every, world):
        case, rank = every[number], process - first
        if 0 <= rank < case.world:
            plan, own = case.plan(), dist.PrefixStore(f"case {number}", store)
            dist.init_process_group("gloo", store=own, rank=rank, world_size=case.world)
            ranks = comm.to_rank_0(one(case, plan, out.parent))
            if ranks is not None:
                store.set(f"found {number}", json.dumps(judge(plan, ranks)))
            dist.destroy_process_group()
    store.set(f"done {process}", "")
    if process == 0:  # it keeps the store, so it is the last to leave
        store.wait([f"done {r}" for r in range(world)])
        found: dict[str, list[object]] = {}
        for number, case in enumerate(every):
            found.setdefault(case.id, []).append(json.loads(store.get(f"found {number}")))
        out.write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
