"""The comparison: bytes equal or not, seconds and memory as differences, equal edges in one row."""

from dataclasses import replace

import pytest

from headway.report.compare import KindTime, Row, compare, disagreements, kind_times, table
from headway.trace import Span, Trace, as_columns
from headway.units import Bytes, Seconds

MIB = 2**20


def a_trace(source="predicted", *, stretch=1.0, message=MIB, activations=8 * MIB):
    def send(rank, edge):
        return Span(rank, "send", f"0SEND_F{rank}", Seconds(1.0), Seconds(2.0), edge, Bytes(message))

    computes = (Span(rank, "compute", "0F0", Seconds(0.0), Seconds(2.0 * stretch)) for rank in range(4))
    memory = {rank: {"parameters": Bytes(MIB), "activations": Bytes(activations - rank)} for rank in range(4)}
    return Trace(source, as_columns([*computes, send(0, "0→2"), send(1, "1→3")]), memory)


def rows_of(predicted, measured, step=2.2):
    return {row.quantity: row for row in compare(predicted, measured, measured_step=Seconds(step))}


def test_equal_bytes_are_marked_equal_and_equal_edges_share_a_row():
    rows = rows_of(a_trace(), a_trace("measured"))
    assert rows["bytes 0→2, 1→3"] == Row("bytes 0→2, 1→3", "1.00 MiB", "1.00 MiB", "=")
    assert rows["memory parameters"].verdict == "="


def test_a_single_byte_too_many_is_marked_unequal_and_visible():
    rows = rows_of(a_trace(), a_trace("measured", message=MIB + 1))
    assert rows["bytes 0→2, 1→3"] == Row("bytes 0→2, 1→3", "1048576 B", "1048577 B", "≠")


def test_an_edge_that_only_one_of_them_has_is_unequal():
    measured = a_trace("measured")
    rows = rows_of(a_trace(), replace(measured, spans=measured.spans[:-1]))
    assert rows["bytes 0→2"].verdict == "="
    assert rows["bytes 1→3"] == Row("bytes 1→3", "1.00 MiB", "–", "≠")


def test_seconds_and_activations_show_their_difference_of_the_prediction():
    rows = rows_of(a_trace(), a_trace("measured", activations=8 * MIB + 83886))
    assert rows["step time"] == Row("step time", "2.00 s", "2.20 s", "+10.0 %")
    assert rows["memory activations"].verdict == "+1.0 %"


def test_the_measured_step_is_the_median_that_was_given_not_the_span_of_the_one_traced_step():
    assert rows_of(a_trace(), a_trace("measured", stretch=7.0), step=2.0)["step time"].verdict == "+0.0 %"


def test_a_trace_without_memory_is_compared_as_far_as_it_goes():
    rows = rows_of(a_trace(), replace(a_trace("measured"), memory={}))
    assert rows["memory parameters"] == Row("memory parameters", "1.00 MiB", "–", "not measured")


@pytest.mark.parametrize("step", [0.0, 1.0])
def test_empty_traces_compare_without_error(step):
    empty = Trace("predicted", as_columns([]))
    assert table(compare(empty, empty, measured_step=Seconds(step))).row_count == 2


def _step(source, seconds, count):
    """A rank that computes `count` forwards of so many seconds each, sends one of them and steps."""
    ops = [("compute", f"0F{i}") for i in range(count)] + [("send", "0SEND_F0"), ("compute", "STEP/update")]
    spans = [
        Span(0, lane, name, Seconds(i * seconds), Seconds((i + 1) * seconds)) for i, (lane, name) in enumerate(ops)
    ]
    return Trace(source, as_columns(spans))


def test_seconds_are_summed_by_kind_of_operation_with_their_ratio():
    times = {each.kind: each for each in kind_times(_step("predicted", 0.5, 4), _step("measured", 0.75, 4))}
    assert list(times) == ["F", "SEND_F", "STEP/update"]
    assert times["F"] == KindTime("F", 4, 4, Seconds(2.0), Seconds(3.0))
    assert times["F"].ratio == 1.5


def test_a_kind_that_only_one_trace_has_is_counted_there_and_has_no_ratio():
    times = {each.kind: each for each in kind_times(Trace("predicted", as_columns([])), _step("measured", 0.75, 4))}
    assert (times["F"].predicted_count, times["F"].measured_count, times["F"].ratio) == (0, 4, None)


def test_what_agrees_exactly_has_no_disagreements_however_long_it_took():
    assert disagreements(a_trace(), a_trace("measured", stretch=3.0, activations=MIB)) == ()


def test_each_disagreement_is_named():
    measured = a_trace("measured", message=MIB + 1)
    assert disagreements(a_trace(), measured) == ("bytes 0→2", "bytes 1→3")
    less = replace(measured, spans=measured.spans[:-1], memory={**measured.memory, 2: {"parameters": Bytes(3)}})
    assert disagreements(a_trace(message=MIB + 1), less) == (
        "operations of rank 1, lane send",
        "bytes 1→3",
        "parameters of rank 2",
    )


def test_another_order_is_a_disagreement():
    spans = _step("measured", 0.5, 4).spans
    swapped = Trace("measured", as_columns([spans[1], spans[0], *spans[2:]]))
    assert disagreements(_step("predicted", 0.5, 4), swapped) == ("operations of rank 0, lane compute",)
