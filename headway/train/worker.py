"""A worker process: one rank of the job, from joining the group to the files that the run leaves.

python -m headway.train.worker RUN_DIRECTORY AGENT_PID ATTEMPT      (started by torchrun's agent)
"""

import contextlib
import json
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from headway import checkpoints, control, env
from headway.data import corpus as corpora
from headway.data import split as splits
from headway.data.prefetch import ahead
from headway.data.samples import Batch, Samples, Slice
from headway.errors import HeadwayError, JobError, PlanError
from headway.plan import plan as plans
from headway.plan.memory import checkpoint_bytes
from headway.plan.plan import Plan
from headway.plan.resume import done
from headway.train import comm, results
from headway.train.endings import end_with
from headway.train.keeper import Keeper
from headway.train.loop import StepResult, Trainer
from headway.train.metrics import Metrics
from headway.train.pulse import SIZE, Pulse
from headway.train.resume import Resumed, resume
from headway.train.saver import Saver
from headway.train.slow import WINDOW, Pace, slow_ranks
from headway.train.torch_stage import TorchStage
from headway.train.watch import Watch

Show = Callable[[dict[str, Any]], None]


def run(plan: Plan, worker: env.Worker, prepare: Callable[[], Path], show: Show | None = None) -> Path:
    """Train as one rank of `plan`; the run's directory.

    Rank 0's `prepare` makes the directory. It gets `metrics.jsonl` (a line a step), `measured.trace.json.gz`,
    `model.safetensors` and `summary.json`; `show` is told each line that rank 0 writes.
    """
    if worker.world != plan.layout.world:
        raise PlanError(
            f"the plan has {plan.layout.world} ranks ({plan.layout}), but {worker.world} processes were started. "
            f"Start {plan.layout.world}, or change parallel in the job."
        )
    torch.set_num_threads(1)
    pulse = Pulse()
    with Watch(plan, worker.rank, pulse, lambda: comm.board(worker)) as watch:
        try:
            device, directory = _join(worker, plan, pulse, prepare)
            watch.joined(directory)
            pulse("start", "making the stages")
            stage = TorchStage(plan, plan.program, worker.rank, device, comm.Comm(plan, worker.rank, pulse))
            stage.stop.listen()
            if worker.rank == 0:
                stage.stop.look_into(directory)
            trainer = Trainer(plan, stage, pulse)
            pulse("start", "reading the data")
            part, (train, held_out) = _slice(plan, worker.rank), _samples(plan)
            validation = _validation(held_out, part)
            saver = _saver(plan, worker, directory)
            reading = partial(watch.saving, "reading a checkpoint")
            found = resume(plan, stage, directory, train.num_samples, reading)
            if stage.step >= plan.train.steps:
                _nothing_left(found, worker, directory)
                return directory
            metrics = Metrics(plan, directory, worker.rank, show or (lambda _: None), start=stage.step)
            if found:
                metrics.resumed(found)
                saver.pass_over(found.skipped)
            keeper = Keeper(plan, stage, saver, watch, metrics, train.num_samples)
            read = partial(train.train_batch, part=part)
            with (
                contextlib.closing(metrics),
                ahead(read, first=stage.step, end=plan.train.steps, workers=plan.data.workers) as batches,
            ):
                watch.started()
                _train(plan, trainer, metrics, keeper, pulse, batches, validation)
                if stage.totals.stop:
                    keeper.told_to_stop()
                results.leave(plan, trainer, metrics, directory, watch)
                keeper.finished()
                saver.close()
                if worker.rank == 0 and stage.totals.stop:
                    control.answer(directory, can_go_on=stage.step < plan.train.steps)
        finally:
            with pulse.waiting("all ranks to leave", tuple(range(worker.world))):
                comm.stop()
    return directory


def _join(worker: env.Worker, plan: Plan, pulse: Pulse, prepare: Callable[[], Path]) -> tuple[torch.device, Path]:
    """This rank's device, and the run's directory, which rank 0 prepares, once all ranks are there."""
    with pulse.waiting("all ranks to join", tuple(range(worker.world))):
        device = comm.start(plan, worker)
    pulse("start", "preparing the run directory")
    with pulse.waiting("rank 0 to prepare the run directory", (0,)) if worker.rank else contextlib.nullcontext():
        directory = Path(comm.from_rank_0(lambda: str(prepare())))
    (directory / "log").mkdir(parents=True, exist_ok=True)
    pulse.write_to(directory / "log" / f"rank-{worker.rank}.at")
    return device, directory


def _saver(plan: Plan, worker: env.Worker, directory: Path) -> Saver:
    """The saver; of a job that saves, its directory is this job's alone from now on, before anything in it is read."""
    saver = Saver(
        checkpoints.folder(plan.checkpoint.directory, plan.name, directory),
        worker.rank,
        worker.world,
        lambda: comm.board(worker),
        keep=plan.checkpoint.keep,
        wanted=checkpoint_bytes(plan),
    )

    def claim() -> str:
        try:
            saver.claim()
        except BlockingIOError:
            raise PlanError(checkpoints.in_use(saver.directory)) from None
        except OSError as error:
            said = f"{saver.directory} cannot be written ({error.strerror or error})"
            raise PlanError(f"{said}. Name another checkpoint.directory.") from None
        return ""

    if plan.checkpoint.saves:
        comm.from_rank_0(claim)
    return saver


def _nothing_left(found: Resumed | None, worker: env.Worker, directory: Path) -> None:
    """The job has done all its steps: fine if a restart finds its results, else PlanError."""
    assert found is not None
    if not (worker.attempt and (directory / "summary.json").exists()):
        raise PlanError(done(found.path, found.step))


