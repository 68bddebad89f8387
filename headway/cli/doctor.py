"""headway doctor: what this host has, whether a job (this job) could start on it, and what to do about the rest."""

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.errors import JobError, PlanError

if TYPE_CHECKING:
    from headway.launch.doctor.checks.job import Needs
    from headway.launch.doctor.finding import Finding
    from headway.launch.doctor.machine import Machine
    from headway.plan.plan import Plan

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@click.command()
@click.argument("job", type=click.Path(path_type=Path), required=False)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a key of the job; may repeat.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")
def doctor(*, job: Path | None, overrides: tuple[str, ...], as_json: bool) -> int:
    """Look at this host: software, devices, network, limits. With JOB also: whether its plan fits here.

    Nothing is changed. Exit status 1 if no job (or not this one) could start.

    \b
    Example:
      headway doctor
      headway doctor examples/stdlib.yaml
      headway doctor --json > host.json
    """
    from headway.cli.show import print_json
    from headway.launch.doctor.examine import examine
    from headway.launch.doctor.finding import could_start
    from headway.launch.doctor.looking.bounded import Look
    from headway.launch.doctor.looking.host import ALL_WITHIN, look
    from headway.launch.doctor.machine import Silent
    from headway.plan import build

    if overrides and job is None:
        raise PlanError("--set changes a key of a job, but no job is named. Name one: headway doctor JOB.")
    plan = build.from_file(job, overrides) if job else None
    click.echo("looking at this host …", err=True)
    looking = Look("this host", look, ALL_WITHIN)  # while it waits for torch, the plan is played
    needs = _needs(plan) if plan else None
    machine = looking.answer()
    if isinstance(machine, Silent):  # each of its own looks is to end before
        raise JobError(f"this host could not be looked at: {machine.why}. Try again, and look what hangs (ps).")
    found = examine(machine, needs)
    if as_json:
        print_json(_document(machine, found, plan))
    else:
        _print(machine, found, plan)
    return 0 if could_start(found) else 1


def _needs(plan: "Plan") -> "Needs":
    """What the plan asks of a host, and why it would be refused here before anything starts."""
    from headway import checkpoints
    from headway.cli import rundir
    from headway.launch.doctor.looking import job
    from headway.report.makeup import fullest
    from headway.report.memory import misfit
    from headway.sim.simulate import simulate

    place = fullest(simulate(plan), plan.cluster)

    def fits() -> None:
        if not place.fits:
            raise JobError(misfit(plan, place))

    run = Path(rundir.named(plan))
    own = checkpoints.folder(plan.checkpoint.directory, plan.name, run)
    trials = {"the run directory": lambda: rundir.look(plan), "the plan's memory": fits}
    return job.look(plan, place.name, place.used, run=run, checkpoints=own, trials=trials)


def _document(machine: "Machine", found: "tuple[Finding, ...]", plan: "Plan | None") -> dict[str, Any]:
    from headway.launch.doctor.finding import could_start
    from headway.plan.plan import digest

    return {
        "host": machine.name,
        "system": machine.system,
        "job": plan and plan.name,
        "plan": plan and digest(plan),
        "could_start": could_start(found),
        "findings": [
            {
                "subject": each.subject,
                "name": each.name,
                "status": each.status,
                "what": each.what,
                "remedy": each.remedy,
                "numbers": dict(each.numbers),
            }
            for each in found
        ],
    }


def _print(machine: "Machine", found: "tuple[Finding, ...]", plan: "Plan | None") -> None:
    """A row for each finding, by subject, and last what it comes to."""
    from rich.text import Text

    from headway.cli.show import console, table
    from headway.launch.doctor.finding import NOTHING, Status, could_start

    out = console()
    out.print(Text.assemble((machine.name, "bold"), f"  {machine.system}\n"))
    drawn = table("", "", "what is there", "what to do")
    for column in drawn.columns:
        column.overflow = "fold"  # paths and commands are to be copied, so that nothing of them may be left out
    for subject, group in groupby(found, key=lambda each: each.subject):
        for number, each in enumerate(group):
            name = Text(subject if not number else "", "bold")
            remedy = Text(_safe(each.remedy), "dim" if each.remedy == NOTHING else "")
            drawn.add_row(name, Text(each.status, _STYLES[each.status]), _safe(each.what), remedy)
        drawn.add_section()
    out.print(drawn)
    counts = {status: sum(each.status is status for each in found) for status in Status}
    what = plan.name if plan else "a job"
    verdict = f"{what} could start here" if could_start(found) else f"{what} could not start here"
    out.print(
        f"{verdict}: {counts[Status.FAIL]} to mend first, {counts[Status.WARN]} to look at, {counts[Status.OK]} well.",
        style=_STYLES["ok" if could_start(found) else "fail"],
    )


def _safe(text: str) -> str:
    """Words of a host's tools without what would change the terminal."""
    return "".join(sign if sign.isprintable() else "·" for sign in text)
