"""headway schedule: a schedule family drawn, with its step time, bubble, activations in flight and messages."""

from typing import TYPE_CHECKING

import click

from headway.schedule.families import FAMILIES

if TYPE_CHECKING:
    from headway.schedule.schedule import Schedule
    from headway.sim.unit_time import Played


@click.command(epilog=f"Families: {', '.join(FAMILIES)}.")
@click.argument("family")
@click.option("--pipeline", type=int, required=True, metavar="P", help="Pipeline ranks.")
@click.option("--microbatches", type=int, required=True, metavar="M", help="Micro-batches of a step.")
@click.option("--chunks", type=int, default=1, show_default=True, metavar="V", help="Stages on each rank.")
@click.option("--messages", is_flag=True, help="Add sends and receives to the rows of --csv or --json.")
@click.option("--csv", "as_csv", is_flag=True, help="Print the rows as torch's schedule CSV instead.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead.")
def schedule(
    *, family: str, pipeline: int, microbatches: int, chunks: int, messages: bool, as_csv: bool, as_json: bool
) -> None:
    """Draw the pipeline schedule FAMILY: a forward takes 1, a backward 2, links are free.

    \b
    Example:
      headway schedule 1f1b --pipeline 4 --microbatches 8
      headway schedule interleaved --pipeline 4 --microbatches 8 --chunks 2
    """
    from headway.cli.show import print_json
    from headway.schedule import families, passes
    from headway.schedule.check import check
    from headway.schedule.schedule import to_csv
    from headway.sim import unit_time

    if as_csv and as_json:
        raise click.UsageError("--csv and --json each want stdout to themselves. Use one of them.")
    if messages and not (as_csv or as_json):
        raise click.UsageError("--messages changes the rows of --csv or --json. Add one of them.")
    bare = check(families.build(family, pipeline=pipeline, microbatches=microbatches, chunks=chunks))
    lowered = check(passes.add_messages(bare))
    rows = lowered if messages else bare
    if as_csv:
        click.echo(to_csv(rows), nl=False)
        return
    played = unit_time.play(bare)
    if as_json:
        print_json(
            {
                "name": bare.name,
                "pipeline": bare.num_ranks,
                "microbatches": bare.num_microbatches,
                "chunks": chunks,
                "step_time": played.step_time,
                "bubble": played.trace.bubble(),
                "peak_in_flight": played.peak_in_flight,
                "rows": [[str(action) for action in row] for row in rows.rows],
            }
        )
        return
    _draw(bare, played, lowered, chunks)


def _draw(bare: "Schedule", played: "Played", lowered: "Schedule", chunks: int) -> None:
    from headway.cli.show import console, facts, is_coloured, print_lines
    from headway.report import diagram
    from headway.schedule.action import Kind

    out = console()
    scale = diagram.fit([played.trace], columns=out.width, coloured=is_coloured(out))
    sizes = f"P={bare.num_ranks} M={bare.num_microbatches}" + (f" V={chunks}" if chunks > 1 else "")
    out.print(f"{bare.name}  {sizes}", style="bold")
    out.print()
    print_lines(out, [*diagram.draw(played.trace, scale), diagram.axis(scale, "{:g}".format)])
    if scale.note:
        out.print(scale.note, style="yellow")
    print_lines(out, [diagram.legend(scale)])
    bubble = played.trace.bubble()
    sends = sum(action.kind in {Kind.SEND_F, Kind.SEND_B} for action in lowered.actions)
    held = "forwards of a chunk" if chunks > 1 else "forwards"
    out.print()
    out.print(
        facts(
            [
                ("step time", f"{played.step_time:g} (ideal: {played.step_time / (1 + bubble):g})"),
                ("bubble", f"{bubble:.1%} of the ideal time"),
                ("peak in flight", f"{_in_flight(played.peak_in_flight)} {held} waiting for their backward"),
                ("messages", f"{sends} between the {bare.num_ranks} ranks" if sends else "none"),
            ]
        )
    )


def _in_flight(peaks: tuple[int, ...]) -> str:
    if len(set(peaks)) == 1:
        return f"{peaks[0]} on each rank:"
    shown = map(str, peaks if len(peaks) <= 16 else (*peaks[:6], "…", *peaks[-2:]))
    return f"{' '.join(shown)} (rank 0 first):"
