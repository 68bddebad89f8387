"""headway fabric describe: what a network is made of, and files that others read."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli.fabric import options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headway.fabric.describe import Facts
    from headway.fabric.fabric import Fabric

_SVG_COLUMNS = 96
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(epilog="Fabrics: hpn, dcn+, single-tor, single-plane, rail-only. What each is: docs/fabric.md.")
@click.argument("name", metavar="NAME | FILE")
@click.option("--node", "inside", metavar="FILE", help="NCCL's XML of a host: show it, and check that it fits.")
@options.sizes
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead.")
@click.option("--svg", type=_FILE, metavar="FILE", help="Write the picture as SVG, too.")
@click.option("--cables", type=_FILE, metavar="FILE", help="Write the list of cables as CSV, too.")
@click.option("--slurm", type=_FILE, metavar="FILE", help="Write Slurm's topology.conf, too.")
@click.option("--nccl", type=_FILE, metavar="FILE", help="Write rails and planes for NCCL (NCCL_IB_HCA), too.")
def describe(
    *,
    name: str,
    inside: str | None,
    pods: int | None,
    changes: tuple[str, ...],
    as_json: bool,
    svg: Path | None,
    **exports: Path | None,
) -> None:
    """Draw the fabric NAME, or the one in FILE, and count it: tiers, ports, oversubscription, GPUs, paths.

    \b
    Example:
      headway fabric describe hpn
      headway fabric describe dcn+ --pods 32
      headway fabric describe hpn --set segments=2 --set hosts=16 --svg small.svg --cables small.csv
      headway fabric describe examples/node.xml
      headway fabric describe hpn --node examples/node.xml

    FILE is YAML, SimAI's topology text, or the XML that NCCL writes of the inside of one host (NCCL_TOPO_DUMP_FILE).
    Backup hosts are counted apart, and left out of oversubscription and of what a GPU takes.
    """
    from headway.cli.fabric import node as nodes
    from headway.cli.show import console, is_coloured, print_json, print_lines
    from headway.fabric import describe as facts_of
    from headway.fabric import export
    from headway.fabric import fit as fitting
    from headway.fabric.node import document as facts_of_node
    from headway.plan import fabric as fabrics
    from headway.report import fabric as pictures

    if fabrics.is_node(name):
        told = {"node": inside, "pods": pods is not None, "set": changes, **exports}
        nodes.describe(name, [option for option, value in told.items() if value], svg, as_json=as_json)
        return
    built = options.build(name, pods, changes)
    node = fabrics.node(inside) if inside else None
    fit = fitting.fit(node, built) if node else None
    facts = facts_of.describe(built)
    if svg:
        _write_svg(svg, built, facts)
    for kind, path in exports.items():
        if path:
            _write(path, export.KINDS[kind](built))
    if as_json:
        print_json(facts_of.document(facts) | ({"node": facts_of_node(node)} if node else {}))
        return
    out = console()
    out.print(facts.name, style="bold")
    out.print()
    print_lines(out, pictures.draw(built, facts, out.width, coloured=is_coloured(out)))
    out.print()
    _print(facts)
    if node:
        out.print()
        nodes.show(node, fit, built.name)


def _write_svg(path: Path, built: "Fabric", facts: "Facts") -> None:
    from headway.report import fabric as pictures
    from headway.report import svg

    lines = pictures.draw(built, facts, _SVG_COLUMNS, coloured=True)
    _write(path, [svg.render(lines, f"Fabric: {facts.name}")])


def _write(path: Path, lines: "Iterable[str]") -> None:
    from headway.cli.show import save

    text = "".join(f"{line}\n" for line in lines)
    save(path, lambda: path.write_text(text, encoding="utf-8"))


def _print(facts: "Facts") -> None:
    from headway.cli.show import console, table
    from headway.cli.show import facts as listed
    from headway.report.fabric import ratio
    from headway.units import show_rate

    out = console()
    tiers = table("tier", "count", "down", "up", "ports used", "down : up", right=("count", "ports used", "down : up"))
    for each in reversed(facts.tiers):
        ports = f"{each.used_ports} of {each.num_ports} × {show_rate(each.port_rate)}"
        down, up = (" + ".join(map(str, links)) or "–" for links in (each.down, each.up))
        tiers.add_row(each.tier.label, f"{each.count:,}", down, up, ports, ratio(each.oversubscription))
    out.print(tiers)
    out.print("of the switch with the fewest ports to spare; down : up without backup hosts", style="dim")
    out.print()
    out.print(listed(_rows(facts)))
    for sentence in facts.assumptions:
        out.print()
        out.print(f"assumption: {sentence}", style="yellow")


def _rows(facts: "Facts") -> list[tuple[str, str]]:
    from headway.report.fabric import counted

    def hosts(active: int, spare: int) -> str:
        return counted(active, "host") + (f" + {spare:,} in reserve" if spare else "")

    def gpus(number: int, *others: tuple[int, str]) -> str:
        return f"{counted(number, 'GPU')} in {', '.join(counted(*each) for each in others)}"

    segment = hosts(facts.hosts_per_segment, facts.backup_hosts_per_segment)
    spare = f" + {facts.backup_gpus_per_segment} in reserve" if facts.backup_gpus_per_segment else ""
    rows = [
        (
            "segment",
            f"{counted(facts.gpus_per_segment, 'GPU')}{spare}: {segment}, {counted(facts.tors_per_segment, 'ToR')}",
        ),
        ("pod", gpus(facts.gpus_per_pod, (facts.segments_per_pod, "segment"), (facts.aggs_per_pod, "Agg"))),
        ("total", f"{gpus(facts.gpus, (facts.pods, 'pod'))}, {hosts(facts.hosts, facts.backup_hosts)}"),
        *(
            [("planes", f"{facts.planes}, of {counted(facts.aggs_per_plane, 'Agg')} each in a pod")]
            if facts.links["tor"]
            else []
        ),
        ("a GPU takes", f"{facts.links_per_gpu:.3f} links and {facts.switches_per_gpu:.4f} switches"),
    ]
    if facts.paths is not None:
        rows.append(("paths in a pod", f"{facts.paths:,} from a port to a GPU of its rail in another segment"))
    if facts.paths_of_pods is not None:
        rows.append(("paths of pods", f"{facts.paths_of_pods:,} to choose from to a GPU of its rail in another pod"))
    return rows
