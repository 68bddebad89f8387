"""Traffic: how long it takes, reckoned by hand for a few hosts, and what splits and ideals hold against each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.fabric.collectives import group, traffic
from headway.fabric.connect import Connecting, Connections, connect
from headway.fabric.fabric import NONE
from headway.fabric.hashing import Flows, hashing
from headway.fabric.route import Hop
from headway.fabric.spray import sprayed
from headway.fabric.topologies import named
from headway.fabric.traffic import GOODPUT, Traffic, capacities, carry
from headway.fabric.ways import ways
from tests.fabric.broken import broken

SIZE = 1e9
PORT = 25e9 * GOODPUT  # bytes a second of 200 Gbps
HPN = named("hpn segments=2 hosts=8 backup_hosts=0 cores=0 core_links=0")
DCN = named("dcn+ segments=2 hosts=8 cores=0 core_links=0")


def _ring(fabric, hosts, alive=None, seed=0, gpus=range(8), **how):
    """An all-reduce of `gpus` of each host as one ring."""
    cards = [8 * host + card for host in hosts for card in gpus]
    sent = traffic(fabric, [group(fabric, cards)], "all_reduce", "ring", SIZE)
    asked = Connecting(**how)
    made = connect(ways(fabric, alive), hashing(fabric, seed), sent.source, sent.destination, asked, seed)
    return sent, made, carry(sent, made, capacities(fabric, alive), asked.split)


def _told(routes, pair=None, port=None):
    """Connections by their links; a pair each where nothing is said."""
    routes = np.array(routes, np.int32)
    count = np.arange(len(routes), dtype=np.int32)
    pair = count if pair is None else np.array(pair, np.int32)
    return Connections(pair, Flows(count, count, count), count if port is None else port, routes)


def _route(up, down):
    return [up, NONE, NONE, NONE, NONE, down]


@pytest.mark.parametrize("hosts", [2, 3, 8, 16])
def test_two_connections_on_both_ports_give_a_ring_its_closed_form(hosts):
    """Each card passes on 2 (n − 1)/n of an eighth of the buffer, at both its ports' rate."""
    _, _, done = _ring(HPN, range(hosts), ports="disjoint")
    moved = 2 * (8 * hosts - 1) / (8 * hosts) * SIZE / 8
    assert done.seconds == pytest.approx([moved / (2 * PORT)] * 8, rel=1e-12)
    assert done.rates == pytest.approx([2 * PORT] * 8, rel=1e-12)


@pytest.mark.parametrize("hosts", [2, 3, 8])
def test_one_connection_uses_one_port_and_gets_half(hosts):
    _, made, done = _ring(HPN, range(hosts), connections=1)
    assert set(made.port.tolist()) == {0}
    assert done.rates == pytest.approx([PORT] * 8, rel=1e-12)


def test_four_gpus_of_a_host_carry_twice_what_eight_do_each():
    _, _, eight = _ring(HPN, range(4))
    _, _, four = _ring(HPN, range(4), gpus=range(4))
    assert len(four.seconds) == 4
    assert four.seconds[0] / eight.seconds[0] == pytest.approx((2 * 15 / 16 / 4) / (2 * 31 / 32 / 8))


def test_two_connections_that_meet_at_the_destinations_port_halve_the_ring():
    """By hand: card 0 sends to card 1 on both its ports, and both connections come down its port 0."""
    up, down = [0, 1], HPN.num_links
    sent = Traffic(*(np.array(each, np.int32) for each in ([0], [1], [0])), np.array([SIZE]))
    for ends, share in (([2, 3], 1.0), ([2, 2], 0.5)):
        made = _told([_route(one, down + other) for one, other in zip(up, ends, strict=True)], pair=[0, 0])
        for split in ("equal", "least_loaded"):
            done = carry(sent, made, capacities(HPN), split)
            assert done.seconds[0] == pytest.approx(SIZE / (share * 2 * PORT))


