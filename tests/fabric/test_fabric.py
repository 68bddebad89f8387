"""Fabric: names, tiers and ports of a small one, written out."""

from headway.fabric.fabric import Tier
from headway.fabric.topologies import named

SMALL = named("hpn segments=1 hosts=1 backup_hosts=1 gpus_per_host=2 rails=2 aggs=1 cores=1 core_links=1")


def test_nodes_are_gpus_host_by_host_then_switches_tier_by_tier():
    assert [SMALL.node_name(node) for node in range(SMALL.num_nodes)] == [
        *("host-0/gpu-0", "host-0/gpu-1", "host-1/gpu-0", "host-1/gpu-1"),
        *("tor-s0-r0-0", "tor-s0-r0-1", "tor-s0-r1-0", "tor-s0-r1-1"),
        *("agg-p0-0-0", "agg-p0-1-0", "core-0-0", "core-1-0"),
    ]
    assert SMALL.tier.tolist() == [0] * 4 + [1] * 4 + [2] * 2 + [3] * 2
    assert SMALL.plane.tolist() == [-1] * 4 + [0, 1, 0, 1] + [0, 1] + [0, 1]


def test_backup_hosts_come_last():
    assert SMALL.backup.tolist() == [False, False, True, True]


def test_a_switch_counts_its_ports_down_before_those_up():
    up = SMALL.links(Tier.TOR)
    assert SMALL.lower_port[up].tolist() == [2, 2, 2, 2]  # each ToR has two cards below
    assert SMALL.upper_port[up].tolist() == [0, 0, 1, 1]


def test_its_text_is_its_shapes():
    assert named(str(SMALL)).names == SMALL.names
    assert str(SMALL).startswith("hpn segments=1 hosts=1 ")


def test_a_tier_has_a_name_for_tables():
    assert [tier.label for tier in Tier] == ["GPU", "ToR", "Agg", "core"]
