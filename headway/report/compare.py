"""Prediction beside measurement: counts and bytes must be equal, seconds nearly so."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headway.report.ranges import equal_edges
from headway.schedule.action import Kind
from headway.trace import Trace
from headway.units import Bytes, Seconds, show_bytes, show_seconds

if TYPE_CHECKING:
    from rich.table import Table

EQUAL, UNEQUAL, NONE = "=", "≠", "–"
_PLACES = {kind.value: place for place, kind in enumerate(Kind)}
EXACT = ("parameters", "gradients", "optimizer")  # memory that is planned to the byte


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity: both values as text, and `=`, `≠` or the difference in percent of the prediction."""

    quantity: str
    predicted: str
    measured: str
    verdict: str


@dataclass(frozen=True, slots=True)
class KindTime:
    """All operations of one kind, over all ranks: how many, and their seconds together."""

    kind: str
    predicted_count: int
    measured_count: int
    predicted: Seconds
    measured: Seconds

    @property
    def ratio(self) -> float | None:
        """Measured over predicted seconds; None where nothing was predicted."""
        return self.measured / self.predicted if self.predicted else None


def compare(predicted: Trace, measured: Trace, *, measured_step: Seconds) -> tuple[Row, ...]:
    """Step time, bubble, bytes of each edge, and memory by category (the peak over the ranks).

    `measured_step` is the median step time of the run; `measured` is one of its steps.
    """
    bubbles = predicted.bubble(), measured.bubble()
    return (
        Row(
            "step time",
            show_seconds(predicted.makespan),
            show_seconds(measured_step),
            _difference(predicted.makespan, measured_step),
        ),
        Row("bubble", f"{bubbles[0]:.1%}", f"{bubbles[1]:.1%}", f"{100 * (bubbles[1] - bubbles[0]):+.1f} points"),
        *_edges(predicted, measured),
        *_memory(predicted, measured),
    )


def kind_times(predicted: Trace, measured: Trace) -> tuple[KindTime, ...]:
    """Seconds by kind of operation: computing, messages, collectives.

    Those of messages and collectives include the wait for the other ranks.
    """
    one, other = _by_kind(predicted), _by_kind(measured)
    none = (0, 0.0)
    kinds = sorted({*one, *other}, key=lambda name: (_PLACES[name.partition("/")[0]], name))
    pairs = {kind: (one.get(kind, none), other.get(kind, none)) for kind in kinds}
    return tuple(KindTime(kind, p[0], m[0], Seconds(p[1]), Seconds(m[1])) for kind, (p, m) in pairs.items())


def disagreements(predicted: Trace, measured: Trace) -> tuple[str, ...]:
    """What must agree exactly and does not, in words; empty if all does.

    Operations of each lane in their order, bytes of each edge, and bytes of parameters, gradients and optimizer on each
    rank.
    """
    ours, theirs = predicted.rows(), measured.rows()
    lanes = [
        f"operations of rank {rank}, lane {lane}"
        for rank in sorted({*ours, *theirs})
        for lane in {**ours.get(rank, {}), **theirs.get(rank, {})}
        if ours.get(rank, {}).get(lane) != theirs.get(rank, {}).get(lane)
    ]
    one, other = predicted.edges(), measured.edges()
    edges = [f"bytes {edge}" for edge in {**one, **other} if one.get(edge) != other.get(edge)]
    held, found = predicted.memory, measured.memory
    memory = [
        f"{kind} of rank {rank}"
        for rank in sorted({*held, *found})
        for kind in EXACT
        if held.get(rank, {}).get(kind) != found.get(rank, {}).get(kind)
    ]
    return (*lanes, *edges, *memory)


def table(rows: tuple[Row, ...]) -> "Table":
    """The rows as a table for a terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    found = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 1))
    found.add_column("")
    for name in ("predicted", "measured", "difference"):
        found.add_column(name, justify="right", no_wrap=True)
    styles = {EQUAL: "green", UNEQUAL: "bold red"}
    for row in rows:
        verdict = Text(row.verdict, styles.get(row.verdict, ""))
        found.add_row(Text(row.quantity), row.predicted, row.measured, verdict)
    return found


def _by_kind(trace: Trace) -> dict[str, tuple[int, float]]:
    """Kind → number of its operations and their seconds; the parts of a STEP are kinds of their own."""
    found: dict[str, tuple[int, float]] = {}
    for operation, taken in zip(trace.spans.operations, trace.spans.seconds.tolist(), strict=True):
        name = str(operation if operation.action.kind is Kind.STEP else operation.action.kind)
        count, seconds = found.get(name, (0, 0.0))
        found[name] = (count + 1, seconds + taken)
    return found


def _edges(predicted: Trace, measured: Trace) -> list[Row]:
    one, other = predicted.edges(), measured.edges()
    pairs = {edge: (one.get(edge), other.get(edge)) for edge in {**one, **other}}
    return [_exact(f"bytes {names}", *pair) for names, pair in equal_edges(pairs)]


def _memory(predicted: Trace, measured: Trace) -> list[Row]:
    one, other = _peaks(predicted), _peaks(measured)
    rows = []
    for kind in {**one, **other}:
        row = _exact(f"memory {kind}", one.get(kind), other.get(kind))
        if kind not in other:
            row = Row(row.quantity, row.predicted, NONE, "not measured")
        elif row.verdict == UNEQUAL and one.get(kind) and kind not in EXACT:
            row = Row(row.quantity, row.predicted, row.measured, _difference(one[kind], other[kind]))
        rows.append(row)
    return rows


def _peaks(trace: Trace) -> dict[str, Bytes]:
    found: dict[str, Bytes] = {}
    for kinds in trace.memory.values():
        for kind, size in kinds.items():
            found[kind] = max(found.get(kind, size), size)
    return found


def _exact(quantity: str, predicted: Bytes | None, measured: Bytes | None) -> Row:
    """Equal bytes rounded for people; unequal ones to the byte, where rounding would hide the difference."""
    texts = [NONE if size is None else show_bytes(size) for size in (predicted, measured)]
    if predicted != measured and texts[0] == texts[1]:
        texts = [f"{size} B" for size in (predicted, measured)]
    return Row(quantity, texts[0], texts[1], EQUAL if predicted == measured else UNEQUAL)


def _difference(predicted: float, measured: float) -> str:
    return f"{100 * (measured / predicted - 1):+.1f} %" if predicted else NONE
