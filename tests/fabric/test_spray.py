"""Spraying: cards, ToRs and pods as pools, what oversubscription leaves, and where packets go when links are dead."""

import numpy as np
import pytest

from headway.fabric.blueprint import Blueprint, Bundle, Segment, Switches, build
from headway.fabric.spray import sprayed
from headway.fabric.topologies import named
from headway.fabric.traffic import GOODPUT, Traffic, capacities
from headway.fabric.ways import ways

CARD = 50e9 * GOODPUT  # bytes a second of 2 × 200 Gbps
HPN = named("hpn segments=2 hosts=8 backup_hosts=0 aggs=4 cores=0 core_links=0")  # a ToR: 8 × 200G down, 4 × 400G up


def _edges(*pairs, size=1e9):
    """A channel for each pair of cards."""
    source, destination = np.array(pairs, np.int32).T
    return Traffic(source, destination, np.arange(len(pairs), dtype=np.int32), np.full(len(pairs), size))


def test_a_card_sends_and_receives_at_the_rate_of_its_working_ports():
    sent = _edges((0, 8), (16, 24))
    assert sprayed(sent, ways(HPN)).rates == pytest.approx([CARD, CARD], rel=1e-12)
    alive = np.ones(HPN.num_links, bool)
    alive[np.flatnonzero(HPN.lower == 24)[0]] = False
    assert sprayed(sent, ways(HPN, alive)).rates == pytest.approx([CARD, CARD / 2], rel=1e-12)


def test_edges_that_meet_at_a_card_share_it():
    assert sprayed(_edges((0, 16), (8, 16), (24, 0)), ways(HPN)).rates == pytest.approx([CARD / 2, CARD / 2, CARD])


def test_between_segments_the_uplinks_of_a_rail_are_shared_and_under_one_tor_they_are_not():
    """With 2 of 4 Aggs of each plane left, eight cards of a rail have 2 ToRs × 2 × 400G upwards: half of theirs."""
    few = named("hpn segments=2 hosts=8 backup_hosts=0 aggs=2 cores=0 core_links=0")
    across = [(8 * host, 64 + 8 * host) for host in range(8)]
    within = [(8 * host, 8 * ((host + 1) % 8)) for host in range(8)]
    assert sprayed(_edges(*across), ways(few)).rates == pytest.approx([CARD / 2] * 8, rel=1e-12)
    assert sprayed(_edges(*within), ways(few)).rates == pytest.approx([CARD] * 8, rel=1e-12)


def test_between_pods_the_links_of_aggs_are_shared():
    """15:1 in HPN; here 4 Aggs of each plane with one link each carry 8 × 400G for 8 cards, then 4 for 2 Aggs."""
    for aggs, share in ((4, 1.0), (2, 0.5)):
        text = f"hpn pods=2 segments=1 hosts=8 backup_hosts=0 aggs={aggs} tor_links=4 cores=1 core_links=1"
        fabric = named(text)
        sent = _edges(*((8 * host, 64 + 8 * host) for host in range(8)))
        assert sprayed(sent, ways(fabric)).rates == pytest.approx([share * CARD] * 8, rel=1e-12)


def test_packets_go_by_the_tor_that_has_uplinks_where_the_other_has_none():
    """The first ToR's uplinks dead: one card goes on at its whole rate, 8 share the other ToR's 4 × 400G: half."""
    alive = HPN.lower != HPN.num_gpus
    assert sprayed(_edges((0, 64)), ways(HPN, alive)).rates == pytest.approx([CARD])
    every = _edges(*((8 * host, 64 + 8 * host) for host in range(8)))
    assert sprayed(every, ways(HPN, alive)).rates == pytest.approx([CARD / 2] * 8)


def test_an_edge_whose_card_has_no_port_left_never_ends():
    alive = HPN.lower != 0
    done = sprayed(_edges((0, 8), (16, 24)), ways(HPN, alive))
    assert done.ends.tolist() == [np.inf, pytest.approx(1e9 / CARD)]


def test_channels_that_end_earlier_leave_their_share_to_the_others():
    """1 GB and 3 GB up one card: the second has half until the first ends."""
    sent = _edges((0, 8), (0, 16))
    uneven = Traffic(sent.source, sent.destination, sent.channel, np.array([1e9, 3e9]))
    assert sprayed(uneven, ways(HPN)).ends == pytest.approx([2e9 / CARD, 4e9 / CARD])


def test_pods_that_share_an_agg_need_no_core_and_an_agg_may_have_no_tor():
    """A told fabric: two pods under one Agg, and an Agg with a core link that leads nowhere."""
    fabric = build(
        Blueprint(
            name="shared",
            switches=(
                Switches(names="tor-[0-1]", tier="tor"),
                Switches(names="agg-[0-1]", tier="agg"),
                Switches(names="core", tier="core"),
            ),
            segments=(
                Segment(hosts="0", rails=(("tor-0",),), pod=0),
                Segment(hosts="1", rails=(("tor-1",),), pod=1),
            ),
            links=(Bundle(lower="tor-[0-1]", upper="agg-0"), Bundle(lower="agg-1", upper="core")),
            gpus_per_host=1,
        )
    )
    assert sprayed(_edges((0, 1)), ways(fabric)).rates == pytest.approx([capacities(fabric)[0]])
