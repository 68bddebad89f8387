"""headway schedule: a schedule family drawn, with its step time, bubble, activations in flight and messages."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.schedule.families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headway.report.diagram import Line
    from headway.schedule.action import Kind
    from headway.schedule.schedule import Schedule
    from headway.sim.unit_time import Played

LEAST_TIME = 1e-3  # a picture of shorter beside longer ones would be too wide
_SVG_COLUMNS = 200  # at least; more where all of a schedule needs more


@dataclass(frozen=True, slots=True)
class _Sizes:
    """What the options say about families; None where they say nothing. `alone`: there is one family only."""

    pipeline: int | None
    microbatches: int | None
    chunks: int | None
    alone: bool


@dataclass(frozen=True, slots=True)
class _Shown:
    """A schedule as it was built or read, with its messages, and played."""

    bare: "Schedule"
    full: "Schedule"
    played: "Played"

    @property
    def chunks(self) -> int:
        """Stages of a rank, at most."""
        return max(len(self.bare.stages(rank)) for rank in range(self.bare.num_ranks))

    @property
    def title(self) -> str:
        """Name and sizes."""
        sizes = f"P={self.bare.num_ranks} M={self.bare.num_microbatches}"
        return f"{self.bare.name}  {sizes}" + (f" V={self.chunks}" if self.chunks > 1 else "")

    @property
    def messages(self) -> int:
        """Sends of all ranks."""
        from headway.schedule.action import Kind

        return self.full.num(Kind.SEND_F, Kind.SEND_B)


@click.command(epilog=f"Families: {', '.join(FAMILIES)}. What each does: docs/schedules.md.")
@click.argument("family", required=False, metavar="[FAMILY | FILE.csv]")
@click.option("--compare", metavar="A,B,…", help="Draw several families or files under each other, on one time axis.")
@click.option("--pipeline", type=int, metavar="P", help="Pipeline ranks (of a family).")
@click.option("--microbatches", type=int, metavar="M", help="Micro-batches of a step (of a family).")
@click.option("--chunks", type=int, metavar="V", help="Stages on each rank, where the family leaves a choice.  [1]")
@click.option("--times", metavar="F=1,B=2,…", help="Times of F, B, I, W, EVICT, RESTORE.  [F=1,B=2,I=1,W=1; B=I+W]")
@click.option("--messages", is_flag=True, help="Add sends and receives to the rows of --csv or --json.")
@click.option("--svg", type=click.Path(path_type=Path), metavar="FILE", help="Write the picture as SVG, too.")
@click.option("--csv", "as_csv", is_flag=True, help="Print the rows as torch's schedule CSV instead.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead.")
def schedule(
    *,
    family: str | None,
    compare: str | None,
    times: str | None,
    messages: bool,
    svg: Path | None,
    as_csv: bool,
    as_json: bool,
    **sizes: int | None,
) -> None:
    """Draw the pipeline schedule FAMILY, or the one in FILE.csv (torch's schedule CSV), on free links.

    A forward takes 1, a full backward 2, its halves I (of the input) and W (of the weights) 1 each.

    \b
    Example:
      headway schedule 1f1b --pipeline 4 --microbatches 8
      headway schedule interleaved --pipeline 4 --microbatches 8 --chunks 2
      headway schedule --compare 1f1b,zb-h1,zb-v --pipeline 4 --microbatches 8 --svg zero-bubble.svg
    """
    from headway.cli.show import print_json

    names = [name.strip() for name in compare.split(",")] if compare is not None else []
    _check_usage(family, names, messages=messages, as_csv=as_csv, as_json=as_json)
    if family and family.endswith(".csv") and (given := [name for name, size in sizes.items() if size is not None]):
        raise click.UsageError(f"--{given[0]} is for a family; {family} has its own sizes. Leave it out.")
    weights = _times(times) if times is not None else None
    shown = [_shown(name, _Sizes(**sizes, alone=not names), weights) for name in ([family] if family else names)]
    if svg:
        _write_svg(svg, shown)
    if as_csv:
        click.echo(_text(shown[0], messages=messages), nl=False)
    elif as_json:
        documents = [_document(each, messages=messages) for each in shown]
        print_json({"schedules": documents} if names else documents[0])
    else:
        _draw(shown)


def _check_usage(family: str | None, names: list[str], *, messages: bool, as_csv: bool, as_json: bool) -> None:
    if bool(family) == bool(names):
        raise click.UsageError("Name one FAMILY or FILE.csv, or several with --compare A,B.")
    if as_csv and as_json:
        raise click.UsageError("--csv and --json each want stdout to themselves. Use one of them.")
    if names and not all(names):
        raise click.UsageError("--compare has an empty name. Write --compare 1f1b,zb-h1.")
    if as_csv and names:
        raise click.UsageError("--csv prints one schedule. Name one FAMILY instead of --compare.")
    if messages and not (as_csv or as_json):
        raise click.UsageError("--messages changes the rows of --csv or --json. Add one of them.")


def _times(text: str) -> "Mapping[Kind, float]":
    """`F=1,B=2` → the weight of each kind; a B that is not named takes I + W."""
    from headway.schedule.action import COMPUTE, Kind
    from headway.sim.unit_time import WEIGHTS

    named: dict[Kind, float] = {}
    for part in text.split(","):
        name, _, number = part.partition("=")
        try:
            kind, value = Kind(name.strip()), float(number)
        except ValueError:
            raise click.UsageError(f"--times: '{part}' is not a time. Write F=1,B=2,I=1,W=1.") from None
        if kind not in COMPUTE | {Kind.EVICT, Kind.RESTORE}:
            raise click.UsageError(f"--times: {kind} takes no time of its own. Use F, B, I, W, EVICT or RESTORE.")
        if not LEAST_TIME <= value <= 1 / LEAST_TIME:
            said = f"a time is a number above 0, from {LEAST_TIME:g} to {1 / LEAST_TIME:g}"
            raise click.UsageError(f"--times: {kind} takes {number.strip()}; {said}.")
        named[kind] = value
    both = {**WEIGHTS, **named}
    return {**both, Kind.BACKWARD: named.get(Kind.BACKWARD, both[Kind.INPUT_BACKWARD] + both[Kind.WEIGHT_BACKWARD])}


def _shown(name: str, sizes: _Sizes, weights: "Mapping[Kind, float] | None") -> _Shown:
    from headway.schedule.action import Kind
    from headway.schedule.check import check, with_messages
    from headway.sim import unit_time

    bare = check(_read(Path(name)) if name.endswith(".csv") else _build(name, sizes))
    full = bare if bare.num(Kind.SEND_F, Kind.SEND_B) else with_messages(bare)
    return _Shown(bare, full, unit_time.play(bare, weights or unit_time.WEIGHTS))


def _build(name: str, sizes: _Sizes) -> "Schedule":
    from headway.schedule import families

    if sizes.pipeline is None or sizes.microbatches is None:
        missing = "--pipeline" if sizes.pipeline is None else "--microbatches"
        raise click.UsageError(f"Missing option '{missing}': a family needs --pipeline P and --microbatches M.")
    chunks = sizes.chunks
    if chunks is None or not sizes.alone:  # of several families, --chunks is for those that leave a choice
        chunks = families.CHUNKS.get(name, chunks or 1)
    return families.build(name, pipeline=sizes.pipeline, microbatches=sizes.microbatches, chunks=chunks)


def _read(path: Path) -> "Schedule":
    from headway.errors import PlanError, ScheduleError
    from headway.schedule.schedule import from_csv

    try:
        return from_csv(path.read_text(encoding="utf-8"), path.stem)
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    except ScheduleError as error:
        raise ScheduleError(f"{path}: {error}") from None


def _text(shown: _Shown, *, messages: bool) -> str:
    from headway.schedule.schedule import to_csv

    return to_csv(shown.full if messages else shown.bare)


def _document(shown: _Shown, *, messages: bool) -> dict[str, Any]:
    bare, played = shown.bare, shown.played
    return {
        "name": bare.name,
        "pipeline": bare.num_ranks,
        "microbatches": bare.num_microbatches,
        "chunks": shown.chunks,
        "step_time": played.step_time,
        "bubble": played.trace.bubble(),
        "idle": played.idle,
        "peak_in_flight": played.peak_in_flight,
        "messages": shown.messages,
        "rows": [[str(action) for action in row] for row in (shown.full if messages else bare).rows],
    }


def _lines(shown: "Sequence[_Shown]", columns: int, *, coloured: bool, whole: bool = False) -> "tuple[Line, ...]":
    """The picture in `columns`, or, if `whole`, in as many as all of it needs."""
    from headway.report import diagram

    traces = [each.played.trace for each in shown]
    scale = diagram.fit(traces, columns=columns, coloured=coloured)
    if whole and scale.is_cut:
        scale = diagram.fit(traces, columns=scale.needed, coloured=coloured)
    return diagram.stack([(each.title, each.played.trace) for each in shown], scale, "{:g}".format)


def _write_svg(path: Path, shown: "Sequence[_Shown]") -> None:
    from headway.cli.show import save
    from headway.report import svg

    lines = _lines(shown, _SVG_COLUMNS, coloured=True, whole=True)
    text = svg.render(lines, "Pipeline schedule: " + ", ".join(each.title for each in shown))
    save(path, lambda: path.write_text(text, encoding="utf-8"))


def _draw(shown: "Sequence[_Shown]") -> None:
    from headway.cli.show import console, facts, is_coloured, print_lines, table

    out = console()
    print_lines(out, _lines(shown, out.width, coloured=is_coloured(out)))
    out.print()
    if len(shown) == 1:
        out.print(facts(_facts(shown[0])))
        return
    names = ("step time", "bubble", "peak in flight", "messages")
    found = table("schedule", *names, right=names)
    for each in shown:
        most, chunks = max(each.played.peak_in_flight), each.chunks
        in_flight = f"{most / chunks:g}" + (f" ({most} × 1/{chunks})" if chunks > 1 else "")
        bubble = f"{each.played.trace.bubble():.1%}"
        found.add_row(each.title, f"{each.played.step_time:g}", bubble, in_flight, str(each.messages))
    out.print(found)
    out.print("bubble: of the ideal time. peak in flight: micro-batches, on the fullest rank.", style="dim")


def _facts(shown: _Shown) -> list[tuple[str, str]]:
    from headway.schedule.action import Kind
    from headway.sim.unit_time import weight_versions

    played, bubble = shown.played, shown.played.trace.bubble()
    held = "forwards of a chunk" if shown.chunks > 1 else "forwards"
    sends = f"{shown.messages} between the {shown.bare.num_ranks} ranks" if shown.messages else "none"
    found = [
        ("step time", f"{played.step_time:g} (ideal: {played.step_time / (1 + bubble):g})"),
        ("bubble", f"{bubble:.1%} of the ideal time"),
        ("peak in flight", f"{_per_rank(played.peak_in_flight)}: {held} waiting for their backward"),
        ("messages", sends),
    ]
    if Kind.USE in shown.bare.kinds:
        found.append(("weight versions", _per_rank([weight_versions(row) for row in shown.bare.rows])))
    if moved := shown.bare.num(Kind.EVICT):
        found.append(("evictions", f"{moved}, and {moved} back, between paired ranks"))
    return found


def _per_rank(numbers: "Sequence[int]") -> str:
    if len(set(numbers)) == 1:
        return f"{numbers[0]} on each rank"
    shown = map(str, numbers if len(numbers) <= 16 else (*numbers[:6], "…", *numbers[-2:]))
    return f"{' '.join(shown)} (rank 0 first)"
