"""The picture of a fabric: what is in it, and that it fits any terminal."""

import pytest

from headway.fabric.blueprint import Blueprint, Segment, Switches, build
from headway.fabric.describe import describe
from headway.fabric.topologies import named
from headway.report.fabric import draw, ratio


def _picture(text, columns=80, *, coloured=False):
    fabric = named(text)
    return draw(fabric, describe(fabric), columns, coloured=coloured)


def _text(lines):
    return ["".join(piece.text for piece in line).rstrip() for line in lines]


def test_hpn_in_80_columns():
    assert _text(_picture("hpn")) == [
        "core  [        plane 0: 32 cores         ] [        plane 1: 32 cores         ]",
        "        │ 8 × 400Gbps up from each Agg, oversubscribed 15:1",
        "Agg   [         plane 0: 60 Aggs         ] [         plane 1: 60 Aggs         ]",
        "        │ 60 × 400Gbps up from each ToR, oversubscribed 1.067:1",
        "       rail 0  rail 1  rail 2  rail 3  rail 4  rail 5  rail 6  rail 7",
        "ToR   [0] [1] [0] [1] [0] [1] [0] [1] [0] [1] [0] [1] [0] [1] [0] [1]",
        "        │ 2 × 200Gbps from each GPU",
        "GPU    GPU 0   GPU 1   GPU 2   GPU 3   GPU 4   GPU 5   GPU 6   GPU 7",
        "      in each of 128 hosts and 8 in reserve; one of 15 segments",
    ]


def test_the_baseline_has_two_tors_for_all_gpus_of_a_host():
    lines = _text(_picture("dcn+"))
    assert "ToR 0" in lines[4]
    assert "ToR 1" in lines[4]
    assert lines[6].split() == ["GPU", "GPU", "0–7"]


def test_planes_have_colours_which_their_tors_share_in_a_lighter_shade():
    lines = _picture("hpn", coloured=True)
    tors = [piece.style for piece in lines[5] if "on #" in piece.style]
    assert len(tors) == 16
    assert len(set(tors[::2])) == len(set(tors[1::2])) == 1
    assert len({tors[0], tors[1], *(piece.style for piece in lines[0] if "on #" in piece.style)}) == 4


def test_of_many_planes_a_few_are_drawn_and_the_others_counted():
    assert _text(_picture("rail-only segments=1"))[0].endswith("… 13 more")


def test_of_many_rails_those_that_fit_are_drawn_and_the_others_counted():
    lines = _text(_picture("hpn segments=1", columns=40))
    assert lines[5].endswith("… 6 more rails")
    assert max(map(len, lines)) <= 70


def test_of_many_tors_of_a_rail_those_that_fit_are_drawn_and_the_others_counted():
    lines = _text(_picture("clos nic_ports=20 tors=20"))
    assert lines[2].endswith(" [9 ] [10] … 9 more")
    assert len(lines[2]) <= 80


def test_a_tor_of_two_rails_is_drawn_in_both():
    told = Blueprint(
        name="shared",
        gpus_per_host=2,
        switches=(Switches(names="tor", tier="tor"),),
        segments=(Segment(hosts=0, rails=(("tor",), ("tor",))),),
    )
    fabric = build(told)
    lines = _text(draw(fabric, describe(fabric), 80, coloured=False))
    assert lines[0].split() == ["rail", "0", "rail", "1"]
    assert lines[1].count("ToR 0") == 2


@pytest.mark.parametrize("columns", [1, 20, 40, 79, 80, 300])
@pytest.mark.parametrize("name", ["hpn segments=1 hosts=1", "dcn+", "single-tor", "rail-only segments=1", "clos"])
def test_a_picture_keeps_to_its_columns_from_40_on(name, columns):
    widest = max(len(line) for line in _text(_picture(name, columns)))
    assert widest <= max(columns, 70)


@pytest.mark.parametrize(("value", "text"), [(15.0, "15:1"), (16 / 15, "1.067:1"), (1.0, "1:1"), (None, "–")])
def test_oversubscription_is_written_as_networks_do(value, text):
    assert ratio(value) == text
