"""SimAI's topology text: fabrics written in it are found again, and wrong lines are named."""

import numpy as np
import pytest
from hypothesis import given

from headway.errors import PlanError
from headway.fabric import simai
from headway.fabric.describe import describe
from headway.fabric.fabric import Tier
from headway.fabric.topologies import build, named
from headway.units import show_rate
from tests.fabric.shapes import shapes

# two servers of two GPUs, an NVSwitch in each, one ToR a rail, one Agg; as SimAI's generator orders and spells it
SMALL = """9 2 2 3 10 H800
4 5 6 7 8 
0 4 1600Gbps 0.000025ms 0
0 6 200Gbps 0.0005ms 0
1 4 1600Gbps 0.000025ms 0
1 7 200Gbps 0.0005ms 0
2 5 1600Gbps 0.000025ms 0
2 6 200Gbps 0.0005ms 0
3 5 1600Gbps 0.000025ms 0
3 7 200Gbps 0.0005ms 0
6 8 400Gbps 0.0005ms 0
7 8 400Gbps 0.0005ms 0
"""  # noqa: W291 -- the generator ends line 2 with a space


def written(fabric, nvswitches):
    """A fabric as SimAI's text, with one NVSwitch a server or none."""
    gpus, per_host = fabric.num_gpus, fabric.gpus_per_host
    inside = [(gpu, gpus + gpu // per_host, "3200Gbps") for gpu in range(gpus)] if nvswitches else []
    shift = gpus // per_host if nvswitches else 0
    ends = zip(fabric.lower.tolist(), fabric.upper.tolist(), fabric.capacity.tolist(), strict=True)
    links = [(low + shift * (low >= gpus), up + shift, show_rate(rate)) for low, up, rate in ends]
    nodes = fabric.num_nodes + shift
    head = f"{nodes} {per_host} {shift} {len(fabric.names)} {len(inside + links)} H800"
    body = [f"{low} {up} {rate} 0.0005ms 0" for low, up, rate in inside + links]
    return "\n".join([head, " ".join(map(str, range(gpus, nodes))), *body])


@pytest.mark.parametrize("nvswitches", [False, True])
@given(shape=shapes())
def test_tiers_segments_rails_pods_and_planes_are_found_in_the_links(nvswitches, shape):
    fabric = build(shape)
    found = simai.parse(written(fabric, nvswitches), "x")
    for column in ("tier", "pod", "segment", "rail", "plane", "lower", "upper", "capacity"):
        assert np.array_equal(getattr(found, column), getattr(fabric, column)), column


def test_a_small_file_with_nvswitches():
    fabric = simai.parse(SMALL, "folder/small")
    assert (fabric.name, fabric.gpus_per_host) == ("small", 2)
    assert fabric.names == ("tor-4", "tor-5", "agg-6")
    assert fabric.rail.tolist() == [0, 1, 0, 1, 0, 1, -1]
    facts = describe(fabric)
    assert (facts.segments, facts.gpus_per_segment, facts.rails, facts.planes) == (1, 4, 2, 1)
    tor = facts.tier(Tier.TOR)
    assert (tor.used_ports, tor.num_ports, tor.oversubscription) == (2, 2, 1.0)


def test_hpn_of_simais_size_has_the_facts_of_ours_but_for_backup_hosts_and_cores():
    """Its generator's defaults: 15,360 GPUs, 240 ASW, 120 PSW, --dp."""
    ours = named("hpn backup_hosts=0 cores=0 core_links=0")
    found, wanted = describe(simai.parse(written(ours, nvswitches=True), "x")), describe(ours)
    names = ("gpus", "gpus_per_segment", "tors_per_segment", "segments", "rails", "planes", "aggs_per_plane", "paths")
    assert {name: getattr(found, name) for name in names} == {name: getattr(wanted, name) for name in names}
    assert "tells no ports" in found.assumptions[0]


def test_links_may_be_written_from_either_end_and_servers_may_have_links_inside():
    text = SMALL.replace("9 2 2 3 10 ", "9 2 2 3 11 ").replace("6 8 400", "8 6 400") + "0 1 900Gbps 0.0001ms 0\n"
    assert simai.parse(text, "x").num_links == 6


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (SMALL, "", "x, line 1 is no head of a SimAI topology"),
        ("9 2 2 3 10 H800", "9 2 2 3 H800", "x, line 1 is no head of a SimAI topology"),
        ("9 2 2 3 10 H800", "9 2 -2 3 10 H800", "x, line 1 is no head of a SimAI topology"),
        ("9 2 2 3 10 H800", "9 2 2 3 99999999999 H800", "line 1: 99,999,999,999 of something is more than"),
        ("9 2 2 3 10 H800", "9 3 2 3 10 H800", "leave 4 GPUs in servers of 3."),
        ("9 2 2 3 10 H800", "9 0 2 3 10 H800", "leave 4 GPUs in servers of 0."),
        ("9 2 2 3 10 H800", "9 2 5 0 10 H800", "9 nodes with 5 NVSwitches and 0 switches leave 4 GPUs"),
        ("4 5 6 7 8 ", "4 5 6 7 7", "line 2 does not name the 5 switches. They are 4 to 8, once each."),
        ("7 8 400Gbps 0.0005ms 0\n", "", "line 1 says 10 links, 9 follow."),
        ("7 8 400Gbps 0.0005ms 0", "7 9 400Gbps 0.0005ms 0", "line 12 is no link: '7 9 400Gbps 0.0005ms 0'."),
        ("7 8 400Gbps 0.0005ms 0", "7 8 400Gbps", "line 12 is no link: '7 8 400Gbps'."),
        ("7 8 400Gbps", "7 8 fast", "'fast' is not a bandwidth."),
        ("7 8 400Gbps", "7 8 0Gbps", "has no capacity"),
        ("7 8 400Gbps", "1 2 400Gbps", "a link joins the GPUs 1 and 2 of two servers."),
        ("7 8 400Gbps", "6 7 400Gbps", "joins tor-4 and tor-5. Links join a tier to the next one up."),
        ("3 7 200Gbps", "1 7 200Gbps", "host-1/gpu-1 of x is under no ToR."),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_line(old, new, said):
    assert old in SMALL
    with pytest.raises(PlanError) as refused:
        simai.parse(SMALL.replace(old, new), "x")
    assert said in str(refused.value)


def test_a_switch_far_from_every_gpu_is_refused():
    text = "6 1 0 5 5 H800\n1 2 3 4 5\n" + "".join(f"{n} {n + 1} 400Gbps 0ms 0\n" for n in range(5))
    with pytest.raises(PlanError, match="x: switch 4 is more than 3 links from every GPU"):
        simai.parse(text, "x")
