"""headway launch --on slurm: a batch script handed to sbatch, and what Slurm and the run's directory say of its job."""

import json
import shlex
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway import checkpoints, env
from headway.cli import train
from headway.cli.launch.asked import Asked, Question, binds, check_paths, network, site, unnamed_hosts
from headway.errors import HeadwayError, PlanError

if TYPE_CHECKING:
    from headway.launch.launch_plan import LaunchPlan
    from headway.launch.slurm import State
    from headway.plan.plan import Plan


def launch(asked: Asked) -> None:
    """Submit the job, or print its batch script."""
    from contextlib import ExitStack

    from headway.cli.rundir import named
    from headway.cli.show import print_json
    from headway.launch import slurm
    from headway.launch.batch_script import job_name

    assert asked.job is not None
    plan, text = train.planned(asked.job, asked.overrides, asked.resume)
    _check(asked)
    check_paths(asked, plan)
    wanted = Path(named(plan)).absolute()
    made = _launch_plan(asked, plan, wanted)  # what is wrong with it is said before anything is made
    shown = _script(asked, plan, made, hidden=True)
    if asked.dry_run:
        if asked.as_json:
            print_json({"script": shown})
        else:
            click.echo(shown, nl=False)
        return
    _refuse_a_second(wanted)
    train.check_data(plan)
    with ExitStack() as stack:
        directory = train.prepare(plan, text, stack).absolute()
        script = _script(asked, plan, _launch_plan(asked, plan, directory), hidden=False)
        try:
            done = slurm.submit(script, directory, job_name(plan.name))
        except HeadwayError:
            _take_back(directory)
            raise
    if asked.as_json:
        print_json({**asdict(done), "run_directory": str(directory)})
        return
    each, number = made.ranks_per_host, len(made.hosts)
    click.echo(f"job {done.job} ({done.name}) was submitted: {number} nodes with {each} ranks each.")
    click.echo(f"How it does: headway launch --on slurm --status {shlex.quote(str(directory))}  (--logs, --cancel)")


def _take_back(directory: Path) -> None:
    """Remove a run's directory that was made for a job which Slurm refused, so that the next try finds its name free.

    One that holds anything else, as that of a run which was to be gone on with does, is left.
    """
    made = {"job.yaml", "plan.json", "predicted.trace.json.gz", "launch", "log", checkpoints.LOCK}
    if {path.name for path in directory.iterdir()} <= made and not any((directory / "log").glob("*")):
        shutil.rmtree(directory)


def ask(question: Question, name: str, asked: Asked) -> None:
    """Say how a job does, end it, or print what its batch script says; `name` is its number or its run's directory."""
    from headway.cli.show import print_json
    from headway.launch import slurm

    job, run = _job(name)
    if asked.dry_run:
        words = {"status": (*slurm.SHOW, job), "cancel": (*slurm.CANCEL, job), "logs": ()}[question]
        click.echo(shlex.join(words or ("cat", str(slurm.printed(_run_of(job, run), job)))))
        return
    match question:
        case "status":
            found = slurm.state(job)
            if found is None and run is None:
                raise PlanError(f"Slurm knows no job {job} (any more). Name the run's directory.")
            run = run or _run_of(job, None)
            progress, why = _progress(run), _why(found, run)
            if asked.as_json:
                said = asdict(found) if found else {"job": job, "state": None}
                print_json({**said, **progress, "failure": why})
                return
            click.echo(str(found) if found else f"Slurm does not know job {job} any more.")
            if progress:
                click.echo("  ".join(f"{key} {value}" for key, value in progress.items() if value is not None))
            if why:
                click.echo(why)
        case "cancel":
            before = slurm.cancel(job)
            if asked.as_json:
                print_json(asdict(before))
            else:
                click.echo(f"{before}; it is told to end at the end of its step.")
        case "logs":
            path = slurm.printed(_run_of(job, run), job)
            try:
                click.echo(path.read_text(encoding="utf-8", errors="replace"), nl=False)
            except FileNotFoundError:
                raise PlanError(f"{path} is not there yet: job {job} has printed nothing.") from None


