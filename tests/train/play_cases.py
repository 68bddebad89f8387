"""One of 8 processes that play many layouts, compare each with the reference, and leave the differences as JSON.

RANK=… WORLD_SIZE=8 … python play_cases.py CASES.json OUT.json
"""

import hashlib
import json
import math
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from cases import Case
from reference import Reference

from headway.data.samples import IGNORE, Batch, Slice
from headway.model.block import SHARED
from headway.plan.plan import Plan
from headway.sim.simulate import simulate
from headway.trace import Trace, as_columns
from headway.train import comm
from headway.train.executor import instructions, play
from headway.train.loop import Trainer
from headway.train.rate import learning_rate
from headway.train.stage import NullStage
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


def one(case: Case) -> dict[str, object]:
    plan, rank = case.plan(), dist.get_rank()
    channel = comm.Comm(plan, rank)
    stage = TorchStage(plan, plan.program, rank, torch.device("cpu"), channel)
    trainer = Trainer(plan, stage, lambda *_: None)
    coord = plan.layout.coord(rank)
    part = Slice(coord["data"], plan.layout.size("data"), plan.train.microbatch, plan.num_microbatches)
    reference = Reference(plan)
    peak, largest, first = 0, 0.0, 0.0
    history = []
    worst = dict.fromkeys(("loss", "norm", "gradients", "parameters", "evaluation"), 0.0)
    for step in range(plan.train.steps):
        tokens, targets = batch(case, plan, step)
        places = part.places()
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
        for unit in stage.units.values():
            for name, gradient in unit.named(unit.grads).items():
                expected = reference.p[name].grad
                assert expected is not None
                assert gradient.isfinite().all()
                worst["gradients"] = max(worst["gradients"], (gradient - expected).abs().max().item())
                largest = max(largest, expected.abs().max().item())
        if step == 0 and largest:  # an empty stage's rank has no gradients
            first = worst["gradients"] / largest
    tokens, targets = batch(case, plan, plan.train.steps)
    evaluated = trainer.evaluate([Batch(tokens[places].numpy(), targets[places].numpy())])
    worst["evaluation"] = abs(evaluated - reference.evaluate(tokens, targets))
    digest = hashlib.sha256()
    for unit in stage.units.values():
        digest.update(_raw(unit.params))
        digest.update(_raw(unit.master))
        for name, value in unit.named(unit.master).items():
            worst["parameters"] = max(worst["parameters"], (value - reference.p[name]).abs().max().item())
    units = stage.units.values()
    live = {
        "parameters": sum(unit.params.nbytes for unit in units),
        "gradients": sum(unit.grads.nbytes for unit in units),
        "optimizer": sum(tensor.nbytes for tensor in stage.optimizer.tensors()),
        "activations": peak,
    }
    shared = _raw(stage.units[SHARED].params).hex() if SHARED in stage.units else None
    null = play(
        instructions(plan.program, coord["pipeline"]),
        NullStage(plan, plan.program, rank),
        rank,
        lambda: 0.0,
        lambda _: None,
    )
    return {
        "worst": worst,
        "digest": digest.hexdigest(),
        "spans": result.spans,
        "null": null,
        "live": live,
        "shared": shared,
        "largest": largest,
        "first": first,
        "history": history,
    }


def _raw(tensor: torch.Tensor) -> bytes:
    """The bits of a flat tensor; numpy knows no bfloat16."""
    return tensor.detach().view(torch.uint8).numpy().tobytes()


def judge(case: Case, ranks: list[dict[str, object]]) -> dict[str, object]:
    """All ranks together against the simulated trace."""
    simulated = simulate(case.plan())
    out: dict[str, object] = {"worst": {key: max(r["worst"][key] for r in ranks) for key in ranks[0]["worst"]}}
    out["digest"] = [r["digest"] for r in ranks]
    out["shared"] = [r["shared"] for r in ranks if r["shared"]]
    out["data"] = case.data
    out["first"] = max(r["first"] for r in ranks)  # gradients of the first step, of their largest entry
    out["history"] = ranks[0]["history"]
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
