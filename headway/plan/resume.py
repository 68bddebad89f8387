"""Going on from a checkpoint: what a job may change against the plan that wrote it, and what it may not."""

from collections.abc import Mapping
from dataclasses import fields

from headway.errors import PlanError
from headway.plan.dtypes import dtypes
from headway.plan.plan import Plan

_LAYOUT = "the layout (tensor, pipeline, chunks, data, zero), schedule, split and micro-batch may differ"


def check(saved: Plan, plan: Plan, where: str) -> list[str]:
    """What a job changes of the training that the checkpoint `where` goes on with, a line each, to be told.

    Any layout may load any other's. Raises PlanError where the weights would not fit (the model's sizes, a narrower
    type) or the position in the data would mean other samples (global batch, sequence length, seed, held-out share,
    tokenizer).
    """
    for key, then, now in _fixed(saved, plan):
        if then != now:
            raise PlanError(
                f"{where} was written with {key} {_show(then)}, but the job has {_show(now)}. To go on from it use "
                f"{key} {_show(then)} ({_LAYOUT}); to train anew, another checkpoint.directory or run.directory."
            )
    narrow, wide = (dtypes(each.train).moments for each in (plan, saved))
    if narrow.bytes < wide.bytes:
        raise PlanError(
            f"{where} holds weights and moments in {wide}, which train.precision {plan.train.precision} would round to "
            f"{narrow}. To go on from it use train.precision {saved.train.precision}."
        )
    return [f"{key}: {_show(then)} → {_show(now)}" for key, then, now in _told(saved, plan) if then != now]


def done(path: str, step: int) -> str:
    """What is said of a checkpoint that has done all steps of a job already."""
    return (
        f"{path} has done all {step} steps (train.steps): nothing is left to train. Raise train.steps to go on, or "
        f"name another checkpoint.directory or run.directory to train anew."
    )


def none_whole(damage: Mapping[str, str]) -> str:
    """What is said where there are checkpoints, but none can be loaded; `damage`: name → why."""
    said = "".join(f"\n  {name}: {why}" for name, why in damage.items())
    return f"no checkpoint can be gone on from. Move them away to train from the first step.{said}"


def _fixed(saved: Plan, plan: Plan) -> list[tuple[str, object, object]]:
    sizes = [each.name for each in fields(plan.model) if not each.name.endswith("_dropout")]
    return [
        *((f"model.{name}", getattr(saved.model, name), getattr(plan.model, name)) for name in sizes),
        ("train.global_batch", saved.train.global_batch, plan.train.global_batch),
        ("data.sequence_length", saved.data.sequence_length, plan.data.sequence_length),
        ("train.seed", saved.train.seed, plan.train.seed),
        ("data.validation", saved.data.validation, plan.data.validation),
        ("data.tokenizer", saved.data.tokenizer, plan.data.tokenizer),
    ]


def _told(saved: Plan, plan: Plan) -> list[tuple[str, object, object]]:
    """What changes the training, but is the user's to change: rates, steps, dropout, smoothing, data's place."""
    found: list[tuple[str, object, object]] = [
        (f"optimizer.{each.name}", getattr(saved.optimizer, each.name), getattr(plan.optimizer, each.name))
        for each in fields(plan.optimizer)
    ]
    for section, names in (
        ("model", ("attention_dropout", "hidden_dropout")),
        ("train", ("steps", "precision", "reduce_dtype", "label_smoothing", "loss_scale", "loss_scale_window")),
        ("data", ("path",)),
    ):
        then, now = getattr(saved, section), getattr(plan, section)
        found += [(f"{section}.{name}", getattr(then, name), getattr(now, name)) for name in names]
    return found


def _show(value: object) -> str:
    return f"{list(value)}" if isinstance(value, tuple) else f"{value}"
