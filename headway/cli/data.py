"""headway data: make a token file from texts, and look into one."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.verbs import Verbs

if TYPE_CHECKING:
    from headway.data.prepare import Summary

PLAIN_LINES = 10  # of a preparation where there is no terminal


@click.group(cls=Verbs, subcommand_metavar="VERB [ARGS]...")
def data() -> None:
    """Token files: Megatron's indexed datasets PREFIX.idx + PREFIX.bin, which `data.path` may name.

    \b
    Example:
      headway data prepare texts/ --output corpus --append-end
      headway data inspect corpus
    """


@data.command()
@click.argument("texts", nargs=-1, required=True, metavar="TEXT...")
@click.option("--output", required=True, type=click.Path(path_type=Path), metavar="PREFIX", help="Where the pair goes.")
@click.option("--tokenizer", default="bytes", show_default=True, metavar="FILE", help="A tokenizer.json, or `bytes`.")
@click.option("--append-end", is_flag=True, help="Put the end token behind each document (bytes: 0).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead.")
def prepare(*, texts: tuple[str, ...], output: Path, tokenizer: str, append_end: bool, as_json: bool) -> None:
    """Write PREFIX.bin and PREFIX.idx from TEXT: files, folders or `stdlib`; each file becomes a document.

    \b
    Example:
      headway data prepare texts/ book.txt --output corpus --tokenizer tokenizer.json --append-end

    Tokens are uint16 where the vocabulary is below 65,500, else int32. In a folder, files that are empty or look binary
    are skipped, and names that begin with a dot.
    """
    from headway.cli.show import print_json
    from headway.data import prepare as preparing
    from headway.data import tokenizer as tokenizers

    if output.suffix in {".bin", ".idx"}:
        output = output.with_suffix("")
    by = tokenizers.load(tokenizer, Path())
    wanted = preparing.texts(texts)
    with _progress(wanted.size, bar=not as_json) as done:
        made = preparing.prepare(wanted, output, by, append_end=append_end, done=done)
    if made.not_utf8:
        click.echo(f"{made.not_utf8} texts are not UTF-8: what could not be read became U+FFFD.", err=True)
    if as_json:
        counts = {"vocabulary": by.vocabulary, "skipped_files": made.skipped, "texts_not_utf8": made.not_utf8}
        print_json({**dataclasses.asdict(made.summary), **counts})
        return
    _print(made.summary, f" ({made.skipped} empty or binary files skipped)" if made.skipped else "")
    click.echo(
        f"\nTrain on it with data: {{path: {made.summary.prefix}, tokenizer: {tokenizer}}} "
        f"and a model.vocabulary of at least {by.vocabulary}."
    )


@data.command()
@click.argument("prefix")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead.")
def inspect(*, prefix: str, as_json: bool) -> None:
    """Show what the token file PREFIX (or its .idx or .bin) holds, after checking it.

    \b
    Example:
      headway data inspect my-corpus_text_document
    """
    from headway.cli.show import print_json
    from headway.data import prepare as preparing

    found = preparing.inspect(prefix)
    if as_json:
        print_json(dataclasses.asdict(found))
    else:
        _print(found)


def _print(found: "Summary", more: str = "") -> None:
    from headway.cli.show import console, facts
    from headway.data.tokenizer import LOOKED_AT
    from headway.units import Bytes, show_bytes

    part = f" (looked at: {LOOKED_AT:,} of them, in blocks)" if found.tokens > LOOKED_AT else ""
    tokens = [("token range", "none")]
    if found.tokens:
        tokens = [
            ("token range", f"{found.least_token} … {found.largest_token}" + part),
            ("first tokens", " ".join(map(str, found.first_tokens)) + (" …" if found.tokens > 16 else "")),
        ]
    lengths = f"{found.shortest:,} shortest, {found.median:,.0f} median, {found.longest:,} longest (tokens)"
    out = console()
    out.print(found.prefix, style="bold")
    out.print(
        facts(
            [
                ("documents", f"{found.documents:,} in {found.sequences:,} sequences{more}"),
                ("tokens", f"{found.tokens:,} of {found.dtype}, {show_bytes(Bytes(found.bytes))}"),
                ("documents have", lengths),
                *tokens,
            ]
        )
    )


@contextmanager
def _progress(total: int, *, bar: bool) -> Iterator[Callable[[int], None]]:
    """What is to be told the bytes of each text: a bar on a terminal, a few plain lines elsewhere; on stderr."""
    from rich.console import Console

    console = Console(stderr=True)
    if bar and console.is_terminal:
        from rich.progress import Progress

        with Progress(console=console, transient=True) as shown:
            task = shown.add_task("tokens", total=total)
            yield lambda size: shown.advance(task, size)
        return
    yield _lines(total)


def _lines(total: int) -> Callable[[int], None]:
    read: dict[str, Any] = {"bytes": 0, "lines": 0}

    def done(size: int) -> None:
        read["bytes"] += size
        if read["bytes"] * PLAIN_LINES >= total * (read["lines"] + 1):
            read["lines"] = read["bytes"] * PLAIN_LINES // max(1, total)
            click.echo(f"read {read['bytes']:,} of {total:,} bytes", err=True)

    return done
