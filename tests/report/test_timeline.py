"""Pictures of time lines: heights are means, what stands still shows, and everything keeps to its columns."""

import pytest

from headway.fabric.convergence import Delays
from headway.fabric.fault import parse
from headway.fabric.timeline import timeline
from headway.report import palette
from headway.report.timeline import draw
from tests.fabric.jobs import HPN, SINGLE_TOR, job


def _line(text, *faults, until=60.0, **delays):
    fabric, case = job(text)
    return timeline(fabric, case, [parse(each) for each in faults], Delays(**delays), until, 0)


def _text(lines):
    return ["".join(piece.text for piece in line).rstrip() for line in lines]


PORT = _line(HPN, "port host-1/gpu-0:0 at 10s for 30s", learn=2.0)


def test_a_time_line_in_68_columns_has_one_a_second():
    """Halved from 12 to 42 s; of the second from 11 on, all stands still."""
    assert _text(draw(PORT, 68, coloured=False)) == [
        "  49.0 │██████████                                ██████████████████",
        "       │██████████                                ██████████████████",
        "       │██████████  ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁██████████████████",
        "       │██████████  ████████████████████████████████████████████████",
        "       │██████████  ████████████████████████████████████████████████",
        "       │██████████  ████████████████████████████████████████████████",
        "GB/s 0 └          ××",
        "                  ▼                             ▲",
        "        0 s                 20 s                40 s",
        "        ▼ breaks   ▲ back   × stands still, for a part of the column at least",
    ]


def test_a_stop_shorter_than_a_column_shows_as_a_mark_and_a_smaller_mean():
    lines = _text(draw(_line(HPN, "tor tor-s0-r0-0 at 10s for 100ms", learn=0.3), 38, coloured=False))
    assert lines[-4].count("×") == 1
    assert (lines[0].count("█"), lines[1].count("█")) == (29, 30)


def test_colours_tell_whole_from_reduced_from_still():
    styles = {piece.style for line in draw(PORT, 128, coloured=True) for piece in line}
    assert {f"on {palette.WHOLE}", f"on {palette.REDUCED}", palette.STILL} <= styles


def test_without_faults_nothing_is_marked():
    lines = _text(draw(_line(HPN), 48, coloured=False))
    assert lines[0] == "  49.0 │" + "█" * 40
    assert lines[-1] == ""
    assert not any(sign in "".join(lines) for sign in "▼▲×")


def test_a_time_line_ends_with_its_job():
    lines = _text(draw(_line(SINGLE_TOR, "nic host-1/gpu-0 at 10s", until=600.0), 73, coloured=False))
    assert lines[-2].split() == ["0", "s", "50", "s", "100", "s"]
    assert lines[-4].endswith("×" * 60)


@pytest.mark.parametrize("columns", [1, 20, 40, 79, 200, 1000])
@pytest.mark.parametrize("until", [0.5, 60.0, 86_400.0])
def test_a_picture_keeps_to_its_columns(columns, until):
    line = _line(HPN, "tor tor-s0-r0-0 at 100ms for 200ms", until=until)
    *picture, legend = _text(draw(line, columns, coloured=False))
    assert max(map(len, picture)) <= max(16, min(columns, 160))
    assert len(legend) <= 80


def test_the_axis_of_a_moment_has_milliseconds():
    line = _line(HPN, "tor tor-s0-r0-0 at 100ms for 200ms", until=0.5)
    assert _text(draw(line, 68, coloured=False))[-2].split("s")[0].split() == ["0"]
    assert "200 ms" in _text(draw(line, 68, coloured=False))[-2]
