"""Paths: hand-counted ones, and an independent enumeration."""

from collections import defaultdict

import numpy as np
from hypothesis import given

from headway.fabric.fabric import Tier
from headway.fabric.paths import num_paths, ways_up
from headway.fabric.topologies import build, named
from tests.fabric.shapes import shapes


def test_gpus_under_one_tor_have_one_path_for_each_port_that_meets_there():
    hpn = named("hpn segments=2 hosts=2 backup_hosts=0")
    assert num_paths(hpn, 0, 0, 8) == 1
    assert num_paths(hpn, 0, 1, 8) == 1


def test_other_rails_are_reached_over_the_aggs_of_the_plane():
    hpn = named("hpn segments=2 hosts=2 backup_hosts=0")
    assert num_paths(hpn, 0, 0, 1) == 60


def test_other_rails_are_not_reached_in_a_rail_only_fabric():
    fabric = named("rail-only segments=2 hosts=2 backup_hosts=0")
    assert num_paths(fabric, 0, 0, 1) == 0
    assert num_paths(fabric, 0, 0, 16) == 60


def test_under_two_planes_a_port_never_meets_the_other_planes_aggs():
    hpn = named("hpn segments=2 hosts=2 backup_hosts=0")
    for port in (0, 1):
        _, aggs, cores = ways_up(hpn, 0, port)
        assert set(hpn.plane[np.flatnonzero(aggs)]) == {port}
        assert set(hpn.plane[np.flatnonzero(cores)]) == {port}


def test_a_port_that_a_card_does_not_have_leads_nowhere():
    assert num_paths(named("hpn segments=2 hosts=1 backup_hosts=0"), 0, 2, 8) == 0


@given(shapes())
def test_counting_agrees_with_walking_every_path(shape):
    fabric = build(shape)
    above = defaultdict(list)
    for link, (low, up) in enumerate(zip(fabric.lower.tolist(), fabric.upper.tolist(), strict=True)):
        above[low].append((link, up))
    for destination in {fabric.num_gpus // 2, fabric.num_gpus - 1} - {0}:
        assert num_paths(fabric, 0, 0, destination) == _walked(fabric, above, destination)


def _walked(fabric, above, destination):
    """Paths from port 0 of GPU 0, link by link."""
    climbs, falls = [[above[0][0]]], [[step] for step in above[destination]]
    for tier in (Tier.TOR, Tier.AGG, Tier.CORE):
        met = [(tuple(up), tuple(down)) for up in climbs for down in falls if up[-1][1] == down[-1][1]]
        if met:
            return len({up for up, _ in met} if tier is Tier.CORE and fabric.per_port_core else met)
        climbs, falls = ([[*path, step] for path in each for step in above[path[-1][1]]] for each in (climbs, falls))
    return 0
