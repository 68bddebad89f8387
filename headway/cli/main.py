"""The command `headway`: its verbs, imported when they are called, and the exit status of every ending."""

import importlib
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

import click

from headway.errors import HeadwayError, nearest

INTERRUPTED, FAILED = 130, 1

# The help stands here so that the listing imports no verb.
_VERBS = {
    "plan": ("headway.cli.plan:plan", "Build the plan of a job: who holds what, and whether it fits."),
    "simulate": ("headway.cli.simulate:simulate", "Predict a step: seconds, tokens/s, bytes, memory."),
    "schedule": ("headway.cli.schedule:schedule", "Draw a pipeline schedule."),
    "train": ("headway.cli.train:train", "Train a job; show the prediction beside the measurement."),
    "generate": ("headway.cli.generate:generate", "Write text from a run's weights."),
    "compare": ("headway.cli.compare:compare", "Lay a run's prediction beside its measurement."),
    "validate": ("headway.cli.validate:validate", "Lay predictions beside what others measured."),
    "fabric": ("headway.cli.fabric:fabric", "Describe a training network: HPN, its rivals, or your own."),
    "checkpoint": ("headway.cli.checkpoint:checkpoint", "Look into checkpoints, and check their bytes."),
    "data": ("headway.cli.data:data", "Make a token file (.bin and .idx) from texts, and look into one."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the verbs, in the order in which one uses them."""
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb called `cmd_name`, imported now."""
        if cmd_name not in _VERBS:
            return None
        module, name = _VERBS[cmd_name][0].split(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb that `args` begin with; an unknown one is refused with the nearest name."""
        if args[0] not in _VERBS and not args[0].startswith("-"):
            raise click.UsageError(f"no verb is called '{args[0]}'. {nearest(args[0], _VERBS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The listing of the verbs."""
        with formatter.section("Verbs"):
            formatter.write_dl([(name, short) for name, (_, short) in _VERBS.items()])


@click.group(
    cls=LazyGroup,
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
