"""Hashes: balanced over RoCE's source ports, alike under one seed, apart under seeds of their own."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headway.fabric.hashing import Flows, Hashing, choose, hashing
from headway.fabric.topologies import named

PORTS = np.arange(49152, 65536, dtype=np.int32)  # RoCE's source ports
POLYNOMIALS, TURNS = 8, 32
WHOLE = 2**30  # ways that show nearly the whole hash


def _alike(value, like):
    return np.full_like(like, value)


def _flows(source=3, destination=1077, ports=PORTS):
    return Flows(_alike(source, ports), _alike(destination, ports), ports)


def _chosen(flows, ways, polynomial, turn):
    """What a switch of this polynomial and turn chooses."""
    kind = Hashing(np.array([polynomial], np.int32), np.array([turn], np.int32))
    return choose(kind, _alike(0, flows.port), flows, _alike(ways, flows.port))


def _shares(ways, flows):
    """The least and the most that a way gets of the flows, over an even share, under any polynomial and turn."""
    counts = [
        np.bincount(_chosen(flows, ways, polynomial, turn), minlength=ways)
        for polynomial in range(POLYNOMIALS)
        for turn in range(TURNS)
    ]
    return np.min(counts) * ways / len(flows), np.max(counts) * ways / len(flows)


def test_every_polynomial_and_turn_gives_a_power_of_two_of_ways_exactly_the_same():
    """64 ways, so that 2 and 8 do too; over the 16,384 source ports, and over as many destinations."""
    assert _shares(64, _flows()) == (1.0, 1.0)
    assert _shares(64, Flows(_alike(5, PORTS), PORTS - PORTS[0], _alike(50_000, PORTS))) == (1.0, 1.0)


def test_every_polynomial_and_turn_is_about_balanced_for_hpns_60_ways():
    """273 source ports a way; a random choice would leave 4 of its standard deviations, 24 %, too."""
    least, most = _shares(60, _flows())
    assert least > 0.75
    assert most < 1.25


def test_all_cyclic_turns_and_polynomials_differ():
    codes = {
        _chosen(_flows(ports=PORTS[:8]), WHOLE, polynomial, turn).tobytes()
        for polynomial in range(POLYNOMIALS)
        for turn in range(TURNS)
    }
    assert len(codes) == POLYNOMIALS * TURNS


def test_the_code_of_the_first_polynomial_is_that_of_a_crc_written_bit_by_bit():
    """IEEE 802.3's polynomial, not reflected, from 0: addresses, source port, destination port and protocol."""
    source, destination, port = 70_000, 1077, 51_234
    words = (source >> 16, source & 0xFFFF, destination >> 16, destination & 0xFFFF, port, 4791, 17)
    code = 0
    for bit in "".join(f"{word:016b}" for word in words):
        code ^= int(bit) << 31
        code = (code << 1) & 0xFFFFFFFF ^ (0x04C11DB7 if code >> 31 else 0)
    flows = _flows(source, destination, np.array([port], np.int32))
    assert _chosen(flows, WHOLE, 0, 0).item() == code % WHOLE
    assert _chosen(flows, WHOLE, 0, 7).item() == (code << 7 | code >> 25) % WHOLE


@given(st.lists(st.integers(0, 2**31 - 1), min_size=6, max_size=6), st.integers(0, 7), st.integers(0, 31))
def test_a_code_is_linear_so_that_another_initial_value_would_shift_all_flows_alike(addresses, polynomial, turn):
    """code(a) ^ code(b) depends on a ^ b only: what stands before the flow's words falls out of it."""
    one, other, before = (np.array(addresses[place : place + 2], np.int32)[:, None] for place in (0, 2, 4))
    port = PORTS[:1]

    def code(pair):
        return _chosen(Flows(pair[0], pair[1], port), WHOLE, polynomial, turn)

    moved = code(one ^ before) ^ code(other ^ before)
    assert (code(one) ^ code(other) == moved).all()


def test_under_a_shared_seed_flows_that_meet_at_an_agg_all_leave_it_alike():
    """60 Aggs, then two links down: those whose hash is a mod 60 are all a mod 2. Under own seeds they spread."""
    fabric = named("hpn segments=2 hosts=1 backup_hosts=0 cores=0 core_links=0")
    agg = int(fabric.nodes(fabric.tier.dtype.type(2))[0])
    tor = fabric.num_gpus
    for shared in (True, False):
        hashes = hashing(fabric, 3, shared=shared)
        first = choose(hashes, _alike(tor, PORTS), _flows(), _alike(60, PORTS))
        for place in range(0, 60, 7):
            meeting = PORTS[first == place]
            second = choose(hashes, _alike(agg + place, meeting), _flows(ports=meeting), _alike(2, meeting))
            assert len(set(second.tolist())) == (1 if shared else 2)


def test_hashing_is_drawn_from_its_seed_and_differs_from_switch_to_switch():
    fabric = named("hpn segments=1")
    one, again, other = hashing(fabric, 1), hashing(fabric, 1), hashing(fabric, 2)
    assert (one.polynomial == again.polynomial).all()
    assert (one.turn == again.turn).all()
    assert (one.turn != other.turn).any()
    assert set(one.polynomial) == set(range(POLYNOMIALS))
    assert set(one.turn) == set(range(TURNS))
    shared = hashing(fabric, 1, shared=True)
    assert len(set(shared.polynomial)) == len(set(shared.turn)) == 1


def test_one_way_is_always_taken():
    assert (_chosen(_flows(), 1, 3, 3) == 0).all()
