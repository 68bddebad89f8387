"""A worker process: one rank of the job, from joining the group to the files that the run leaves.

python -m headway.train.worker RUN_DIRECTORY AGENT_PID      (started by torchrun's agent)
"""

import contextlib
import json
import math
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from headway import env
from headway import trace as traces
from headway.data import corpus as corpora
from headway.data import split as splits
from headway.data.samples import Batch, Samples, Slice
from headway.data.tokenizer import BYTES
from headway.errors import HeadwayError, JobError, PlanError
from headway.plan import plan as plans
from headway.plan.plan import Plan
from headway.trace import Trace
from headway.train import comm, weights
from headway.train.endings import end_with
from headway.train.generate import generate
from headway.train.loop import Trainer
from headway.train.metrics import Metrics
from headway.train.pulse import Pulse
from headway.train.slow import WINDOW, Pace, slow_ranks
from headway.train.torch_stage import TorchStage
from headway.train.watch import Watch
from headway.units import Bytes

SAVED_STEP = 1  # the step whose saved tensors are counted; the hooks slow it down
PROMPT, SAMPLE_BYTES = b"def ", 240
LEARNED = 0.6  # share of the loss of guessing, above which a sample is noise
SAMPLED_MODELS = 50_000_000  # parameters up to which a sample takes seconds on one core
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
            trainer = Trainer(plan, stage, pulse)
            metrics = Metrics(plan, directory, worker.rank, show or (lambda _: None))
            watch.started()
            _train(plan, trainer, metrics, pulse)
            _close(plan, trainer, metrics, directory, watch)
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


def _train(plan: Plan, trainer: Trainer, metrics: Metrics, pulse: Pulse) -> None:
    """All steps with their evaluations, to the last or to the one at whose end a signal stops the job."""
    stage, part = trainer.stage, _slice(plan, trainer.stage.rank)
    train, held_out = _samples(plan)
    validation = _validation(held_out, part)
    if validation:
        metrics.evaluation(0, trainer.evaluate(validation))
    pace = Pace(pulse)
    for step in range(plan.train.steps):
        if counted := step == min(SAVED_STEP, plan.train.steps - 1):
            stage.saved.start(unit.params for unit in stage.units.values())
        pace.begin()
        pulse(f"step {step + 1}", "reading its samples")
        result = trainer.train_step(train.train_batch(step, part))
        if counted:
            stage.saved.stop()
        pace.end()
        pulse(f"after step {step + 1}", "writing the metrics")
        metrics.step(result, _slow(plan, pace, pulse) if (step + 1) % WINDOW == 0 else None)
        if not result.finite and plan.train.on_nonfinite == "stop":
            raise JobError(
                f"step {step + 1}: the loss is {result.loss} and the gradient norm {result.grad_norm}; no rank updated "
                f"its weights. Lower optimizer.lr, or set train.on_nonfinite: skip to leave such steps out."
            )
        every = plan.train.evaluate_every
        last = result.stop or step + 1 == plan.train.steps
        if validation and not result.stop and (last or (every and (step + 1) % every == 0)):
            metrics.evaluation(step + 1, trainer.evaluate(validation))
        if last or stage.totals.stop:
            break


def _slow(plan: Plan, pace: Pace, pulse: Pulse) -> dict[int, float]:
    """Rank → how many times as long as its peers it needs, of those that are slow; known on rank 0."""
    seconds = pace.typical()
    if plan.layout.size("data") == 1:
        return {}
    with pulse.waiting("the pace of all ranks", tuple(range(plan.layout.world))):
        own = comm.to_rank_0(seconds)
    return slow_ranks(plan, own) if own else {}


def _close(plan: Plan, trainer: Trainer, metrics: Metrics, directory: Path, watch: Watch) -> None:
    """Gather the measured trace and the weights on rank 0, and write the run's closing files."""
    stage, last = trainer.stage, metrics.last
    assert last is not None
    trainer.note("end", "gathering the trace")
    with watch.pulse.waiting("the trace of all ranks", tuple(range(plan.layout.world))):
        measured = comm.to_rank_0((last.spans, _memory(stage)))
    whole = weights.gather(plan, stage, watch.pulse)
    if measured is None or whole is None:
        return
    with watch.saving("writing the weights"):
        _save(plan, trainer, metrics, directory, (measured, whole))


