"""Faults: their text, which links they kill, what that leaves, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import PlanError
from headway.fabric.fabric import Tier
from headway.fabric.fault import KINDS, NEVER, Fault, check, effect, links, parse
from headway.fabric.paths import num_paths
from headway.fabric.topologies import named
from headway.fabric.ways import ways

HPN = named("hpn pods=2 segments=2 hosts=4 backup_hosts=0")
DCN = named("dcn+")


def _dead(fabric, text):
    return links(fabric, parse(text))


def _ends(fabric, text):
    dead = _dead(fabric, text)
    return [
        (fabric.node_name(low), fabric.node_name(up))
        for low, up in zip(fabric.lower[dead].tolist(), fabric.upper[dead].tolist(), strict=True)
    ]


@given(
    st.sampled_from(KINDS),
    st.floats(0, 1e6),
    st.one_of(st.just(NEVER), st.floats(1e-6, 1e9)),
    st.one_of(st.just(NEVER), st.floats(1e-6, 1e9)),
)
def test_the_text_of_a_fault_parses_back(kind, at, lasts, every):
    fault = Fault(kind, "a:1 b", at, lasts, every)
    assert parse(str(fault)) == fault


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("tor tor-s0-r0-1 at 10s for 30s", "tor tor-s0-r0-1 at 10s for 30s"),
        ("nic host-3/gpu-5", "nic host-3/gpu-5 at 0s"),
        ("plane 1 of pod 0 for 1.5min at 250ms", "plane 1 of pod 0 at 0.25s for 90s"),
        ("link a:3 b flapping every 5s", "link a:3 b at 0s flapping every 5s"),
        ("port host-3/gpu-5:0 at 1h flapping 500ms", "port host-3/gpu-5:0 at 3600s flapping every 0.5s"),
    ],
)
def test_clauses_stand_in_any_order_and_times_in_any_unit(text, shown):
    assert str(parse(text)) == shown


def test_a_port_and_its_cable_are_the_same_link_whichever_end_is_named():
    cable = [("host-3/gpu-5", "tor-s0-r5-0")]
    assert _ends(HPN, "port host-3/gpu-5:0") == cable
    assert _ends(HPN, "port tor-s0-r5-0:3") == cable
    assert _ends(HPN, "link host-3/gpu-5 tor-s0-r5-0") == cable
    assert _ends(HPN, "link tor-s0-r5-0 host-3/gpu-5:0") == cable
    assert _ends(HPN, "link tor-s0-r0-0 agg-p0-0-7") == [("tor-s0-r0-0", "agg-p0-0-7")]


def test_a_card_loses_all_its_ports():
    assert _ends(HPN, "nic host-3/gpu-5") == [("host-3/gpu-5", "tor-s0-r5-0"), ("host-3/gpu-5", "tor-s0-r5-1")]


def test_a_switch_loses_its_links_on_both_sides():
    assert _dead(HPN, "tor tor-s0-r0-1").sum() == 4 + 60
    assert _dead(HPN, "agg agg-p0-1-3").sum() == 2 * 8 + 8
    assert _dead(HPN, "core core-0-5").sum() == 2 * 15
    for text in ("tor tor-s0-r0-1", "agg agg-p0-1-3", "core core-0-5"):
        assert all(text.split()[1] in pair for pair in _ends(HPN, text))


def test_a_plane_takes_its_tors_aggs_and_cores_with_it_in_all_pods_or_in_one():
    whole = HPN.num_gpus + 2 * 2 * 8 * 60 + 2 * 60 * 8
    assert _dead(HPN, "plane 1").sum() == whole
    assert _dead(HPN, "plane 1 of pod 0").sum() == whole // 2
    upper = HPN.upper[_dead(HPN, "plane 1")]
    assert set(HPN.plane[upper].tolist()) == {1}


def test_of_several_cables_between_two_switches_one_is_named_by_its_port():
    with pytest.raises(PlanError, match=r"8 cables join .* Name one by its port: link tor-s0-r0-0:184 agg-p0-0-7"):
        _dead(DCN, "link tor-s0-r0-0 agg-p0-0-7")
    assert _dead(DCN, "link tor-s0-r0-0:184 agg-p0-0-7").sum() == 1


def test_after_the_loss_of_an_agg_59_of_60_paths_remain_in_its_plane():
    """HPN §6.1."""
    hpn = named("hpn segments=2 hosts=2 backup_hosts=0")
    dead = _dead(hpn, "agg agg-p0-0-7")
    assert [num_paths(hpn, 0, port, 16, ~dead) for port in (0, 1)] == [59, 60]
    left = ways(hpn, ~dead)
    tors = hpn.nodes(Tier.TOR)[:2]
    assert left.from_tor.count[left.from_tor.of_node[tors], left.target[16]].tolist() == [59, 60]
    assert effect(hpn, dead) == "16 ToRs keep 59 of 60 links up"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tor tor-s0-r0-1", "4 cards keep 1 of 2 ports"),
        ("port host-3/gpu-5:0", "1 card keeps 1 of 2 ports"),
        ("nic host-3/gpu-5", "1 card keeps 0 of 2 ports"),
        ("link tor-s0-r0-0 agg-p0-0-7", "1 ToR keeps 59 of 60 links up"),
        ("core core-0-5", "30 Aggs keep 7 of 8 links up"),
        ("plane 1", "128 cards keep 1 of 2 ports"),
    ],
)
def test_what_a_fault_leaves_is_counted(text, said):
    assert effect(HPN, _dead(HPN, text)) == said


def test_paths_over_working_links_are_those_of_the_fabric_without_the_others():
    alive = np.ones(HPN.num_links, bool)
    assert num_paths(HPN, 0, 0, 32 * 2 + 8, alive) == num_paths(HPN, 0, 0, 32 * 2 + 8) == 60 * 8
    assert num_paths(HPN, 0, 0, 32, ~_dead(HPN, "plane 0")) == 0


def test_a_flapping_fault_is_down_for_the_first_half_of_each_turn():
    assert parse("nic a at 10s for 12s flapping every 5s").downs(60.0) == [(10, 12.5), (15, 17.5), (20, 22)]
    assert parse("nic a at 10s flapping every 20s").downs(50.0) == [(10, 20), (30, 40)]
    assert parse("nic a at 10s for 30s").downs(20.0) == [(10, 40)]
    assert parse("nic a at 10s").downs(10.0) == []


def test_a_fault_that_flaps_too_often_to_be_played_is_refused():
    with pytest.raises(PlanError, match=r"flaps 50,000 times in 60 s.* Flap every 0.05s, or longer"):
        parse("nic a at 10s flapping every 1ms").downs(60.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no fault is called ''. Known: link, port, nic, tor, agg, core, plane."),
        ("trr tor-s0-r0-0", "no fault is called 'trr'. Did you mean 'tor'?"),
        ("tor at 10s", "a tor breaks, but which is not said. Write it as tor NAME."),
        ("tor tor-s0-r0-0 at 10", "at: '10' is not a duration. Write it like 90s"),
        ("tor tor-s0-r0-0 for", "for: '' is not a duration."),
        ("tor tor-s0-r0-0 at 1s at 2s", "says 'at' twice. Say it once."),
        ("tor tor-s0-r0-0 for 0s", "tor tor-s0-r0-0: for 0 s. Use 1us"),
        ("tor tor-s0-r0-0 at 100d", "breaks at 8.64e+06 s. Use 0s to 1000000s."),
        ("tor tor-s0-r0-0 flapping every 0ms", "flapping every 0 s. Use 1us"),
        ("tor a b", "'tor a b' names 2 things. Write it as tor NAME."),
        ("link tor-s0-r0-0", "names 1 things. Write it as link NODE NODE"),
        ("tor tor-s0-r0-2", "has no ToR 'tor-s0-r0-2'. Did you mean 'tor-s0-r0-1'?"),
        ("tor agg-p0-0-7", "agg-p0-0-7 is no ToR. Write agg agg-p0-0-7."),
        ("core xyz", "has no core 'xyz'. Known: core-0-0, core-0-1"),
        ("nic tor-s0-r0-1", "nic tor-s0-r0-1 is a switch. Write it as nic CARD"),
        ("nic host-99/gpu-1", "has no host-99/gpu-1. Its hosts are 0 to 15, their GPUs 0 to 7."),
        ("port host-3/gpu-5", "port host-3/gpu-5 names no port. Write it as port NODE:PORT"),
        ("port host-3/gpu-5:2", "host-3/gpu-5 has no port '2'. Use one of 0 to 1."),
        ("port host-3/gpu-5:x", "host-3/gpu-5 has no port 'x'."),
        (
            "link host-0/gpu-0 agg-p0-0-7",
            "no cable joins host-0/gpu-0 and agg-p0-0-7. host-0/gpu-0 is joined to tor-s0",
        ),
        ("link host-0/gpu-0:1 tor-s0-r0-0", "no cable joins host-0/gpu-0:1 and tor-s0-r0-0."),
        ("plane 2", "has no plane 2. Its planes are 0 to 1, its pods 0 to 1."),
        ("plane 1 of pod 2", "has no plane 1 of pod 2."),
        ("plane red", "'plane red' is no plane. Write it as plane NUMBER, or plane NUMBER of pod NUMBER."),
    ],
)
def test_a_fault_on_nothing_is_refused_with_what_there_is(text, said):
    with pytest.raises(PlanError) as refused:
        _dead(HPN, text)
    assert said in str(refused.value)


def test_a_fabric_without_cores_says_so():
    with pytest.raises(PlanError, match="has no core, so none is called 'core-0-0'"):
        _dead(named("rail-only segments=1 hosts=1"), "core core-0-0")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("tor tor-s0-r0-1 at 10s for 30s", "tor tor-s0-r0-1 at 20s"),
        ("port host-3/gpu-5:0", "link host-3/gpu-5 tor-s0-r5-0 at 5s for 1s"),
    ],
)
def test_two_faults_of_the_same_links_at_once_contradict(one, other):
    with pytest.raises(PlanError, match="break the same at the same time, so that they contradict each other"):
        check(HPN, [parse(one), parse(other)])


def test_a_thing_may_break_again_after_its_repair_and_things_may_break_within_others():
    check(HPN, [parse("tor tor-s0-r0-1 at 10s for 30s"), parse("tor tor-s0-r0-1 at 40s")])
    check(HPN, [parse("tor tor-s0-r0-1"), parse("port host-3/gpu-0:1")])
