"""Chrome/Perfetto files: what they show, and that they read back."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway import chrome
from headway.errors import PlanError
from headway.trace import Changes, Span, Trace, as_columns
from tests.test_trace import SPANS, TRACE


@pytest.mark.parametrize("name", ["a.trace.json", "a.trace.json.gz"])
def test_a_trace_file_reads_back_equal(tmp_path, name):
    chrome.write(tmp_path / name, TRACE)
    assert chrome.read(tmp_path / name) == TRACE
    assert ((tmp_path / name).read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1e6), st.floats(0, 1e6)), max_size=8))
def test_seconds_survive_the_file_bit_for_bit(times):
    spans = tuple(Span(rank, "compute", f"0F{i}", a, a + b) for i, (rank, a, b) in enumerate(times))
    written = json.loads(json.dumps(chrome.to_chrome(Trace("measured", as_columns(spans)))))
    kept = [(e["args"]["start"], e["args"]["end"]) for e in written["traceEvents"] if e["ph"] == "X"]
    assert kept == [(s.start, s.end) for s in spans]


def test_the_same_trace_is_the_same_file(tmp_path):
    for name in ("a.gz", "b.gz"):
        chrome.write(tmp_path / name, TRACE)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_chrome_events_have_a_pid_a_rank_a_tid_a_lane_and_microseconds():
    events = chrome.to_chrome(TRACE)["traceEvents"]
    complete = [event for event in events if event["ph"] == "X"]
    assert [(e["pid"], e["name"], e["ts"], e["dur"]) for e in complete[:2]] == [
        (0, "0F0", 0.0, 1e6),
        (0, "0SEND_F0", 1e6, 0.5e6),
    ]
    assert {(e["cat"], e["tid"]) for e in complete} == {("compute", 0), ("send", 1), ("receive", 2), ("reduce", 3)}
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert all(threads[e["pid"], e["tid"]] == e["cat"] for e in complete)
    assert [e["args"]["name"] for e in events if e["name"] == "process_name"] == [
        "rank 0 (predicted)",
        "rank 1 (predicted)",
    ]


def test_chrome_draws_an_arrow_from_each_send_to_its_receive():
    flows = [event for event in chrome.to_chrome(TRACE)["traceEvents"] if event["ph"] in "sf"]
    assert [(e["ph"], e["pid"], e["tid"], e["ts"]) for e in flows] == [("s", 0, 1, 1e6), ("f", 1, 2, 1.5e6)]
    assert flows[0]["id"] == flows[1]["id"]


def test_each_of_several_messages_on_one_edge_has_an_arrow_of_its_own():
    spans = [
        Span(*where, f"{stage}{kind}_F{m}", float(m), m + 0.5, "0→1", 8)
        for m in range(3)
        for where, stage, kind in (((0, "send"), 0, "SEND"), ((1, "receive"), 1, "RECV"))
    ]
    flows = [
        event for event in chrome.to_chrome(Trace("predicted", as_columns(spans)))["traceEvents"] if event["ph"] in "sf"
    ]
    assert [(e["ph"], e["ts"]) for e in flows] == [
        (p, t) for m in range(3) for p, t in (("s", m * 1e6), ("f", m * 1e6 + 5e5))
    ]


def test_chrome_counts_the_peak_memory_of_each_rank():
    counters = {e["pid"]: e["args"] for e in chrome.to_chrome(TRACE)["traceEvents"] if e["ph"] == "C"}
    assert counters == TRACE.memory


def test_chrome_counts_memory_over_time_where_it_is_known():
    ranks, times, names = np.array([0, 0, 1]), np.array([0.5, 2.0, 1.0]), ("activations",)
    held = Changes(ranks, times, np.zeros(3, int), np.array([9, 4, 3]), names)
    both = Trace("predicted", as_columns(SPANS), {0: {"parameters": 7, "activations": 9}, 1: {"parameters": 8}}, held)
    counted = [(e["pid"], e["ts"], e["args"]) for e in chrome.to_chrome(both)["traceEvents"] if e["ph"] == "C"]
    assert counted == [
        (0, 0, {"parameters": 7, "activations": 0}),
        (0, 0.5e6, {"parameters": 7, "activations": 9}),
        (0, 2e6, {"parameters": 7, "activations": 4}),
        (1, 0, {"parameters": 8}),
        (1, 1e6, {"parameters": 8, "activations": 3}),
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b"[]",
        b"{}",
        b'{"traceEvents": []}',
        b'{"traceEvents": [], "headway": {}}',
        b'{"traceEvents": [{"ph": "X"}], "headway": {"source": "measured", "memory": {}}}',
        b"\x1f\x8b\x08 cut short",
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff\xff\xff\xff\xff",
    ],
)
def test_a_file_that_is_no_trace_is_refused_by_its_path(tmp_path, content):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(PlanError, match=r"x\.json is not a trace that Headway wrote"):
        chrome.read(tmp_path / "x.json")


def test_a_trace_file_that_is_not_there_is_refused_by_its_path(tmp_path):
    with pytest.raises(PlanError, match=r"nowhere\.json"):
        chrome.read(tmp_path / "nowhere.json")
