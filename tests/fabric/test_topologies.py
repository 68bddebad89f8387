"""Topologies: the published fabrics come out of their shapes, and what must hold for all sizes."""

import dataclasses
import sys

import numpy as np
import pytest
from hypothesis import given

from headway.errors import PlanError
from headway.fabric.check import used_ports
from headway.fabric.describe import describe
from headway.fabric.fabric import Tier
from headway.fabric.shape import FAMILIES, Shape, family
from headway.fabric.topologies import build, named
from headway.units import parse_bandwidth
from tests.fabric.shapes import shapes


def _ends(fabric, tier):
    links = fabric.links(tier)
    return fabric.lower[links], fabric.upper[links]


def test_hpn_has_the_nodes_and_links_of_its_paper():
    """Qian et al. 2024, figure 7 and §6.2: 15 segments of 128 + 8 hosts, 240 ToRs, 60 Aggs a plane, 14,400 links."""
    hpn = named("hpn")
    assert [len(hpn.nodes(tier)) for tier in Tier] == [15 * (128 + 8) * 8, 240, 120, 64]
    assert [len(hpn.links(tier)) for tier in Tier] == [2 * 15 * 136 * 8, 240 * 60, 120 * 8, 0]


def test_each_tor_of_hpn_has_one_link_to_each_of_the_60_aggs_of_its_plane_and_none_to_the_other():
    hpn = named("hpn")
    tors, aggs = _ends(hpn, Tier.TOR)
    pairs, counts = np.unique(np.stack([tors, aggs]), axis=1, return_counts=True)
    assert counts.max() == 1
    assert (hpn.plane[pairs[0]] == hpn.plane[pairs[1]]).all()
    assert set(np.bincount(pairs[0])[hpn.nodes(Tier.TOR)]) == {60}


