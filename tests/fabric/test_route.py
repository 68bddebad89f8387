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
    "single-plane": "single-plane segments=2 hosts=1 backup_hosts=1 gpus_per_host=2 rails=2 aggs=4 cores=2 core_links=1",
    "single-tor": "single-tor segments=2 hosts=2 gpus_per_host=2 aggs=2 tor_links=2 cores=0 core_links=0",
}
PORTS = np.arange(49152, 65536, dtype=np.int32)


@given(broken(), st.integers(0, 2**16))
def test_a_route_exists_exactly_where_a_way_from_that_port_does(case, seed):
    fabric, alive = case
    flows, port = _all_pairs(fabric, seed)
    found = arrives(routes(ways(fabric, alive), hashing(fabric, seed), flows, port))
    heights = [
        _height(fabric, alive, *each) for each in zip(flows.source.tolist(), port.tolist(), flows.destination, strict=True)
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
        climb, fall = (
            set(fabric.upper[np.isin(fabric.lower, list(each)) & alive].tolist()) for each in (climb, fall)
        )
    return None
