"""Traces: rows, edges and bubble, and spans as columns."""

from headway.trace import Span, Trace, as_columns

SPANS = (
    Span(0, "compute", "0F0", 0.0, 1.0),
    Span(0, "send", "0SEND_F0", 1.0, 1.5, "0→1", 100),
    Span(1, "receive", "1RECV_F0", 1.0, 1.5, "0→1", 100),
    Span(1, "compute", "1F0", 1.5, 2.5),
    Span(0, "reduce", "0REDUCE_GRAD/a", 2.5, 3.0, "{0,1}", 40),
    Span(1, "reduce", "0REDUCE_GRAD/a", 2.5, 3.0, "{0,1}", 40),
    Span(0, "reduce", "0REDUCE_GRAD/b", 3.0, 4.0, "{0,1}", 60),
    Span(1, "reduce", "0REDUCE_GRAD/b", 3.0, 4.0, "{0,1}", 60),
)
TRACE = Trace("predicted", as_columns(SPANS), {0: {"parameters": 7, "activations": 9}, 1: {"parameters": 8}})


def test_a_message_counts_once_and_a_collective_once_for_each_call():
    assert TRACE.edges() == {"0→1": 100, "{0,1}": 100}


def test_rows_keep_the_order_of_each_lane():
    assert TRACE.rows() == {
        0: {"compute": ("0F0",), "send": ("0SEND_F0",), "reduce": ("0REDUCE_GRAD/a", "0REDUCE_GRAD/b")},
        1: {"receive": ("1RECV_F0",), "compute": ("1F0",), "reduce": ("0REDUCE_GRAD/a", "0REDUCE_GRAD/b")},
    }


def test_the_makespan_is_from_the_first_start_to_the_last_end():
    later = Trace("measured", as_columns(Span(s.rank, s.lane, s.operation, s.start + 5, s.end + 5) for s in SPANS))
    assert TRACE.makespan == later.makespan == 4.0


def test_the_bubble_is_the_time_not_computing_over_the_time_computing():
    assert TRACE.busy() == {0: 1.0, 1: 1.0}
    assert TRACE.bubble() == 3.0


def test_an_empty_trace_has_no_time_and_no_bubble():
    empty = Trace("measured", as_columns(()))
    assert (empty.makespan, empty.bubble(), empty.rows(), empty.edges()) == (0.0, 0.0, {}, {})


def test_spans_are_columns_of_which_each_is_a_view():
    spans = as_columns(SPANS)
    assert tuple(spans) == SPANS
    assert tuple(spans[i] for i in range(len(spans))) == SPANS
    assert spans[-1] == SPANS[-1]
    assert tuple(spans[2:5]) == SPANS[2:5]
    assert spans == as_columns(list(SPANS)) != as_columns(SPANS[1:])
