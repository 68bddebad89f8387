"""Job → Plan: every derived number computed once, everything that cannot work refused with a remedy."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.cluster.spec import NO_FABRIC, Cluster
from headway.data.tokenizer import BYTE_VOCABULARY, BYTES, NONE
from headway.errors import PlanError
from headway.layout import layout
from headway.model import cut
from headway.model.spec import ModelSpec
from headway.placement import zero
from headway.plan import presets, read
from headway.plan.dtypes import dtypes
from headway.plan.job import Job, Offload, Parallel, Train
from headway.plan.plan import Plan
from headway.plan.recompute import recompute
from headway.plan.rows import rows as compute_rows
from headway.plan.stages import split
from headway.schedule import families, passes
from headway.schedule.check import with_messages
from headway.schedule.operation import Part, Parts
from headway.schedule.schedule import Schedule
from headway.units import Dtype

MAX_MICROBATCHES = 16384
MAX_WORKERS = 64


def from_file(path: Path, overrides: tuple[str, ...] = ()) -> Plan:
    """The plan of a job file (YAML), or the plan itself if the file is one (JSON)."""
    if path.suffix == ".json":
        from headway.plan import plan as plans

        if overrides:
            raise PlanError(f"--set changes a job file, but {path} is a plan already. Change its job and plan again.")
        return plans.read(path)
    return build(read.job(path, overrides), name=path.stem, folder=path.parent)


def build(job: Job, *, name: str = "job", folder: Path = Path()) -> Plan:
    """The plan of a job; files that it names are relative to `folder`. Raises PlanError with what would work."""
    parallel = _refuse_what_is_not_built(job)
    model, cluster = presets.model(job.model), presets.cluster(job.cluster, folder)
    _check_sizes(job, model, cluster)
    cut.check(model, parallel.tensor)
    if parallel.sequence_parallel:
        cut.check_sequence(job.data.sequence_length, parallel.tensor)
    place = layout(tensor=parallel.tensor, data=parallel.data, pipeline=parallel.pipeline)
    if place.world > cluster.num_devices:
        raise PlanError(
            f"the layout needs {place.world} devices (tensor {parallel.tensor} × pipeline {parallel.pipeline} × data "
            f"{parallel.data}), but {cluster} has {cluster.num_devices}. Use smaller axes or a larger cluster."
        )
    _check_fabric(cluster, place.world)
    microbatches = _num_microbatches(job, parallel)
    rows = compute_rows(parallel, job.train, microbatches, folder)
    again = recompute(parallel.recompute, model)
    made = split(job, parallel, model, cluster, again)
    bare = Plan(
        name=name,
        model=model,
        cluster=cluster,
        layout=place,
        placement=zero(parallel.zero),
        split=made.name,
        stages=made.stages,
        unit_bytes=parallel.unit_bytes,
        whole_below=parallel.whole_below,
        prefetch=parallel.prefetch,
        num_microbatches=microbatches,
        schedule=rows,
        evaluation=families.forward_only(rows),
        data=job.data,
        optimizer=job.optimizer,
        train=job.train,
        checkpoint=job.checkpoint,
        run=job.run,
        sequence_parallel=parallel.sequence_parallel,
        recompute=again,
    )
    return replace(bare, schedule=_lower(bare.schedule, bare.parts), evaluation=_lower(bare.evaluation, bare.parts))


def _lower(rows: Schedule, parts: tuple[Parts, ...]) -> Schedule:
    """The rows with all that they leave out, as the units' placement has it."""

    def stages(which: Callable[[Part], bool]) -> frozenset[int]:
        return frozenset(stage for stage, each in enumerate(parts) if any(map(which, each.shared)))

    reduced, cut_grads = stages(lambda part: part.reduces), stages(lambda part: part.cut_grads)
    once, each = stages(lambda part: part.gathers and not part.cut_params), stages(lambda part: part.cut_params)
    return with_messages(
        rows,
        lambda found: passes.add_steps(
            passes.add_reductions(passes.add_gathers(found, once, each), reduced, cut_grads)
        ),
    )


def _check_fabric(cluster: Cluster, world: int) -> None:
    if cluster.fabric != NO_FABRIC:
        from headway.plan import network

        network.of_cluster(cluster, world)


