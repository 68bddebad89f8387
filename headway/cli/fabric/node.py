"""headway fabric describe FILE.xml: the inside of a node, printed or written as a picture."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headway.fabric.fit import Fit
    from headway.fabric.node import Node

_SVG_COLUMNS = 96


def describe(wanted: str, others: "Iterable[str]", svg: Path | None, *, as_json: bool) -> None:
    """Print the node of a file; `others` are options that were given and that fabrics alone have."""
    from headway.cli.show import print_json, save
    from headway.fabric.node import document
    from headway.plan import fabric as fabrics
    from headway.report import node as pictures
    from headway.report import svg as svgs

    if given := [f"--{each}" for each in others]:
        raise click.UsageError(f"{wanted} tells the inside of a node, and {given[0]} is for a fabric.")
    node = fabrics.node(wanted)
    if svg:
        text = svgs.render(pictures.draw(node, _SVG_COLUMNS, coloured=True), f"Node: {node}")
        save(svg, lambda: svg.write_text(text, encoding="utf-8"))
    if as_json:
        print_json(document(node))
    else:
        show(node)


def show(node: "Node", fit: "Fit | None" = None, fabric: str = "") -> None:
    """Print a node, and where there is a `fit`, that it fits the fabric of this name."""
    from headway.cli.show import console, facts, is_coloured, print_lines, table
    from headway.report import node as pictures

    out = console()
    out.print(node.name, style="bold")
    out.print()
    print_lines(out, pictures.draw(node, out.width, coloured=is_coloured(out)))
    out.print()
    gpus = table(*pictures.HEAD, right=("GPU", "GB/s"))
    for row in pictures.rows(node):
        gpus.add_row(*row)
    out.print(gpus)
    out.print("PCI: how far the ports are, GB/s: the narrowest PCI link on the way to them", style="dim")
    out.print()
    out.print(facts(pictures.facts(node, fit, fabric)))
    for sentence in node.assumptions:
        out.print()
        out.print(f"assumption: {sentence}", style="yellow")
