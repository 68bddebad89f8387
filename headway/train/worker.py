"""A worker process: one rank of the job, from joining the group to the files that the run leaves.

python -m headway.train.worker RUN_DIRECTORY AGENT_PID      (started by torchrun's agent)
"""

import contextlib
import json
import math
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from headway import chrome, env
from headway.data import corpus as corpora
from headway.data import split as splits
from headway.data import tokenizer as tokenizers
from headway.data.prefetch import ahead
from headway.data.samples import Batch, Samples, Slice
from headway.errors import HeadwayError, JobError, PlanError
from headway.plan import plan as plans
from headway.plan.plan import Plan
from headway.trace import Trace, aligned
from headway.train import comm, weights
from headway.train.endings import end_with
from headway.train.generate import generate
from headway.train.loop import Trainer
from headway.train.metrics import Metrics
from headway.train.pulse import Pulse
from headway.train.torch_stage import TorchStage
from headway.units import Bytes

PROMPT, SAMPLE_TOKENS, TEMPERATURE = b"def ", 240, 0.8
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
    device = comm.start(plan, worker)
    directory = Path(comm.from_rank_0(lambda: str(prepare())))
    (directory / "log").mkdir(parents=True, exist_ok=True)
    try:
        pulse = Pulse(directory / "log" / f"rank-{worker.rank}.at")
        pulse("start", "making the stages")
        stage = TorchStage(plan, plan.program, worker.rank, device, comm.Comm(plan, worker.rank))
        stage.stop.listen()
        trainer = Trainer(plan, stage, pulse)
        metrics = Metrics(plan, directory, worker.rank, show or (lambda _: None))
        with contextlib.closing(metrics):
            _train(plan, trainer, metrics)
            _close(plan, trainer, metrics, directory)
    finally:
        comm.stop()
    return directory


def _train(plan: Plan, trainer: Trainer, metrics: Metrics) -> None:
    """All steps with their evaluations, the batches read ahead."""
    part = _slice(plan, trainer.stage.rank)
    train, held_out = _samples(plan)
    read = partial(train.train_batch, part=part)
    with ahead(read, first=trainer.stage.step, end=plan.train.steps, workers=plan.data.workers) as batches:
        _steps(plan, trainer, metrics, batches, _validation(held_out, part))


def _steps(plan: Plan, trainer: Trainer, metrics: Metrics, batches: Iterator[Batch], validation: list[Batch]) -> None:
    """Steps to the last one, or to the one at whose end a signal stops the job."""
    stage = trainer.stage
    if validation:
        metrics.evaluation(0, trainer.evaluate(validation))
    for step, batch in enumerate(batches, start=stage.step):
        if counted := step == _counted_step(plan):
            stage.saved.start(unit.params for unit in stage.units.values())
        result = trainer.train_step(batch)
        if counted:
            stage.saved.stop()
        metrics.step(result)
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


def _close(plan: Plan, trainer: Trainer, metrics: Metrics, directory: Path) -> None:
    """Gather the measured trace and the weights on rank 0, and write the run's closing files."""
    stage, traced = trainer.stage, metrics.traced
    assert traced is not None
    trainer.note("end", "gathering the trace and the weights")
    measured = comm.to_rank_0((traced.spans, _memory(stage)))
    whole = weights.gather(plan, stage)
    if measured is None or whole is None:
        return
    memory = {rank: held for rank, (_, held) in enumerate(measured)}
    trace = Trace("measured", aligned([spans for spans, _ in measured]), memory)
    chrome.write(directory / "measured.trace.json.gz", trace)
    weights.write(directory / "model.safetensors", whole, plan)
    sample = None if stage.totals.stop else _sample(plan, whole, metrics)
    summary = metrics.summary(interrupted=stage.totals.stop) | {"sample": sample}
    (directory / "summary.json").write_text(json.dumps(summary, indent=1), encoding="utf-8")


def _sample(plan: Plan, whole: dict[str, torch.Tensor], metrics: Metrics) -> str | None:
    """A text that the trained model writes; None where it would be noise, take long or need a tokenizer."""
    assert metrics.last is not None
    small = plan.num_parameters <= SAMPLED_MODELS
    learned = metrics.last.loss < LEARNED * math.log(plan.model.vocabulary)  # a NaN has not
    if not (learned and small) or plan.data.tokenizer == tokenizers.NONE:
        return None
    tokenizer = tokenizers.load(plan.data.tokenizer, Path())
    prompt = tokenizer.encode(PROMPT).tolist()
    context = plan.data.sequence_length
    tokens = generate(plan.model, whole, prompt, context=context, temperature=TEMPERATURE, seed=plan.train.seed)
    return tokenizer.decode([*prompt, *islice(tokens, SAMPLE_TOKENS)])


def _samples(plan: Plan) -> tuple[Samples, Samples | None]:
    corpus = corpora.load(plan.data.path, Path())
    length, seed = plan.data.sequence_length, plan.train.seed
    both = splits.split(corpus, validation=plan.data.validation, seed=seed, sequence_length=length)
    held_out = Samples(both.validation, length, seed) if plan.data.validation else None
    return Samples(both.train, length, seed), held_out


def _slice(plan: Plan, rank: int) -> Slice:
    data = plan.layout.coord(rank)["data"]
    return Slice(data, plan.layout.size("data"), plan.train.microbatch, plan.num_microbatches)


def _counted_step(plan: Plan) -> int:
    """The step (from 0) whose saved tensors are counted: not the traced one if there is another, as it takes longer."""
    steps, profile = plan.train.steps, plan.run.profile
    traced = (steps if profile == "last" else profile) - 1
    return next((step for step in (1, 2, 0) if step < steps and step != traced), 0)


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