def test_dcn_is_dual_tor_and_not_rail_optimised():
    """All 8 cards of a host go to the same 2 ToRs, and each ToR has 8 links to each of the 8 Aggs (figure 20)."""
    dcn = named("dcn+")
    gpus, tors = _ends(dcn, Tier.GPU)
    assert all(len(set(tors[gpus // 8 == host])) == 2 for host in range(64))
    _, counts = np.unique(np.stack(_ends(dcn, Tier.TOR)), axis=1, return_counts=True)
    assert set(counts) == {8}


def test_rail_only_aggs_meet_one_rail_and_one_port_each():
    """Table 4: 16 planes, 122,880 GPUs in a pod."""
    fabric = named("rail-only")
    tors, aggs = _ends(fabric, Tier.TOR)
    assert len(np.unique(np.stack([aggs, fabric.rail[tors]]), axis=1).T) == len(fabric.nodes(Tier.AGG)) == 16 * 60
    assert describe(fabric).gpus == 122_880


def test_one_rail_one_host_and_one_agg_are_a_fabric():
    fabric = build(Shape(family="tiny", gpus_per_host=1, nic_ports=1))
    assert [len(fabric.nodes(tier)) for tier in Tier] == [1, 1, 1, 0]
    assert fabric.lower.tolist() == [0, 1]
    assert fabric.upper.tolist() == [1, 2]


@pytest.mark.parametrize("name", list(FAMILIES))
def test_a_family_can_be_built_one_host_to_a_segment(name):
    small = build(dataclasses.replace(family(name), hosts=1, backup_hosts=0, segments=2))
    assert small.num_gpus == 16


@given(shapes())
def test_no_switch_has_more_links_than_its_ports_hold_and_every_port_is_taken_once(shape):
    fabric = build(shape)
    assert (used_ports(fabric) <= fabric.num_ports).all()
    ends = np.concatenate([np.stack([fabric.lower, fabric.lower_port]), np.stack([fabric.upper, fabric.upper_port])], 1)
    assert len(np.unique(ends, axis=1).T) == 2 * fabric.num_links


@given(shapes())
def test_capacities_add_up_tier_by_tier(shape):
    fabric = build(shape)
    nic, link = (parse_bandwidth(speed) for speed in (shape.nic_speed, shape.link_speed))
    hosts = shape.pods * shape.segments * (shape.hosts + shape.backup_hosts)
    aggs = shape.pods * shape.planes * shape.aggs
    totals = [fabric.capacity[fabric.links(tier)].sum() for tier in Tier]
    assert totals == [
        hosts * shape.gpus_per_host * shape.nic_ports * nic,
        shape.num_tors * shape.aggs * shape.tor_links * link,
        aggs * shape.core_links * link,
        0,
    ]
    assert fabric.num_links == shape.num_links


@given(shapes())
def test_the_ports_of_each_gpu_reach_the_tors_of_its_segment_and_rail_in_turn(shape):
    fabric = build(shape)
    links = fabric.links(Tier.GPU)
    gpus, tors, ports = fabric.lower[links], fabric.upper[links], fabric.lower_port[links]
    assert (fabric.segment[gpus] == fabric.segment[tors]).all()
    assert (fabric.rail[gpus] == fabric.rail[tors]).all()
    assert (fabric.rail[gpus] == gpus % shape.gpus_per_host % shape.rails).all()
    assert (ports == np.tile(np.arange(shape.nic_ports), fabric.num_gpus)).all()
    first = fabric.nodes(Tier.TOR)[0]
    assert ((tors - first) % shape.tors == ports % shape.tors).all()


@given(shapes())
def test_links_keep_to_a_plane_and_below_the_cores_to_a_pod(shape):
    fabric = build(shape)
    up = fabric.tier[fabric.lower] > Tier.GPU
    assert (fabric.plane[fabric.lower] == fabric.plane[fabric.upper])[up].all()
    below = fabric.tier[fabric.upper] < Tier.CORE
    assert (fabric.pod[fabric.lower] == fabric.pod[fabric.upper])[below].all()


@given(shapes())
def test_switches_of_a_tier_are_alike(shape):
    fabric = build(shape)
    for ends in (fabric.lower, fabric.upper):
        links = np.bincount(ends, minlength=fabric.num_nodes)
        for tier in list(Tier)[1:]:
            assert len(set(links[fabric.nodes(tier)])) <= 1


@given(shapes())
def test_names_tell_switches_apart(shape):
    fabric = build(shape)
    assert len(set(fabric.names)) == len(fabric.names) == fabric.num_nodes - fabric.num_gpus


def test_the_work_of_building_does_not_grow_with_hosts():
    """Array operations, not loops over hosts: 15,360 GPUs and 122,880 take the Python calls of 240."""
    smallest = _calls("hpn hosts=1 backup_hosts=1")
    for text in ("hpn", "hpn pods=8"):
        assert abs(_calls(text) - smallest) <= 10  # their names differ in length
    assert smallest < 400


def _calls(text):
    """Python functions that are called to build a fabric."""
    count = 0

    def profile(_frame, event, _argument):
        nonlocal count
        count += event == "call"

    named(text)  # what is imported or cached the first time
    sys.setprofile(profile)
    try:
        named(text)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "hpn hosts=129",
            "tor-s0-r0-0 needs 129 ports of 400Gbps for its links and has 128 (240 switches of hpn hosts",
        ),
        ("hpn segments=16", "agg-p0-0-0 needs 136 ports of 400Gbps for its links and has 128 (120 switches"),
        ("hpn pods=9", "core-0-0 needs 135 ports of 400Gbps for its links and has 128 (64 switches of hpn pods=9 lack"),
        ("dcn+ pods=33", "Use fewer pods, or more cores."),
        ("hpn link_speed=800Gbps", "the link of tor-s0-r0-0 and agg-p0-0-0 has 800Gbps, a port of its switch 400Gbps."),
    ],
)
def test_a_switch_without_ports_enough_is_refused_with_its_name_and_numbers(text, said):
    with pytest.raises(PlanError) as refused:
        named(text)
    assert said in str(refused.value)
