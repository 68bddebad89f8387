"""headway launch: the options that all targets share, and who renders and starts each of them."""

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import click
from click.core import ParameterSource

from headway.cli.launch.asked import Asked
from headway.cli.verbs import SectionCommand, SectionOption
from headway.errors import PlanError

# target → the module with `launch(asked)` and, where jobs go on without this process, `ask(question, name, asked)`
_TARGETS = {
    "local": "headway.cli.launch.foreground",
    "ssh": "headway.cli.launch.foreground",
    "docker": "headway.cli.launch.foreground",
    "kubernetes": "headway.cli.launch.kubernetes",
    "slurm": "headway.cli.launch.slurm",
}
NETWORK, CONTAINERS, SLURM, QUESTIONS = (
    "Hosts and network",
    "Containers",
    "Slurm",
    "A job under way (slurm, kubernetes)",
)


def _of(section: str) -> Callable[..., Any]:
    return partial(click.option, cls=SectionOption, section=section)


_network, _container, _slurm, _question = map(_of, (NETWORK, CONTAINERS, SLURM, QUESTIONS))
_OPTIONS = (
    click.argument("job", type=click.Path(path_type=Path), required=False),
    click.option("--on", "on", required=True, type=click.Choice([*_TARGETS]), help="Where."),
    click.option("--nodes", type=click.IntRange(min=1), metavar="N", help="How many hosts.  [all of the hostfile; 1]"),
    click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key of the job."),
    click.option("--resume", metavar="PATH", help="Go on from a checkpoint, as in headway train."),
    click.option("--env", "variables", multiple=True, metavar="NAME[=VALUE]", help="Pass a variable on; may repeat."),
    click.option("--python", metavar="PATH", help="Python on the hosts.  [this one]"),
    click.option("--workdir", metavar="DIR", help="Where hosts start; they share it.  [this directory]"),
    click.option(
        "--max-restarts", type=click.IntRange(min=0), default=0, metavar="N", help="On one host: start again."
    ),
    click.option("--dry-run", is_flag=True, help="Print what would be run, and run nothing."),
    click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout; the rest goes to stderr."),
    _network("--hostfile", type=click.Path(path_type=Path), help="A host a line: node1 slots=8."),
    _network("--interface", metavar="NAME", help="Network interface of the job on every host, like eth0."),
    _network("--address", metavar="HOST", help="Where ranks meet.  [the first host's name]"),
    _network("--port", type=int, metavar="N", help="The port there.  [given by the run's directory]"),
    _network("--answer-within", type=float, default=60.0, metavar="SECONDS", help="For each host to start.  [60]"),
    _network("--fabric", metavar="NAME|FILE", help="The network, for NCCL's rails and planes; with --nccl."),
    _network("--nccl", metavar="VERSION", help="Version of NCCL on the hosts, like 2.30.5."),
    _network("--rank-table", type=click.Path(path_type=Path), help="Write Ascend's hccl.json to this file."),
    _container("--image", metavar="IMAGE", help="Container image.  [docker, kubernetes]"),
    _container("--container", metavar="TOOL:IMAGE", help="pyxis:IMAGE or apptainer:IMAGE, as the site has.  [slurm]"),
    _container("--mount", "mounts", multiple=True, metavar="SOURCE:PATH[:ro]", help="A path (or a claim), and where."),
    _container("--without", multiple=True, metavar="PART", help="Leave a part of the hosts' profile out.  [docker]"),
    _container("--namespace", metavar="NAME", help="Namespace.  [kubernetes]"),
    _slurm("--partition", metavar="NAME", help="The partition."),
    _slurm("--account", metavar="NAME", help="The account that is charged."),
    _slurm("--qos", metavar="NAME", help="The quality of service."),
    _slurm("--time", metavar="TIME", help="The limit of time: minutes, or 12:00:00, or 2-00:00:00."),
    _slurm("--exclusive", is_flag=True, help="Nodes that nobody else is given meanwhile."),
    _slurm("--kill-on-bad-exit/--no-kill-on-bad-exit", default=True, help="A node that fails ends all.  [on]"),
    _slurm("--warn", type=int, default=300, metavar="SECONDS", help="Before the limit: stop, and requeue.  [300]"),
    _slurm("--sbatch", multiple=True, metavar="NAME=VALUE", help="Another option of sbatch; may repeat."),
    _question("--status", metavar="NAME", help="Say how it does, in place of launching one."),
    _question("--cancel", metavar="NAME", help="End it."),
    _question("--logs", metavar="NAME", help="Print what it says."),
)


def _asks(verb: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        verb = option(verb)
    return verb


@click.command(cls=SectionCommand, epilog="Targets, environment, and what is passed on: docs/launching.md.")
@_asks
def launch(*, status: str | None, cancel: str | None, logs: str | None, **given: object) -> None:
    """Train JOB on one or several hosts.

    \b
    Example:
      headway launch examples/stdlib.yaml --on local --nodes 2
      headway launch examples/stdlib.yaml --on ssh --hostfile hosts --interface eth0 --dry-run

    Hosts share a file system with the run's directory. One that fails ends the job on all of them.
    """
    asked = Asked(**cast(dict[str, Any], given))
    if asked.on != "slurm":
        _refuse_slurms(click.get_current_context(), asked.on)
    target = importlib.import_module(_TARGETS[asked.on])
    questions = {"status": status, "cancel": cancel, "logs": logs}
    wanted = [(question, name) for question, name in questions.items() if name is not None]
    if len(wanted) > 1 or (wanted and asked.job):
        raise PlanError("JOB, --status, --cancel and --logs: give one of them.")
    if wanted:
        if not hasattr(target, "ask"):
            raise PlanError(
                f"a job on {asked.on} belongs to the headway launch that started it: Ctrl-C ends it there, and its "
                f"run directory has metrics.jsonl and log/."
            )
        target.ask(*wanted[0], asked)
    elif asked.container and asked.on != "slurm":
        raise PlanError(f"--container is for --on slurm, not for {asked.on}. Others take --image, if any.")
    elif asked.job is None:
        raise PlanError("JOB is missing: headway launch JOB --on TARGET.")
    else:
        target.launch(asked)


def _refuse_slurms(context: click.Context, on: str) -> None:
    """PlanError for an option of Slurm's that is given to another target, where it would do nothing."""
    for each in context.command.params:
        mine = isinstance(each, SectionOption) and each.section == SLURM
        if mine and context.get_parameter_source(each.name or "") is not ParameterSource.DEFAULT:
            raise PlanError(f"{each.opts[0]} is for --on slurm, not for {on}. Leave it out.")
