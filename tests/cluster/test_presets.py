"""Clusters known by name."""

import pytest

from headway.cluster.presets import preset
from headway.env import num_cores
from headway.errors import PlanError

NAMES = ["local-cpu", "a100-80gb-hdr", "h800-hpn", "ascend-910b"]


@pytest.mark.parametrize("name", NAMES)
def test_a_presets_numbers_are_physical(name):
    cluster = preset(name)
    assert cluster.name == name
    for dtype in cluster.device.peak:
        assert 0 < cluster.device.matmul[dtype] <= cluster.device.peak[dtype]
    assert cluster.device.memory > 2**30
    for link in (cluster.inside, cluster.between):
        assert link.latency > 0
        assert link.bandwidth > 0
    assert cluster.inside.bandwidth >= cluster.between.bandwidth
    assert cluster.inside.latency <= cluster.between.latency


def test_ranks_of_the_local_cluster_share_this_machines_cores():
    assert preset("local-cpu").shared_cores == num_cores()


def test_an_unknown_name_gets_the_nearest_one():
    with pytest.raises(PlanError, match=r"called 'local_cpu'\. Did you mean 'local-cpu'\?"):
        preset("local_cpu")
