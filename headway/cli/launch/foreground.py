"""headway launch --on local, ssh and docker: a job that this process starts, follows and ends with."""

import contextlib
import dataclasses
import shlex
import subprocess
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway import env
from headway.cli import train
from headway.cli.launch.asked import Asked, binds, check_paths, network, site
from headway.errors import JobError, PlanError, writing
from headway.units import Seconds

if TYPE_CHECKING:
    from headway.launch.docker import Image
    from headway.launch.hosts import Command
    from headway.launch.launch_plan import Host, HostLaunch, LaunchPlan
    from headway.launch.local import Job
    from headway.plan.plan import Plan

SHOWN = 16  # names of hosts in the line that says who they are


def launch(asked: Asked) -> None:
    """Start the job on this machine's or the hostfile's hosts, and see it to its end."""
    from headway.cli.rundir import named
    from headway.launch.hosts import check
    from headway.launch.launch_plan import check_path

    assert asked.job is not None
    plan, text = train.planned(asked.job, asked.overrides, asked.resume)
    _check(asked, plan)
    hosts = _hosts(asked)
    run = Path(named(plan)).absolute()
    if asked.dry_run:
        _print(asked, plan, _launch_plan(asked, plan, hosts, run))
        return
    check_path(str(run))
    # what is wrong is said before anything is made
    tried = _launch_plan(asked, plan, hosts, Path(asked.workdir or Path.cwd()) / "run")
    for host in tried.hosts:
        check(_command(asked, plan, tried, host))
    train.check_data(plan)
    table = _rank_table(asked, tried) if asked.rank_table else ""
    with contextlib.ExitStack() as stack:
        directory = train.prepare(plan, text, stack)
        made = _launch_plan(asked, plan, hosts, directory.absolute())
        _say(plan, made)
        if asked.rank_table:
            with writing(asked.rank_table):
                asked.rank_table.write_text(table, encoding="utf-8")
            click.echo(f"rank table {asked.rank_table}", err=True)
        train.run_to_its_end(
            plan, directory, partial(_start, asked, plan, made, directory), asked.max_restarts, asked.as_json
        )


def _check(asked: Asked, plan: "Plan") -> None:
    if asked.on == "docker":
        if asked.image is None:
            raise PlanError(
                "--on docker needs --image IMAGE: one with Python, torch and Headway, or with them mounted."
            )
        if asked.hostfile is None and (asked.nodes or 1) > 1:
            raise PlanError("--on docker is one container on this machine, or one on each host of a --hostfile.")
    elif asked.image or asked.mounts or asked.without:
        raise PlanError(f"--image, --mount and --without are for containers (docker, kubernetes), not for {asked.on}.")
    if asked.on == "local" and asked.hostfile:
        raise PlanError("--on local is this machine alone. Use --on ssh with a hostfile, or leave --hostfile out.")
    if asked.on == "ssh" and not asked.hostfile:
        raise PlanError("--on ssh needs --hostfile FILE: a host a line, like node1 slots=8.")
    if asked.namespace:
        raise PlanError(f"--namespace is for --on kubernetes, not for {asked.on}.")
    kind = plan.cluster.device.kind
    if asked.on == "local" and (asked.nodes or 1) > 1 and kind != "cpu":
        raise PlanError(
            f"several nodes on this machine would take the same devices ({plan.cluster.device.name}). Use --nodes 1."
        )
    if asked.rank_table and kind != "npu":
        raise PlanError(f"a rank table is for Ascend's devices, and {plan.cluster.name} has none. Leave it out.")
    if not asked.answer_within > 0:
        raise PlanError(f"--answer-within {asked.answer_within:g} leaves no host any time. Use 60, or more.")
    check_paths(asked, plan)


def _hosts(asked: Asked) -> tuple["Host", ...]:
    from headway.launch import hostfile
    from headway.launch.launch_plan import Host

    if asked.hostfile:
        return hostfile.chosen(hostfile.read(asked.hostfile), asked.nodes)
    return (Host("localhost"),) * (asked.nodes or 1)


