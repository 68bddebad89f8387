"""Blueprint: a fabric told switch by switch equals the family's, and what is wrong in it is named."""

import dataclasses

import numpy as np
import pytest

from headway.errors import PlanError
from headway.fabric.blueprint import Blueprint, Bundle, Segment, Switches, build, expand
from headway.fabric.describe import describe
from headway.fabric.fabric import Tier
from headway.fabric.topologies import named

# hpn segments=2 hosts=2 backup_hosts=1 gpus_per_host=4 rails=2 aggs=2 cores=2 core_links=2
TOLD = Blueprint(
    name="told",
    gpus_per_host=4,
    switches=(
        *(Switches(names=f"tor-s{s}-r{r}-{t}", tier="tor", plane=t) for s in (0, 1) for r in (0, 1) for t in (0, 1)),
        *(Switches(names=f"agg-p0-{plane}-[0-1]", tier="agg", plane=plane) for plane in (0, 1)),
        *(Switches(names=f"core-{plane}-[0,1]", tier="core", plane=plane) for plane in (0, 1)),
    ),
    segments=(
        Segment(hosts="0-1", backup_hosts=4, rails=(("tor-s0-r0-0", "tor-s0-r0-1"), ("tor-s0-r1-0", "tor-s0-r1-1"))),
        Segment(hosts="2,3", backup_hosts=5, rails=(("tor-s1-r0-0", "tor-s1-r0-1"), ("tor-s1-r1-0", "tor-s1-r1-1"))),
    ),
    links=(
        *(Bundle(lower=f"tor-s{s}-r[0-1]-{plane}", upper=f"agg-p0-{plane}-[0-1]") for s in (0, 1) for plane in (0, 1)),
        *(Bundle(lower=f"agg-p0-{plane}-[0-1]", upper=f"core-{plane}-[0-1]") for plane in (0, 1)),
    ),
)


def test_hpn_told_switch_by_switch_is_hpn():
    told = build(TOLD)
    hpn = named("hpn segments=2 hosts=2 backup_hosts=1 gpus_per_host=4 rails=2 aggs=2 cores=2 core_links=2")
    for column in ("tier", "pod", "segment", "rail", "plane", "backup", "names", "num_ports", "port_rate"):
        assert np.array_equal(getattr(told, column), getattr(hpn, column)), column
    assert _links(told) == _links(hpn)
    same = dataclasses.replace(describe(hpn), name="told", assumptions=())
    assert describe(told) == same


def _links(fabric):
    return sorted(zip(fabric.lower.tolist(), fabric.upper.tolist(), fabric.capacity.tolist(), strict=True))


def test_parallel_links_and_segments_of_several_pods_can_be_told():
    fabric = build(
        Blueprint(
            name="two pods",
            gpus_per_host=1,
            switches=(
                Switches(names="tor-[0-1]", tier="tor"),
                Switches(names="agg-[0-1]", tier="agg"),
                Switches(names="core", tier="core"),
            ),
            segments=(Segment(hosts=0, rails=(("tor-0",),)), Segment(hosts=1, rails=(("tor-1",),), pod=1)),
            links=(
                Bundle(lower="tor-0", upper="agg-0", count=3),
                Bundle(lower="tor-1", upper="agg-1", speed="100Gbps"),
                Bundle(lower="agg-[0-1]", upper="core", count=2),
            ),
        )
    )
    assert fabric.pod[fabric.nodes(Tier.AGG)].tolist() == [0, 1]
    assert fabric.capacity[fabric.links(Tier.TOR)].tolist() == [50e9, 50e9, 50e9, 12.5e9]
    facts = describe(fabric)
    assert (facts.pods, facts.paths, facts.paths_of_pods) == (2, None, 3 * 2 * 2)


@pytest.mark.parametrize(
    ("text", "names"),
    [("a", ["a"]), ("a[1]", ["a1"]), ("a[0-1]b", ["a0b", "a1b"]), ("[8-9,3]", ["8", "9", "3"])],
)
def test_a_range_stands_for_its_names(text, names):
    assert expand(text) == names


@pytest.mark.parametrize("text", ["", "a[0", "a]0[", "a[0][1]"])
def test_brackets_that_are_no_range_are_refused(text):
    with pytest.raises(PlanError, match=r"names no switches. Write a name, or one range"):
        expand(text)


