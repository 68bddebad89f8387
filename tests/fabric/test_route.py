"""Routes: chains of working links that climb no further than they must, and exist wherever a way does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.fabric.fabric import NONE, Tier
from headway.fabric.hashing import Flows, hashing
from headway.fabric.paths import num_paths
from headway.fabric.route import Hop, arrives, routes
from headway.fabric.topologies import named
from headway.fabric.ways import ways
from tests.fabric.broken import broken

SMALL = {
    "hpn": "hpn pods=2 segments=2 hosts=2 backup_hosts=0 gpus_per_host=4 rails=2 aggs=4 cores=4 core_links=2",
    "dcn+": "dcn+ pods=2 segments=2 hosts=2 gpus_per_host=2 aggs=2 tor_links=2 cores=4 core_links=2",
    "single-plane": "single-plane segments=2 hosts=1 gpus_per_host=2 rails=2 aggs=4 cores=2 core_links=1",
    "single-tor": "single-tor segments=2 hosts=2 gpus_per_host=2 aggs=2 tor_links=2 cores=0 core_links=0",
}
PORTS = np.arange(49152, 65536, dtype=np.int32)


@given(broken(), st.integers(0, 2**16))
def test_a_route_exists_exactly_where_a_way_from_that_port_does(case, seed):
    fabric, alive = case
    flows, port = _all_pairs(fabric, seed)
    found = arrives(routes(ways(fabric, alive), hashing(fabric, seed), flows, port))
    heights = [
        _height(fabric, alive, *each)
        for each in zip(flows.source.tolist(), port.tolist(), flows.destination, strict=True)
    ]
    assert found.tolist() == [height is not None for height in heights]


@given(broken(), st.integers(0, 2**16))
def test_a_route_is_a_chain_of_working_links_from_port_to_card_and_climbs_no_further_than_it_must(case, seed):
    fabric, alive = case
    flows, port = _all_pairs(fabric, seed)
    found = routes(ways(fabric, alive), hashing(fabric, seed), flows, port)
    assert alive[found[found != NONE] % fabric.num_links].all()
    for row, source, destination, way_out in zip(found, flows.source, flows.destination, port, strict=True):
        if row[Hop.TOR_DOWN] == NONE:
            continue
        climbed = [int(link) for link in row[: Hop.CORE_DOWN] if link != NONE]
        fallen = [int(link) - fabric.num_links for link in row[Hop.CORE_DOWN :] if link != NONE]
        nodes = [source, *(fabric.upper[climbed])]
        assert fabric.lower[climbed].tolist() == nodes[:-1]
        assert fabric.upper[fallen].tolist() == [nodes[-1], *fabric.lower[fallen][:-1]]
        assert fabric.lower[fallen[-1]] == destination
        assert fabric.lower_port[climbed[0]] == way_out
        assert len(climbed) == len(fallen) == _height(fabric, alive, source, way_out, destination)


def _all_pairs(fabric, seed):
    """Every port of some cards to some cards, from a source port each."""
    random = np.random.default_rng(seed)
    ports = 1 + int(fabric.lower_port[fabric.links(Tier.GPU)].max())
    some = random.permutation(fabric.num_gpus)[:6]
    source, destination, port = (each.ravel().astype(np.int32) for each in np.meshgrid(some, some, np.arange(ports)))
    apart = source != destination
    flows = Flows(source[apart], destination[apart], random.choice(PORTS, int(apart.sum())))
    return flows, port[apart]


def _height(fabric, alive, source, port, destination):
    """How many tiers a way from a port to a card must climb; None where there is none. By sets of nodes."""
    links = np.flatnonzero(fabric.lower == source)[port]
    climb = {int(fabric.upper[links])} if alive[links] else set()
    fall = set(fabric.upper[(fabric.lower == destination) & alive].tolist())
    for height in (1, 2, 3):
        if climb & fall:
            return height
        climb, fall = (set(fabric.upper[np.isin(fabric.lower, list(each)) & alive].tolist()) for each in (climb, fall))
    return None


@pytest.mark.parametrize("text", SMALL.values(), ids=SMALL)
def test_over_all_source_ports_and_hashes_a_flow_takes_every_path_that_there_is(text):
    fabric = named(text)
    every = ways(fabric)
    ports = np.random.default_rng(0).choice(PORTS, 1200)
    for destination in {1, fabric.num_gpus // 2, fabric.num_gpus - 1}:
        for port in range(int(fabric.lower_port[fabric.links(Tier.GPU)].max()) + 1):
            flows = Flows(np.zeros_like(ports), np.full_like(ports, destination), ports)
            taken = [routes(every, hashing(fabric, seed), flows, np.full_like(ports, port)) for seed in range(4)]
            distinct = np.unique(np.concatenate(taken), axis=0)
            # where the port of arrival decides, the core adds no choice to those of the way up
            assert len(distinct) == num_paths(fabric, 0, port, destination)


def test_in_hpn_all_links_of_a_route_are_of_the_plane_of_its_port():
    fabric = named("hpn pods=2 segments=2 hosts=1 backup_hosts=0 aggs=4 cores=4 core_links=2")
    flows, port = _all_pairs(fabric, 0)
    found = routes(ways(fabric), hashing(fabric, 0), flows, port)
    assert arrives(found).all()
    link = found % fabric.num_links
    planes = np.where(found == NONE, port[:, None], fabric.plane[fabric.upper[link]])
    assert (planes == port[:, None]).all()


def test_a_port_whose_plane_does_not_reach_the_card_leads_nowhere():
    """Isolated planes: with the last link of plane 1 dead, what leaves by port 1 is lost, by port 0 it arrives."""
    fabric = named("hpn segments=2 hosts=1 backup_hosts=0 aggs=4 cores=0 core_links=0")
    alive = np.ones(fabric.num_links, bool)
    alive[np.flatnonzero(fabric.lower == 8)[1]] = False
    flows = Flows(*(np.array(each, np.int32) for each in ([0, 0], [8, 8], [50000, 50000])))
    found = routes(ways(fabric, alive), hashing(fabric, 0), flows, np.array([0, 1], np.int32))
    assert arrives(found).tolist() == [True, False]
    assert (found[1, Hop.TOR_UP :] == NONE).all()


def _crossing(fabric):
    """Many flows from cards of pod 0 to cards of pod 1, on both ports."""
    random = np.random.default_rng(1)
    source = random.choice(np.flatnonzero(fabric.pod[: fabric.num_gpus] == 0), 2000).astype(np.int32)
    destination = random.choice(np.flatnonzero(fabric.pod[: fabric.num_gpus] == 1), 2000).astype(np.int32)
    return Flows(source, destination, random.choice(PORTS, 2000)), random.integers(2, size=2000).astype(np.int32)


def test_a_core_that_hashes_by_port_sends_what_comes_in_at_one_link_for_a_pod_out_at_one_link():
    fabric = named(SMALL["hpn"])
    flows, port = _crossing(fabric)
    found = routes(ways(fabric), hashing(fabric, 0), flows, port)
    pairs = {(int(row[Hop.AGG_UP]), int(row[Hop.CORE_DOWN])) for row in found}
    assert NONE not in {link for pair in pairs for link in pair}
    assert len(pairs) == len({entered for entered, _ in pairs}) == len({left for _, left in pairs}) == 16


def test_a_core_whose_fixed_link_is_dead_hashes_by_flow_instead():
    fabric = named(SMALL["hpn"])
    flows, port = _crossing(fabric)
    alive = np.ones(fabric.num_links, bool)
    before = routes(ways(fabric), hashing(fabric, 0), flows, port)
    entered, dead = before[0, [Hop.AGG_UP, Hop.CORE_DOWN]]
    alive[dead - fabric.num_links] = False
    after = routes(ways(fabric, alive), hashing(fabric, 0), flows, port)
    assert arrives(after).all()
    same = (before[:, Hop.AGG_UP] == entered) & (after[:, Hop.AGG_UP] == entered)
    core = fabric.upper[entered]
    others = np.flatnonzero((fabric.upper == core) & alive & (fabric.pod[fabric.lower] == 1)) + fabric.num_links
    assert set(after[same, Hop.CORE_DOWN]) == set(others.tolist())
    kept = (before[:, Hop.AGG_UP] == after[:, Hop.AGG_UP]) & (before[:, Hop.CORE_DOWN] != dead)
    assert (before[kept, Hop.CORE_DOWN] == after[kept, Hop.CORE_DOWN]).all()
    assert kept.sum() > 1000