def _launch_plan(asked: Asked, plan: "Plan", hosts: tuple["Host", ...], run: Path) -> "LaunchPlan":
    from headway.launch.launch_plan import launch_plan

    here = asked.hostfile is None
    over = network(asked, plan, "lo" if here and len(hosts) > 1 else None)
    made = launch_plan(plan, run, hosts, site(asked, over, address=env.LOOPBACK if here else None))
    if asked.on != "docker":
        return made
    from headway.launch.docker import with_mounts

    return with_mounts(made, binds(asked))


def _image(asked: Asked, plan: "Plan") -> "Image":
    from headway.launch.docker import Image

    return Image(asked.image or "", plan.cluster.device.kind, asked.without, probed=asked.hostfile is None)


def _start(asked: Asked, plan: "Plan", made: "LaunchPlan", directory: Path) -> "Job":
    from headway.launch import hosts

    commands = [_command(asked, plan, made, host) for host in made.hosts]
    return hosts.start(commands, directory, made.num_ranks, _show, Seconds(asked.answer_within))


def _command(asked: Asked, plan: "Plan", made: "LaunchPlan", host: "HostLaunch") -> "Command":
    from headway.launch import docker, ssh
    from headway.launch.hosts import Command

    if asked.on == "docker":
        return docker.command(made, host, _image(asked, plan))
    if asked.on == "ssh":
        return ssh.command(host)
    return Command(f"node{host.node_rank}", host.arguments, host.environment, host.directory)


def _rank_table(asked: Asked, made: "LaunchPlan") -> str:
    from headway.launch import rank_table

    read = partial(_read_there, rank_table.WHERE, asked.answer_within) if asked.hostfile else _read_here
    addresses = {host.name: rank_table.device_addresses(read(host.name), host.name) for host in made.hosts}
    return rank_table.rank_table(made, addresses)


def _read_here(host: str) -> str:
    from headway.launch import rank_table

    try:
        return Path(rank_table.WHERE).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise JobError(rank_table.unreadable(host, error.strerror or "")) from None


def _read_there(path: str, within: float, host: str) -> str:
    from headway.launch import rank_table, ssh

    try:
        done = subprocess.run(
            ssh.remote(host, shlex.join(("cat", path))),
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=within,
        )
    except subprocess.TimeoutExpired:
        raise JobError(rank_table.unreadable(host, f"no answer for {within:g} s")) from None
    if done.returncode:
        raise JobError(rank_table.unreadable(host, done.stderr.strip()))
    return done.stdout


def _show(host: str, line: str) -> None:
    click.echo(f"[{host}] {line}", err=True)


def _say(plan: "Plan", made: "LaunchPlan") -> None:
    from headway.launch.launch_plan import notes

    each = list(dict.fromkeys(host.name for host in made.hosts))
    names = " ".join(each[:SHOWN]) + (f" and {len(each) - SHOWN} more" if len(each) > SHOWN else "")
    ranks = f"{made.ranks_per_host} rank{'s' if made.ranks_per_host > 1 else ''}"
    if len(made.hosts) == 1:
        click.echo(f"hosts      {ranks} on {names}", err=True)
    else:
        where = f"{ranks} on each of {len(made.hosts)} hosts ({names})"
        click.echo(f"hosts      {where}, meeting at {made.address}:{made.port}", err=True)
    for note in notes(plan, made):
        click.echo(f"note       {note}", err=True)


def _print(asked: Asked, plan: "Plan", made: "LaunchPlan") -> None:
    """What would be run, a line for each host."""
    from headway.cli.show import print_json

    lines = [_line(asked, plan, made, host) for host in made.hosts]
    if asked.as_json:
        hidden = dataclasses.replace(made, hosts=tuple(host.public for host in made.hosts))
        print_json({**dataclasses.asdict(hidden), "lines": lines})
        return
    _say(plan, made)
    for line in lines:
        click.echo(line)


def _line(asked: Asked, plan: "Plan", made: "LaunchPlan", host: "HostLaunch") -> str:
    from headway.launch import docker, ssh

    if asked.on == "docker":
        return docker.shown(made, host, _image(asked, plan))
    if asked.on == "ssh":
        return ssh.shown(host)
    given = [f"{name}={value}" for name, value in host.public.environment]
    return f"cd -- {shlex.quote(host.directory)} && {shlex.join(['env', *given, *host.arguments])}"
