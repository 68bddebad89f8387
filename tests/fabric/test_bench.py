"""Bench: closed forms on free links, the algorithm that libraries would choose, and HPN's published figures."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.cluster import presets
from headway.cluster.spec import spread
from headway.errors import PlanError
from headway.fabric.bench import Case, measure
from headway.fabric.collectives import group, volume
from headway.fabric.connect import Connecting
from headway.fabric.fabric import Tier
from headway.fabric.route import Hop
from headway.fabric.seating import groups, order
from headway.fabric.topologies import named
from headway.fabric.traffic import GOODPUT
from headway.fabric.ways import ways
from headway.units import Bytes, BytesPerSecond
from tests.fabric.broken import broken

NODE = presets.of_devices(presets.device("H800"), nodes=56, per_node=8, inside="", network=BytesPerSecond(50e9))
CARD = 50e9 * GOODPUT
SIZE = Bytes(4 * 2**30)
BEST = Connecting(ports="disjoint", split="least_loaded")
SMALL = named("hpn segments=2 hosts=8 backup_hosts=0 cores=0 core_links=0")


def _case(fabric, hosts, kind="all_reduce", *, size=SIZE, how=BEST, by_rail=False, node=NODE, seed=0, wanted="packed"):
    """`hosts` whole hosts as one group, or a group for each rail."""
    found = groups(fabric, order(fabric, hosts, wanted, seed), 8 * hosts, by_rail=by_rail)
    return Case(kind=kind, groups=found, size=size, how=how, node=node)


@pytest.mark.parametrize("hosts", [2, 3, 8, 16])
@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter"])
def test_rings_of_one_card_a_host_take_the_closed_form_on_free_links(hosts, kind):
    """Bytes over the card's rate, and the latencies of the ring's steps; its bus bandwidth is nearly the card's."""
    found = measure(ways(SMALL), _case(SMALL, hosts, kind, by_rail=True), 0, "ring")
    moved = volume(kind, hosts) * SIZE
    around = spread(NODE, hosts, 1)
    latency = around.call + (2 if kind == "all_reduce" else 1) * around.around
    assert found.inside == 0
    assert found.network == pytest.approx(moved / CARD, rel=1e-12)
    assert found.latency == pytest.approx(latency)
    assert found.seconds == pytest.approx(moved / CARD + latency, rel=1e-12)
    assert found.busbw == pytest.approx(moved / found.seconds, rel=1e-12)
    assert found.ideal == pytest.approx(found.busbw, rel=1e-9)


@pytest.mark.parametrize("hosts", [2, 8, 16])
def test_where_nothing_is_contended_fabric_and_closed_form_agree_within_5_percent(hosts):
    """The closed form of the simulator (cluster/spec.py), its network as fast as the card's payload."""
    network = dataclasses.replace(NODE.between, bandwidth=BytesPerSecond(CARD))
    node = dataclasses.replace(NODE, between=network)
    found = measure(ways(SMALL), _case(SMALL, hosts, node=node), 0, "ring")
    around = spread(node, 8 * hosts, 8)
    closed = around.call + 2 * around.around + volume("all_reduce", 8 * hosts) * SIZE / around.bandwidth
    assert found.seconds == pytest.approx(closed, rel=0.05)


def test_a_whole_host_reduces_inside_as_fast_as_its_switches_do():
    found = measure(ways(SMALL), _case(SMALL, 1), 0)
    assert found.algorithm == "hierarchical"
    assert found.network == 0
    assert found.busbw == pytest.approx(NODE.inside.in_switch, rel=0.01)
    assert (found.hosts, found.segments, found.gpus) == (1, 1, 8)


@pytest.mark.parametrize("kind", ["all_gather", "all_to_all", "send_recv"])
def test_one_host_needs_no_network_for_anything(kind):
    found = measure(ways(SMALL), _case(SMALL, 1, kind), 0)
    assert found.network == 0
    assert found.inside > 0
    assert found.busbw == pytest.approx(found.ideal)


def test_libraries_choose_by_what_would_take_least_with_packets_sprayed():
    """Trees for a few bytes on many hosts, the hierarchical sum for many; without switches that sum, a ring or tree."""
    fabric = named("hpn segments=1")
    every = ways(fabric)
    sizes = {size: measure(every, _case(fabric, 56, size=Bytes(size)), 0) for size in (2**10, 2**22, 2**32)}
    assert [found.algorithm for found in sizes.values()] == ["tree", "tree", "hierarchical"]
    for size, found in sizes.items():
        told = [
            measure(every, _case(fabric, 56, size=Bytes(size)), 0, each).seconds
            for each in ("ring", "tree", "hierarchical")
        ]
        assert found.seconds == min(told)


def test_an_algorithm_that_a_collective_does_not_have_is_refused():
    with pytest.raises(PlanError, match=r"all_gather has no algorithm 'tree'. Use ring."):
        measure(ways(SMALL), _case(SMALL, 2, "all_gather"), 0, "tree")
    with pytest.raises(PlanError, match=r"send_recv has no algorithm 'ring'. Use pairs."):
        measure(ways(SMALL), _case(SMALL, 2, "send_recv"), 0, "ring")


