"""Checks: each broken rule is named with the node, the numbers and a remedy."""

import dataclasses

import numpy as np
import pytest

from headway.errors import PlanError
from headway.fabric.check import check, used_ports
from headway.fabric.topologies import named


def _fabric(**changes):
    return dataclasses.replace(named("clos gpus_per_host=2 hosts=2"), **changes)


def test_slower_links_share_a_port_that_is_broken_out():
    assert used_ports(named("clos gpus_per_host=1 nic_ports=3")).tolist() == [2 + 1, 1]
    assert used_ports(named("clos gpus_per_host=1 nic_ports=5 nic_speed=100Gbps")).tolist() == [2 + 1, 1]


def test_links_of_two_speeds_do_not_share_a_port():
    fabric = _fabric()
    mixed = np.where(np.arange(fabric.num_links) == 0, 100e9 / 8, fabric.capacity)
    assert used_ports(dataclasses.replace(fabric, capacity=mixed))[0] == 4 + 1 + 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda f: {"upper": np.full_like(f.upper, f.num_nodes - 1)},
            "joins host-0/gpu-0 and agg-p0-0-0. Links join a",
        ),
        (lambda f: {"capacity": f.capacity * 0}, "the link of host-0/gpu-0 and tor-s0-r0-0 has no capacity."),
        (lambda f: {"capacity": f.capacity * 3}, "has 1200Gbps, a port of its switch 400Gbps."),
        (lambda f: {"num_ports": f.num_ports * 0 + 1}, "tor-s0-r0-0 needs 5 ports of 400Gbps for its links and has 1"),
        (
            lambda f: {"lower": np.where(f.lower == 3, 2, f.lower)},
            "host-1/gpu-1 of clos hosts=2 gpus_per_host=2 is under",
        ),
    ],
)
def test_a_broken_rule_is_named(change, said):
    fabric = _fabric()
    with pytest.raises(PlanError) as refused:
        check(dataclasses.replace(fabric, **change(fabric)))
    assert said in str(refused.value)
