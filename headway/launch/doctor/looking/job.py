"""What a job's plan asks of each host, and what is found where it reads and writes."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from headway.errors import HeadwayError
from headway.launch.doctor.checks.job import Needs
from headway.launch.doctor.looking.bounded import Look
from headway.launch.doctor.looking.host import WITHIN, space
from headway.launch.doctor.machine import Silent
from headway.plan.memory import checkpoint_bytes
from headway.plan.plan import Plan
from headway.plan.ready import read_data, refuse_what_is_only_predicted
from headway.units import Bytes, Seconds

DATA_WITHIN = Seconds(15.0)  # a corpus of text is read whole, a token file in part


def look(
    plan: Plan, fullest: str, used: Bytes, *, run: Path, checkpoints: Path, trials: Mapping[str, Callable[[], object]]
) -> Needs:
    """The needs of a plan whose `fullest` place takes `used` bytes, and which writes to `run` and `checkpoints`.

    `trials` raise a HeadwayError where the job would be refused for more than this module knows; name → trial.
    """
    silent: list[Silent] = []
    data = Look("the data", partial(_tried, lambda: str(read_data(plan))), DATA_WITHIN)
    every: dict[str, Callable[[], object]] = {"the plan": partial(refuse_what_is_only_predicted, plan), **trials}
    tried = [Look(name, partial(_tried, trial), DATA_WITHIN) for name, trial in every.items()]
    disks = [Look(f"the disk of {path}", partial(space, path), WITHIN) for path in (checkpoints, run)]
    corpus, refusals = data.heard(silent), [each.heard(silent) for each in tried]
    for_checkpoints, for_run = (each.heard(silent) for each in disks)
    cluster, world = plan.cluster, plan.layout.world
    return Needs(
        cluster.device.kind,
        min(world, cluster.devices_per_node),
        -(-world // cluster.devices_per_node),
        plan.data.workers,
        bool(cluster.shared_cores),
        fullest,
        used,
        _kept(plan),
        for_checkpoints,
        for_run,
        None if corpus is None or isinstance(corpus, HeadwayError) else str(corpus),
        tuple(str(each) for each in (*refusals, corpus) if isinstance(each, HeadwayError)),
        tuple(silent),
    )


def _kept(plan: Plan) -> Bytes:
    """Bytes of the checkpoints that lie on disk at one time: while one is written the older ones are still there.

    A job that saves at all saves at its last step too.
    """
    job = plan.checkpoint
    if not job.saves:
        return Bytes(0)
    written = -(-plan.train.steps // job.every) if job.every else 1
    return Bytes(checkpoint_bytes(plan) * (min(written, job.keep + 1) if job.keep else written))


def _tried(trial: Callable[[], object]) -> object:
    """What a trial gives, or why the job would be refused."""
    try:
        return trial()
    except HeadwayError as error:
        return error
