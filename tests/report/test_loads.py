"""Heat maps of links: what a cell stands for, how wide they are, and how they look with and without colours."""

import pytest

from headway.fabric import loads, topologies
from headway.fabric.collectives import group, traffic
from headway.fabric.connect import Connecting, connect
from headway.fabric.hashing import hashing
from headway.fabric.traffic import capacities, carry
from headway.fabric.ways import ways
from headway.report import loads as report


@pytest.fixture(scope="module")
def carried():
    fabric = topologies.named("hpn segments=2 hosts=2 backup_hosts=0 aggs=4 core_links=1 cores=4")
    every = ways(fabric)
    sent = traffic(fabric, [group(fabric, list(range(32)))], "all_reduce", "ring", 1e9)
    connected = connect(every, hashing(fabric, 0), sent.source, sent.destination, Connecting(), 0)
    return fabric, carry(sent, connected, capacities(fabric), "equal")


def test_a_hop_counts_the_links_that_carry_anything(carried):
    fabric, done = carried
    hops = {each.hop.name: each for each in loads.by_hop(fabric, done)}
    assert list(hops) == ["CARD_UP", "TOR_UP", "AGG_DOWN", "TOR_DOWN"]
    assert hops["CARD_UP"].used == 64
    assert hops["CARD_UP"].most == pytest.approx(1.0)
    for each in hops.values():
        assert each.imbalance == pytest.approx(each.most / each.mean)
        assert len(each.share) == len(each.links)


def test_names_of_links_and_ways_follow_the_bytes(carried):
    fabric, done = carried
    up, down = int(fabric.links(0)[3]), int(fabric.num_links + fabric.links(0)[3])
    assert loads.link_name(fabric, up) == "host-0/gpu-1:1 → tor-s0-r1-1"
    assert loads.link_name(fabric, down) == "tor-s0-r1-1 → host-0/gpu-1:1"
    way = loads.way_name(fabric, done.route).split(" → ")
    assert way[0].startswith("host-")
    assert way[-1].startswith("host-")
    assert len(way) in {3, 5}


def test_a_map_is_as_wide_as_it_may_be_and_no_wider(carried):
    fabric, done = carried
    hops = loads.by_hop(fabric, done)
    for columns in (20, 40, 96):
        lines = list(report.heat(fabric, hops, columns, coloured=False))
        assert max(sum(len(piece.text) for piece in line) for line in lines if len(line) > 4) <= max(columns, 40)
    text = "\n".join("".join(piece.text for piece in line) for line in lines)
    assert "cards to ToRs: 100% at most" in text
    assert "tor-s0-r0-0 " in text


def test_a_cell_shows_the_fullest_of_its_links(carried):
    fabric, done = carried
    wide, narrow = (
        list(report.heat(fabric, loads.by_hop(fabric, done)[:1], columns, coloured=False)) for columns in (96, 13)
    )
    assert {piece.text for piece in narrow[1][1:]} == {"█"}
    assert "█" in {piece.text for piece in wide[1][1:]}


def test_colours_say_how_full_a_link_is(carried):
    fabric, done = carried
    lines = list(report.heat(fabric, loads.by_hop(fabric, done), 96, coloured=True))
    styles = [piece.style for piece in lines[-1] if piece.style.startswith("#")]
    assert len(set(styles)) == len(styles) == 9
    assert styles[-1] in {piece.style for piece in lines[1]}  # a full link among those of the first row