def _train(
    plan: Plan,
    trainer: Trainer,
    metrics: Metrics,
    keeper: Keeper,
    pulse: Pulse,
    batches: Iterator[Batch],
    validation: list[Batch],
) -> None:
    """Steps to the last one, or to the one at whose end the job is asked to stop."""
    stage = trainer.stage
    if validation and not metrics.start:
        metrics.evaluation(0, trainer.evaluate(validation))
    pace = Pace(pulse)
    for step in range(stage.step, plan.train.steps):
        if counted := step == _counted_step(plan, metrics.start):
            stage.saved.start(unit.params for unit in stage.units.values())
        pace.begin()
        pulse(f"step {step + 1}", "reading its samples")
        result = trainer.train_step(next(batches))
        if counted:
            stage.saved.stop()
        pace.end()
        pulse(f"after step {step + 1}", "writing the metrics")
        metrics.step(result, _slow(plan, pace, pulse) if (step + 1) % WINDOW == 0 else None)
        if stage.gave_up:
            keeper.settle()
            raise JobError(_why_it_stops(result, stage))
        every = plan.train.evaluate_every
        last = result.stop or step + 1 == plan.train.steps
        if not result.stop:
            keeper.after_step()
        if validation and not result.stop and (last or (every and (step + 1) % every == 0)):
            metrics.evaluation(step + 1, trainer.evaluate(validation))
        if last or stage.totals.stop:
            break


def _why_it_stops(result: StepResult, stage: TorchStage) -> str:
    first = stage.first_nonfinite()
    where = f", first (from the loss back) in unit {first}" if first else ""
    found = f"the loss is {result.loss} and the gradient norm {result.grad_norm}{where}; no rank updated its weights"
    if stage.scale.dynamic:
        return (
            f"step {result.step + 1}: float16 overflows at a loss scale of {result.loss_scale:g}, its floor: {found}. "
            f"Lower optimizer.lr, or use train.precision bfloat16."
        )
    remedy = "Lower optimizer.lr, or set train.on_nonfinite: skip to leave such steps out."
    return f"step {result.step + 1}: {found}. {remedy}"


def _slow(plan: Plan, pace: Pace, pulse: Pulse) -> dict[int, float]:
    """Rank → how many times as long as its peers it needs, of those that are slow; known on rank 0."""
    seconds = pace.typical()
    if plan.layout.size("data") == 1:
        return {}
    with pulse.waiting("the pace of all ranks", tuple(range(plan.layout.world))):
        own = comm.to_rank_0(seconds)
    return slow_ranks(plan, own) if own else {}


def _samples(plan: Plan) -> tuple[Samples, Samples | None]:
    corpus = corpora.load(plan.data.path, Path())
    length, seed = plan.data.sequence_length, plan.train.seed
    both = splits.split(corpus, validation=plan.data.validation, seed=seed, sequence_length=length)
    held_out = Samples(both.validation, length, seed) if plan.data.validation else None
    return Samples(both.train, length, seed), held_out


def _slice(plan: Plan, rank: int) -> Slice:
    data = plan.layout.coord(rank)["data"]
    return Slice(data, plan.layout.size("data"), plan.train.microbatch, plan.num_microbatches)


def _counted_step(plan: Plan, start: int) -> int:
    """The step (from 0) whose saved tensors are counted: not the traced one if there is another, as it takes longer."""
    steps, profile = plan.train.steps, plan.run.profile
    traced = (steps if profile == "last" else profile) - 1
    return next((step for step in (start + 1, start + 2, start) if step < steps and step != traced), start)


def _validation(samples: Samples | None, part: Slice) -> list[Batch]:
    if samples is None:
        return []
    return [samples.validation_batch(i, part) for i in range(samples.num_validation_batches(part.global_batch))]


def _status(error: Exception) -> int:
    return error.exit_status if isinstance(error, HeadwayError) else 1


def _report(directory: Path, rank: int, error: Exception) -> None:
    """Why this rank ended, for the launcher to read: whether it lost a peer, failed by itself or was asked wrongly."""
    pulse = directory / "log" / f"rank-{rank}.at"
    text = str(error) if isinstance(error, HeadwayError) else f"{type(error).__name__}: {error}"
    report = {
        "lost_peer": isinstance(error, comm.PeerLostError),
        "explained": isinstance(error, HeadwayError),
        "status": _status(error),
        "error": text,
        "at": pulse.read_text(encoding="utf-8").strip() if pulse.exists() else "start",
        "host": socket.gethostname(),
    }
    path = directory / "log" / f"rank-{rank}.error.json"
    try:
        path.write_text(json.dumps(report), encoding="utf-8")
    except OSError:  # a full disk: the agent tells the exit status, and the line that has its room the reason
        with contextlib.suppress(OSError):
            path.unlink()
            with pulse.open("r+b") as line:
                line.write(f"{report['at']}: {text}".encode()[: SIZE - 1].ljust(SIZE - 1))


def main(directory: Path, agent: int, attempt: int) -> int:
    """The worker that the agent (a process id) starts: everything it needs is in the run directory."""
    end_with(agent)
    started = env.worker()
    assert started is not None, "started by torchrun's agent, which sets RANK and the rest"
    worker = replace(started, attempt=attempt)
    try:
        run(plans.read(directory / "plan.json"), worker, lambda: directory)
    except Exception as error:
        _report(directory, worker.rank, error)
        with contextlib.suppress(OSError):  # a full disk: this goes to a file too
            traceback.print_exception(error)
        return _status(error)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
