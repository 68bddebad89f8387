"""What a checkpoint keeps of a rank: master weights and both moments, as boxes of the model's tensors."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from headway.checkpoints import Manifest
from headway.model.boxes import pieces
from headway.plan.memory import NUM_STATES
from headway.plan.plan import Plan
from headway.plan.shares import LEAST, share
from headway.train import loss_scale
from headway.train.flat import FlatUnit
from headway.train.loss_scale import LossScale
from headway.train.part import Part
from headway.train.torch_stage import TorchStage

Own = dict[str, slice]  # for each unit that a rank holds, the range that it keeps the optimizer's state of


def own(stage: TorchStage) -> Own:
    """What this rank keeps."""
    return {name: unit.own for name, unit in stage.units.items()}


class Snapshot:
    """Copies on the host of what this rank writes, so that training may go on; made once and used again each time.

    `owned` is what all ranks keep, in rank order: of what several keep, each writes a share (see `share`).
    """

    def __init__(self, stage: TorchStage, owned: Sequence[Own], *, least: int = LEAST) -> None:
        self._stage = stage
        self._shares: list[tuple[FlatUnit, slice]] = []
        for name, unit in stage.units.items():
            keepers = {rank: each[name] for rank, each in enumerate(owned) if name in each}
            windows = share(stage.plan, unit.unit, stage.rank, keepers, least=least)
            self._shares += [(unit, window) for window in windows]
        self._buffers: list[Tensor] = []

    def take(self, *, copied: bool) -> list[Part]:
        """The state at this moment; not `copied`, it is the live one, which must not change until it is written."""
        live = [
            (unit, window, each[window.start - unit.own.start : window.stop - unit.own.start])
            for unit, window in self._shares
            for each in states(self._stage, unit)
        ]
        tensors = [each for _, _, each in live]
        if copied:
            pinned = self._stage.device.type == "cuda"
            self._buffers = self._buffers or [
                torch.empty(len(each), dtype=each.dtype, pin_memory=pinned) for each in tensors
            ]
            for buffer, tensor in zip(self._buffers, tensors, strict=True):
                buffer.copy_(tensor)
            tensors = self._buffers
        return [
            part
            for place, (unit, window, _) in enumerate(live)
            for part in parts(self._stage, unit, window, tensors[place], place % NUM_STATES)
        ]


def states(stage: TorchStage, unit: FlatUnit) -> tuple[Tensor, ...]:
    """A unit's master weights and both moments as this rank keeps them: flat, of the range `own`."""
    return unit.master.detach(), *stage.optimizer.moments(unit)


def paths(name: str) -> tuple[tuple[str, ...], ...]:
    """Where the states of a parameter are in a checkpoint: as in torch's state dicts of a model and its optimizer."""
    return ("model", name), *(("optimizer", "state", name, moment) for moment in ("exp_avg", "exp_avg_sq"))


def parts(stage: TorchStage, unit: FlatUnit, window: slice, flat: Tensor, state: int) -> Iterator[Part]:
    """The boxes of the model's tensors in a window of a unit; `flat` is one of the unit's states, of that window."""
    for piece in pieces(unit.unit, stage.plan.layout.coord(stage.rank)["tensor"], window):
        at = piece.at - window.start
        tensor = flat[at : at + piece.box.numel].view(piece.box.shape)
        yield Part(paths(piece.parameter.name)[state], piece.parameter.shape, piece.box.offset, tensor)


def restore(stage: TorchStage, path: Path, made: Manifest) -> None:
    """Load this rank's part of a checkpoint that any layout has written. DamagedError where it lacks something."""
    from headway.train import dcp

    wanted: list[Part] = []
    with torch.no_grad():
        for unit in stage.units.values():
            for number, flat in enumerate(states(stage, unit)):
                flat.zero_()  # padding is in no checkpoint
                wanted += parts(stage, unit, unit.own, flat, number)
        dcp.read(path, wanted)
        for unit in stage.units.values():
            unit.round()
    stage.optimizer.resume(made.updates)
    stage.step, stage.rate = made.step, made.learning_rate
    stage.scale = _scale(stage.plan, LossScale(**made.loss_scale))


def manifest(stage: TorchStage, samples: int, digest: str, now: str) -> Manifest:
    """The manifest of the state at this moment, without files; `samples`: of one epoch of the training data."""
    plan = stage.plan
    return Manifest(
        step=stage.step,
        updates=stage.optimizer.updates,
        seed=plan.train.seed,
        samples=samples,
        next_sample=stage.step * plan.train.global_batch,
        learning_rate=stage.rate,
        loss_scale=asdict(stage.scale),
        layout=str(plan.layout),
        plan=digest,
        written=now,
        files={},
    )


def _scale(plan: Plan, saved: LossScale) -> LossScale:
    """The scale to go on with: the saved one, or the job's first where the job asks for another kind of scale."""
    asked = loss_scale.first(plan.train)
    same = (saved.dynamic, saved.window) == (asked.dynamic, asked.window)
    return saved if same and (asked.dynamic or saved.value == asked.value) else asked
