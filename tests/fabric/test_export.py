"""Exports: every cable once, and a tree that Slurm can read."""

import csv

import pytest
from hypothesis import given

from headway.errors import PlanError
from headway.fabric import export
from headway.fabric.blueprint import Blueprint, Segment, Switches
from headway.fabric.blueprint import build as build_told
from headway.fabric.topologies import build, named
from headway.units import parse_bandwidth
from tests.fabric.shapes import shapes


def test_cables_of_a_small_fabric():
    assert list(export.cables(named("clos gpus_per_host=1"))) == [
        "lower,lower_port,upper,upper_port,speed",
        "host-0/gpu-0,0,tor-s0-r0-0,0,200Gbps",
        "host-0/gpu-0,1,tor-s0-r0-0,1,200Gbps",
        "tor-s0-r0-0,2,agg-p0-0-0,0,400Gbps",
    ]


@given(shapes())
def test_each_cable_stands_once_with_its_capacity_and_no_port_has_two(shape):
    fabric = build(shape)
    rows = list(csv.DictReader(export.cables(fabric)))
    assert [parse_bandwidth(row["speed"]) for row in rows] == fabric.capacity.tolist()
    ends = [(row[end], row[f"{end}_port"]) for row in rows for end in ("lower", "upper")]
    assert len(set(ends)) == 2 * fabric.num_links


def test_slurm_sees_a_segment_as_one_switch_with_its_backup_hosts():
    assert list(export.slurm(named("hpn segments=2 hosts=4 backup_hosts=1"))) == [
        "SwitchName=segment0 Nodes=host[0-3,8]",
        "SwitchName=segment1 Nodes=host[4-7,9]",
        "SwitchName=pod0 Switches=segment[0-1]",
    ]


def test_slurm_sees_pods_below_the_cores():
    assert list(export.slurm(named("dcn+ pods=2 segments=1 hosts=1"))) == [
        "SwitchName=segment0 Nodes=host0",
        "SwitchName=segment1 Nodes=host1",
        "SwitchName=pod0 Switches=segment0",
        "SwitchName=pod1 Switches=segment1",
        "SwitchName=core Switches=pod[0-1]",
    ]


def test_nccl_is_told_the_rail_and_the_plane_of_each_port():
    told = "".join(export.nccl(named("hpn segments=1 hosts=2")))
    first = "NCCL_IB_HCA==mlx5_0:1:0:0,mlx5_1:1:0:1,mlx5_2:1:1:0,mlx5_3:1:1:1,"
    assert told.startswith(first)
    assert told.endswith(",mlx5_14:1:7:0,mlx5_15:1:7:1")


def test_without_rails_and_planes_all_ports_are_on_the_first():
    assert set("".join(export.nccl(named("dcn+"))).partition("==")[2].replace("mlx5_", "").split(",")) == {
        f"{card}:1:0:0" for card in range(16)
    }


def test_hosts_that_differ_have_no_common_line():
    tors = Switches(names="tor-[0-1]", tier="tor"), Switches(names="other", tier="tor", plane=1)
    homes = Segment(hosts=0, rails=(("tor-0",),)), Segment(hosts=1, rails=(("tor-1", "other"),))
    for segments in (homes, (homes[0], Segment(hosts=1, rails=(("other",),)))):
        told = Blueprint(name="mixed", switches=tors, segments=segments)
        with pytest.raises(PlanError, match="the hosts of mixed differ in rails or planes"):
            list(export.nccl(build_told(told)))


def test_pods_that_nothing_joins_are_no_tree():
    told = Blueprint(
        name="two islands",
        switches=(Switches(names="tor-[0-1]", tier="tor"),),
        segments=(Segment(hosts=0, rails=(("tor-0",),)), Segment(hosts=1, rails=(("tor-1",),), pod=1)),
    )
    with pytest.raises(PlanError, match="two islands has 2 pods and no cores, which is no tree"):
        list(export.slurm(build_told(told)))
