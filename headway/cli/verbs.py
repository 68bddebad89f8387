"""Verbs: groups that refuse an unknown one with the nearest name or import theirs when called; options in sections."""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import click

from headway.errors import nearest


class Verbs(click.Group):
    """A group that refuses an unknown verb with the nearest name."""

    @property
    def names(self) -> Iterable[str]:
        """Names of the verbs, as they were added."""
        return self.commands

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb that `args` begin with."""
        if args[0] not in self.names and not args[0].startswith("-"):
            of = "" if ctx.parent is None else f" of {ctx.info_name}"
            raise click.UsageError(f"no verb{of} is called '{args[0]}'. {nearest(args[0], self.names)}", ctx)
        return super().resolve_command(ctx, args)


class LazyGroup(Verbs):
    """A group whose commands are imported when they are called.

    `verbs`: name → where it is (`module:name`) and its short help, which stands here so that a listing imports nothing.
    """

    def __init__(self, *, verbs: Mapping[str, tuple[str, str]], **rest: object) -> None:
        super().__init__(**cast(dict[str, Any], rest))
        self.verbs = verbs

    @property
    def names(self) -> Iterable[str]:
        """Names of the verbs, in the order in which one uses them."""
        return self.verbs

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The same, as click asks for them."""
        return list(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb called `cmd_name`, imported now."""
        if cmd_name not in self.verbs:
            return None
        module, name = self.verbs[cmd_name][0].split(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The listing of the verbs."""
        with formatter.section("Verbs"):
            formatter.write_dl([(name, short) for name, (_, short) in self.verbs.items()])


class SectionOption(click.Option):
    """An option that the help of a SectionCommand lists under a heading of its own."""

    def __init__(self, declared: Sequence[str], *, section: str, **rest: object) -> None:
        super().__init__(declared, **cast(dict[str, Any], rest))
        self.section = section


class SectionCommand(click.Command):
    """A verb with so many options that its help lists them in sections, as they come."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The listing of the options."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for each in self.get_params(ctx):
            if isinstance(each, click.Option) and (record := each.get_help_record(ctx)) is not None:
                sections.setdefault(each.section if isinstance(each, SectionOption) else "Options", []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)
