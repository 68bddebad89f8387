"""An explained step as tables: names, bars, rates, and how far it is from the play."""

from rich.console import Console

from headway.report.explain import agreement, bar, faster, where

FOUND = {
    "seconds": 2.0,
    "parts": [
        {"name": "products", "seconds": 1.5, "share": 0.75, "rate": 200e12, "unit": "FLOP/s", "of_peak": 0.64},
        {"name": "memory traffic", "seconds": 0.5, "share": 0.25, "rate": 1.5e12, "unit": "B/s"},
        {"name": "recompute", "seconds": 0.0, "share": 0.0},
    ],
    "twice_as_fast": [{"name": "matrix products", "gain_seconds": 0.75, "gain": 0.375}],
    "played_seconds": 1.9,
    "shared_cores": 0,
    "ranks": 4,
}


def _drawn(table):
    console = Console(width=100, highlight=False)
    with console.capture() as capture:
        console.print(table)
    return [line.split() for line in capture.get().splitlines()]


def test_each_part_has_seconds_a_share_a_bar_and_what_is_reached():
    lines = _drawn(where(FOUND))
    assert [
        "matrix",
        "products",
        "1.50",
        "s",
        "75.0",
        "%",
        "█" * 18,
        "200",
        "TFLOP/s,",
        "64%",
        "of",
        "the",
        "peak",
    ] in lines
    assert ["memory", "traffic", "500", "ms", "25.0", "%", "█" * 6, "1.50", "TB/s"] in lines
    assert ["all", "2.00", "s", "100.0", "%"] in lines


def test_what_takes_no_time_has_no_line():
    assert not any("again" in line for line in _drawn(where(FOUND)))


def test_a_gain_has_what_it_saves():
    assert ["matrix", "products", "750", "ms", "37.5", "%", "█" * 9] in _drawn(faster(FOUND))


def test_a_bar_is_never_longer_than_the_whole_step():
    assert (len(bar(1.0)), len(bar(7.0)), bar(-1.0)) == (24, 24, "")


def test_how_far_it_is_from_the_play_is_said_and_what_it_cannot_see():
    assert agreement(FOUND) == (
        "Explained by an estimate of 2.00 s, +5.3 % from the 1.90 s that playing every operation gives."
    )
    assert agreement(FOUND | {"shared_cores": 2}).endswith("but 4 ranks share 2: that is not in it.")
