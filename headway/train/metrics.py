"""A run's metrics: a line of `metrics.jsonl` for each step and evaluation, on TensorBoard too, and the summary."""

import json
import math
import resource
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headway import chrome
from headway.errors import writing
from headway.plan.plan import Plan
from headway.plan.work import model_flops_per_token
from headway.train.board import board
from headway.train.loop import StepResult
from headway.train.resume import Resumed
from headway.train.saver import Saved
from headway.units import Dtype

WARM_UP = 3  # steps that the median of the measured step leaves out


class Metrics:
    """Every rank counts; rank 0 also writes, and tells `show` each line that it wrote.

    `traced` is the step whose spans are kept: the last one, or the last up to `run.profile`. Lines are added to those
    of a run that is gone on with: a step's last line counts. `start`: the step (from 0) that this process begins with.
    """

    def __init__(
        self, plan: Plan, directory: Path, rank: int, show: Callable[[dict[str, Any]], None], *, start: int = 0
    ) -> None:
        self.plan, self.show, self.start = plan, show, start
        self.first: StepResult | None = None
        self.last: StepResult | None = None
        self.traced: StepResult | None = None
        self.skipped = 0
        self.slow: dict[int, float] = {}  # of the last comparison
        self._seconds: list[float] = []
        self._validation: list[float] = []
        self._directory = directory
        self._lines = Lines(directory / "metrics.jsonl") if rank == 0 else None
        self._board = board(directory / "tensorboard", start) if rank == 0 else None
        self._scaled = plan.train.precision is Dtype.FLOAT16
        self._flops = model_flops_per_token(plan)
        self._peak = plan.cluster.peak(plan.layout.world, plan.train.precision)
        self._predicted = chrome.read(directory / "predicted.trace.json.gz").makespan if rank == 0 else None

    def step(self, result: StepResult, slow: dict[int, float] | None = None) -> None:
        """The line of a training step; `slow`: rank → how many times as long as its peers, where that was compared."""
        self.slow = self.slow if slow is None else slow
        self.first, self.last = self.first or result, result
        profile = self.plan.run.profile
        if self.traced is None or profile == "last" or result.step < profile:
            self.traced = result
        self.skipped += not result.finite
        self._seconds.append(result.seconds)
        rate = result.tokens / result.seconds
        self._write(
            {
                "step": result.step + 1,
                "loss": _finite(result.loss),
                "grad_norm": _finite(result.grad_norm),
                "learning_rate": result.learning_rate,
                **({"loss_scale": result.loss_scale} if self._scaled else {}),
                "tokens_per_second": rate,
                "mfu": rate * self._flops / self._peak,
                "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                "seconds": result.seconds,
                "predicted_seconds": self._predicted,
                **({"slow_ranks": slow} if slow else {}),
            }
        )

    def evaluation(self, step: int, loss: float) -> None:
        """The line of an evaluation after `step` steps."""
        self._validation.append(loss)
        self._write({"step": step, "validation_loss": _finite(loss)})

    def resumed(self, found: Resumed) -> None:
        """The line of the checkpoint that the job goes on from: its step, the later ones that were skipped and why."""
        line: dict[str, Any] = {"step": found.step, "resumed_from": found.path}
        line |= {"skipped": found.skipped} if found.skipped else {}
        self._write(line | ({"changed": found.changed} if found.changed else {}))

    def checkpoint(self, saved: Saved, stall: float, error: str) -> None:
        """The line of a save that has ended; `stall`: seconds that the training waited for it."""
        line: dict[str, Any] = {"step": saved.step}
        if error:
            line |= {"checkpoint_error": error}
        else:
            line |= {"checkpoint": saved.path, "checkpoint_bytes": saved.bytes}
        self._write(line | {"checkpoint_seconds": saved.seconds, "checkpoint_stall_seconds": stall})

    def summary(self, *, interrupted: bool) -> dict[str, Any]:
        """What the run did; the measured step is the median of those after the warm-up."""
        assert self.first is not None
        assert self.last is not None
        assert self.traced is not None
        seconds = statistics.median(self._seconds[min(WARM_UP, len(self._seconds) - 1) :])
        return {
            "steps": self.last.step + 1,
            "resumed_at": self.start or None,
            "interrupted": interrupted,
            "traced_step": self.traced.step + 1,
            "skipped_steps": self.skipped,
            "slow_ranks": self.slow,
            "first_loss": _finite(self.first.loss),
            "last_loss": _finite(self.last.loss),
            "first_validation_loss": _finite(self._validation[0]) if self._validation else None,
            "last_validation_loss": _finite(self._validation[-1]) if self._validation else None,
            "measured_step_seconds": seconds,
            "tokens_per_second": self.plan.tokens_per_step / seconds,
        }

    def close(self) -> None:
        """Write what is still to be written."""
        if self._lines:
            self._lines.close()
        if self._board:
            with writing(self._directory / "tensorboard"):
                self._board.close()

    def _write(self, line: dict[str, Any]) -> None:
        if self._lines:
            self._lines.add(line)
            if self._board:
                with writing(self._directory / "tensorboard"):
                    self._board.line(line)
            self.show(line)


class Lines:
    """A file of JSON documents, one a line, each whole: a rest of one that a writer has left is cut off."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with writing(path):
            self._file = path.open("a+b", buffering=0)
            self._file.truncate(path.read_bytes().rfind(b"\n") + 1)

    def add(self, document: dict[str, Any]) -> None:
        """Write a line, or none of it: JobError says why not."""
        rest = f"{json.dumps(document)}\n".encode()
        with writing(self._path):
            end = self._path.stat().st_size
            try:
                while rest:
                    rest = rest[self._file.write(rest) :]
            except OSError:
                self._file.truncate(end)
                raise

    def close(self) -> None:
        """Nothing is left to be written."""
        self._file.close()


def _finite(value: float) -> float | None:
    """The number, or None for what JSON cannot say: NaN and infinity."""
    return value if math.isfinite(value) else None
