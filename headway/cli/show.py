"""How verbs print: a console that knows its width, one JSON document, a diagram, a file."""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from headway.errors import PlanError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from headway.plan.plan import Plan
    from headway.report.diagram import Line

WITHOUT_TERMINAL = 120  # columns


def console() -> "Console":
    """Rich's console on stdout, as wide as the terminal, or 120 columns where there is none."""
    from rich.console import Console

    width = shutil.get_terminal_size((WITHOUT_TERMINAL, 1)).columns
    return Console(width=width, highlight=False, markup=False, emoji=False)


def is_coloured(out: "Console") -> bool:
    """Whether enough colours reach the reader: among 16, light and dark of a hue cannot be told apart."""
    return out.color_system in {"256", "truecolor"} and not out.no_color


def print_json(document: dict[str, Any]) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def print_lines(out: "Console", lines: Iterable["Line"]) -> None:
    """Lines of a diagram."""
    from rich.text import Text

    for line in lines:
        out.print(Text.assemble(*((piece.text, piece.style) for piece in line)), no_wrap=True, crop=False)


def title(plan: "Plan") -> "Text":
    """The name of a plan and its digest."""
    from rich.text import Text

    from headway.plan.plan import digest

    return Text.assemble((plan.name, "bold"), f"  plan {digest(plan)}\n")


def table(*columns: str, right: Iterable[str] = ()) -> "Table":
    """An empty table in the house's look; columns named in `right` hold numbers."""
    from rich import box
    from rich.table import Table

    found = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 1))
    for name in columns:
        found.add_column(name, justify="right" if name in right else "left", no_wrap=name in right)
    return found


def facts(rows: Iterable[tuple[str, str]]) -> "Table":
    """Names in a first column, what is said about them in a second."""
    from rich.table import Table

    found = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    found.add_column(style="dim", no_wrap=True)
    found.add_column()
    for name, text in rows:
        found.add_row(name, text)
    return found


@contextmanager
def progress(total: int, doing: str, *, quiet: bool) -> Iterator[Callable[[], object]]:
    """A bar on stderr while it is entered, where stderr is a terminal; what it yields is called after each of them."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn(doing), BarColumn(bar_width=30), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task(doing, total=total)
        yield lambda: bar.advance(task)


def save(path: object, write: Callable[[], object]) -> None:
    """Call `write`; a path that cannot be written is the user's mistake."""
    try:
        write()
    except OSError as error:
        raise PlanError(f"{path} cannot be written: {error.strerror or error}.") from None
