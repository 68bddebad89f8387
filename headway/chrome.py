"""Chrome/Perfetto files: a Trace written as JSON that ui.perfetto.dev opens, and read back."""

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headway.errors import PlanError
from headway.schedule.action import RECEIVES, SENDS
from headway.schedule.needs import meetings
from headway.schedule.row import among
from headway.trace import Span, Spans, Trace, as_columns
from headway.units import Bytes, Seconds


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
        spans = as_columns(
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
    for rank in np.unique(trace.spans.ranks).tolist():
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
    events += _counters(trace)
    meta = {"source": trace.source, "memory": {str(rank): kinds for rank, kinds in trace.memory.items()}}
    return {"traceEvents": events, "displayTimeUnit": "ms", "headway": meta}


def _flows(spans: Spans, lanes: Sequence[str]) -> Iterator[dict[str, Any]]:
    keys = meetings(spans.operations)
    sends, receives = (np.flatnonzero(among(spans.operations.kinds, *kinds)).tolist() for kinds in (SENDS, RECEIVES))
    from_send = {(int(spans.edges[i]), int(keys[i])): i for i in sends}
    for number, i in enumerate(receives):
        send = from_send.get((int(spans.edges[i]), int(keys[i])))
        if send is not None:
            for phase, end, times in (("s", send, spans.starts), ("f", i, spans.ends)):
                lane = lanes.index(spans.lane_names[spans.lanes[end]])
                where = {"pid": int(spans.ranks[end]), "tid": lane, "ts": float(times[end]) * 1e6, "id": number}
                yield {"ph": phase, "bp": "e", "name": "message", "cat": "message", **where}


def _counters(trace: Trace) -> Iterator[dict[str, Any]]:
    """What each rank holds over time, on top of what it holds throughout; or, where that is not known, its peaks."""
    for rank, kinds in trace.memory.items():
        held = trace.held.of(rank)
        if not len(held.times):
            yield {"ph": "C", "pid": rank, "tid": 0, "name": "peak memory (bytes)", "ts": 0, "args": dict(kinds)}
            continue
        now = {kind: 0 if kind in held.names else size for kind, size in kinds.items()}
        changes = zip(held.times.tolist(), held.categories.tolist(), held.bytes.tolist(), strict=True)
        yield {"ph": "C", "pid": rank, "tid": 0, "name": "memory (bytes)", "ts": 0, "args": dict(now)}
        for time, category, size in changes:
            now[held.names[category]] = size
            yield {"ph": "C", "pid": rank, "tid": 0, "name": "memory (bytes)", "ts": time * 1e6, "args": dict(now)}


def _meta(pid: int, tid: int, name: str, value: str) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "tid": tid, "name": name, "args": {"name": value}}
