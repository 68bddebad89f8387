"""headway plan: the plan of a job, who holds what, and whether it fits into memory."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.table import Table

    from headway.plan.plan import Plan
    from headway.report.holdings import Holding
    from headway.report.makeup import Place
    from headway.trace import Trace

MANY_STAGES = 24  # more, and stages that hold as much as the one before are drawn together


@click.command()
@click.argument("job", type=click.Path(path_type=Path))
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a key of the job; may repeat.")
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the plan (JSON) to FILE.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")
def plan(*, job: Path, overrides: tuple[str, ...], output: Path | None, as_json: bool) -> None:
    """Build the plan of JOB (a job file or a plan) and show who holds what and whether it fits.

    Exit status 1 if it does not fit.

    \b
    Example:
      headway plan examples/stdlib.yaml
      headway plan examples/stdlib.yaml --set parallel.pipeline=4 --output plan.json
    """
    from headway.cli.show import print_json, save
    from headway.errors import JobError
    from headway.plan import build
    from headway.plan.plan import dumps
    from headway.report.makeup import fullest
    from headway.report.memory import misfit
    from headway.sim.simulate import simulate

    built = build.from_file(job, overrides)
    trace = simulate(built)
    place = fullest(trace, built.cluster)
    if output:
        save(output, lambda: output.write_text(dumps(built), encoding="utf-8"))
    if as_json:
        print_json(_document(built, trace, place))
    else:
        _print(built, trace, place, output)
    if not place.fits:
        raise JobError(misfit(built, place))


def _document(built: "Plan", trace: "Trace", place: "Place") -> dict[str, Any]:
    from headway.layout import AXES
    from headway.plan.plan import digest
    from headway.plan.stages import layout_text
    from headway.plan.work import model_flops_per_token
    from headway.report.crossing import crossing
    from headway.report.holdings import dearest, holdings
    from headway.report.makeup import by_rank, document
    from headway.report.sharing import sharing

    all_ = holdings(built)
    worst, over = dearest(all_)
    return {
        "name": built.name,
        "digest": digest(built),
        "layout": {axis: built.layout.size(axis) for axis in AXES} | {"world": built.layout.world},
        "groups": {axis: built.layout.groups(axis) for axis in AXES},
        "tensor_groups_over_nodes": over_nodes.crossing if (over_nodes := crossing(built)) else 0,
        "split": {"name": built.split, "layout": layout_text(built.stages)},
        "stages": [_stage(built, each) for each in all_],
        "dearest": {"stage": worst.stage, "over_mean": over},
        "recompute": asdict(built.recompute),
        "parameters": built.num_parameters,
        "flops_per_token": model_flops_per_token(built),
        "schedule": {
            "name": built.schedule.name,
            "pipeline": built.schedule.num_ranks,
            "microbatches": built.num_microbatches,
            "chunks": built.schedule.num_stages // built.schedule.num_ranks,
            "bubble": trace.bubble(),
        },
        "sharing": asdict(shared) if (shared := sharing(built)) else None,
        "memory": {str(rank): peaks | {"total": sum(peaks.values())} for rank, peaks in trace.memory.items()},
        "peak": document(place, by_rank(trace, built.cluster)),
        "device_memory": built.cluster.device.memory,
        "fits": place.fits,
    }


def _stage(built: "Plan", each: "Holding") -> dict[str, Any]:
    return {
        "stage": each.stage,
        "rank": each.rank,
        "ranks": each.ranks,
        "blocks": built.stages[each.stage],
        "parameters": each.parameters,
        "forward_seconds": each.forward,
        "backward_seconds": each.backward,
        "states": each.states,
        "activations": {"microbatch": each.saved, "in_flight": each.in_flight, "peak": each.activations},
    }


def _print(built: "Plan", trace: "Trace", place: "Place", output: Path | None) -> None:
    from headway.cli.show import console, facts, is_coloured, print_lines, title
    from headway.report.crossing import crossing_text
    from headway.report.holdings import dearest_text, holdings
    from headway.report.makeup import bar, verdict
    from headway.report.memory import recipe

    out = console()
    out.print(title(built))
    out.print(facts(_facts(built, trace)))
    out.print()
    all_ = holdings(built)
    out.print(_stages(all_))
    for said in (dearest_text(all_), crossing_text(built)):
        if said:
            out.print(said)
    for unit in built.units:
        if len(unit.stages) > 1:
            stages = " and ".join(map(str, unit.stages))
            held = "both hold it" if len(built.holders(unit)) > 1 else "their rank holds it once, each row counts it"
            text = f"Stages {stages} share one weight ({unit.name}); {held}, the total counts it once."
            out.print(text, style="dim")
    out.print()
    out.print(_memory(built, trace))
    out.print()
    out.print(recipe(built), style="dim")
    print_lines(out, bar(place, columns=out.width, coloured=is_coloured(out)))
    out.print(verdict(place), style="bold green" if place.fits else "bold red")
    if output:
        out.print(f"The plan is in {output}.")


def _facts(built: "Plan", trace: "Trace") -> list[tuple[str, str]]:
    from headway.cluster.spec import NO_FABRIC
    from headway.plan.network import name as fabric_name
    from headway.plan.stages import layout_text
    from headway.plan.work import model_flops_per_token
    from headway.report.holdings import units_text
    from headway.report.ranges import group, some
    from headway.report.sharing import sharing_text
    from headway.units import show_bytes, show_count

    model, layout, schedule = built.model, built.layout, built.schedule
    chunks = schedule.num_stages // schedule.num_ranks
    cores, place = built.cluster.shared_cores, built.cluster
    groups = [(axis, layout.groups(axis)) for axis, size in layout.sizes if size > 1]
    cut = ", the sequence cut over the tensor ranks" if built.sequence_parallel else ""
    shared = f" ({model.key_value_heads} key-value)" if model.key_value_heads != model.heads else ""
    return [
        (
            "model",
            f"{model.family}: {model.layers} layers, hidden {model.hidden}, heads {model.heads}{shared}, "
            f"vocabulary {model.vocabulary}",
        ),
        ("parameters", f"{show_count(built.num_parameters)} ({built.num_parameters:,})"),
        ("FLOPs a token", f"{show_count(model_flops_per_token(built))} forward and backward"),
        (
            "cluster",
            f"{place}, {show_bytes(place.device.memory)} each"
            if not cores
            else f"{place.name}: {place.nodes} node of {cores} cores and {show_bytes(place.device.memory)}, "
            f"shared by its ranks",
        ),
        *([("fabric", fabric_name(place.fabric))] if place.fabric != NO_FABRIC else []),
        ("layout", f"{' × '.join(f'{axis} {size}' for axis, size in layout.sizes)} = {layout.world} ranks{cut}"),
        *((f"{axis} groups", some([group(g) for g in all_], "groups")) for axis, all_ in groups),
        (
            "batch",
            f"{built.train.global_batch} sequences of {built.data.sequence_length} tokens: "
            f"{built.num_microbatches} micro-batches of {built.train.microbatch} on each data rank",
        ),
        (
            "schedule",
            f"{schedule.name}, P={schedule.num_ranks} M={built.num_microbatches} V={chunks}, "
            f"bubble {trace.bubble():.1%} predicted",
        ),
        ("split", f"{built.split}: {layout_text(built.stages)}"),
        ("units", units_text(built)),
        *([("recompute", str(built.recompute))] if built.recompute.layers else []),
        *([("sharing", shared_by)] if (shared_by := sharing_text(built)) else []),
    ]


def _stages(all_: tuple["Holding", ...]) -> "Table":
    from headway.cli.show import table
    from headway.report.holdings import runs
    from headway.report.ranges import numbers
    from headway.units import show_bytes, show_count, show_seconds

    found = table("stage", "ranks", "blocks", *_NUMBERS, right=_NUMBERS)
    for run in runs(all_) if len(all_) > MANY_STAGES else [(each,) for each in all_]:
        first = run[0]
        found.add_row(
            numbers([each.stage for each in run]),
            numbers({rank for each in run for rank in each.ranks}),
            _blocks(run),
            show_count(first.parameters),
            show_seconds(first.forward),
            show_seconds(first.backward),
            show_bytes(first.states),
            _activations(run),
        )
    return found


def _blocks(run: tuple["Holding", ...]) -> str:
    return run[0].blocks if len(run) == 1 else f"{run[0].blocks} … {run[-1].blocks}"


def _activations(run: tuple["Holding", ...]) -> str:
    from headway.units import show_bytes

    low, high = min(each.in_flight for each in run), max(each.in_flight for each in run)
    number = str(low) if low == high else f"{low}–{high}"
    return f"{number} × {show_bytes(run[0].saved)}" if run[0].saved else "–"


def _memory(built: "Plan", trace: "Trace") -> "Table":
    """The most of each category, which may come at different times, and the most at one time with all besides."""
    from headway.cli.show import table
    from headway.report.makeup import by_rank
    from headway.report.memory import collapse
    from headway.report.ranges import numbers
    from headway.units import show_bytes

    rows, peaks = collapse(trace), by_rank(trace, built.cluster)
    kinds = list(dict.fromkeys(kind for row in rows for kind in row.peaks))
    found = table("ranks", *kinds, "at one time", right=[*kinds, "at one time"])
    for row in rows:
        sizes = [show_bytes(row.peaks.get(kind, 0)) for kind in kinds]
        found.add_row(numbers(row.ranks), *sizes, show_bytes(max(peaks[rank] for rank in row.ranks)))
    return found


_NUMBERS = ("parameters", "forward", "backward", "states", "activations")