def _save(
    plan: Plan, trainer: Trainer, metrics: Metrics, directory: Path, gathered: tuple[list[Any], dict[str, torch.Tensor]]
) -> None:
    """Rank 0's files of a run that has come to its end: the measured trace, the weights and the summary."""
    stage, last, (measured, whole) = trainer.stage, metrics.last, gathered
    assert last is not None
    memory = {rank: held for rank, (_, held) in enumerate(measured)}
    trace = Trace("measured", traces.aligned([spans for spans, _ in measured]), memory)
    traces.write(directory / "measured.trace.json.gz", trace)
    weights.write(directory / "model.safetensors", whole, plan.model)
    sample = None
    small = sum(unit.numel for unit in plan.units) <= SAMPLED_MODELS
    learned = last.loss < LEARNED * math.log(plan.model.vocabulary)  # a NaN has not
    if learned and small and not stage.totals.stop and plan.data.tokenizer == BYTES:
        context = plan.data.sequence_length
        written = generate(plan.model, whole, PROMPT, length=SAMPLE_BYTES, context=context)
        sample = (PROMPT + written).decode("utf-8", "replace")
    summary = metrics.summary(interrupted=stage.totals.stop) | {"sample": sample}
    (directory / "summary.json").write_text(json.dumps(summary, indent=1), encoding="utf-8")


def _samples(plan: Plan) -> tuple[Samples, Samples | None]:
    corpus = corpora.load(plan.data.path, Path())
    length, seed = plan.data.sequence_length, plan.train.seed
    both = splits.split(corpus, validation=plan.data.validation, seed=seed, sequence_length=length)
    held_out = Samples(both.validation, length, seed) if plan.data.validation else None
    return Samples(both.train, length, seed), held_out


def _slice(plan: Plan, rank: int) -> Slice:
    data = plan.layout.coord(rank)["data"]
    return Slice(data, plan.layout.size("data"), plan.train.microbatch, plan.num_microbatches)


def _validation(samples: Samples | None, part: Slice) -> list[Batch]:
    if samples is None:
        return []
    return [samples.validation_batch(i, part) for i in range(samples.num_validation_batches(part.global_batch))]


def _memory(stage: TorchStage) -> dict[str, Bytes]:
    """Category → bytes of this rank's live tensors, and the most that autograd held."""
    units = stage.units.values()
    counted = {"activations": Bytes(stage.saved.peak)} if stage.saved.peak else {}
    return {
        "parameters": Bytes(sum(unit.params.nbytes for unit in units)),
        "gradients": Bytes(sum(unit.grads.nbytes for unit in units)),
        "optimizer": Bytes(sum(tensor.nbytes for tensor in stage.optimizer.tensors())),
        **counted,
    }


def _status(error: Exception) -> int:
    return error.exit_status if isinstance(error, HeadwayError) else 1


def _report(directory: Path, rank: int, error: Exception) -> None:
    """Why this rank ended, for the launcher to read: whether it lost a peer, failed by itself or was asked wrongly."""
    pulse = directory / "log" / f"rank-{rank}.at"
    text = str(error) if isinstance(error, HeadwayError) else f"{type(error).__name__}: {error}"
    report = {
        "lost_peer": isinstance(error, comm.PeerLostError),
        "status": _status(error),
        "error": text,
        "at": pulse.read_text(encoding="utf-8").strip() if pulse.exists() else "start",
        "host": socket.gethostname(),
    }
    with contextlib.suppress(OSError):  # a full disk: the agent still tells the exit status
        (directory / "log" / f"rank-{rank}.error.json").write_text(json.dumps(report), encoding="utf-8")


def main(directory: Path, agent: int) -> int:
    """The worker that the agent (a process id) starts: everything it needs is in the run directory."""
    end_with(agent)
    worker = env.worker()
    assert worker is not None, "started by torchrun's agent, which sets RANK and the rest"
    try:
        run(plans.read(directory / "plan.json"), worker, lambda: directory)
    except Exception as error:
        traceback.print_exception(error)
        _report(directory, worker.rank, error)
        return _status(error)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
