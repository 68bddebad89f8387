"""headway fabric fail: what a job gets of a fabric while things break and are repaired, and whether it lives."""

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.fabric import options
from headway.errors import JobError

if TYPE_CHECKING:
    from headway.fabric.convergence import Delays
    from headway.fabric.fabric import Fabric
    from headway.fabric.fault import Fault
    from headway.fabric.reactions import Phase
    from headway.fabric.timeline import Timeline
    from headway.units import Seconds

_FILE = click.Path(path_type=Path, dir_okay=False)
_SVG_COLUMNS, _MOST_ROWS, _AFTER, _SHORTEST = 120, 40, 20.0, 60.0
NOT_MODELLED = (
    f"{options.NOT_MODELLED} Nor that a link fails in one direction only or keeps its carrier, what a switch loses "
    "while it starts, and messages that were under way."
)

_delays = options.together(
    click.option(
        "--notice", default="100ms", show_default=True, metavar="TIME", help="Until a host leaves a dead port."
    ),
    click.option(
        "--reroute", default="300ms", show_default=True, metavar="TIME", help="Until switches take other ways."
    ),
    click.option(
        "--learn", default="1s", show_default=True, metavar="TIME|never", help="Until senders elsewhere know."
    ),
    click.option(
        "--resume",
        default="9s",
        show_default=True,
        metavar="TIME",
        help="From a repair until a pair that was cut off sends.",
    ),
    click.option(
        "--collective-timeout",
        default="2min",
        show_default=True,
        metavar="TIME",
        help="Standing still for longer kills the job.",
    ),
)


@click.command(
    epilog="Faults: link NODE NODE, port NODE:PORT, nic CARD, tor|agg|core NAME, plane NUMBER [of pod NUMBER], each "
    "with [at TIME] [for TIME] [flapping every TIME]; names are those of headway fabric describe --cables. "
    "Collectives: those of headway fabric bench. The model and its limits: docs/fabric.md."
)
@click.argument("name", metavar="NAME | FILE")
@click.option("--fault", "faults", multiple=True, required=True, metavar="FAULT", help="What breaks; may repeat.")
@options.sizes
@options.test
@options.pairs
@click.option("--seconds", metavar="TIME", help="How long to look.  [60s, or 20s after the last repair]")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of hashes and source ports.")
@_delays
@click.option("--svg", type=_FILE, metavar="FILE", help="Write the picture as SVG, too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead.")
def fail(
    *,
    faults: tuple[str, ...],
    seconds: str | None,
    seed: int,
    svg: Path | None,
    as_json: bool,
    **rest: object,
) -> None:
    """Break things in the fabric NAME, or the one in FILE, under a job: its bus bandwidth over time, and its end.

    Exit status 1 if the job dies.

    \b
    Example:
      headway fabric fail hpn --gpus 256 --fault 'tor tor-s0-r0-0 at 10s for 30s'
      headway fabric fail single-tor --gpus 256 --fault 'port host-3/gpu-5:0 at 10s for 2min'
      headway fabric fail hpn --gpus 2048 --fault 'plane 1 at 10s' --learn never
    """
    from headway.cli.show import print_json
    from headway.fabric.fault import parse
    from headway.fabric.timeline import timeline
    from headway.units import parse_seconds

    told, delays = tuple(parse(each) for each in faults), _waits(rest)
    wanted = options.wanted(rest)
    fabric = wanted.fabric()
    until = _long_enough(told) if seconds is None else parse_seconds(seconds)
    found = timeline(fabric, options.case(fabric, wanted, seed), told, delays, until, seed, wanted.algorithm)
    if svg:
        _write_svg(svg, fabric, found)
    if as_json:
        print_json(_document(fabric, wanted, told, delays, found))
    else:
        _print(fabric, wanted, told, delays, found)
    if not found.goes_on:
        raise JobError(_end(found, delays))


def _waits(told: "dict[str, object]") -> "Delays":
    """The delays, taken out of what was told."""
    import dataclasses

    from headway.fabric.convergence import Delays
    from headway.fabric.fault import NEVER
    from headway.units import parse_seconds

    words = {each.name: str(told.pop(each.name)) for each in dataclasses.fields(Delays)}
    return Delays(**{name: NEVER if word == "never" else parse_seconds(word) for name, word in words.items()})


def _long_enough(faults: "tuple[Fault, ...]") -> "Seconds":
    from headway.units import Seconds

    last = max(each.end if isfinite(each.end) else each.at for each in faults)
    return Seconds(max(_SHORTEST, last + _AFTER))


