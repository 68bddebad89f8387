"""headway simulate: the predicted step of a job: seconds, tokens/s, MFU, bytes of each edge, memory, a timeline."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from headway.plan.plan import Plan
    from headway.report.throughput import Throughput
    from headway.sim.network import Network
    from headway.trace import Trace

MOST_RANKS = 32  # drawn in the timeline


@click.command()
@click.argument("job", type=click.Path(path_type=Path))
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a key of the job; may repeat.")
@click.option(
    "--trace",
    "path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the step as Chrome/Perfetto JSON (.json or .json.gz).",
)
@click.option(
    "--explain", "explained", is_flag=True, help="Where the step goes, and what being twice as fast would save."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")
def simulate(*, job: Path, overrides: tuple[str, ...], path: Path | None, explained: bool, as_json: bool) -> None:
    """Predict one training step of JOB (a job file or a plan).

    \b
    Example:
      headway simulate examples/stdlib.yaml
      headway simulate examples/stdlib.yaml --set train.microbatch=2 --trace step.json.gz
      headway simulate examples/stdlib.yaml --explain
    """
    from headway import chrome
    from headway.cli.show import print_json, save
    from headway.plan import build
    from headway.report.throughput import throughput
    from headway.sim import network
    from headway.sim import simulate as simulator

    if path and not path.name.endswith((".json", ".json.gz")):
        raise click.BadParameter(f"{path} must end in .json or .json.gz.", param_hint="--trace")
    built = build.from_file(job, overrides)
    over = network.network(built)
    trace = simulator.simulate(built, over=over)
    figures = throughput(built, trace.makespan)
    why = _explain(built, trace, over) if explained else None
    if path:
        save(path, lambda: chrome.write(path, trace))
    if as_json:
        shares = {"network": over.document()} if over.name else {}
        print_json(_document(built, trace, figures) | shares | ({"explain": why} if why else {}))
    else:
        _print(built, trace, figures, over, why)
        if path:
            print(f"The trace is in {path}; open it at ui.perfetto.dev.")


def _explain(built: "Plan", trace: "Trace", over: "Network") -> dict[str, Any]:
    from headway.sim import explain
    from headway.sim.planned import outline

    ranks, cores = built.layout.world, built.cluster.shared_cores
    return explain.document(explain.explain(outline(built, over))) | {
        "played_seconds": trace.makespan,
        "shared_cores": cores if 0 < cores < ranks else 0,
        "ranks": ranks,
    }


def _document(built: "Plan", trace: "Trace", figures: "Throughput") -> dict[str, Any]:
    from headway.plan.plan import digest
    from headway.report.makeup import by_rank, document, fullest

    place = fullest(trace, built.cluster)
    return {
        "digest": digest(built),
        "step_seconds": trace.makespan,
        "tokens_per_second": figures.tokens_per_second,
        "mfu": figures.mfu,
        "bubble": trace.bubble(),
        "edges": trace.edges(),
        "device_memory": built.cluster.device.memory,
        "fits": place.fits,
        "peak": document(place, by_rank(trace, built.cluster)),
        "peak_memory": {str(rank): peaks | {"total": sum(peaks.values())} for rank, peaks in trace.memory.items()},
    }


def _print(built: "Plan", trace: "Trace", figures: "Throughput", over: "Network", why: dict[str, Any] | None) -> None:
    from headway.cli.show import console, facts, is_coloured, print_lines, title
    from headway.report.makeup import bar, fullest, verdict
    from headway.units import show_count, show_seconds

    out = console()
    out.print(title(built))
    cores, world = built.cluster.shared_cores, built.layout.world
    crowded = f" (includes waiting: {world} ranks share {cores} cores)" if 0 < cores < world else ""
    achieved, peak = show_count(figures.achieved), show_count(figures.peak)
    place = fullest(trace, built.cluster)
    out.print(
        facts(
            [
                ("step", f"{show_seconds(trace.makespan)} predicted"),
                ("tokens/s", f"{show_count(figures.tokens_per_second)} ({built.tokens_per_step:,} tokens a step)"),
                ("MFU", f"{figures.mfu:.1%} ({achieved}FLOP/s of {peak}FLOP/s)"),
                ("bubble", f"{trace.bubble():.1%} of the busy time{crowded}"),
                ("memory", verdict(place)),
                *([("network", str(over))] if over.name else []),
            ]
        )
    )
    out.print()
    if why:
        _print_why(out, why)
    print_lines(out, bar(place, columns=out.width, coloured=is_coloured(out)))
    out.print()
    out.print(_ranks(built, trace))
    out.print()
    if edges := trace.edges():
        out.print(_edges(edges))
        out.print()
    _timeline(out, trace)


def _print_why(out: "Console", why: dict[str, Any]) -> None:
    from headway.report import explain

    for table in (explain.where, explain.faster):
        out.print(table(why))
        out.print()
    out.print(explain.agreement(why), style="dim")
    out.print()


def _ranks(built: "Plan", trace: "Trace") -> "Table":
    """Ranks that are busy alike and hold alike in one row."""
    from headway.cli.show import table
    from headway.report.makeup import by_rank
    from headway.report.ranges import numbers
    from headway.units import show_bytes, show_seconds

    most = by_rank(trace, built.cluster)
    alike: dict[tuple[str, ...], list[int]] = {}
    for rank, busy in trace.busy().items():
        peaks = show_bytes(most[rank])
        alike.setdefault((show_seconds(busy), f"{busy / trace.makespan:.1%}", peaks), []).append(rank)
    found = table("ranks", "busy", "of the step", "peak memory", right=("busy", "of the step", "peak memory"))
    for row, ranks in alike.items():
        found.add_row(numbers(ranks), *row)
    return found


def _edges(edges: dict[str, Any]) -> "Table":
    from headway.cli.show import table
    from headway.report.ranges import equal_edges
    from headway.units import show_bytes

    found = table("edges", "bytes a step, each", right=("bytes a step, each",))
    for names, size in equal_edges(edges):
        found.add_row(names, show_bytes(size))
    return found


def _timeline(out: "Console", trace: "Trace") -> None:
    from headway.cli.show import is_coloured, print_lines
    from headway.report import diagram
    from headway.report.occupancy import occupancy
    from headway.units import show_seconds

    scale = diagram.fit([trace], columns=out.width, coloured=is_coloured(out))
    ranks = len(trace.memory)
    if ranks > MOST_RANKS or scale.is_cut:
        needs = f"{ranks} ranks" if ranks > MOST_RANKS else f"{scale.needed} columns"
        out.print(f"No timeline here: it would take {needs}. --trace FILE writes one for ui.perfetto.dev.", style="dim")
        return
    print_lines(out, [*diagram.draw(trace, scale), diagram.axis(scale, show_seconds)])
    print_lines(out, [diagram.legend(scale, steps=True)])
    if lines := occupancy(trace, scale):
        out.print()
        print_lines(out, lines)
