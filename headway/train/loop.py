"""The training loop: a step that can be read in one screen, and the evaluation beside it."""

import time
from dataclasses import dataclass
from typing import Protocol

import torch

from headway.data.samples import Batch
from headway.plan.plan import Plan
from headway.trace import Span
from headway.train import device as devices
from headway.train.executor import Instruction, instructions, play
from headway.train.hang import EVALUATION
from headway.train.rate import learning_rate
from headway.train.torch_stage import TorchStage
from headway.units import Seconds


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step did: `loss` is the mean over the global batch's valid tokens, before the update."""

    step: int
    loss: float
    grad_norm: float
    learning_rate: float
    finite: bool
    stop: bool
    tokens: int
    seconds: Seconds
    spans: tuple[Span, ...]
    loss_scale: float = 1.0  # that this step's gradients were made with


class Note(Protocol):
    """Told before each operation what the rank is about to do."""

    def __call__(self, what: str, operation: str) -> None:
        """Write it down."""
        ...


class Trainer:
    """A rank's stages with their rows of training and evaluation, ready to be played."""

    def __init__(self, plan: Plan, stage: TorchStage, note: Note) -> None:
        self.plan, self.stage, self.note, self.clock = plan, stage, note, time.perf_counter
        pipeline = plan.layout.coord(stage.rank)["pipeline"]
        self._row = instructions(plan.program, pipeline)
        self._evaluation_row = instructions(plan.evaluation_program, pipeline)

    def train_step(self, batch: Batch) -> StepResult:
        """One step on this data rank's batch: forward, backward, reduction, norm, update."""
        stage, step, start = self.stage, self.stage.step, self.clock()
        scale = stage.scale.value
        stage.load(*self._tensors(batch))
        stage.rate = learning_rate(self.plan.optimizer, step, self.plan.train.steps)
        spans = self._play(self._row, f"step {step + 1}")
        devices.synchronize(stage.device)
        totals = stage.totals
        return StepResult(
            step,
            totals.loss,
            stage.norm,
            stage.rate,
            totals.finite,
            totals.stop,
            int(totals.tokens),
            Seconds(self.clock() - start),
            spans,
            scale,
        )

    def evaluate(self, batches: list[Batch]) -> float:
        """The mean loss over the valid tokens of `batches`, which all ranks play forward only."""
        loss = tokens = 0.0
        with self.stage.evaluating(self.plan.evaluation_program):
            for number, batch in enumerate(batches, 1):
                self.stage.load(*self._tensors(batch))
                self._play(self._evaluation_row, f"{EVALUATION} after step {self.stage.step}, batch {number}")
                totals = self.stage.read_totals()
                loss, tokens = loss + totals.loss * totals.tokens, tokens + totals.tokens
        return loss / max(tokens, 1.0)

    def _play(self, row: tuple[Instruction, ...], what: str) -> tuple[Span, ...]:
        return play(row, self.stage, self.stage.rank, self.clock, lambda place: self.note(what, row[place].text))

    def _tensors(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        device = self.stage.device
        return torch.from_numpy(batch.tokens).to(device), torch.from_numpy(batch.targets).to(device)