def test_in_dcn_a_ring_goes_at_half_or_full_speed_as_the_hashes_of_aggs_fall():
    """Between segments Aggs choose the destination's port: two connections meet there or they do not."""

    def speeds(ports):
        found = [_ring(DCN, [0, 8], seed=seed, gpus=[0], ports=ports)[2].rates[0] for seed in range(20)]
        return set(np.round(np.array(found) / (2 * PORT), 9).tolist())

    assert speeds("round_robin") == {0.5, 1.0}
    assert speeds("disjoint") == {1.0}


def test_a_port_down_halves_its_card_and_leaves_the_others_whole():
    """16 hosts: the ring of rail 3 goes at half speed, in front of the card and behind it; seven go on."""
    alive = np.ones(HPN.num_links, bool)
    alive[np.flatnonzero(HPN.lower == 3)[1]] = False
    _, _, done = _ring(HPN, range(16), alive)
    assert done.rates == pytest.approx([2 * PORT] * 3 + [PORT] + [2 * PORT] * 4, rel=1e-12)


def test_a_tor_down_stops_no_host_under_two_tors():
    alive = (HPN.upper != HPN.num_gpus) & (HPN.lower != HPN.num_gpus)
    _, _, done = _ring(HPN, range(16), alive)
    assert np.isfinite(done.seconds).all()
    assert done.rates == pytest.approx([PORT] + [2 * PORT] * 7, rel=1e-12)


def test_what_is_on_the_way_is_shared_fairly():
    """By hand: two channels up one port of 1, the second also down one that a third shares: all halves."""
    capacity = np.full(2 * HPN.num_links, 1.0)
    made = _told([_route(0, 100), _route(0, 102), _route(4, 102)])
    sent = Traffic(*(np.arange(3, dtype=np.int32) for _ in range(3)), np.array([1.0, 2.0, 3.0]))
    done = carry(sent, made, capacity, "equal")
    assert done.rates.tolist() == [0.5] * 3
    # the first ends at 2, after which the second and third still share: 2 bytes at 4, and 3 bytes at 5
    assert done.seconds.tolist() == [2.0, 4.0, 5.0]
    assert done.loads[[0, 4, 100, 102]].tolist() == [1.0, 0.5, 0.5, 1.0]
    assert done.slowest == 2
    assert done.route.tolist() == _route(4, 102)
    assert done.bound[2] == 102


def test_an_equal_split_waits_for_the_slower_connection_and_the_least_loaded_one_for_none():
    """A pair on links of 3 and 1: twice the slower, or both."""
    capacity = np.zeros(2 * HPN.num_links)
    capacity[[0, 1, 100, 101]] = [3.0, 1.0, 9.0, 9.0]
    made = _told([_route(0, 100), _route(1, 101)], pair=[0, 0])
    sent = Traffic(*(np.zeros(1, np.int32) for _ in range(3)), np.array([12.0]))
    assert carry(sent, made, capacity, "equal").seconds.tolist() == [6.0]
    assert carry(sent, made, capacity, "least_loaded").seconds.tolist() == [3.0]


@pytest.mark.parametrize("split", ["equal", "least_loaded"])
def test_a_connection_without_a_way_or_over_a_dead_link_stalls_its_channel_alone(split):
    """Channel 0 has one of two connections that does not arrive, channel 1 one over a dead link, channel 2 is whole."""
    capacity = np.full(2 * HPN.num_links, 1.0)
    capacity[104] = 0.0
    nowhere = [0, NONE, NONE, NONE, NONE, NONE]
    made = _told([_route(1, 101), nowhere, _route(2, 102), _route(3, 104), _route(5, 105)], pair=[0, 0, 1, 1, 2])
    sent = Traffic(*(np.arange(3, dtype=np.int32) for _ in range(3)), np.array([1.0, 1.0, 4.0]))
    done = carry(sent, made, capacity, split)
    assert done.seconds.tolist() == [np.inf, np.inf, 4.0]
    assert done.rates.tolist() == [0.0, 0.0, 1.0]
    assert done.slowest == 0
    assert done.route.tolist() == nowhere
    assert done.loads.sum() == 2.0


