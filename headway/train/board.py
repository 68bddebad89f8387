"""A run's metrics as TensorBoard event files."""

import importlib
from pathlib import Path
from typing import Any, Protocol

TAGS = {
    "loss": "loss/training",
    "validation_loss": "loss/validation",
    "grad_norm": "optimizer/gradient_norm",
    "learning_rate": "optimizer/learning_rate",
    "loss_scale": "optimizer/loss_scale",
    "tokens_per_second": "speed/tokens_per_second",
    "mfu": "speed/mfu",
    "seconds": "step_seconds/measured",
    "predicted_seconds": "step_seconds/predicted",
    "memory": "memory/resident_bytes",
    "checkpoint_seconds": "checkpoint/seconds",
    "checkpoint_stall_seconds": "checkpoint/stall_seconds",
}
FLUSH = 10  # seconds after which, at the latest, what was written can be read


class Writer(Protocol):
    """What is used of torch's SummaryWriter, which has no types."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        """One value of a tag at a step."""

    def close(self) -> None:
        """Write what is still to be written."""


class Board:
    """Scalars by tag and step, in event files that TensorBoard reads."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def line(self, line: dict[str, Any]) -> None:
        """What a line of metrics says, at its step; what is None (a loss that is no number) is left out."""
        for key, tag in TAGS.items():
            if line.get(key) is not None:
                self._writer.add_scalar(tag, line[key], line["step"])

    def close(self) -> None:
        """Write what is still to be written."""
        self._writer.close()


def board(directory: Path, start: int = 0) -> Board | None:
    """A board whose files lie in `directory`; None, and no directory, where TensorBoard is not installed.

    `start`: steps that were done before. What files of a run that is gone on with say about later ones is not shown.
    """
    try:
        # imported here, by rank 0 alone: it takes 0.2 s
        module = importlib.import_module("torch.utils.tensorboard")
    except ImportError:
        return None
    purged = start + 1 if directory.is_dir() else None
    return Board(module.SummaryWriter(str(directory), flush_secs=FLUSH, purge_step=purged))
