"""headway train: simulate the plan, start the workers, follow them, and report predicted beside measured."""

import contextlib
import importlib.util
import json
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway import control, env
from headway.cli.follow import Follower, number
from headway.errors import JobError, PlanError, writing

if TYPE_CHECKING:
    from collections.abc import Callable

    from headway.launch.local import Job
    from headway.plan.plan import Plan
    from headway.report.run import Run

POLL = 0.1  # seconds between looks at the metrics


@click.command()
@click.argument("job", type=click.Path(path_type=Path))
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key: --set train.steps=20.")
@click.option("--profile", type=int, metavar="STEP", help="Keep the trace of this step (1 is the first).  [last]")
@click.option("--resume", metavar="PATH", help="Go on from a checkpoint: one, a directory of them, or a run.")
@click.option(
    "--max-restarts", type=click.IntRange(min=0), default=0, metavar="N", help="Start again if a rank dies.  [0]"
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout; progress goes to stderr.")
def train(
    *, job: Path, overrides: tuple[str, ...], profile: int | None, resume: str | None, max_restarts: int, as_json: bool
) -> None:
    """Train JOB: a job file (YAML) or a plan (JSON from `headway plan --output`).

    \b
    Example:
      headway train examples/stdlib.yaml --set train.steps=50

    Started by torchrun (`torchrun --nproc-per-node 4 -m headway train JOB`) or by Slurm (`srun --ntasks 4 headway train
    JOB`), each process becomes one rank.

    A job whose checkpoint.directory or run.directory is a fixed path goes on from the last checkpoint there; any other
    with --resume.
    """
    plan, asked = planned(job, overrides, resume, profile)
    worker = env.worker()
    if worker is None:
        launch_here(plan, asked, max_restarts, as_json)
    elif max_restarts:
        raise PlanError("torchrun starts its workers again itself. Use torchrun --max-restarts N, without this option.")
    else:
        _as_worker(plan, worker, asked, as_json)


def planned(
    job: Path, overrides: tuple[str, ...], resume: str | None, profile: int | None = None
) -> tuple["Plan", str]:
    """The plan of a job that is to be trained, and what was asked: the job's text, and options as comments below it."""
    from headway.plan import build
    from headway.plan.ready import refuse_what_is_only_predicted

    plan = build.from_file(job, overrides)
    refuse_what_is_only_predicted(plan)
    words = [f"--set {override}" for override in overrides]
    if profile is not None:
        plan = replace(plan, run=replace(plan.run, profile=profile))
        words.append(f"--profile {profile}")
    if resume is not None:
        plan = replace(plan, checkpoint=replace(plan.checkpoint, resume=resume))
        words.append(f"--resume {resume}")
    return plan, "".join([job.read_text(encoding="utf-8"), *(f"# {word}\n" for word in words)])


def launch_here(plan: "Plan", asked: str, max_restarts: int, as_json: bool) -> None:
    """Train on this machine, with workers that this process starts."""
    check_data(plan)
    if plan.cluster.nodes > 1 and plan.layout.world > plan.cluster.devices_per_node:
        raise PlanError(
            f"the plan needs {plan.layout.world} ranks on nodes of {plan.cluster.devices_per_node}. "
            f"Start it on all of them: headway launch JOB --on ssh --hostfile FILE, or --on slurm."
        )
    from headway.launch import local

    with contextlib.ExitStack() as stack:
        directory = prepare(plan, asked, stack)
        start = partial(local.start, directory, plan.layout.world, max_restarts)
        run_to_its_end(plan, directory, start, max_restarts, as_json)


def run_to_its_end(plan: "Plan", directory: Path, start: "Callable[[], Job]", max_restarts: int, as_json: bool) -> None:
    """Start the workers, follow them, and say what they did or why they failed."""
    from headway.launch import local

    control.clear(directory)  # nobody can have asked this start of the run to stop
    follower = Follower(plan, directory, as_json)
    started = start()
    interrupted = at_once = False
    try:
        with follower:
            _follow(started, follower, max_restarts)
        interrupted = started.asked_to_stop
    except KeyboardInterrupt:
        interrupted = True
        follower.read()
        at_once = _stop(started, stepping=follower.steps_seen > 0)
        follower.read()
    saved = (directory / "summary.json").exists()
    as_wanted = interrupted and (at_once or not local.ended_itself(started))
    if not as_wanted and (started.status or not saved):
        raise started.failure()
    if not saved:
        click.echo("This run saved no weights.", err=True)
        raise KeyboardInterrupt
    _finish(directory, as_json)
    if interrupted:
        raise KeyboardInterrupt


def _stop(started: "Job", *, stepping: bool) -> bool:
    """Stop at the end of the step; at a second Ctrl-C at once, which is told."""
    saving = "at the end of the step … (Ctrl-C again to stop now, without saving)"
    click.echo(f"\nStopping {saving if stepping else 'before the first step …'}", err=True)
    try:
        started.interrupt()
    except KeyboardInterrupt:
        started.end()
        return True
    return False


def _follow(started: "Job", follower: "Follower", max_restarts: int) -> None:
    from headway.launch import local

    restarts = 0
    while started.running:
        time.sleep(POLL)
        follower.read()
        while restarts < started.num_restarts:
            follower.warn(f"{local.failure(started, restarts)}\nstarting again ({restarts + 1} of {max_restarts}) …")
            restarts += 1
    follower.read()


def _as_worker(plan: "Plan", worker: env.Worker, asked: str, as_json: bool) -> None:
    """One rank of a job that torchrun or srun started: rank 0 also reports."""
    from headway.train.worker import run

    with contextlib.ExitStack() as stack:
        followers: list[Follower] = []  # rank 0's, once its directory is made

        def prepare_once() -> Path:
            check_data(plan)
            directory = prepare(plan, asked, stack, again=worker.attempt > 0)
            followers.append(stack.enter_context(Follower(plan, directory, as_json)))
            return directory

        def show(line: dict[str, Any]) -> None:
            followers[0].show(line)

        directory = run(plan, worker, prepare_once, show)
    if worker.rank == 0:
        _finish(directory, as_json)


def check_data(plan: "Plan") -> None:
    """Read the data before any process starts, so that a wrong path costs nothing."""
    from headway.plan.ready import read_data

    click.echo(f"data       {read_data(plan)}", err=True)


def prepare(plan: "Plan", asked: str, stack: contextlib.ExitStack, *, again: bool = False) -> Path:
    """Make the run directory with the job, the plan and its predicted trace, and hold it until the stack is closed.

    `again`: torchrun has restarted the job.
    """
    from headway import chrome
    from headway.cli import rundir
    from headway.plan import plan as plans
    from headway.report.makeup import fullest
    from headway.report.memory import misfit
    from headway.sim.simulate import simulate

    predicted = simulate(plan)
    place = fullest(predicted, plan.cluster)
    if not place.fits:
        raise JobError(misfit(plan, place))
    try:
        directory = rundir.make(plan, again=again)
        stack.enter_context(rundir.held(directory))
        (directory / "job.yaml").write_text(asked, encoding="utf-8")
        (directory / "plan.json").write_text(plans.dumps(plan), encoding="utf-8")
        chrome.write(directory / "predicted.trace.json.gz", predicted)
    except OSError as error:
        raise PlanError(
            f"run.directory {error.filename} cannot be written ({error.strerror}). Choose one that you may write to."
        ) from None
    click.echo(f"plan       {plans.digest(plan)}: {plan.layout}, {plan.schedule.name}", err=True)
    click.echo(f"run        {directory}", err=True)
    if not importlib.util.find_spec("tensorboard"):
        click.echo("no event files for TensorBoard: it is not installed (pip install tensorboard)", err=True)
    return directory


def _finish(directory: Path, as_json: bool) -> None:
    """Print what the run did: losses, a sample, and predicted beside measured."""
    from headway.report.run import read

    run = read(directory)
    summary = run.summary | {
        "predicted_step_seconds": run.predicted.makespan,
        "edges": {"predicted": run.predicted.edges(), "measured": run.measured.edges()},
        "run_directory": str(directory),
        "checkpoint": str(kept) if (kept := _kept(run)) else None,
    }
    with writing(directory / "summary.json"):
        (directory / "summary.json").write_text(json.dumps(summary, indent=1))
    if as_json:
        click.echo(json.dumps(summary))
    else:
        _print(run)


def _kept(run: "Run") -> Path | None:
    """The last complete checkpoint of a run. Later ones than its own steps were found damaged when it started."""
    from headway import checkpoints

    found = checkpoints.folder(run.plan.checkpoint.directory, run.plan.name, run.directory)
    return checkpoints.latest(found, run.summary["steps"])


def _print(run: "Run") -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.panel import Panel

    from headway.report.compare import compare, table

    console, plan, summary = Console(), run.plan, run.summary
    console.print()
    if summary["sample"] is not None:
        console.print(Panel(escape(_readable(summary["sample"])), title="a sample of what it writes", expand=False))
    for name, unit in (
        ("", ""),
        ("validation_", f"  [dim](mean nats a {'byte' if plan.data.tokenizer == 'bytes' else 'token'})[/]"),
    ):
        first, last = summary[f"first_{name}loss"], summary[f"last_{name}loss"]
        if first is not None:
            said = f"{name.replace('_', '') or 'training'} loss"
            first_said = f"{number(first, 3)} → " if first != last else ""  # the same: there was one evaluation
            console.print(f"{said:<16} {first_said}{number(last, 3)}{unit}", highlight=False)
    console.print(table(compare(run.predicted, run.measured, measured_step=run.measured_step)))
    cores = plan.cluster.shared_cores
    if cores and plan.layout.world > cores:
        console.print(f"[dim]oversubscribed: {plan.layout.world} ranks share {cores} cores[/]")
    console.print(f"[dim]the measured trace is of step {run.traced_step}[/]", highlight=False)
    if summary["interrupted"]:
        said = f"ended after step {summary['steps']} of {plan.train.steps}: {summary['stopped_by']}"
        console.print(said, style="yellow", highlight=False, markup=False)
        if kept := _kept(run):
            found = "{time}" not in plan.run.directory or plan.checkpoint.directory is not None
            how = "again" if found else f"with --resume {run.directory}"
            console.print(f"to go on: the same command {how} ({kept.name})", highlight=False, soft_wrap=True)
    console.print(f"files in {run.directory}", highlight=False)


def _readable(text: str) -> str:
    """The text without what would change the terminal."""
    return "".join(sign if sign.isprintable() or sign == "\n" else "·" for sign in text)
