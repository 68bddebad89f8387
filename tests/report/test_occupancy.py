"""Memory over time: bars as high as what is held, column by column."""

import numpy as np

from headway.report.diagram import fit
from headway.report.occupancy import occupancy
from headway.sim.simulate import simulate
from headway.trace import Changes, Span, Trace, as_columns
from headway.units import Seconds

SPANS = as_columns(Span(0, "compute", f"0F{i}", Seconds(float(i)), Seconds(i + 1.0)) for i in range(8))


def _held(*changes):
    """Of rank 0: (time, category, bytes)."""
    times, categories, sizes = (np.array(column) for column in zip(*changes, strict=True))
    return Changes(np.zeros(len(times), int), times.astype(float), categories, sizes, ("activations", "messages"))


def _lines(held):
    trace = Trace("predicted", SPANS, {0: {"parameters": 99}}, held)
    scale = fit([trace], columns=15, coloured=True)
    assert scale.rate == 1.0
    return ["".join(piece.text for piece in line) for line in occupancy(trace, scale)]


def test_a_bar_is_the_most_that_is_held_in_its_column_of_all_categories_together():
    lines = _lines(_held((1.0, 0, 4), (2.0, 0, 8), (3.5, 1, 8), (3.75, 1, 0), (5.0, 0, 0), (6.0, 0, 16), (8.0, 0, 0)))
    assert lines == ["rank 0  ▂▄█▄ ██", "       memory on top of the states; a full bar is 16 B"]


def test_of_changes_at_one_time_only_the_last_counts():
    """A receive that ends as its forward starts: 8 goes, 8 comes."""
    held = _held((1.0, 0, 8), (4.0, 0, 0), (4.0, 1, 8), (7.0, 1, 0))
    assert held.totals(0)[0].tolist() == [1.0, 4.0, 7.0]
    assert held.totals(0)[1].tolist() == [8, 8, 0]


def test_a_trace_without_memory_over_time_has_no_lines():
    assert occupancy(Trace("measured", SPANS, {0: {"parameters": 9}}), fit([], columns=9, coloured=False)) == ()


def test_the_fullest_bar_of_a_plan_is_the_peak_of_its_fullest_rank(plan_of):
    trace = simulate(plan_of(parallel={"pipeline": 4, "data": 1}))
    lines = [
        "".join(piece.text for piece in line) for line in occupancy(trace, fit([trace], columns=100, coloured=False))
    ]
    assert [line.split()[0] for line in lines[:-1]] == [f"r{rank}" for rank in range(4)]
    most = max(max(trace.held.totals(rank)[1]) for rank in range(4))
    assert most == max(trace.held.totals(0)[1])
    assert "█" in lines[0]
    assert "█" not in "".join(lines[1:-1])
