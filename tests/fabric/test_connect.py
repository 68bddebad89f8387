"""Connections: ports that work, in turn or hashed, and source ports whose paths are disjoint."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import PlanError
from headway.fabric.connect import MOST_CONNECTIONS, Connecting, connect, rerouted
from headway.fabric.fabric import NONE, Tier
from headway.fabric.hashing import hashing
from headway.fabric.route import Hop, arrives, routes
from headway.fabric.topologies import named
from headway.fabric.ways import ways
from tests.fabric.broken import broken

HPN = "hpn segments=2 hosts=2 backup_hosts=0 cores=0 core_links=0"


def _cards(*numbers):
    return np.array(numbers, np.int32)


def _connect(fabric, source, destination, seed=0, alive=None, **how):
    return connect(
        ways(fabric, alive), hashing(fabric, seed), _cards(*source), _cards(*destination), Connecting(**how), seed
    )


def _without(fabric, *dead):
    """All links but those of (card, port)."""
    alive = np.ones(fabric.num_links, bool)
    for card, port in dead:
        alive[np.flatnonzero(fabric.lower == card)[port]] = False
    return alive


def test_in_turn_a_pair_uses_both_ports_alike():
    made = _connect(named(HPN), [0, 1], [16, 17], connections=6)
    assert made.pair.tolist() == [0] * 6 + [1] * 6
    assert made.port.tolist() == [0, 1] * 6
    assert arrives(made.routes).all()
    assert (made.flows.source == _cards(*[0] * 6, *[1] * 6)).all()
    assert (made.flows.destination == _cards(*[16] * 6, *[17] * 6)).all()


def test_in_turn_a_pair_leaves_out_ports_that_are_dead_or_lead_nowhere():
    """Card 0's port 0 is dead, card 17's port 1 is: planes are apart, so either end decides for both."""
    fabric = named(HPN)
    made = _connect(fabric, [0, 1, 2], [16, 17, 18], alive=_without(fabric, (0, 0), (17, 1)), connections=2)
    assert made.port.tolist() == [1, 1, 0, 0, 0, 1]
    assert arrives(made.routes).all()


@pytest.mark.parametrize("ports", ["hash", "round_robin", "disjoint"])
def test_a_pair_that_no_port_leads_between_has_connections_without_routes(ports):
    fabric = named(HPN)
    alive = _without(fabric, (0, 0), (0, 1), (1, 0), (17, 1))
    made = _connect(fabric, [0, 1, 2], [16, 17, 18], alive=alive, connections=3, ports=ports)
    assert arrives(made.routes).tolist() == [False] * 6 + [True] * 3
    assert (made.routes[:6] == NONE).all()
    assert made.port[:6].tolist() == [NONE] * 6


def test_cards_with_one_port_use_it_whatever_is_asked_for():
    fabric = named("single-tor segments=2 hosts=1 gpus_per_host=2")
    for ports in ("hash", "round_robin", "disjoint"):
        made = _connect(fabric, [0, 1], [2, 3], connections=4, ports=ports)
        assert made.port.tolist() == [0] * 8
        assert arrives(made.routes).all()


def test_hashed_ports_are_those_of_the_cards_own_hash_and_about_even():
    fabric = named(HPN)
    cards = np.arange(16).repeat(100)
    made = _connect(fabric, cards, cards + 16, connections=1, ports="hash")
    counts = np.bincount(made.port, minlength=2)
    assert counts.sum() == 1600
    assert 700 < counts[0] < 900
    some = [set(made.port[cards == card].tolist()) for card in range(16)]
    assert some == [{0, 1}] * 16


def _overlaps(made, count):
    """Directed links that connections of a pair share, counted once for each connection more than one."""
    shared = 0
    for pair in range(len(made.pair) // count):
        links = made.routes[made.pair == pair]
        _, counts = np.unique(links[links != NONE], return_counts=True)
        shared += int((counts - 1).sum())
    return shared


@pytest.mark.parametrize("count", [2, 4, 8, 16])
@pytest.mark.parametrize("seed", range(3))
def test_disjoint_connections_in_hpn_share_their_cards_ports_only(count, seed):
    """Of k connections k/2 leave by each port and arrive by each: k − 2 shared links at either end, and no others."""
    fabric = named(HPN)
    cards = np.arange(16)
    made = _connect(fabric, cards, cards + 16, seed, connections=count, ports="disjoint")
    assert _overlaps(made, count) == 16 * 2 * (count - 2)
    in_turn = _connect(fabric, cards, cards + 16, seed, connections=count)
    if count > 4:
        assert _overlaps(in_turn, count) > 16 * 2 * (count - 2)


def test_two_disjoint_connections_in_dcn_arrive_by_two_ports_where_hashed_ones_often_meet():
    fabric = named("dcn+ segments=2 cores=0 core_links=0")
    cards = np.arange(128)
    made = _connect(fabric, cards, cards + 128, connections=2, ports="disjoint")
    assert _overlaps(made, 2) == 0
    assert _overlaps(_connect(fabric, cards, cards + 128, connections=2), 2) > 30


@pytest.mark.parametrize("ports", ["hash", "round_robin", "disjoint"])
def test_connections_are_drawn_from_their_seed(ports):
    fabric = named(HPN)
    one, again, other = (_connect(fabric, [0, 1], [16, 17], seed, connections=4, ports=ports) for seed in (1, 1, 2))
    assert (one.flows.port == again.flows.port).all()
    assert (one.routes == again.routes).all()
    assert (one.flows.port != other.flows.port).any()
    assert one.flows.port.min() >= 49152
    assert one.flows.port.max() < 65536


def test_what_switches_hash_and_what_hosts_draw_are_independent():
    """Both follow one seed, but a card's polynomial and turn say nothing of the source port of its connection."""
    fabric = named("hpn segments=1")
    cards, hashes = np.arange(1024), hashing(fabric, 7)
    made = _connect(fabric, cards, cards[::-1], 7, connections=1)
    kinds = hashes.polynomial * 32 + hashes.turn
    assert abs(np.corrcoef(kinds[cards], made.flows.port)[0, 1]) < 0.1


