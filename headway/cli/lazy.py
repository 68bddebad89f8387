"""LazyGroup: a group of verbs, each imported when it is called."""

import importlib
from collections.abc import Mapping
from typing import Any, cast

import click

from headway.errors import nearest


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called.

    `verbs`: name → where it is (`module:name`) and its short help, which stands here so that a listing imports nothing.
    """

    def __init__(self, *, verbs: Mapping[str, tuple[str, str]], **rest: object) -> None:
        super().__init__(**cast(dict[str, Any], rest))
        self.verbs = verbs

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the verbs, in the order in which one uses them."""
        return list(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb called `cmd_name`, imported now."""
        if cmd_name not in self.verbs:
            return None
        module, name = self.verbs[cmd_name][0].split(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb that `args` begin with; an unknown one is refused with the nearest name."""
        if args[0] not in self.verbs and not args[0].startswith("-"):
            of = "" if ctx.parent is None else f" of {ctx.info_name}"
            raise click.UsageError(f"no verb{of} is called '{args[0]}'. {nearest(args[0], self.verbs)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The listing of the verbs."""
        with formatter.section("Verbs"):
            formatter.write_dl([(name, short) for name, (_, short) in self.verbs.items()])