@pytest.mark.parametrize("text", ["a[]", "a[x]", "a[3-1]", "a[0-9999999]", "a[-1]", "a[99999999]"])
def test_numbers_that_are_no_range_are_refused(text):
    if text == "a[]":
        assert expand(text) == []
        return
    with pytest.raises(PlanError, match="is not a number or a range of them"):
        expand(text)


TOR = Switches(names="tor-[0-1]", tier="tor")
HOME = Segment(hosts="0-1", rails=(("tor-0",),))


def _told(switches=(TOR,), segments=(HOME,), links=(), **more):
    return Blueprint(name="mine", switches=switches, segments=segments, links=links, **more)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (
            _told(segments=(HOME, Segment(hosts="1-2", rails=(("tor-1",),)))),
            "the GPUs of host 1 are in segments 0 and 1.",
        ),
        (
            _told(segments=(HOME, Segment(hosts=2, rails=(("tor-0",),)))),
            "tor-0 is in segments 0 and 1. Name it in one.",
        ),
        (_told(segments=(Segment(hosts=1, rails=(("tor-0",),)),)), "host 0 is in no segment."),
        (_told(segments=()), "mine has no hosts."),
        (_told(segments=(Segment(hosts="", backup_hosts=0, rails=(("tor-0",),)),)), "mine has backup hosts only."),
        (
            _told(segments=(Segment(hosts=0, rails=(("tor-7",),)),)),
            "no switch is called 'tor-7'. Did you mean 'tor-1'?",
        ),
        (_told(segments=(Segment(hosts=0, rails=()),)), "segment 0 has 0 rails for hosts of 8 GPUs."),
        (_told(segments=(Segment(hosts=0, rails=((),)),)), "each rail with the ToR of each port."),
        (_told(segments=(Segment(hosts=0, rails=(("tor-0",),), pod=-1),)), "segment 0 is of pod -1."),
        (_told(switches=()), "mine has no switches."),
        (_told(switches=(TOR, TOR)), "the switch tor-0 stands twice."),
        (_told(switches=(dataclasses.replace(TOR, ports=0),)), "tor-[0-1] has 0 ports. Use 1 to 65536."),
        (
            _told(switches=(dataclasses.replace(TOR, ports=3),)),
            "tor-0 needs 8 ports of 400Gbps for its links and has 3",
        ),
        (_told(switches=(dataclasses.replace(TOR, plane=-1),)), "is on plane -1. Count planes from 0."),
        (_told(switches=(dataclasses.replace(TOR, speed="0Gbps"),)), "the speed of tor-[0-1] is 0Gbps."),
        (_told(switches=(dataclasses.replace(TOR, tier="agg"),)), "joins host-0/gpu-0 and tor-0. Links join a tier to"),
        (_told(links=(Bundle(lower="tor-0", upper="tor-1"),)), "joins tor-0 and tor-1. Links join a tier to the next"),
        (_told(links=(Bundle(lower="tor-0", upper="agg"),)), "no switch is called 'agg'."),
        (_told(links=(Bundle(lower="tor-0", upper="tor-1", count=0),)), "0 links from each of tor-0 to each of tor-1."),
        (_told(links=(Bundle(lower="tor-0", upper="tor-1", count=10**9),)), "at most 16,777,216 in all."),
        (_told(switches=(Switches(names="a,b", tier="tor"),)), "'a,b' is no name of a switch."),
        (dataclasses.replace(_told(), name="a\x1bb"), "a fabric's name is 'a\\x1bb'."),
        (dataclasses.replace(_told(), name=""), "a fabric's name is ''."),
        (_told(gpus_per_host=0), "gpus_per_host is 0."),
        (_told(gpus_per_host=10**12), "2 hosts of 1,000,000,000,000 GPUs are too many."),
        (_told(nic_speed="1Tbps"), "the link of host-0/gpu-0 and tor-0 has 1000Gbps, a port of its switch 400Gbps."),
    ],
)
def test_what_is_wrong_in_a_blueprint_is_named_with_a_remedy(told, said):
    with pytest.raises(PlanError) as refused:
        build(told)
    assert said in str(refused.value)
