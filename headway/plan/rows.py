"""Compute rows of a job: those of the family that `parallel.schedule` names, or of a CSV file beside the job."""

from pathlib import Path

from headway.errors import MicrobatchError, PlanError, ScheduleError
from headway.plan.job import Parallel, Train
from headway.schedule import families
from headway.schedule.action import RECEIVES, SENDS, Kind
from headway.schedule.check import check
from headway.schedule.row import Row
from headway.schedule.schedule import Schedule, from_csv

_TRAINED = ("1f1b", "interleaved", "gpipe")
# what Headway's passes add, so that it is dropped from a file: messages, reductions and steps (and, of torch's files,
# the gathers and their ends, which no placement of today needs)
_ADDED = SENDS | RECEIVES | {Kind.UNSHARD, Kind.RESHARD, Kind.REDUCE_GRAD, Kind.BEGIN, Kind.STEP}


def rows(parallel: Parallel, train: Train, microbatches: int, folder: Path) -> Schedule:
    """The compute rows for so many `microbatches`; a file's path is relative to `folder`.

    Raises PlanError where the family or the file does not fit the job, or has what the trainer does not play.
    """
    if parallel.schedule.endswith(".csv"):
        return _from_file(parallel, train, microbatches, folder)
    return _of_family(parallel, train, microbatches)


def _of_family(parallel: Parallel, train: Train, microbatches: int) -> Schedule:
    name, sizes = parallel.schedule, {"pipeline": parallel.pipeline, "microbatches": microbatches}
    chunks = families.CHUNKS.get(name, parallel.chunks)
    try:
        found = families.build(name, **sizes, chunks=chunks)
        drawn = f"{found.name} --pipeline {found.num_ranks} --microbatches {found.num_microbatches}"
        _refuse_what_the_trainer_does_not_play(found, drawn)
        # a family that has other chunks says so itself, but only where they are all that is wrong
        return found if chunks == parallel.chunks else families.build(name, **sizes, chunks=parallel.chunks)
    except MicrobatchError as error:
        batches = [str(m * parallel.data * train.microbatch) for m in error.legal]
        more = f" (train.global_batch {' or '.join(batches)})"
        raise MicrobatchError(error.problem, error.legal, more) from None


def _from_file(parallel: Parallel, train: Train, microbatches: int, folder: Path) -> Schedule:
    path = folder / parallel.schedule
    found = _read(path)
    ranks = parallel.pipeline
    if found.num_ranks != ranks:
        raise PlanError(
            f"{path} has {found.num_ranks} rows, but parallel.pipeline is {ranks}. Write one row for each rank, "
            f"or set parallel.pipeline {found.num_ranks}."
        )
    if idle := [rank for rank in range(ranks) if not found.rows[rank]]:
        raise PlanError(f"{path} has nothing to do for rank {idle[0]}. Give it a stage, or use fewer ranks.")
    _refuse_what_the_trainer_does_not_play(found, str(path))
    try:
        check(found)
    except ScheduleError as error:  # which begins with the name of the schedule
        raise ScheduleError(f"{path}{str(error).removeprefix(found.name)}") from None
    if not found.trains:
        raise PlanError(f"{path} has no backward, so that nothing would be trained. Add a B for each F.")
    if found.num_stages != ranks * parallel.chunks:
        chunks, rest = divmod(found.num_stages, ranks)
        remedy = f"Set parallel.chunks {chunks}" if not rest else f"Use {ranks * parallel.chunks} stages"
        raise PlanError(
            f"{path} has {found.num_stages} stages, but parallel.pipeline {ranks} × parallel.chunks {parallel.chunks} "
            f"makes {ranks * parallel.chunks}. {remedy}."
        )
    if found.num_microbatches != microbatches:
        one = train.microbatch * parallel.data
        raise PlanError(
            f"{path} has {found.num_microbatches} micro-batches, but train.global_batch {train.global_batch} = "
            f"train.microbatch {train.microbatch} × parallel.data {parallel.data} × {microbatches} micro-batches. "
            f"Use train.global_batch {one * found.num_microbatches}, or write rows for {microbatches}."
        )
    return found


def _read(path: Path) -> Schedule:
    """The compute actions of torch's schedule CSV."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PlanError(
            f"there is no file {path}. parallel.schedule is a family, or a CSV file whose path is relative to the job."
        ) from None
    except UnicodeDecodeError:
        raise PlanError(f"{path} is not text in UTF-8. Write one line of comma-separated actions a rank.") from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        raise PlanError(f"{path} cannot be read ({getattr(error, 'strerror', None) or error}).") from None
    try:
        found = from_csv(text.rstrip(), " ".join(path.name.split()))
    except ScheduleError as error:
        raise ScheduleError(f"{path}: {error}") from None
    return Schedule(found.name, tuple(Row(row.codes[~row.of(*_ADDED)]) for row in found.rows))


def _refuse_what_the_trainer_does_not_play(found: Schedule, drawn: str) -> None:
    others = found.kinds - {Kind.FORWARD, Kind.BACKWARD}
    if others:
        raise PlanError(
            f"parallel.schedule {found.name} has {' and '.join(sorted(others))} in its rows, which is not trained yet; "
            f"it can be drawn: headway schedule {drawn}. Train with {' or '.join(_TRAINED)}."
        )
