"""The pipeline diagram: blocks where the trace has them, readable with and without colour, cut with a note."""

import re

import pytest

from headway.report import diagram, palette
from headway.report.diagram import draw, fit
from headway.schedule import families
from headway.schedule.action import Action, Kind
from headway.sim import unit_time
from headway.sim.simulate import simulate
from headway.trace import Span, Trace, as_columns
from headway.units import Seconds


def trace_of(family, pipeline, microbatches, chunks=1):
    schedule = families.build(family, pipeline=pipeline, microbatches=microbatches, chunks=chunks)
    return unit_time.play(schedule).trace


def text(line):
    return "".join(piece.text for piece in line)


def drawn(trace, columns, *, coloured=False):
    scale = fit([trace], columns=columns, coloured=coloured)
    return [text(line) for line in draw(trace, scale)]


def test_one_forward_one_backward_looks_as_in_the_paper_and_forward_backward_and_bubble_differ_as_plain_text():
    # 15 units of time on 37 columns: 2 for a forward, 4 for a backward
    assert drawn(trace_of("1f1b", 2, 4), 37) == [
        "rank 0 0 1 ····[0 ]2 [1 ]3 [2 ]··[3 ]",
        "rank 1 ··0 [0 ]1 [1 ]2 [2 ]3 [3 ]····",
    ]


def test_split_backwards_differ_from_full_ones_and_from_forwards_as_plain_text_and_the_legend_names_them():
    trace = trace_of("zb-h1", 2, 2)
    scale = fit([trace], columns=80, coloured=False)
    assert [text(line) for line in draw(trace, scale)] == [
        "rank 0 0   1   ····<0 >(0 )<1 >(1 )",
        "rank 1 ····0   <0 >1   <1 >(0 )(1 )",
    ]
    assert text(diagram.legend(scale)).split("   ") == [
        *["", "", " 0", "forward"],
        *["<0> input-backward", "(0) weight-backward", "··· idle"],
    ]


def test_in_colour_each_kind_of_block_has_a_style_of_its_own_with_readable_digits():
    kinds = (Kind.FORWARD, Kind.BACKWARD, Kind.INPUT_BACKWARD, Kind.WEIGHT_BACKWARD)
    for microbatch in range(7):
        for chunk in range(2):
            styles = [palette.style(Action(kind, 0, microbatch), chunk, 2) for kind in kinds]
            assert len(set(styles)) == 4
            for style in styles:
                assert contrast(*re.findall("#(......)", style)) > 4.5, (style, microbatch, chunk)


def contrast(one, other):
    """WCAG 2.1's contrast ratio of two colours `rrggbb`."""

    def luminance(colour):
        parts = [part / 255 for part in bytes.fromhex(colour)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_second_chunk_has_a_subscript():
    assert drawn(trace_of("interleaved", 2, 2, chunks=2), 40)[0] == "rank 0 0 1 0₁1₁····[0₁]··[1₁][0 ][1 ]"


def test_in_colour_forward_and_backward_differ_by_style_and_need_no_brackets():
    trace = trace_of("gpipe", 2, 4)
    line = draw(trace, fit([trace], columns=40, coloured=True))[0]
    forward, backward = (piece for piece in line if piece.text.strip() == "0")
    assert forward.style != backward.style
    assert "[" not in text(line)


@pytest.mark.parametrize(("family", "chunks"), [("gpipe", 1), ("1f1b", 1), ("interleaved", 2)])
@pytest.mark.parametrize("coloured", [False, True])
def test_every_line_is_as_long_as_the_step_and_no_longer_than_the_terminal(family, chunks, coloured):
    trace = trace_of(family, 4, 8, chunks)
    for columns in (60, 80, 120, 300):
        scale = fit([trace], columns=columns, coloured=coloured)
        lengths = {len(text(line)) for line in draw(trace, scale)}
        assert lengths == {columns if scale.is_cut else scale.needed}
        assert max(lengths) <= columns


def test_what_does_not_fit_is_cut_and_the_note_says_how_much():
    trace = trace_of("1f1b", 2, 4)
    scale = fit([trace], columns=20, coloured=False)
    line = text(draw(trace, scale)[0])
    assert len(line) == 20
    assert line.endswith("…")
    assert scale.note == "… 47% of the time is left out on the right: all of it needs 33 columns."


def test_two_traces_under_each_other_share_one_axis():
    short, long = trace_of("1f1b", 2, 2), trace_of("1f1b", 2, 4)
    scale = fit([short, long], columns=60, coloured=False)
    lengths = [len(text(draw(trace, scale)[0])) - scale.label for trace in (short, long)]
    assert lengths[0] / lengths[1] == pytest.approx(short.makespan / long.makespan)


def test_the_axis_has_each_round_time_at_its_column():
    scale = fit([trace_of("1f1b", 2, 4)], columns=37, coloured=False)
    assert text(diagram.axis(scale, "{:g}".format)) == " " * 7 + "0         5         10"


def test_parts_of_one_backward_are_one_block_and_the_update_has_its_own_sign():
    def span(operation, start, end):
        return Span(0, "compute", operation, Seconds(start), Seconds(end))

    parts = (span("0B0/head", 1.0, 2.0), span("0B0/embedding", 2.0, 3.0))
    trace = Trace("measured", as_columns([span("0F0", 0.0, 1.0), *parts, span("STEP/total", 3.0, 3.5)]))
    assert drawn(trace, 21)[0] == "rank 0 0   [0     ]=="


def test_an_empty_trace_draws_nothing():
    assert drawn(Trace("measured", as_columns([])), 80) == []


def test_a_trace_with_empty_stages_is_drawn(plan_of):
    """One layer over eight stages: five of them pass on what they get, in no time."""
    plan = plan_of(model={"preset": "gpt-tiny", "layers": 1}, parallel={"pipeline": 8, "data": 1})
    lines = drawn(simulate(plan), 120)
    assert len(lines) == 8
    assert "0" in lines[0]
    assert "[0" in lines[7]
