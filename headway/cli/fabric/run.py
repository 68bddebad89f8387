"""headway fabric run: the messages of a job on a fabric: what crosses what, at which rate, and what the step takes."""

from dataclasses import replace
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
@click.option("--seeds", type=int, default=20, show_default=True, help="Hash seeds, from 0 on.")
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

    if not 1 <= seeds <= _MOST_SEEDS:
        raise PlanError(f"--seeds is {seeds}. Use 1 to {_MOST_SEEDS}.")
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

    one, how = found[0], found[0].over.how
    segments, pods = crossing(one.sent)
    return {
        "digest": digest(one.seated.plan),
        "fabric": one.over.name,
        "connections": how.connections,
        "ports": how.ports,
        "split": how.split,
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
        ("step", f"{show_seconds(one.seconds)} on {one.over.name}; {show_seconds(one.closed)} by the closed form, in "
                 "which no group meets another"),
        ("ranks", f"on {counted(one.hosts, 'host')} in {_of(one.segments, one.fewest[0], 'segment')} and "
                  f"{_of(one.pods, one.fewest[1], 'pod')}, hosts {order}"),
        ("pairs", f"{one.over.how}; {counted(seeds, 'hash seed')}"),
        ("across", f"{show_bytes(leaving)} leave a host in a step, {show_bytes(segments)} a segment, "
                   f"{show_bytes(pods)} a pod"),
    ]  # fmt: skip
    out.print(facts(rows))
    out.print()
    out.print(_sent(one))
    out.print()
    if bound := _bound(one):
        out.print(bound)
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
    from headway.cli.show import table
    from headway.units import show_bytes, show_seconds

    places = {"hosts": "leave a host", "segments": "a segment", "pods": "a pod"}
    used = [place for place in places if getattr(of, place) > 1]
    numbers = ("groups × ranks", "a step", *(places[each] for each in used), "share", "seconds", "closed form")
    drawn = table("what for", *numbers, right=numbers)
    for each in of.sent:
        sizes = [getattr(each, place) for place in used]
        drawn.add_row(
            each.purpose,
            f"{each.groups:,} × {each.ranks:,}",
            show_bytes(each.bytes),
            *(show_bytes(size) if size else "–" for size in sizes),
            f"{each.share.median:.1%}" if each.share else "–",
            show_seconds(each.seconds),
            show_seconds(each.closed),
        )
    return drawn


def _bound(of: "Placed") -> "Table | None":
    """What bounds the exchanges that do not get all of a card's rate."""
    from headway.cli.show import table
    from headway.fabric.loads import link_name

    slowed = {exchange: share for exchange, share in of.over.shares.items() if share.median < 1.0}
    if not slowed:
        return None
    drawn = table("slowed", "share", "over the seeds", "slowest link", right=("share", "over the seeds"))
    for exchange, share in slowed.items():
        purposes = ", ".join(each.purpose for each in of.sent if each.exchange == exchange)
        over = f"{share.least:.1%} to {share.most:.1%}"
        drawn.add_row(purposes, f"{share.median:.1%}", over, link_name(of.seated.fabric, share.link))
    return drawn


def _orders(found: "list[Placed]") -> "Table":
    from headway.cli.show import table
    from headway.sim.sent import crossing
    from headway.units import show_bytes, show_seconds

    numbers = ("data across segments", "pods", "pipeline across segments", "pods ", "step")
    drawn = table("axes, fastest first", *numbers, right=numbers)
    for each in found:
        sizes = [size for chosen in (_DATA, _PIPELINE) for size in crossing(each.sent, *chosen)]
        drawn.add_row(each.order, *(show_bytes(size) if size else "–" for size in sizes), show_seconds(each.seconds))
    return drawn
