"""Following a run: its metrics as they come, as a bar on a terminal and plain lines elsewhere, always on stderr."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.plan.plan import Plan

WIDE = 125  # columns from which the progress line has room for a bar and every figure
PLAIN_LINES = 40  # about so many lines of a run where there is no terminal


class Follower:
    """A run that is followed while it is entered: by reading its metrics, or by being shown each line."""

    def __init__(self, plan: "Plan", directory: Path, as_json: bool) -> None:
        from rich.console import Console

        self.steps, self.path = plan.train.steps, directory / "metrics.jsonl"
        # of a run that is gone on with, what was written before; a line that was not finished is cut off there
        self.position = self.path.read_bytes().rfind(b"\n") + 1 if self.path.exists() else 0
        self.steps_seen = 0
        self.console = Console(stderr=True)
        self.every = max(1, self.steps // PLAIN_LINES)
        self.bar = self._bar() if self.console.is_terminal and not as_json else None

    def __enter__(self) -> "Follower":
        if self.bar:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar:
            self.bar.stop()

    def read(self) -> None:
        """Show the lines that have been written since the last look."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self.position)
            for line in file:
                if line.endswith(b"\n"):  # the last may not be finished yet
                    self.show(json.loads(line))
                    self.position += len(line)  # only now: a line in whose midst Ctrl-C came is shown again

    def show(self, line: dict[str, Any]) -> None:
        """One line of metrics: of a step, an evaluation, a checkpoint, or what the job goes on from."""
        from headway.units import show_seconds

        step = line["step"]
        if "validation_loss" in line:
            self._say(f"step {step:>5}  validation loss {number(line['validation_loss'])}", "bold")
            return
        if "loss" not in line:
            self._show_checkpoint(line)
            return
        self.steps_seen = step
        rest = f"norm {number(line['grad_norm'], 2)}  lr {line['learning_rate']:.1e}  MFU {line['mfu']:.1%}  "
        text = (
            f"loss {number(line['loss'])}  {'' if self.bar and self.console.width < WIDE else rest}"
            f"{line['tokens_per_second']:,.0f} tok/s  "
            f"{show_seconds(line['seconds'])} (predicted {show_seconds(line['predicted_seconds'])})"
        )
        if self.bar:
            self.bar.update(self.bar.task_ids[0], completed=step, text=text)
        elif step % self.every == 0 or step in (1, self.steps):
            self.console.print(f"step {step:>5}  {text}", highlight=False, soft_wrap=True)
        for rank, ratio in line.get("slow_ranks", {}).items():
            slow = f"step {step:>5}  rank {rank} is slow: its own work takes {ratio:.1f} × as long as its peers'"
            self._say(slow, "yellow")

    def warn(self, text: str) -> None:
        """Something that the user should see between the lines."""
        self._say(text, "yellow")

    def _show_checkpoint(self, line: dict[str, Any]) -> None:
        from headway.units import show_bytes, show_seconds

        start = f"step {line['step']:>5}  "
        if "checkpoint_error" in line:
            self._say(f"{start}{line['checkpoint_error']}", "yellow")
        elif "checkpoint" in line:
            took, stall = line["checkpoint_seconds"], line["checkpoint_stall_seconds"]
            size = show_bytes(line["checkpoint_bytes"])
            took_said = f"written in {show_seconds(took)}, training waited {show_seconds(stall)}"
            self._say(f"{start}checkpoint {Path(line['checkpoint']).name}: {size} {took_said}", "dim")
        elif "resumed_from" in line:
            for name, why in line.get("skipped", {}).items():
                self._say(f"{start}skipped {name}: {why}", "yellow")
            self._say(f"{start}going on from {line['resumed_from']}", "bold")
            for change in line.get("changed", []):
                self._say(f"{start}changed since then: {change}", "yellow")

    def _say(self, text: str, style: str) -> None:
        self.console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)

    def _bar(self) -> Any:  # noqa: ANN401 -- rich is imported only here
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        wide = (BarColumn(bar_width=20),) if self.console.width >= WIDE else ()
        columns = (*wide, MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.fields[text]}"))
        bar = Progress(*columns, console=self.console)
        bar.add_task("training", total=self.steps, text="starting the workers …")
        return bar


def number(value: float | None, digits: int = 4) -> str:
    """A loss or a norm for people; None is one that is not finite."""
    return "not finite" if value is None else f"{value:.{digits}f}"
