"""headway fabric bench: what a test of collectives would measure on a fabric, over hash seeds."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.fabric import options

if TYPE_CHECKING:
    from rich.console import Console

    from headway.fabric.bench import Measured
    from headway.fabric.fabric import Fabric

_MOST_SEEDS = 10_000
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(
    epilog="Collectives: all_reduce, all_gather, reduce_scatter, all_to_all, send_recv; multi_all_reduce, "
    "multi_all_gather and multi_reduce_scatter are one group for each GPU of a host, all at once, as tensor ranks sum "
    "their gradients. Bus bandwidth is that of nccl-tests. The model and its limits: docs/fabric.md."
)
@click.option("--fabric", "name", default="hpn", show_default=True, metavar="NAME | FILE", help="The fabric.")
@options.sizes
@options.test
@options.pairs
@options.seeds
@click.option("--shared-seed", is_flag=True, help="All switches hash alike, so that flows polarise.")
@click.option("--links", is_flag=True, help="Draw how full links are, and the way of the slowest flow.")
@click.option("--svg", type=_FILE, metavar="FILE", help="Write that picture as SVG, too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead.")
def bench(*, seeds: int, links: bool, svg: Path | None, as_json: bool, **test: object) -> None:
    """Predict the bus bandwidth of a collective on a fabric: the median over hash seeds, and what bounds it.

    \b
    Example:
      headway fabric bench --fabric hpn --collective multi_all_reduce --gpus 448
      headway fabric bench --fabric dcn+ --collective all_reduce --gpus 448 --order random --links
      headway fabric bench --fabric dcn+ --gpus 512 --jobs 4 --connections 4 --ports disjoint --json
    """
    from headway.cli.show import print_json, progress
    from headway.fabric.bench import choose, run
    from headway.fabric.ways import ways

    options.check_seeds(seeds, _MOST_SEEDS)
    wanted = options.wanted(test)
    fabric = wanted.fabric()
    every, found = ways(fabric), []
    with progress(seeds, "testing", quiet=as_json) as advance:
        for seed in range(seeds):
            if not seed or wanted.order == "random":  # else all seeds test the same traffic
                case = options.case(fabric, wanted, seed)
                attempt = choose(every, case, wanted.algorithm)
            found.append(run(every, case, attempt, seed))
            advance()
    found.sort(key=lambda each: each.busbw)
    if svg:
        _write_svg(svg, fabric, found)
    if as_json:
        print_json(_document(fabric, wanted, found))
    else:
        _print(fabric, wanted, found, links=links)


def _median(found: "list[Measured]") -> "Measured":
    """The run in the middle, the slower one of two."""
    return found[(len(found) - 1) // 2]


def _document(fabric: "Fabric", wanted: options.Wanted, found: "list[Measured]") -> dict[str, Any]:
    from headway.fabric import loads

    each = _median(found)
    bounded = each.carried.bottleneck
    return {
        **options.document(fabric, wanted, each),
        "seeds": len(found),
        "busbw_gb_s": each.busbw / 1e9,
        "busbw_range_gb_s": [found[0].busbw / 1e9, found[-1].busbw / 1e9],
        "ideal_gb_s": each.ideal / 1e9,
        "seconds": each.seconds,
        "network_seconds": each.network,
        "inside_seconds": each.inside,
        "latency_seconds": each.latency,
        "slowest_link": loads.link_name(fabric, bounded) if bounded >= 0 else None,
        "slowest_way": loads.way_name(fabric, each.carried.route) or None,
        "links": [
            {"hop": hop.hop.name.lower(), "used": hop.used, "mean": hop.mean, "most": hop.most}
            for hop in loads.by_hop(fabric, each.carried)
        ],
        "not_modelled": options.NOT_MODELLED,
    }


def _print(fabric: "Fabric", wanted: options.Wanted, found: "list[Measured]", *, links: bool) -> None:
    from headway.cli.show import console, facts
    from headway.fabric import loads
    from headway.report.fabric import counted
    from headway.units import show_bytes, show_seconds

    out, each = console(), _median(found)
    out.print(f"{wanted.collective} on {fabric}", style="bold")
    out.print()
    bound = "inside the hosts" if each.inside >= each.network else "between hosts"
    rates = f"{found[0].busbw / 1e9:.1f} to {found[-1].busbw / 1e9:.1f}"
    rows = [
        ("bus bandwidth", f"{each.busbw / 1e9:.1f} GB/s, median of {counted(len(found), 'hash seed')} ({rates})"),
        ("ideal", f"{each.ideal / 1e9:.1f} GB/s if packets were sprayed over all paths"),
        (
            "seconds",
            f"{show_seconds(each.seconds)}: latency {show_seconds(each.latency)}, then {bound}: "
            f"{show_seconds(each.network)} on the network, {show_seconds(each.inside)} inside hosts",
        ),
        ("algorithm", each.algorithm),
        (
            "job",
            f"{counted(each.gpus, 'GPU')} on {counted(each.hosts, 'host')} in {counted(each.segments, 'segment')}, "
            f"{counted(wanted.jobs, 'job')}, hosts {wanted.order}, {show_bytes(each.size)} each",
        ),
        ("pairs", str(wanted.how(fabric))),
        ("inside", f"{wanted.device}: links inside a host"),
    ]
    if (bounded := each.carried.bottleneck) >= 0:
        rows.append(("slowest link", loads.link_name(fabric, bounded)))
    out.print(facts(rows))
    if links:
        _print_links(out, fabric, each)
    out.print()
    out.print(options.NOT_MODELLED, style="dim")


def _print_links(out: "Console", fabric: "Fabric", each: "Measured") -> None:
    from headway.cli.show import is_coloured, print_lines, table
    from headway.fabric import loads
    from headway.report import loads as report

    hops = loads.by_hop(fabric, each.carried)
    numbers = ("used", "mean", "fullest", "fullest : mean")
    drawn = table("links", *numbers, right=numbers)
    for hop in hops:
        used = f"{hop.used:,} of {len(hop.links):,}"
        drawn.add_row(report.title(hop.hop), used, f"{hop.mean:.0%}", f"{hop.most:.0%}", f"{hop.imbalance:.2f}")
    out.print()
    out.print(f"slowest way: {loads.way_name(fabric, each.carried.route)}")
    out.print()
    out.print(drawn)
    out.print()
    print_lines(out, report.heat(fabric, hops, out.width, coloured=is_coloured(out)))


def _write_svg(path: Path, fabric: "Fabric", found: "list[Measured]") -> None:
    from headway.cli.show import save
    from headway.fabric import loads
    from headway.report import loads as report
    from headway.report import svg

    lines = list(report.heat(fabric, loads.by_hop(fabric, _median(found).carried), 96, coloured=True))
    text = svg.render(lines, f"Loads of links: {fabric}")
    save(path, lambda: path.write_text(text, encoding="utf-8"))