def test_nothing_to_send_or_nobody_to_send_it_to_is_refused():
    with pytest.raises(PlanError, match=r"a buffer has 0 bytes. Use 1 or more."):
        _case(SMALL, 2, size=Bytes(0))
    with pytest.raises(PlanError, match="each group has 1 rank"):
        _case(SMALL, 1, by_rail=True)


def test_what_never_ends_has_no_bandwidth():
    """A card whose ports are both dead: the ring of its rail stands still, and so does the test."""
    every = ways(SMALL, SMALL.lower != 11)
    found = measure(every, _case(SMALL, 4, by_rail=True), 0)
    assert found.seconds == np.inf
    assert found.busbw == found.ideal == 0
    assert found.carried.rates.tolist().count(0.0) == 1
    assert found.carried.slowest == 3


def test_an_all_to_all_is_bound_by_what_the_cards_of_a_host_send():
    """4 hosts: 24 of 32 parts leave each card, 8 stay; nccl-tests count 31 of 32."""
    found = measure(ways(SMALL), _case(SMALL, 4, "all_to_all"), 0)
    assert found.algorithm == "pairs"
    assert found.network == pytest.approx(24 / 32 * SIZE / CARD, rel=1e-9)
    assert found.busbw == pytest.approx(31 / 32 * SIZE / found.seconds)


def test_a_send_to_the_next_host_shares_no_card():
    found = measure(ways(SMALL), _case(SMALL, 4, "send_recv"), 0)
    assert found.network == pytest.approx(SIZE / CARD, rel=1e-9)
    assert found.busbw == pytest.approx(SIZE / found.seconds)


def test_a_measurement_follows_its_seed():
    fabric = named("dcn+ segments=2 cores=0 core_links=0")
    every, case = ways(fabric), _case(fabric, 32, how=Connecting(connections=4, ports="hash"), by_rail=True)
    one, again, other = (measure(every, case, seed) for seed in (3, 3, 4))
    assert one.busbw == again.busbw
    assert (one.carried.loads == again.carried.loads).all()
    assert (one.carried.loads != other.carried.loads).any()
    assert one.carried.route[Hop.CARD_UP] >= 0


def test_a_shared_seed_polarises_leaves_half_the_links_idle_and_costs_bandwidth():
    """Aggs choose between the two ToRs of a card as the ToRs did among the Aggs: half of their links carry nothing."""
    fabric = named("dcn+")
    case = _case(fabric, 64, how=Connecting(connections=4), by_rail=True, wanted="random")
    found, used = {}, {}
    for shared in (False, True):
        told = dataclasses.replace(case, shared_seed=shared)
        runs = [measure(ways(fabric), told, seed) for seed in range(5)]
        found[shared] = np.median([each.busbw for each in runs])
        used[shared] = max(_used_down(fabric, each.carried.loads) for each in runs)
    assert used[True] <= 1 / 2
    assert used[False] > 0.95
    assert found[True] < 0.8 * found[False]


def _used_down(fabric, loads):
    """The share of links from Aggs down to ToRs that carry anything."""
    return (loads[fabric.links(Tier.TOR) + fabric.num_links] > 0).mean()


@given(
    broken(),
    st.integers(0, 2**16),
    st.sampled_from(["all_reduce", "all_gather", "all_to_all", "send_recv"]),
    st.sampled_from([Connecting(ports="hash"), Connecting(connections=3), BEST]),
)
def test_no_choice_of_ports_and_paths_beats_spraying(case, seed, kind, how):
    fabric, alive = case
    cards = np.random.default_rng(seed).permutation(fabric.num_gpus)
    told = (group(fabric, cards[: max(2, len(cards) // 2)]),)
    if told[0].ranks == 1:
        return
    found = measure(ways(fabric, alive), Case(kind=kind, groups=told, size=SIZE, how=how, node=NODE), seed)
    assert found.busbw <= found.ideal * (1 + 1e-6)


HASHED = Connecting(ports="hash", split="equal")
# busbw at 4 GiB of 448 GPUs, GB/s (Qian et al. 2024, figure 17), and how near a flow-level model must come
PUBLISHED = [
    ("hpn", BEST, "all_reduce", True, 49.5, 0.05),
    ("hpn", BEST, "all_reduce", False, 206.8, 0.10),
    ("hpn", BEST, "all_gather", False, 147.7, 0.20),
    ("dcn+", HASHED, "all_gather", False, 141.1, 0.20),
    ("dcn+", HASHED, "all_reduce", True, 22.2, 0.20),
]


@pytest.mark.parametrize(("name", "how", "kind", "by_rail", "published", "within"), PUBLISHED)
def test_published_bus_bandwidths_come_out(name, how, kind, by_rail, published, within):
    """Packed hosts, 2 connections, the median of 20 seeds."""
    fabric = named("hpn segments=1") if name == "hpn" else named(name)
    every, case = ways(fabric), _case(fabric, 56, kind, how=how, by_rail=by_rail)
    found = [measure(every, case, seed) for seed in range(20)]
    assert np.median([each.busbw for each in found]) / 1e9 == pytest.approx(published, rel=within)
    assert {(each.gpus, each.hosts, each.segments) for each in found} == {(448, 56, 1 if name == "hpn" else 4)}
