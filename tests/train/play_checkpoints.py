"""One of 4 processes that save under one layout, go on under others, and leave what they found as JSON.

RANK=… WORLD_SIZE=4 … python play_checkpoints.py CASES.json FOLDER OUT.json
"""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist
from cases import Case
from reference import Training
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from headway import checkpoints
from headway.data.samples import Batch, Slice
from headway.model.cut import part
from headway.plan import plan as plans
from headway.plan.plan import Plan
from headway.train import comm, state, weights
from headway.train.loop import Trainer
from headway.train.pulse import Pulse
from headway.train.resume import resume
from headway.train.saver import Saver
from headway.train.torch_stage import TorchStage
from headway.units import Dtype

SAVED_AT, STEPS, SAMPLES = 3, 8, 1000


def one(case: Case, connect: object, before: Path, folder: Path) -> dict[str, object]:
    """Train to the step of the checkpoint, or go on from `before`; save into `folder`; then go on to the last step."""
    made, rank = case.plan(), dist.get_rank()
    model = replace(made.model, heads=4, key_value_heads=4)  # a case has as many as its tensor ranks need
    plan = replace(made, model=model, train=replace(made.train, steps=STEPS))
    stage = TorchStage(plan, plan.program, rank, torch.device("cpu"), comm.Comm(plan, rank))
    trainer = Trainer(plan, stage, lambda *_: None)
    found = resume(plan, stage, before, SAMPLES)
    losses = [] if found else [step(case, trainer) for _ in range(SAVED_AT)]
    saver = Saver(folder / checkpoints.FOLDER, rank, plan.layout.world, connect, keep=2)
    snapshot = state.Snapshot(stage, comm.of_all_ranks(state.own(stage)), least=7)
    saver.begin(snapshot.take(copied=True), state.manifest(stage, SAMPLES, "", ""), plans.dumps(plan))
    here = gathered(plan, stage)  # the weights of this moment, while they are written
    losses += [step(case, trainer) for _ in range(stage.step, STEPS)]
    saver.wait()
    (saved,) = saver.ended()
    assert not saved.error, saved.error
    result = {"losses": losses, "resumed": found.step if found else None}
    if rank == 0:
        assert here is not None
        result |= compare(here, folder)
    comm.least(0, stage.device)
    return result


def step(case: Case, trainer: Trainer) -> float:
    plan, coord = trainer.plan, trainer.plan.layout.coord(trainer.stage.rank)
    places = Slice(coord["data"], plan.layout.size("data"), plan.train.microbatch, plan.num_microbatches).places()
    training = Training(plan.model, plan.data, plan.optimizer, plan.train, case.valid)
    tokens, targets = training.batch(trainer.stage.step)
    return trainer.train_step(Batch(tokens[places].numpy(), targets[places].numpy())).loss


def gathered(plan: Plan, stage: TorchStage) -> dict[str, torch.Tensor] | None:
    """Whole weights and moments on rank 0, put together from what each rank holds, by no code of the checkpoints."""
    mine = {}
    for unit in stage.units.values():
        first, second = stage.optimizer.moments(unit)
        for kind, flat in (("weight", unit.master.detach()), ("exp_avg", first), ("exp_avg_sq", second)):
            whole_flat = torch.full_like(unit.params, torch.nan, dtype=flat.dtype)
            whole_flat[unit.own] = flat  # the rest is another rank's
            mine |= {(kind, name): view.clone() for name, view in unit.named(whole_flat).items()}
    ranks = comm.to_rank_0(mine)
    whole = weights.gather(plan, stage, Pulse())
    if ranks is None or whole is None:
        return None
    found = {}
    for unit in plan.units:
        for parameter in unit.parameters:
            for kind in ("weight", "exp_avg", "exp_avg_sq"):
                tensor = torch.full(parameter.shape, torch.nan, dtype=torch.float64)
                for rank, held in enumerate(ranks):
                    if (kind, parameter.name) in held:
                        index = plan.layout.coord(rank)["tensor"]
                        where = part(parameter, unit.tensor, index)
                        values = held[kind, parameter.name]
                        values = values[tuple(slice(0, each.stop - each.start) for each in where)]
                        tensor[where] = torch.where(values.isnan(), tensor[where], values)
                found[f"{kind} {parameter.name}"] = tensor
    assert all(torch.equal(whole[name], found[f"weight {name}"]) for name in whole)
    return found


def compare(here: dict[str, torch.Tensor], folder: Path) -> dict[str, object]:
    """What was gathered against the checkpoint, read whole by torch's own tools; and kept for the layouts after."""
    path = checkpoints.latest(folder / checkpoints.FOLDER)
    assert path is not None
    dcp_to_torch_save(path, folder / "plain.pt")
    plain = torch.load(folder / "plain.pt")
    read = {f"weight {name}": tensor for name, tensor in plain["model"].items()}
    for name, moments in plain["optimizer"]["state"].items():
        read |= {f"{kind} {name}": tensor for kind, tensor in moments.items()}
    first = folder.parent / "first.pt"
    if not first.exists():
        torch.save(here, first)
    then = torch.load(first)
    return {
        "names": sorted(read) == sorted(here),
        "read equals held": all(torch.equal(read[name], tensor) for name, tensor in here.items()),
        "held equals first": all(torch.equal(then[name], tensor) for name, tensor in here.items()),
        "moments are none of zeros": all(tensor.abs().max() > 0 for name, tensor in here.items() if "exp" in name),
        "updates": checkpoints.manifest(path).updates,
    }


def main(cases: Path, folder: Path, out: Path) -> None:
    torch.set_num_threads(1)
    rank, port = int(os.environ["RANK"]), int(os.environ["MASTER_PORT"])
    store = dist.TCPStore("127.0.0.1", port, int(os.environ["WORLD_SIZE"]), is_master=rank == 0)
    found = []
    for chain, layouts in enumerate(json.loads(cases.read_text())):
        before = folder / "nothing"
        for number, fields in enumerate(layouts):
            case = Case(**{**fields, "valid": (), "precision": Dtype(fields["precision"])})
            here = folder / str(chain) / str(number)
            if rank < case.world:
                here.mkdir(parents=True, exist_ok=True)
                name = f"case {chain} {number}"
                dist.init_process_group("gloo", store=dist.PrefixStore(name, store), rank=rank, world_size=case.world)

                def connect(name: str = name) -> dist.Store:
                    own = dist.TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
                    return dist.PrefixStore(f"saver of {name}", own)

                result = one(case, connect, before, here)
                if rank == 0:
                    found.append([chain, number, result])
                dist.destroy_process_group()
            store.set(f"{chain} {number} {rank}", "")
            store.wait([f"{chain} {number} {r}" for r in range(int(os.environ["WORLD_SIZE"]))])
            before = here
    store.set(f"done {rank}", "")
    if rank == 0:  # it keeps the store, so it is the last to leave
        store.wait([f"done {r}" for r in range(int(os.environ["WORLD_SIZE"]))])
        out.write_text(json.dumps(found))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
