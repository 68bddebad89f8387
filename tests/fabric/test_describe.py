"""Facts of the published fabrics: every count, port, oversubscription and path search space, counted in the arrays."""

import dataclasses
import json

import pytest

from headway.errors import PlanError
from headway.fabric.describe import describe, document
from headway.fabric.fabric import Tier
from headway.fabric.shape import family
from headway.fabric.topologies import build, named


def _facts(text):
    return describe(named(text))


def _tier(text, tier):
    found = _facts(text).tier(tier)
    return [*map(str, (*found.down, *found.up))], (found.used_ports, found.num_ports), found.oversubscription


def test_a_host_of_hpn_has_8_gpus_of_400_gbps_each():
    """Qian et al. 2024, §3: 2 × 200G a GPU, 3.2 Tb/s a host."""
    facts = _facts("hpn")
    assert [str(each) for each in facts.nic_ports] == ["2 × 200Gbps"]
    assert facts.gpus_per_host * facts.nic_ports[0].count * facts.nic_ports[0].rate * 8 == 3.2e12


def test_a_segment_of_hpn_has_1024_gpus_64_in_reserve_and_16_tors():
    """Figure 7 and §5."""
    facts = _facts("hpn")
    assert (facts.hosts_per_segment, facts.backup_hosts_per_segment) == (128, 8)
    assert (facts.gpus_per_segment, facts.backup_gpus_per_segment) == (1024, 64)
    assert facts.tors_per_segment == facts.rails * 2 == 16
    assert round(facts.backup_gpus / (facts.gpus + facts.backup_gpus), 3) == 0.059


def test_a_tor_of_hpn_uses_all_of_a_chip_of_51_2_tbps_at_1_067_to_1():
    """§5.1: 128 + 8 × 200G down, 60 × 400G up."""
    links, ports, over = _tier("hpn", Tier.TOR)
    assert links == ["136 × 200Gbps", "60 × 400Gbps"]
    assert ports == (128, 128)
    assert over == pytest.approx(1.067, abs=0.0005)
    assert 136 * 200 + 60 * 400 == 51_200


def test_an_agg_of_hpn_is_15_to_1_oversubscribed_towards_the_cores():
    """§7: 15 segments × 8 rails down, 8 up."""
    assert _tier("hpn", Tier.AGG) == (["120 × 400Gbps", "8 × 400Gbps"], (128, 128), 15.0)


def test_a_pod_of_hpn_has_15360_gpus_240_tors_and_60_aggs_in_each_of_two_planes():
    """§6.2 and table 1."""
    facts = _facts("hpn")
    assert (facts.gpus, facts.gpus_per_pod, facts.segments) == (15_360, 15_360, 15)
    assert facts.tier(Tier.TOR).count == 240
    assert (facts.planes, facts.aggs_per_plane, facts.aggs_per_pod) == (2, 60, 120)
    assert facts.links["tor"] == 14_400


def test_the_cores_of_hpn_are_64_and_join_8_pods_of_122880_gpus_by_an_assumption_that_is_said():
    facts = _facts("hpn pods=8")
    assert (facts.pods, facts.gpus, facts.segments) == (8, 122_880, 120)
    assert (facts.cores_per_plane, facts.tier(Tier.CORE).count) == (32, 64)
    assert [str(each) for each in facts.tier(Tier.CORE).down] == ["120 × 400Gbps"]
    assert "No source gives the wiring of the cores. Assumed: 32 cores a plane in 4 groups of 8" in facts.assumptions[0]
    with pytest.raises(PlanError, match="core-0-0 needs 135 ports"):
        named("hpn pods=9")


def test_dcn_has_512_gpus_a_pod_in_4_segments_at_full_bisection():
    """§9, appendix C, figure 20."""
    facts = _facts("dcn+")
    assert (facts.gpus_per_segment, facts.hosts_per_segment, facts.tors_per_segment) == (128, 16, 2)
    assert (facts.gpus_per_pod, facts.segments_per_pod, facts.aggs_per_pod) == (512, 4, 8)
    assert _tier("dcn+", Tier.TOR) == (["128 × 200Gbps", "64 × 400Gbps"], (128, 128), 1.0)
    assert _tier("dcn+", Tier.AGG) == (["64 × 400Gbps", "64 × 400Gbps"], (128, 128), 1.0)
    assert facts.tier(Tier.CORE).count == 128


def test_32_pods_of_dcn_are_16384_gpus_and_fill_every_port_of_the_128_cores():
    facts = _facts("dcn+ pods=32")
    assert facts.gpus == 16_384
    assert _tier("dcn+ pods=32", Tier.CORE) == (["128 × 400Gbps"], (128, 128), None)