@given(broken(), st.integers(0, 2**16), st.sampled_from(["hash", "round_robin", "disjoint"]), st.integers(1, 5))
def test_connections_arrive_exactly_where_some_port_leads(case, seed, ports, count):
    fabric, alive = case
    every, hashes, random = ways(fabric, alive), hashing(fabric, seed), np.random.default_rng(seed)
    source, destination = random.integers(fabric.num_gpus, size=(2, 12)).astype(np.int32)
    made = connect(every, hashes, source, destination, Connecting(connections=count, ports=ports), seed)
    number = every.ports.shape[1]
    leads = np.stack(
        [arrives(routes(every, hashes, made.flows, np.full(len(made.pair), port, np.int32))) for port in range(number)],
        axis=1,
    )
    assert arrives(made.routes).tolist() == leads.any(axis=1).tolist()
    if ports != "hash":  # in turn: no port that leads there has two connections more than another
        for pair in range(12):
            used = made.port[made.pair == pair]
            counts = np.bincount(used[used != NONE], minlength=number)[leads[pair * count]]
            assert not len(counts) or counts.max() - counts.min() <= 1


def test_connections_keep_their_ports_over_other_ways_and_stall_where_those_are_dead():
    fabric = named(HPN)
    hashes = hashing(fabric, 0)
    made = connect(ways(fabric), hashes, _cards(0, 1), _cards(16, 17), Connecting(), 0)
    agg = made.routes[0, Hop.TOR_UP]
    alive = _without(fabric, (1, 1))
    alive[agg] = False
    moved = rerouted(made, ways(fabric, alive), hashes)
    assert (moved.flows.port == made.flows.port).all()
    assert (moved.port == made.port).all()
    assert moved.routes[0, Hop.TOR_UP] != agg
    assert arrives(moved.routes).tolist() == [True, True, True, False]


def test_a_way_of_connecting_says_itself():
    assert str(Connecting()) == "2 connections a pair, ports round robin, split equal"
    assert (
        str(Connecting(connections=1, ports="disjoint", split="least_loaded"))
        == "1 connection a pair, ports disjoint, split least loaded"
    )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"connections": 0}, "0 connections of a pair. Use 1 to 128."),
        ({"connections": MOST_CONNECTIONS + 1}, "129 connections of a pair. Use 1 to 128."),
        ({"ports": "round-robin"}, "ports is 'round-robin'. Did you mean 'round_robin'?"),
        ({"split": "fair"}, "split is 'fair'. Known: equal, least_loaded."),
    ],
)
def test_a_wrong_way_of_connecting_is_refused(wrong, said):
    with pytest.raises(PlanError) as refused:
        Connecting(**wrong)
    assert str(refused.value) == said


def test_ports_of_a_fabric_are_counted_by_its_cards():
    assert ways(named(HPN)).ports.shape == (32, 2)
    assert len(named(HPN).links(Tier.GPU)) == 64