def _num_microbatches(job: Job, parallel: Parallel) -> int:
    batch, micro = job.train.global_batch, job.train.microbatch
    one = micro * parallel.data
    if batch % one:
        below, above = batch // one * one, (batch // one + 1) * one
        raise PlanError(
            f"train.global_batch {batch} is not a multiple of train.microbatch {micro} × parallel.data {parallel.data} "
            f"= {one} sequences. Use train.global_batch {f'{below} or {above}' if below else above}, "
            f"or another train.microbatch (global batch = micro-batch × data × micro-batches of a step)."
        )
    if batch // one > MAX_MICROBATCHES:
        raise PlanError(
            f"train.global_batch {batch} makes {batch // one} micro-batches of a step on each data rank; at most "
            f"{MAX_MICROBATCHES} are planned. It counts sequences, not tokens; use a larger train.microbatch, or less."
        )
    return batch // one


def _check_sizes(job: Job, model: ModelSpec, cluster: Cluster) -> None:
    train, data, optimizer = job.train, job.data, job.optimizer
    parallel = job.parallel
    assert isinstance(parallel, Parallel)
    positive = {
        "parallel.tensor": parallel.tensor,
        "parallel.pipeline": parallel.pipeline,
        "parallel.data": parallel.data,
        "parallel.chunks": parallel.chunks,
        "train.steps": train.steps,
        "train.global_batch": train.global_batch,
        "train.microbatch": train.microbatch,
        "data.sequence_length": data.sequence_length,
        "train.hang_after": train.hang_after,
        "train.loss_scale_window": train.loss_scale_window,
    }
    for key, value in positive.items():
        if value < 1:
            raise PlanError(f"{key} must be at least 1, got {value}.")
    for key, number in {
        "parallel.unit_bytes": parallel.unit_bytes,
        "parallel.whole_below": parallel.whole_below,
        "parallel.prefetch": parallel.prefetch,
        "optimizer.eps": optimizer.eps,
        "train.evaluate_every": train.evaluate_every,
        "data.workers": data.workers,
        "optimizer.warmup_steps": optimizer.warmup_steps,
        "optimizer.decay_steps": optimizer.decay_steps,
        "optimizer.lr": optimizer.lr,
        "optimizer.min_lr": optimizer.min_lr,
        "optimizer.clip": optimizer.clip,
        "optimizer.weight_decay": optimizer.weight_decay,
        "checkpoint.every": job.checkpoint.every,
        "checkpoint.keep": job.checkpoint.keep,
    }.items():
        if not 0 <= number < float("inf"):
            problem = "not be negative" if number < 0 else "be a finite number"
            raise PlanError(f"{key} must {problem}, got {number}.")
    if not all(0 <= beta < 1 for beta in optimizer.betas):
        raise PlanError(f"optimizer.betas must lie in [0, 1), got {list(optimizer.betas)}.")
    _check_zero(parallel.zero)
    _check_rates(job)
    if data.workers > MAX_WORKERS:
        raise PlanError(f"data.workers {data.workers} is more than {MAX_WORKERS} threads on each rank. Use 1 or 2.")
    if not data.path.strip():
        raise PlanError("data.path is empty. Name a file or folder with text in it, or stdlib.")
    if not 0 <= data.validation < 1:
        raise PlanError(f"data.validation is the fraction held out, at least 0 and below 1, got {data.validation}.")
    if not 0 <= train.label_smoothing < 1:
        raise PlanError(
            f"train.label_smoothing is the share of a target that is spread over the vocabulary, at least 0 and below "
            f"1, got {train.label_smoothing}."
        )
    if data.sequence_length > model.positions:
        raise PlanError(
            f"data.sequence_length {data.sequence_length} is longer than the model's {model.positions} positions. "
            f"Use at most {model.positions}, or set model.positions."
        )
    _check_tokenizer(data.tokenizer, model)
    _check_dtypes(train, cluster)
    _check_checkpoint_directory(job.checkpoint.directory)


def _check_zero(stage: int) -> None:
    if stage not in range(4):
        raise PlanError(f"parallel.zero is a stage of ZeRO from 0 (nothing is cut) to 3, got {stage}.")