def _check(asked: Asked) -> None:
    if asked.hostfile:
        raise PlanError("--hostfile is not for --on slurm: Slurm chooses the hosts. Say how many with --nodes.")
    if asked.image or asked.without or asked.namespace:
        raise PlanError("--image, --without and --namespace are not for --on slurm. A container is --container.")
    if asked.mounts and not asked.container:
        raise PlanError("--mount is for a container: name it with --container pyxis:IMAGE or apptainer:IMAGE.")
    if asked.rank_table:
        raise PlanError("--rank-table is not for --on slurm: which hosts it has is known when it runs.")


def _launch_plan(asked: Asked, plan: "Plan", run: Path) -> "LaunchPlan":
    from headway.launch.docker import with_mounts
    from headway.launch.launch_plan import launch_plan

    made = launch_plan(plan, run, unnamed_hosts(asked, plan), site(asked, network(asked, plan), leash="parent"))
    return with_mounts(made, binds(asked)) if asked.container else made


def _script(asked: Asked, plan: "Plan", made: "LaunchPlan", *, hidden: bool) -> str:
    """The batch script; `hidden`: with secrets masked, as it may be printed."""
    from headway.launch.batch_script import Request, batch_script, request_more
    from headway.launch.environment import masked
    from headway.launch.site_containers import parse_container

    slurms = Request(
        asked.partition,
        asked.account,
        asked.qos,
        asked.time,
        asked.exclusive,
        asked.kill_on_bad_exit,
        asked.warn,
        request_more(asked.sbatch),
    )
    # a script starts with a login's PATH, where Slurm's own programs need not be
    path = {"PATH": here["PATH"]} if "PATH" in (here := env.here()) else {}
    variables = tuple(sorted({**path, **dict(made.hosts[0].environment)}.items()))
    container = parse_container(asked.container) if asked.container else None
    return batch_script(made, slurms, plan.cluster.device.kind, masked(variables) if hidden else variables, container)


def _refuse_a_second(run: Path) -> None:
    """PlanError where the run's last job still waits or runs: what it needs would be cleared."""
    from headway.launch import slurm

    last = slurm.submitted(run)
    found = slurm.state(last.job) if last else None
    if found is not None and not found.has_ended:
        raise PlanError(f"run.directory {run} is in use: {found}. Wait for it, cancel it, or choose another.")


def _job(name: str) -> tuple[str, Path | None]:
    """The number of a job, and its run's directory where that is what was named."""
    from headway.launch import slurm

    run = Path(name).expanduser()
    if not run.is_dir():
        return name, None
    last = slurm.submitted(run)
    if last is None:
        raise PlanError(f"{run} is no run that headway launch --on slurm has submitted.")
    return last.job, run.absolute()


def _run_of(job: str, run: Path | None) -> Path:
    from headway.launch import slurm

    if run is not None:
        return run
    found = slurm.state(job)
    if found is None or not found.comment:
        raise PlanError(f"Slurm knows no job {job} (any more). Name the run's directory.")
    return Path(found.comment)


def _why(found: "State | None", run: Path) -> str | None:
    """What ended a job that has failed, as far as its ranks have said."""
    from headway.launch import slurm
    from headway.plan import plan as plans

    if found is None or not (run / "plan.json").is_file():
        return None
    return slurm.failure(found, run, plans.read(run / "plan.json").layout.world)


def _progress(run: Path) -> dict[str, Any]:
    """The last step that the metrics tell of, and how the run ended, if it has."""
    found: dict[str, Any] = {}
    path = run / "metrics.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    steps = [line for line in map(json.loads, lines[-20:]) if "loss" in line]
    if steps:
        found |= {key: steps[-1][key] for key in ("step", "loss")}
    if (run / "summary.json").exists():
        summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
        found |= {"steps": summary["steps"], "stopped_by": summary["stopped_by"]}
    return found
