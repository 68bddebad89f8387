"""Results of a run: the measured trace, the weights, the summary and a sample, gathered and written by rank 0."""

import json
import math
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from headway import chrome
from headway.data import tokenizer as tokenizers
from headway.errors import writing
from headway.plan.plan import Plan
from headway.trace import Trace, aligned
from headway.train import comm, weights
from headway.train.generate import generate
from headway.train.loop import Trainer
from headway.train.metrics import Metrics
from headway.train.torch_stage import TorchStage
from headway.train.watch import Watch
from headway.units import Bytes

PROMPT, SAMPLE_TOKENS, TEMPERATURE = b"def ", 240, 0.8
LEARNED = 0.6  # share of the loss of guessing, above which a sample is noise
SAMPLED_MODELS = 50_000_000  # parameters up to which a sample takes seconds on one core


def leave(plan: Plan, trainer: Trainer, metrics: Metrics, directory: Path, watch: Watch) -> None:
    """Gather the measured trace and the weights on rank 0, and write the run's closing files. Every rank calls it."""
    stage, traced = trainer.stage, metrics.traced
    assert traced is not None
    trainer.note("end", "gathering the trace")
    with watch.pulse.waiting("the trace of all ranks", tuple(range(plan.layout.world))):
        measured = comm.to_rank_0((traced.spans, _memory(stage)))
    whole = weights.gather(plan, stage, watch.pulse)
    if measured is None or whole is None:
        return
    with watch.saving("writing the weights"):
        memory = {rank: held for rank, (_, held) in enumerate(measured)}
        trace = Trace("measured", aligned([spans for spans, _ in measured]), memory)
        with writing(directory / "measured.trace.json.gz"):
            chrome.write(directory / "measured.trace.json.gz", trace)
        weights.write(directory / "model.safetensors", whole, plan)
        sample = None if stage.totals.stop else _sample(plan, whole, metrics)
        why = stage.stop.why if stage.totals.stop else None
        summary: dict[str, Any] = metrics.summary(interrupted=stage.totals.stop) | {"stopped_by": why, "sample": sample}
        with writing(directory / "summary.json"):
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


def _memory(stage: TorchStage) -> dict[str, Bytes]:
    """Category → bytes of this rank's live tensors, and the most that autograd held."""
    units = stage.units.values()
    counted = {"activations": Bytes(stage.saved.peak)} if stage.saved.peak else {}
    return {
        "parameters": Bytes(sum(unit.held()[0] for unit in units)),
        "gradients": Bytes(sum(unit.held()[1] for unit in units)),
        "optimizer": Bytes(sum(tensor.nbytes for tensor in stage.optimizer.tensors())),
        **counted,
    }