def _check_rates(job: Job) -> None:
    optimizer, steps = job.optimizer, job.train.steps
    used = optimizer.warmup_steps + optimizer.decay_steps
    if optimizer.schedule == "wsd" and used > steps:
        raise PlanError(
            f"optimizer.schedule wsd needs at least warmup_steps {optimizer.warmup_steps} + decay_steps "
            f"{optimizer.decay_steps} = {used} steps, but train.steps is {steps}. "
            f"Use train.steps {used} or more, or fewer steps of optimizer.warmup_steps or decay_steps."
        )


def _check_checkpoint_directory(directory: str | None) -> None:
    if directory is None:
        return
    if not directory.strip():
        raise PlanError("checkpoint.directory is empty. Name a directory, or leave it out: the run's own is used.")
    for word in re.findall(r"\{\w*\}", directory.replace("{name}", "")):
        why = "with which the same command would never find them again" if word == "{time}" else "which is not known"
        raise PlanError(
            f"checkpoint.directory {directory} has {word} in it, {why}. Use a plain path, or {{name}} in it."
        )


def _check_tokenizer(name: str, model: ModelSpec) -> None:
    if name == BYTES and model.vocabulary < BYTE_VOCABULARY:
        raise PlanError(f"bytes need a vocabulary of {BYTE_VOCABULARY}, got model.vocabulary {model.vocabulary}.")
    if name not in {BYTES, NONE} and not name.endswith(".json"):
        raise PlanError(
            f"data.tokenizer is {name}. Use {BYTES}, the path of a tokenizer.json, or {NONE} for a token file whose "
            f"tokenizer is not at hand."
        )


def _check_dtypes(train: Train, cluster: Cluster) -> None:
    if Dtype.FLOAT8 in {train.precision, train.reduce_dtype}:
        key = "precision" if train.precision is Dtype.FLOAT8 else "reduce_dtype"
        *most, last = (f"'{dtype}'" for dtype in Dtype if dtype is not Dtype.FLOAT8)
        raise PlanError(f"train.{key} is 'float8'. Use {', '.join(most)} or {last}.")
    _check_loss_scale(train)
    types = dtypes(train)
    accepted = dict.fromkeys((types.grads, types.params))  # the gradients' own type, or the parameters'
    if types.reduced not in accepted:
        problem = "would round" if types.reduced.bytes < types.grads.bytes else "adds nothing to"
        raise PlanError(
            f"train.reduce_dtype {types.reduced} {problem} the {types.grads} gradients of train.precision "
            f"{types.params}. Use train.reduce_dtype {' or '.join(accepted)}."
        )
    device = cluster.device
    for key, rates in (("peak", device.peak), ("matmul", device.matmul)):
        if train.precision not in rates:
            raise PlanError(
                f"{cluster.name} has no rate for train.precision {train.precision}: its device.{key} knows "
                f"{', '.join(rates)}. Add device.{key}.{train.precision}, or train in one of those."
            )


def _check_loss_scale(train: Train) -> None:
    if train.loss_scale == "dynamic":
        return
    if train.precision is not Dtype.FLOAT16:
        raise PlanError(
            f"train.loss_scale {train.loss_scale:g} is for train.precision float16: gradients in {train.precision} do "
            f"not underflow. Leave it out."
        )
    if not 0 < train.loss_scale < float("inf"):
        raise PlanError(f"train.loss_scale must be above 0 and finite, got {train.loss_scale:g}. Use 1024, or dynamic.")


def _refuse_what_is_not_built(job: Job) -> Parallel:
    """Keys of the design whose feature does not exist yet are accepted at their default only."""
    parallel = job.parallel
    if parallel == "auto":
        raise PlanError("parallel: auto needs the planner, which is not built yet. Name the axes: pipeline, data.")
    assert isinstance(parallel, Parallel)
    later: dict[str, tuple[Any, Any]] = {
        "parallel.offload": (parallel.offload, Offload()),
        "parallel.disk_path": (parallel.disk_path, None),
    }
    for key, (value, built) in later.items():
        if value != built:
            said = "" if isinstance(value, Offload) else f": {_yaml(value)}"
            remedy = "Leave it out" if built is None or isinstance(built, Offload) else f"Leave it at {_yaml(built)}"
            raise PlanError(f"{key}{said} is not built yet. {remedy}.")
    return parallel


def _yaml(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