def _end(found: "Timeline", delays: "Delays") -> str:
    since = found.dies - delays.collective_timeout
    return (
        f"the job dies at {found.dies:g} s: its collective stands still from {since:g} s on, longer than the "
        f"{delays.collective_timeout:g} s of its timeout. Repair sooner, use a fabric with a second way to each card, "
        "or a longer --collective-timeout."
    )


def _document(
    fabric: "Fabric", wanted: options.Wanted, faults: "tuple[Fault, ...]", delays: "Delays", found: "Timeline"
) -> dict[str, Any]:
    import dataclasses

    return {
        **options.document(fabric, wanted, found.healthy),
        "faults": [str(each) for each in faults],
        "delays": {name: _json(value) for name, value in dataclasses.asdict(delays).items()},
        "goes_on": found.goes_on,
        "dies_at": _json(found.dies),
        "busbw_gb_s": found.healthy.busbw / 1e9,
        "mean_busbw_gb_s": found.mean / 1e9,
        "still_seconds": found.still,
        "phases": [
            {
                "start": each.start,
                "end": each.end,
                "broken": list(each.broken),
                "waiting": list(each.waiting),
                "pairs_still": each.still,
                "busbw_gb_s": each.busbw / 1e9,
                "slowest": each.slowest,
            }
            for each in found.phases
        ],
        "not_modelled": NOT_MODELLED,
    }


def _json(value: float) -> float | None:
    """A time; never is null."""
    return value if isfinite(value) else None


def _print(
    fabric: "Fabric", wanted: options.Wanted, faults: "tuple[Fault, ...]", delays: "Delays", found: "Timeline"
) -> None:
    from headway.cli.show import console, facts, is_coloured, print_lines, table
    from headway.fabric.convergence import SOURCES
    from headway.fabric.fault import effect, links
    from headway.report import timeline as pictures
    from headway.report.fabric import counted

    out, each = console(), found.healthy
    out.print(f"{wanted.collective} on {fabric} while things break", style="bold")
    out.print()
    job = f"{counted(each.gpus, 'GPU')} on {counted(each.hosts, 'host')} in {counted(each.segments, 'segment')}"
    rows = [("fault", f"{fault}: {effect(fabric, links(fabric, fault))}") for fault in faults]
    rows += [
        ("job", f"{job}, {each.algorithm}, {wanted.how(fabric)}"),
        ("without faults", f"{each.busbw / 1e9:.1f} GB/s of bus bandwidth"),
        ("with them", _outcome(found)),
    ]
    out.print(facts(rows))
    out.print()
    print_lines(out, pictures.draw(found, out.width, coloured=is_coloured(out)))
    out.print()
    numbers = ("seconds", "GB/s", "share", "still")
    drawn = table(*numbers, "yet to act", "what", "slowest", right=numbers)
    for phase in found.phases[:_MOST_ROWS]:
        drawn.add_row(*_cells(phase, found))
    out.print(drawn)
    out.print("still: pairs of cards between which nothing moves; of those the slowest is one", style="dim")
    if (more := len(found.phases) - _MOST_ROWS) > 0:
        out.print(f"… {more} more phases; --json has all", style="dim")
    out.print()
    for name, source in SOURCES.items():
        value = getattr(delays, name)
        text = "never" if not isfinite(value) else f"{value:g} s"
        out.print(f"{name.replace('_', ' ')} {text}: {source}", style="dim")
    out.print(NOT_MODELLED, style="dim")


def _outcome(found: "Timeline") -> str:
    lost = 1 - found.mean / found.healthy.busbw if found.healthy.busbw else 0.0
    seconds = found.phases[-1].end - found.phases[0].start
    end = "the job goes on" if found.goes_on else f"the job dies at {found.dies:g} s"
    return f"{end}; {lost:.1%} of the traffic of {seconds:g} s is lost, {found.still:g} s of it standing still"


def _cells(phase: "Phase", found: "Timeline") -> tuple[str, ...]:
    share = phase.busbw / found.healthy.busbw if found.healthy.busbw else 0.0
    down = ", ".join(each.partition(" is down: ")[0] for each in phase.broken)
    what = f"{down} down" if down else "all is back" if phase.start else "all works"
    rate = f"{phase.busbw / 1e9:.1f}", f"{share:.0%}", f"{phase.still:,}" if phase.still else "–"
    return f"{phase.start:.7g}–{phase.end:.7g}", *rate, ", ".join(phase.waiting) or "–", what, phase.slowest


def _write_svg(path: Path, fabric: "Fabric", found: "Timeline") -> None:
    from headway.cli.show import save
    from headway.report import svg
    from headway.report import timeline as pictures

    text = svg.render(list(pictures.draw(found, _SVG_COLUMNS, coloured=True)), f"Faults: {fabric}")
    save(path, lambda: path.write_text(text, encoding="utf-8"))
