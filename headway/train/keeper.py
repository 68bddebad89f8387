"""The keeper of a job's checkpoints: when one is due, and what follows from how it ended."""

import time
from datetime import datetime

from headway.errors import JobError
from headway.plan import plan as plans
from headway.plan.plan import Plan
from headway.train import comm, state
from headway.train.metrics import Metrics
from headway.train.saver import Saver
from headway.train.torch_stage import TorchStage
from headway.train.watch import Watch

POLL = 0.02  # seconds between two questions whether all ranks have written


class Keeper:
    """Every rank has one and calls it at the same steps; `samples`: of one epoch of the training data.

    A job saves every `checkpoint.every` steps, and at its last one if it saves at all; one that is told to stop saves
    in any case, so that it can go on.
    """

    def __init__(
        self, plan: Plan, stage: TorchStage, saver: Saver, watch: Watch, metrics: Metrics, samples: int
    ) -> None:
        self._plan, self._stage, self._saver, self._watch, self._metrics = plan, stage, saver, watch, metrics
        self._samples, self._ranks = samples, tuple(range(plan.layout.world))
        self._snapshot: state.Snapshot | None = None
        self._step: int | None = stage.step or None  # of the last checkpoint: begun, or gone on from
        self._stall = 0.0  # seconds that it kept the training waiting
        self._digest = plans.digest(plan)
        self._error = ""  # of the last one that has ended

    def after_step(self) -> None:
        """Save if it is time, and hear how an earlier save has ended."""
        settings, step = self._plan.checkpoint, self._stage.step
        self._hear()
        if settings.every and step % settings.every == 0 and step < self._plan.train.steps:
            self._save(asynchronous=settings.asynchronous)

    def told_to_stop(self) -> None:
        """Save before anything else is done: who told the job to stop may not wait long. JobError if it must not go on.

        Where a save has failed and that stops the job, this is where it ends.
        """
        self._save(asynchronous=False)

    def finished(self) -> None:
        """Save the last step's state, if the job saves at all, and wait; JobError where the last save has failed."""
        if self._plan.checkpoint.saves:
            self._save(asynchronous=False)
        self.settle()
        if self._error:
            raise JobError(self._error)

    def settle(self) -> None:
        """Wait until all ranks have written what was begun."""
        self._wait()
        self._hear()

    def _wait(self) -> None:
        if self._snapshot is None or self._all_idle():
            return
        with self._watch.saving("writing a checkpoint"):
            while not self._all_idle():
                time.sleep(POLL)

    def _all_idle(self) -> bool:
        """Whether no rank is writing; asked in a collective, so that a rank that has died is noticed here too."""
        with self._watch.pulse.waiting("word that all have written", self._ranks):
            return bool(comm.least(int(self._saver.idle), self._stage.device))

    def _save(self, *, asynchronous: bool) -> None:
        """Save the state at this step, once."""
        start, stage = time.monotonic(), self._stage
        self.settle()
        if self._error and self._plan.checkpoint.on_error == "stop":
            raise JobError(self._error)
        if stage.step == self._step:
            return
        self._watch.pulse(self._watch.pulse.what, "copying the state for a checkpoint")
        self._snapshot = self._snapshot or self._first_snapshot()
        parts = self._snapshot.take(copied=asynchronous)
        now = datetime.now().astimezone().isoformat(timespec="seconds")
        self._saver.begin(parts, state.manifest(stage, self._samples, self._digest, now), plans.dumps(self._plan))
        self._step = stage.step
        if not asynchronous:
            self._wait()
        self._stall = time.monotonic() - start
        self._hear()

    def _first_snapshot(self) -> state.Snapshot:
        with self._watch.pulse.waiting("word of what each rank keeps", self._ranks):
            owned = comm.of_all_ranks(state.own(self._stage))
        return state.Snapshot(self._stage, owned)

    def _hear(self) -> None:
        for saved in self._saver.ended():
            self._error = ""
            if saved.error:
                before = "the checkpoints before it are left as they are"
                self._error = f"no checkpoint of step {saved.step}: {saved.error}; {before}."
            self._metrics.checkpoint(saved, self._stall, self._error)
            if self._error and self._plan.checkpoint.on_error == "stop":
                self._stage.stop.asked = True  # all ranks vote, and end after the same step