def test_rail_only_has_16_planes_and_122880_gpus_in_a_pod():
    """Table 4."""
    facts = _facts("rail-only")
    assert (facts.planes, facts.gpus_per_pod, facts.aggs_per_plane) == (16, 122_880, 60)


def test_the_first_tier_holds_64_gpus_then_128_under_two_tors_then_1024_with_rails():
    """Table 2."""
    assert [_facts(name).gpus_per_segment for name in ("single-tor", "dcn+", "hpn")] == [64, 128, 1024]


@pytest.mark.parametrize(
    ("planes", "core_links", "segments", "gpus"), [(1, 64, 4, 4096), (2, 64, 8, 8192), (2, 8, 15, 15_360)]
)
def test_the_second_tier_holds_4k_gpus_then_8k_with_two_planes_then_15k_at_15_to_1(planes, core_links, segments, gpus):
    """Table 2: no more segments than these fit the ports of an Agg. (Its first row, 2K, follows from no wiring.)"""
    sizes = {"planes": planes, "core_links": core_links, "cores": core_links, "segments": segments}
    widest = dataclasses.replace(family("hpn"), **sizes)
    assert describe(build(widest)).gpus == gpus
    with pytest.raises(PlanError, match="Use fewer segments in a pod"):
        build(dataclasses.replace(widest, segments=segments + 1))


def test_the_path_search_space_of_hpn_is_60():
    """Table 1: only the ToR chooses."""
    assert _facts("hpn").paths == 60


def test_with_one_plane_the_agg_chooses_again_between_two_tors():
    """Figure 13: 60 Aggs converge on the two ports."""
    assert _facts("single-plane").paths == 60 * 2


def test_in_dcn_every_switch_on_the_way_chooses():
    """64 links of the ToR and 2 × 8 of the Agg in a pod; 64 and 64 up, 4 and 16 down between pods."""
    facts = _facts("dcn+ pods=2")
    assert facts.paths == 64 * 2 * 8
    assert facts.paths_of_pods == 64 * 64 * 4 * 16


def test_a_fat_tree_of_48_ports_has_24_times_24_paths_between_pods():
    """Table 1 gives its order as 48²."""
    sizes = "hosts=24 gpus_per_host=1 nic_ports=1 nic_speed=400Gbps switch_ports=48"
    facts = _facts(f"clos pods=48 segments=24 aggs=24 cores=576 core_links=24 {sizes}")
    assert (facts.gpus, facts.tier(Tier.CORE).used_ports) == (48**3 // 4, 48)
    assert (facts.paths, facts.paths_of_pods) == (24, 24 * 24)


@pytest.mark.parametrize(("hash_", "paths"), [("port", 60 * 8), ("flow", 60 * 8 * 15)])
def test_cores_that_hash_by_port_leave_the_choice_to_the_tor_and_the_agg(hash_, paths):
    """§7."""
    assert _facts(f"hpn pods=2 core_hash={hash_}").paths_of_pods == paths


def test_a_gpu_of_hpn_takes_fewer_links_and_a_tenth_of_the_switches_of_one_in_dcn():
    hpn, dcn = _facts("hpn pods=8"), _facts("dcn+ pods=32")
    assert hpn.links_per_gpu == (261_120 + 115_200 + 7_680) / 122_880
    assert dcn.links_per_gpu == 2 + 1 + 1
    assert (hpn.switches, dcn.switches) == (8 * 360 + 64, 256 + 256 + 128)
    assert hpn.switches_per_gpu < dcn.switches_per_gpu


def test_json_has_the_names_that_others_look_for():
    found = json.loads(json.dumps(document(_facts("hpn"))))
    wanted = {
        "gpus_per_segment": 1024,
        "backup_gpus_per_segment": 64,
        "tors_per_segment": 16,
        "segments": 15,
        "gpus": 15_360,
        "tors": 240,
        "aggs": 120,
        "cores": 64,
        "aggs_per_plane": 60,
        "path_search_space": 60,
        "backup_gpus": 960,
    }
    assert {name: found[name] for name in wanted} == wanted
    assert found["oversubscription"] == {"tor": pytest.approx(16 / 15), "agg": 15.0, "core": None}


def test_what_a_fabric_does_not_have_is_none_or_nothing():
    facts = _facts("clos gpus_per_host=1")
    assert (facts.paths, facts.paths_of_pods, facts.cores_per_plane, facts.tier(Tier.CORE)) == (None, None, 0, None)
    assert facts.assumptions == ()
    assert document(facts)["cores"] == 0
