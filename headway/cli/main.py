"""The command `headway`: its verbs, imported when they are called, and the exit status of every ending."""

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

import click

from headway.cli.verbs import LazyGroup
from headway.errors import HeadwayError

INTERRUPTED, FAILED = 130, 1

# The help stands here so that the listing imports no verb.
_VERBS = {
    "plan": ("headway.cli.plan:plan", "Build the plan of a job: who holds what, and whether it fits."),
    "simulate": ("headway.cli.simulate:simulate", "Predict a step: seconds, tokens/s, bytes, memory."),
    "schedule": ("headway.cli.schedule:schedule", "Draw a pipeline schedule."),
    "train": ("headway.cli.train:train", "Train a job; show the prediction beside the measurement."),
    "launch": (
        "headway.cli.launch.command:launch",
        "Train a job on one or several hosts: local, ssh, docker, Kubernetes.",
    ),
    "generate": ("headway.cli.generate:generate", "Write text from a run's weights."),
    "compare": ("headway.cli.compare:compare", "Lay a run's prediction beside its measurement."),
    "validate": ("headway.cli.validate:validate", "Lay predictions beside what others measured."),
    "fabric": (
        "headway.cli.fabric.group:fabric",
        "The training network: what it is, how fast, and what failures cost.",
    ),
    "container": ("headway.cli.container.group:container", "Make and run containers on Ascend and NVIDIA hosts."),
    "doctor": ("headway.cli.doctor:doctor", "Look at this host: whether a job could start, and what to do."),
    "checkpoint": ("headway.cli.checkpoint:checkpoint", "Look into checkpoints, and check their bytes."),
    "data": ("headway.cli.data:data", "Make a token file (.bin and .idx) from texts, and look into one."),
}


@click.group(
    cls=LazyGroup,
    verbs=_VERBS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    subcommand_metavar="VERB [ARGS]...",
)
@click.version_option(package_name="headway", message="headway %(version)s")
def cli() -> None:
    """Plan, simulate and train large-language-model jobs from one file.

    \b
    Example:
      headway plan examples/stdlib.yaml
      headway schedule 1f1b --pipeline 4 --microbatches 8
    """


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line `args` (default: this process's); returns the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # where the locale has no →, print an escape, not a traceback
    try:
        status = cli.main(args, prog_name="headway", standalone_mode=False)
        sys.stdout.flush()
    except HeadwayError as error:
        return _fail(error)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        # the reader (`| head`) has gone; without this the interpreter complains when it flushes at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        click.echo(f"Error: the output cannot be written ({error.strerror}).", err=True)
        return FAILED
    return status if isinstance(status, int) else 0


def _fail(error: HeadwayError) -> int:
    try:
        sys.stdout.flush()  # what was printed before comes before
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    click.echo(f"Error: {error}", err=True)
    return error.exit_status
