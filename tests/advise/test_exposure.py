"""Exposure: links and ToRs that a job touches, as a plain count of the fabric finds them."""

import numpy as np
import pytest

from headway.advise.exposure import exposure, house
from headway.errors import PlanError
from headway.fabric import topologies
from headway.fabric.blueprint import Blueprint, Segment, Switches, build
from headway.fabric.fabric import Tier


@pytest.mark.parametrize(
    ("name", "links", "tors", "homes", "segments", "under"),
    [("single-tor", 3000, 47, 1, 47, 8), ("dcn+", 6000, 48, 2, 24, 16), ("hpn", 6000, 48, 2, 3, 128)],
)
def test_three_thousand_gpus_touch_what_the_wiring_gives_them(name, links, tors, homes, segments, under):
    found = exposure(house(name, 3000), 3000)
    assert (found.links, found.tors, found.homes) == (links, tors, homes)
    assert (found.segments, found.hosts_under_tor, found.hosts) == (segments, under, 375)


@pytest.mark.parametrize("gpus", [1, 7, 8, 9, 24, 25, 48])
def test_a_count_by_hand_agrees(gpus):
    fabric = topologies.named("hpn segments=2 hosts=3")
    found = exposure(fabric, gpus)
    ends = [
        (low, up)
        for low, up in zip(fabric.lower.tolist(), fabric.upper.tolist(), strict=True)
        if low < gpus and fabric.tier[low] == Tier.GPU  # of a family, active hosts come first, segment by segment
    ]
    assert (found.links, found.tors) == (len(ends), len({up for _, up in ends}))
    assert found.hosts == -(-gpus // 8)
    assert found.hosts_under_tor == max(
        len({low // 8 for low, up in ends if up == tor}) for tor in {up for _, up in ends}
    )


def test_a_job_goes_to_the_largest_segment_and_leaves_backup_hosts_alone():
    fabric = build(
        Blueprint(
            name="uneven",
            switches=(Switches(names="tor-[0-1]", tier="tor"),),
            segments=(
                Segment(hosts="0-1", rails=(("tor-0",),)),
                Segment(hosts="2-5", rails=(("tor-1",),), backup_hosts="6"),
            ),
        )
    )
    found = exposure(fabric, 32)
    assert (found.segments, found.tors, found.hosts) == (1, 1, 4)
    assert exposure(fabric, 33).segments == 2
    with pytest.raises(PlanError, match=r"takes 49 GPUs, but uneven has 48\. Use 1 to 48"):
        exposure(fabric, 49)


def test_a_family_gets_as_many_pods_as_the_job_takes():
    assert int((~house("dcn+", 513).backup).sum()) == 1024
    assert str(house("hpn", 15_360)) == "hpn"


def test_more_gpus_than_the_cores_can_join_are_refused():
    with pytest.raises(PlanError, match=r"single-tor has room for 16,384 GPUs \(32 pods of 512\), but .* 16,385"):
        house("single-tor", 16_385)
    with pytest.raises(PlanError, match=r"rail-only has room for 122,880 GPUs \(1 pods"):
        house("rail-only", 200_000)


@pytest.mark.parametrize(
    "name", ["hpn segments=1 hosts=2 nic_ports=4", "single-tor segments=1 nic_ports=2 nic_speed=200Gbps"]
)
def test_cards_of_other_kinds_are_refused(name):
    with pytest.raises(PlanError, match="one link to one ToR, or one to each of two"):
        exposure(topologies.named(name), 8)


def test_links_are_counted_for_any_fabric_of_two_ports():
    found = exposure(topologies.named("rail-only segments=2 hosts=4"), 64)
    assert (found.links, found.tors, found.homes) == (128, 32, 2)
    assert np.isclose(found.links / found.tors, 4)