@pytest.mark.parametrize("split", ["equal", "least_loaded"])
def test_an_edge_all_of_whose_connections_are_dead_stops_its_whole_ring(split):
    capacity = np.full(2 * HPN.num_links, 1.0)
    capacity[100] = 0.0
    sent = Traffic(*(np.array(each, np.int32) for each in ([0, 1], [1, 0], [0, 0])), np.array([1.0]))
    done = carry(sent, _told([_route(0, 100), _route(2, 102)]), capacity, split)
    assert done.seconds.tolist() == [np.inf]
    assert done.route.tolist() == _route(0, 100)


def test_what_sends_nothing_is_done_at_once():
    none = np.zeros(0, np.int32)
    for channels in (0, 3):
        done = carry(
            Traffic(none, none, none, np.zeros(channels)),
            _told(np.zeros((0, len(Hop)))),
            capacities(HPN),
            "equal",
        )
        assert done.seconds.tolist() == [0.0] * channels
        assert (done.route == NONE).all()
        assert done.loads.sum() == 0
    assert done.slowest == 0


def test_capacities_are_of_payload_in_both_directions_and_0_where_a_link_is_dead():
    alive = np.ones(HPN.num_links, bool)
    alive[5] = False
    found = capacities(HPN, alive)
    assert len(found) == 2 * HPN.num_links
    assert found[0] == found[HPN.num_links] == 25e9 * 4096 / 4178
    assert found[[5, HPN.num_links + 5]].tolist() == [0.0, 0.0]
    assert capacities(HPN)[-1] == 50e9 * 4096 / 4178


def _random_rings(fabric, seed):
    """All-reduces of a few groups at once, of equal buffers on equally many hosts, some of them shuffled."""
    random = np.random.default_rng(seed)
    per_host = fabric.gpus_per_host
    hosts = random.permutation(fabric.num_gpus // per_host)
    many = int(random.integers(1, len(hosts) + 1))
    groups = [group(fabric, hosts[:many] * per_host + card) for card in range(per_host)]
    return traffic(fabric, groups, "all_reduce", random.choice(["ring", "tree"]), SIZE)


HOWS = st.tuples(st.sampled_from(["hash", "round_robin", "disjoint"]), st.integers(1, 5))


@given(broken(), st.integers(0, 2**16), HOWS)
def test_the_least_loaded_split_is_never_slower_and_spraying_never_slower_than_that(case, seed, how):
    fabric, alive = case
    every, sent = ways(fabric, alive), _random_rings(fabric, seed)
    asked = Connecting(ports=how[0], connections=how[1])
    made = connect(every, hashing(fabric, seed), sent.source, sent.destination, asked, seed)
    times = [carry(sent, made, capacities(fabric, alive), each).seconds for each in ("equal", "least_loaded")]
    equal, least_loaded, ideal = (each.max(initial=0.0) for each in (*times, sprayed(sent, every).ends))
    assert ideal <= least_loaded * (1 + 1e-6)
    assert least_loaded <= equal * (1 + 1e-6)


@given(broken(), st.integers(0, 2**16), HOWS, st.sampled_from(["equal", "least_loaded"]))
def test_no_link_is_overloaded_and_every_channel_is_bound_by_a_full_one(case, seed, how, split):
    fabric, alive = case
    every, sent = ways(fabric, alive), _random_rings(fabric, seed)
    asked = Connecting(ports=how[0], connections=how[1])
    made = connect(every, hashing(fabric, seed), sent.source, sent.destination, asked, seed)
    done = carry(sent, made, capacities(fabric, alive), split)
    assert (done.loads <= done.capacity * (1 + 1e-9)).all()
    moving = done.rates > 0
    assert done.loads[done.bound[moving]] == pytest.approx(done.capacity[done.bound[moving]])
    if len(sent.source):
        crossed = done.bound[done.slowest]
        assert crossed in done.route if crossed != NONE else done.route[Hop.TOR_DOWN] == NONE
