"""One of 8 processes that play many layouts, compare each with the reference, and leave the differences as JSON.

RANK=… WORLD_SIZE=8 … python play_cases.py CASES.json OUT.json
"""

import hashlib
import json
import math
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from cases import Case
from reference import Reference
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from headway.data.samples import IGNORE, Batch, Slice
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
from headway.train.rate import learning_rate
from headway.train.stage import Done, NullStage
from headway.train.torch_stage import TorchStage
from headway.units import Dtype


def batch(case: Case, plan: Plan, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The global batch of a step, [B, s] each."""
    generator = torch.Generator().manual_seed(step)
    shape = (plan.train.global_batch, plan.data.sequence_length)
    tokens = torch.randint(0, plan.model.vocabulary, shape, generator=generator)
    targets = torch.randint(0, plan.model.vocabulary, shape, generator=generator)
    for row, valid in enumerate(case.valid):
        targets[row, valid:] = IGNORE
    return tokens, targets


class Faulty(TorchStage):
    """Stages of which a fault may spoil one gradient, of a norm at the end of a unit, before it is counted.

    Their reductions may be waited for at once, or start late on one rank.
    """

    spoiled = False
    timing = ""
    gathered = 0  # the most bytes of parameters that were whole though the rank keeps a part alone

    def gather(self, unit: str) -> comm.Transfer:
        handle = super().gather(unit)
        cut = [each.params.untyped_storage().nbytes() for each in self.units.values() if each.placed.params.cut]
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
            unit = next(unit for unit in reversed(self.units.values()) if unit.unit.blocks)
            unit.own_grads[len(unit.master) - 1] = math.nan
        return super().total()


def one(case: Case) -> dict[str, object]:
    plan, rank = case.plan(), dist.get_rank()
    channel = comm.Comm(plan, rank)
    stage = Faulty(plan, plan.program, rank, torch.device("cpu"), channel)
    stage.timing = case.timing
    trainer = Trainer(plan, stage, lambda *_: None)
    coord = plan.layout.coord(rank)
    mine = Slice(coord["data"], plan.layout.size("data"), plan.train.microbatch, plan.num_microbatches)
    reference = Reference(plan)
    peak, largest, first = 0, 0.0, 0.0
    history = []
    worst = dict.fromkeys(("loss", "norm", "gradients", "parameters", "gathered", "evaluation"), 0.0)
    for step in range(plan.train.steps):
        tokens, targets = batch(case, plan, step)
        places = mine.places()
        if step == 1:
            stage.saved.start(unit.params for unit in stage.units.values())
        result = trainer.train_step(Batch(tokens[places].numpy(), targets[places].numpy()))
        if step == 1:
            peak = stage.saved.stop()
        loss, norm = reference.step(tokens, targets, step, learning_rate(plan.optimizer, step, plan.train.steps))
        history.append((result.loss, result.grad_norm))
        assert math.isfinite(result.loss), "max() would swallow a NaN"
        assert math.isfinite(result.grad_norm)
        worst["loss"] = max(worst["loss"], abs(result.loss - loss))
        worst["norm"] = max(worst["norm"], abs(result.grad_norm - norm))
        gradients = {name: value.grad for name, value in reference.p.items()}
        for unit in stage.units.values():
            worst["gradients"] = max(
                worst["gradients"], difference(unit, unit.own_grads[: len(unit.master)], gradients, coord["tensor"])
            )
        largest = max(largest, *(value.abs().max().item() for value in gradients.values()))
        if step == 0:
            first = worst["gradients"] / largest
    tokens, targets = batch(case, plan, plan.train.steps)
    evaluated = trainer.evaluate([Batch(tokens[places].numpy(), targets[places].numpy())])
    worst["evaluation"] = abs(evaluated - reference.evaluate(tokens, targets))
    for unit in stage.units.values():
        worst["parameters"] = max(
            worst["parameters"], difference(unit, unit.master.detach(), reference.p, coord["tensor"])
        )
    whole = weights.gather(plan, stage, channel.pulse)
    if whole is not None:
        assert {name: value.shape for name, value in whole.items()} == {n: v.shape for n, v in reference.p.items()}
        worst["gathered"] = max((value - reference.p[name]).abs().max().item() for name, value in whole.items())
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
    return {
        "worst": worst,
        **digests(stage.units),
        "weights": {name: _raw(value).hex() for name, value in sorted((whole or {}).items())},
        "spans": result.spans,
        "null": null,
        "live": live,
        "largest": largest,
        "first": first,
        "history": history,
        "fault": fault(plan, trainer, tokens[places], targets[places]) if case.tensor > 1 else None,
        "flops": flops(plan, trainer, tokens[places], targets[places]) if case.tensor > 1 else (0, 0),
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
        for parameter in unit.unit.parameters:
            if parameter.cut is None:
                replicated.update(_raw(unit.named(flat)[parameter.name]))
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
    for parameter in unit.unit.parameters:
        theirs = expected[parameter.name][part(parameter, unit.unit.tensor, index)]
        unit.named(wanted)[parameter.name][tuple(map(slice, theirs.shape))] = theirs
    assert flat.isfinite().all()
    return (flat - wanted[unit.own]).abs().max().item() if len(flat) else 0.0


def fault(plan: Plan, trainer: Trainer, tokens: torch.Tensor, targets: torch.Tensor) -> tuple[bool, bool]:
    """One more step, in which the last rank has a NaN: whether this rank thinks all is well, and whether it updated."""
    stage = trainer.stage
    before = {name: unit.master.detach().clone() for name, unit in stage.units.items()}
    stage.spoiled = stage.rank == plan.layout.world - 1
    finite = trainer.train_step(Batch(tokens.numpy(), targets.numpy())).finite
    stage.spoiled = False
    return finite, any(not torch.equal(unit.master, before[name]) for name, unit in stage.units.items())


def flops(plan: Plan, trainer: Trainer, tokens: torch.Tensor, targets: torch.Tensor) -> tuple[int, int]:
    """FLOPs of this rank in one more step: as torch counts them, and as planned."""
    rank = trainer.stage.rank
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        trainer.train_step(Batch(tokens.numpy(), targets.numpy()))
    row = plan.program.rows[plan.layout.coord(rank)["pipeline"]]
    return counter.get_total_flops(), sum(work(plan, plan.program, rank, operation).flops for operation in row)


def _raw(tensor: torch.Tensor) -> bytes:
    """The bits of a flat tensor; numpy knows no bfloat16."""
    return tensor.detach().view(torch.uint8).numpy().tobytes()


def judge(case: Case, ranks: list[dict[str, object]]) -> dict[str, object]:
    """All ranks together against the simulated trace."""
    simulated = simulate(case.plan())
    out: dict[str, object] = {"worst": {key: max(r["worst"][key] for r in ranks) for key in ranks[0]["worst"]}}
    layout = case.plan().layout
    out["digest"] = [r["digest"] for r in ranks]
    out["first"] = max(r["first"] for r in ranks)  # gradients of the first step, of their largest entry
    out["history"] = ranks[0]["history"]
    out["replicas"] = [[ranks[r]["whole units"] for r in group] for group in layout.groups("data")]
    out["weights"] = hashlib.sha256(json.dumps(ranks[0]["weights"]).encode()).hexdigest()
    out["replicated"] = [[ranks[r]["replicated"] for r in group] for group in layout.groups("tensor")]
    out["shared"] = [[s for r in group if (s := ranks[r]["shared"])] for group in layout.groups("data", "pipeline")]
    out["fault"] = [r["fault"] for r in ranks]
    out["flops"] = [r["flops"] for r in ranks]
    out["largest"] = max(r["largest"] for r in ranks)
    for player in ("spans", "null"):
        trace = Trace("measured", as_columns(span for r in ranks for span in r[player]))
        out[f"rows of {player}"] = trace.rows() == simulated.rows()
        out[f"edges of {player}"] = trace.edges() == simulated.edges()
    out["live"] = [r["live"] for r in ranks]
    out["planned"] = [simulated.memory[rank] for rank in range(len(ranks))]
    return out


def main(cases: Path, out: Path) -> None:
    """Every case in a process group of its own; idle ranks wait for their next one."""
    torch.set_num_threads(1)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    port = int(os.environ["MASTER_PORT"])
    store = dist.TCPStore("127.0.0.1", port, world, is_master=rank == 0)
    found: dict[str, list[object]] = {}
    for number, fields in enumerate(json.loads(cases.read_text())):
        case = Case(**{**fields, "valid": tuple(fields["valid"]), "precision": Dtype(fields["precision"])})
        if rank < case.world:
            own = dist.PrefixStore(f"case {number}", store)
            dist.init_process_group("gloo", store=own, rank=rank, world_size=case.world)
            ranks = comm.to_rank_0(one(case))
            if ranks is not None:
                found.setdefault(case.id, []).append(judge(case, ranks))
            dist.destroy_process_group()
    if rank == 0:
        out.write_text(json.dumps(found))
    store.set(f"done {rank}", "")
    store.wait([f"done {r}" for r in range(world)])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
