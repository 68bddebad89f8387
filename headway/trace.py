"""Trace: the spans of one step, predicted or measured, and what follows from them: rows, edges, bubble, memory."""

import gzip
import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headway.errors import PlanError
from headway.schedule.needs import meeting
from headway.schedule.operation import parse
from headway.units import Bytes, Seconds

COMPUTE = "compute"
_ALIGNED = "STEP/total"
_NOTHING = Bytes(0)


@dataclass(frozen=True, slots=True)
class Span:
    """One operation of one rank: when it ran in which lane, and what it sent.

    `edge` names where bytes went: `0→2` from rank 0 to rank 2, `{0,1}` a collective of ranks 0 and 1; empty if
    nowhere. `bytes` is the size of the message, or of a collective's buffer.
    """

    rank: int
    lane: str
    operation: str
    start: Seconds
    end: Seconds
    edge: str = ""
    bytes: Bytes = _NOTHING

    @property
    def seconds(self) -> Seconds:
        """How long it took."""
        return Seconds(self.end - self.start)


@dataclass(frozen=True)
class Trace:
    """What happened in one step. `memory`: rank → category → peak bytes. `source` is predicted or measured."""

    source: str
    spans: tuple[Span, ...]
    memory: dict[int, dict[str, Bytes]] = field(default_factory=dict)

    @property
    def makespan(self) -> Seconds:
        """From the first start to the last end."""
        if not self.spans:
            return Seconds(0.0)
        return Seconds(max(s.end for s in self.spans) - min(s.start for s in self.spans))

    def rows(self) -> dict[int, dict[str, tuple[str, ...]]]:
        """Rank → lane → its operations in the order in which they were issued."""
        found: dict[int, dict[str, list[str]]] = {}
        for span in self.spans:
            found.setdefault(span.rank, {}).setdefault(span.lane, []).append(span.operation)
        return {rank: {lane: tuple(ops) for lane, ops in lanes.items()} for rank, lanes in sorted(found.items())}

    def edges(self) -> dict[str, Bytes]:
        """Edge → bytes. A message counts once, at its sender; a collective once for each of its calls."""
        found: dict[str, int] = {}
        first = {span.edge: span.rank for span in reversed(self.spans) if span.edge.startswith("{")}
        for span in self.spans:
            received = span.operation.lstrip("0123456789").startswith("RECV")
            if span.edge and not received and first.get(span.edge, span.rank) == span.rank:
                found[span.edge] = found.get(span.edge, 0) + span.bytes
        return {edge: Bytes(size) for edge, size in sorted(found.items())}

    def busy(self) -> dict[int, Seconds]:
        """Rank → seconds of its compute lane."""
        found: dict[int, float] = {}
        for span in self.spans:
            if span.lane == COMPUTE:
                found[span.rank] = found.get(span.rank, 0.0) + span.seconds
        return {rank: Seconds(seconds) for rank, seconds in sorted(found.items())}

    def bubble(self) -> float:
        """(makespan − busy) / busy, with busy the mean over the ranks (for equal ranks: that of each rank)."""
        busy = self.busy()
        total = sum(busy.values())
        return self.makespan * len(busy) / total - 1 if total else 0.0


def write(path: Path, trace: Trace) -> None:
    """Write Chrome/Perfetto JSON (gzip where the name ends in .gz): one pid a rank, one tid a lane.

    The file opens at ui.perfetto.dev; `read` gives the same trace back.
    """
    data = json.dumps(to_chrome(trace), separators=(",", ":")).encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def read(path: Path) -> Trace:
    """The trace in a file that `write` wrote."""
    try:
        raw = path.read_bytes()
        chrome = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
        meta = chrome["headway"]
        spans = tuple(
            Span(
                event["pid"],
                event["cat"],
                event["name"],
                Seconds(event["args"]["start"]),
                Seconds(event["args"]["end"]),
                event["args"].get("edge", ""),
                Bytes(event["args"].get("bytes", 0)),
            )
            for event in chrome["traceEvents"]
            if event["ph"] == "X"
        )
        memory = {int(rank): {name: Bytes(n) for name, n in kinds.items()} for rank, kinds in meta["memory"].items()}
        return Trace(meta["source"], spans, memory)
    except FileNotFoundError:
        raise PlanError(f"there is no trace {path}.") from None
    except (ValueError, KeyError, TypeError, AttributeError, OSError, EOFError, zlib.error) as error:
        raise PlanError(f"{path} is not a trace that Headway wrote ({error!r}).") from None


def to_chrome(trace: Trace) -> dict[str, Any]:
    """The Chrome trace as JSON data; `ts` and `dur` in microseconds, flows from each send to its receive."""
    lanes = list(dict.fromkeys(span.lane for span in trace.spans))
    events: list[dict[str, Any]] = []
    for rank in sorted({span.rank for span in trace.spans}):
        events.append(_meta(rank, 0, "process_name", f"rank {rank} ({trace.source})"))
        events.append({"ph": "M", "pid": rank, "tid": 0, "name": "process_sort_index", "args": {"sort_index": rank}})
        events += [_meta(rank, tid, "thread_name", lane) for tid, lane in enumerate(lanes)]
    for span in trace.spans:
        args: dict[str, Any] = {"start": span.start, "end": span.end}
        if span.edge:
            args |= {"edge": span.edge, "bytes": span.bytes}
        where = {"pid": span.rank, "tid": lanes.index(span.lane), "cat": span.lane}
        times = {"ts": span.start * 1e6, "dur": span.seconds * 1e6}
        events.append({"ph": "X", "name": span.operation, **where, **times, "args": args})
    events += _flows(trace.spans, lanes)
    for rank, kinds in trace.memory.items():
        events.append({"ph": "C", "pid": rank, "tid": 0, "name": "peak memory (bytes)", "ts": 0, "args": dict(kinds)})
    meta = {"source": trace.source, "memory": {str(rank): kinds for rank, kinds in trace.memory.items()}}
    return {"traceEvents": events, "displayTimeUnit": "ms", "headway": meta}


def _flows(spans: Sequence[Span], lanes: Sequence[str]) -> Iterable[dict[str, Any]]:
    messages = [(span, parse(span.operation)) for span in spans if "→" in span.edge]
    sends = {(span.edge, meeting(op)): span for span, op in messages if op.action.kind.startswith("SEND")}
    for number, (span, op) in enumerate(messages):
        send = sends.get((span.edge, meeting(op)))
        if send and send is not span:
            ends = (("s", send, send.start), ("f", span, span.end))
            for phase, end, time in ends:
                where = {"pid": end.rank, "tid": lanes.index(end.lane), "ts": time * 1e6, "id": number}
                yield {"ph": phase, "bp": "e", "name": "message", "cat": "message", **where}


def _meta(pid: int, tid: int, name: str, value: str) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "tid": tid, "name": name, "args": {"name": value}}


def aligned(ranks: Sequence[Sequence[Span]]) -> tuple[Span, ...]:
    """The measured spans of all ranks on one clock that starts at 0.

    Clocks of different nodes have nothing in common, but the last collective of all ranks ends for all at once.
    """
    meets = [next(span.end for span in reversed(spans) if span.operation == _ALIGNED) for spans in ranks]
    first = min(span.start - meet for spans, meet in zip(ranks, meets, strict=True) for span in spans)
    return tuple(
        replace(span, start=Seconds(span.start - meet - first), end=Seconds(span.end - meet - first))
        for spans, meet in zip(ranks, meets, strict=True)
        for span in spans
    )
