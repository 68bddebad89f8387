"""Clusters: nodes, links and peaks."""

import dataclasses

import pytest

from headway.cluster.presets import preset
from headway.cluster.spec import Cluster, ring, spread
from headway.errors import PlanError
from headway.units import Dtype

CLUSTER = dataclasses.replace(preset("a100-80gb-hdr"), nodes=3)


def test_ranks_fill_a_node_before_the_next():
    assert [CLUSTER.node(rank) for rank in (0, 7, 8, 23)] == [0, 0, 1, 2]
    assert CLUSTER.num_devices == 24


def test_the_link_among_ranks_is_the_slowest_that_they_need():
    assert CLUSTER.link(0, 7) is CLUSTER.inside
    assert CLUSTER.link(7, 8) is CLUSTER.between
    assert CLUSTER.link(0, 1, 2, 16) is CLUSTER.between


def test_the_peak_counts_every_device():
    assert CLUSTER.peak(24, Dtype.FLOAT32) == 24 * CLUSTER.device.peak[Dtype.FLOAT32]


@pytest.mark.parametrize(("world", "devices"), [(1, 1), (2, 2), (8, 2), (9, 3), (16, 4)])
def test_ranks_that_share_cores_count_them_once(world, devices):
    shared = dataclasses.replace(CLUSTER, shared_cores=2)
    assert shared.peak(world, Dtype.FLOAT32) == devices * CLUSTER.device.peak[Dtype.FLOAT32]


@pytest.mark.parametrize(("nodes", "devices"), [(0, 8), (2, 0), (-1, 8)])
def test_a_cluster_without_devices_is_refused(nodes, devices):
    with pytest.raises(PlanError, match=f"got {nodes} nodes of {devices}"):
        Cluster("none", nodes, devices, CLUSTER.device, CLUSTER.inside, CLUSTER.between)


def test_a_cluster_says_what_it_is():
    assert str(CLUSTER) == "a100-80gb-hdr: 3 × 8 A100-80GB"


def test_a_ring_inside_a_node_has_the_links_bandwidth():
    found = ring(CLUSTER, range(8))
    assert (found.ranks, found.bandwidth, found.call) == (8, CLUSTER.inside.bandwidth, CLUSTER.inside.call)
    assert found.around == pytest.approx(7 * CLUSTER.inside.latency)


@pytest.mark.parametrize("inside", [1, 2, 8])
def test_a_ring_over_nodes_crosses_with_the_cards_of_all_its_ranks_of_a_node(inside):
    found = spread(CLUSTER, 2 * inside, inside)
    assert found.bandwidth == min(CLUSTER.inside.bandwidth, inside * CLUSTER.between.bandwidth)
    crossing = min(2, 2 * inside - 1)
    hops = crossing * CLUSTER.between.latency + (2 * inside - 1 - crossing) * CLUSTER.inside.latency
    assert found.around == pytest.approx(hops)


def test_a_rings_ranks_are_found_on_their_nodes():
    assert ring(CLUSTER, (0, 8, 16)) == spread(CLUSTER, 3, 1)
    assert ring(CLUSTER, (0, 1, 8, 9)) == spread(CLUSTER, 4, 2)
