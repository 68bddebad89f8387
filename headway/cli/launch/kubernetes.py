"""headway launch --on kubernetes: a TrainJob's manifest, handed to kubectl, which also answers for it."""

import shlex
import subprocess
from typing import TYPE_CHECKING

import click

from headway.cli import train
from headway.cli.launch.asked import Asked, Question, network, unnamed_hosts
from headway.errors import JobError, PlanError

if TYPE_CHECKING:
    from headway.launch.train_job import TrainJob

RESOURCE = "trainjobs.trainer.kubeflow.org"
PYTHON = "python"  # the image's


def launch(asked: Asked) -> None:
    """Create the TrainJob, or print its manifest."""
    from headway.cli.show import print_json
    from headway.launch import train_job

    job = _train_job(asked)
    if asked.dry_run:
        if asked.as_json:
            print_json(train_job.manifest(job))
        else:
            click.echo(train_job.dumps(job), nl=False)
        return
    said = _kubectl(("create", "-f", "-", *_namespace(asked)), train_job.dumps(job))
    click.echo(said, nl=False, err=asked.as_json)
    if asked.as_json:
        print_json({"name": job.name, "namespace": job.namespace})
        return
    where = f" --namespace {job.namespace}" if job.namespace else ""
    click.echo(f"{job.name} was created: {job.nodes} pods, ranks in each: {job.ranks_per_node}.")
    click.echo(f"How it does: headway launch --on kubernetes{where} --status {job.name}  (--logs, --cancel)")


def ask(question: Question, name: str, asked: Asked) -> None:
    """Have kubectl say how a TrainJob does, end it, or print what its pods say."""
    from headway.cli.show import print_json
    from headway.launch.train_job import check_name

    check_name(name, "TrainJob")
    words = {
        "status": ("get", RESOURCE, name, *(("-o", "json") if asked.as_json else ("-o", "wide"))),
        "cancel": ("delete", RESOURCE, name, "--wait=false"),
        "logs": ("logs", "--selector", f"jobset.sigs.k8s.io/jobset-name={name}", "--prefix", "--tail=-1"),
    }[question]
    whole = (*words, *_namespace(asked))
    if asked.dry_run:
        click.echo(shlex.join(("kubectl", *whole)))
        return
    said = _kubectl(whole)
    if asked.as_json and question != "status":
        print_json({"name": name, "namespace": asked.namespace, question: said})
    else:
        click.echo(said, nl=False)


def _train_job(asked: Asked) -> "TrainJob":
    from headway.launch import environment, train_job
    from headway.launch.launch_plan import Site, launch_plan
    from headway.plan.plan import digest

    assert asked.job is not None
    if asked.image is None:
        raise PlanError("--on kubernetes needs --image IMAGE: one with Python, torch and Headway.")
    if asked.without:
        raise PlanError("--without is for --on docker: a pod's devices are its device plug-in's.")
    named = {"--hostfile": asked.hostfile, "--address": asked.address, "--port": asked.port}
    for option, value in {**named, "--rank-table": asked.rank_table}.items():
        if value is not None:
            raise PlanError(f"{option} is not for --on kubernetes: the runtime says where pods are and meet.")
    for word in asked.variables:
        if "=" not in word:
            raise PlanError(
                f"--env {word}: nothing of this machine's environment is passed on to pods. Give a value, --env "
                f"{word}=VALUE, or name a secret, --env {word}=secret:NAME/KEY."
            )
    plan, _ = train.planned(asked.job, asked.overrides, asked.resume)
    claims = train_job.claims(asked.mounts)
    workdir = asked.workdir or (claims[0].path if claims else "/")
    pods = unnamed_hosts(asked, plan)  # how ranks divide is the launch plan's to say
    each = launch_plan(plan, asked.job, pods, Site(PYTHON, workdir)).ranks_per_host
    words = [asked.python or PYTHON, "-m", "torch.distributed.run", "--max-restarts", str(asked.max_restarts)]
    words += ["-m", "headway", "train", str(asked.job)]
    words += [f"--set={override}" for override in asked.overrides]
    words += [f"--resume={asked.resume}"] if asked.resume else []
    return train_job.TrainJob(
        train_job.train_job_name(plan.name, digest(plan)),
        asked.image,
        tuple(words),
        workdir,
        len(pods),
        each,
        plan.cluster.device.kind,
        # nothing of this machine's own environment means anything in a pod
        environment.variables(network(asked, plan), {}, asked.variables),
        claims,
        asked.namespace,
        (("headway.dev/plan", digest(plan)),),
    )


def _namespace(asked: Asked) -> tuple[str, ...]:
    from headway.launch.train_job import check_name

    if asked.namespace is None:
        return ()
    check_name(asked.namespace, "namespace")
    return ("--namespace", asked.namespace)


def _kubectl(words: tuple[str, ...], text: str = "") -> str:
    """What kubectl prints, with `text` on its stdin; JobError in its own words if it fails."""
    try:
        done = subprocess.run(
            ("kubectl", *words), check=False, input=text, capture_output=True, encoding="utf-8", errors="replace"
        )
    except OSError as error:
        raise PlanError(
            f"kubectl cannot be started here ({error.strerror}). Install it, or print the manifest with --dry-run."
        ) from None
    if done.returncode:
        said = done.stderr.strip() or "it said nothing"
        remedy = "\nEnd that first (--cancel NAME), or change the job." if "(AlreadyExists)" in said else ""
        raise JobError(f"kubectl {words[0]} ended with status {done.returncode}: {said}{remedy}")
    return done.stdout
