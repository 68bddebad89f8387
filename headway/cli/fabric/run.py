"""headway fabric run: the messages of a job on a fabric: what crosses what, at which rate, and what the step takes."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from headway.cli.fabric import options
from headway.errors import PlanError

if TYPE_CHECKING:
    from rich.table import Table

    from headway.plan.plan import Plan
    from headway.sim.exchanges import Exchange
    from headway.sim.placed import Placed
    from headway.sim.sent import Sent

_MOST_SEEDS = 1000
_DATA: "tuple[Exchange, ...]" = ("data", "shared", "world")
_PIPELINE: "tuple[Exchange, ...]" = ("forward", "backward")


@click.command(
    epilog="A share is what the slowest group of an exchange gets of its network card's rate while all groups of that "
    "exchange communicate; seconds are those of latency, and of bytes at that share. The model: docs/fabric.md."
)
@click.argument("job", type=click.Path(path_type=Path))
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a key of the job; may repeat.")
@click.option("--fabric", metavar="NAME | FILE", help="Another fabric, as 'dcn+ pods=4'.  [the job's cluster.fabric]")
@options.order
@options.pairs
@options.seeds
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead.")
def run(
    *,
    job: Path,
    overrides: tuple[str, ...],
    fabric: str | None,
    order: str,
    seeds: int,
    as_json: bool,
    **pairs: object,
) -> None:
    """Take the messages of JOB (a job file or a plan) to its cluster's fabric.

    \b
    Example:
      headway fabric run examples/gpt-175b-hpn.yaml
      headway fabric run examples/gpt-175b-hpn.yaml --fabric 'dcn+ pods=4'
      headway fabric run examples/gpt-175b-hpn.yaml --order random --connections 4 --json
    """
    from headway.cli.show import print_json
    from headway.plan import build
    from headway.sim import network
    from headway.sim.placed import placed, reordered

    options.check_seeds(seeds, _MOST_SEEDS)
    plan = _on(build.from_file(job, overrides), job, fabric)
    seated = network.seat(plan, options.hosts_in(order))
    how = options.connecting(seated.fabric, **cast(dict[str, Any], pairs))
    other = reordered(seated)
    found = [placed(each, how, seeds) for each in (seated, other) if each is not None]
    if as_json:
        print_json(_document(found, order, seeds))
    else:
        _print(found, order, seeds)


def _on(plan: "Plan", job: Path, fabric: str | None) -> "Plan":
    """The plan with another fabric, where one is named."""
    from headway.cluster.spec import NO_FABRIC
    from headway.plan import network

    if fabric is not None:
        plan = replace(plan, cluster=replace(plan.cluster, fabric=network.kept(fabric)))
    if plan.cluster.fabric == NO_FABRIC:
        raise PlanError(f"the cluster of {job} has no fabric. Set cluster.fabric: hpn in it, or give --fabric hpn.")
    return plan


def _document(found: "list[Placed]", order: str, seeds: int) -> dict[str, Any]:
    from headway.plan.plan import digest
    from headway.sim.placed import advice
    from headway.sim.sent import crossing

    one = found[0]
    segments, pods = crossing(one.sent)
    return {
        "digest": digest(one.seated.plan),
        "fabric": one.over.name,
        **asdict(one.over.how),
        "order": order,
        "seeds": seeds,
        "hosts": one.hosts,
        "segments": one.segments,
        "fewest_segments": one.fewest[0],
        "pods": one.pods,
        "fewest_pods": one.fewest[1],
        "step_seconds": one.seconds,
        "closed_form_seconds": one.closed,
        "across_segments_bytes": segments,
        "across_pods_bytes": pods,
        "sent": [_entry(one, each) for each in one.sent],
        "orders": [
            {
                "axes": each.order,
                "step_seconds": each.seconds,
                "across_segments_bytes": {"data": data[0], "pipeline": along[0], "all": whole[0]},
                "across_pods_bytes": {"data": data[1], "pipeline": along[1], "all": whole[1]},
            }
            for each in found
            for data, along, whole in [
                (crossing(each.sent, *_DATA), crossing(each.sent, *_PIPELINE), crossing(each.sent))
            ]
        ],
        "advice": advice(one, found[-1] if len(found) > 1 else None),
        "not_modelled": options.NOT_MODELLED,
    }


def _entry(of: "Placed", each: "Sent") -> dict[str, Any]:
    from headway.fabric.loads import link_name

    share = each.share
    return {
        "purpose": each.purpose,
        "exchange": each.exchange,
        "groups": each.groups,
        "ranks": each.ranks,
        "bytes": each.bytes,
        "across_hosts_bytes": each.hosts,
        "across_segments_bytes": each.segments,
        "across_pods_bytes": each.pods,
        "share": share.median if share else 1.0,
        "share_range": [share.least, share.most] if share else [1.0, 1.0],
        "seconds": each.seconds,
        "closed_form_seconds": each.closed,
        "slowest_link": link_name(of.seated.fabric, share.link) if share else None,
    }


def _print(found: "list[Placed]", order: str, seeds: int) -> None:
    from headway.cli.show import console, facts, title
    from headway.report.fabric import counted
    from headway.sim.placed import advice
    from headway.sim.sent import crossing
    from headway.units import show_bytes, show_seconds

    out, one = console(), found[0]
    segments, pods = crossing(one.sent)
    leaving = sum(each.hosts for each in one.sent)
    out.print(title(one.seated.plan))
    rows = [
        ("step", f"{show_seconds(one.seconds)} on {one.over.name}; {show_seconds(one.closed)} by the closed form"),
        ("ranks", f"on {counted(one.hosts, 'host')} in {_of(one.segments, one.fewest[0], 'segment')} and "
                  f"{_of(one.pods, one.fewest[1], 'pod')}, hosts {order}"),
        ("pairs", f"{one.over.how}; {counted(seeds, 'hash seed')}"),
        ("across", f"{show_bytes(leaving)} leave a host in a step, {show_bytes(segments)} a segment, "
                   f"{show_bytes(pods)} a pod"),
    ]  # fmt: skip
    out.print(facts(rows))
    out.print()
    for table in (_sent(one), _rates(one)):
        out.print(table)
        out.print()
    if len(found) > 1 and one.segments > 1:
        out.print(_orders(found))
        out.print()
    out.print(advice(one, found[-1] if len(found) > 1 else None))
    out.print()
    out.print(options.NOT_MODELLED, style="dim")


def _of(number: int, fewest: int, noun: str) -> str:
    from headway.report.fabric import counted

    return counted(number, noun) + (f" ({fewest} would do)" if fewest < number else "")


def _sent(of: "Placed") -> "Table":
    """What is sent, and how far."""
    from headway.cli.show import table

    places = {"hosts": "across hosts", "segments": "segments", "pods": "pods"}
    used = [place for place in places if getattr(of, place) > 1]
    numbers = ("groups × ranks", "bytes", *(places[each] for each in used))
    drawn = table("what for", *numbers, right=numbers)
    for each in of.sent:
        sizes = (each.bytes, *(getattr(each, place) for place in used))
        drawn.add_row(each.purpose, f"{each.groups:,} × {each.ranks:,}", *map(_size, sizes))
    return drawn


def _rates(of: "Placed") -> "Table":
    """How long it takes, at what share of a card's rate, and what bounds it."""
    from headway.cli.show import table
    from headway.fabric.loads import link_name
    from headway.units import show_seconds

    numbers = ("seconds", "closed form", "share", "seeds")
    drawn = table("what for", *numbers, "slowest link", right=numbers)
    for each in of.sent:
        rate, over, link = "–", "", ""
        if share := each.share:
            rate = f"{share.median:.1%}"
        if share and share.least < 1.0:
            over, link = f"{share.least:.1%}–{share.most:.1%}", link_name(of.seated.fabric, share.link)
        drawn.add_row(each.purpose, show_seconds(each.seconds), show_seconds(each.closed), rate, over, link)
    return drawn


def _orders(found: "list[Placed]") -> "Table":
    """Both orders of the axes, side by side."""
    from headway.cli.show import table
    from headway.sim.sent import crossing
    from headway.units import show_seconds

    numbers = ("step", "across segments", "across pods")
    drawn = table("axes, fastest first", "step", "of", *numbers[1:], right=numbers)
    for each in found:
        drawn.add_row(each.order, show_seconds(each.seconds), "data", *map(_size, crossing(each.sent, *_DATA)))
        drawn.add_row("", "", "pipeline", *map(_size, crossing(each.sent, *_PIPELINE)))
    return drawn


def _size(size: int) -> str:
    from headway.units import show_bytes

    return show_bytes(size) if size else "–"
