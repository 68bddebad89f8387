"""Nodes: distances in NCCL's words against a walk over the tree, nearest ports, groups, and what no host can be."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import PlanError
from headway.fabric import nccl_xml
from headway.fabric.node import Distance, document, groups, nearest, pci_rate, way
from tests.fabric.nodes import EXAMPLE, SMALL, gpu, host, nic, pci

LANES = (1, 2, 4, 8, 16)


def _node(data):
    return nccl_xml.parse(data, "x.xml")


@st.composite
def trees(draw):
    """CPUs with PCI trees: a parent for each of some switches and devices (a CPU, or an earlier switch), and lanes."""
    cpus, switches, devices = draw(st.integers(1, 3)), draw(st.integers(0, 6)), draw(st.integers(1, 6))
    parents = [draw(st.integers(0, cpus + min(place, switches) - 1)) for place in range(switches + devices)]
    lanes = [draw(st.sampled_from(LANES)) for _ in parents]
    return cpus, switches, parents, lanes, draw(st.integers(1, devices))


def _written(cpus, switches, parents, lanes, gpus):
    """The tree as XML; the first `gpus` devices are GPUs, the others cards."""

    def below(place):
        return "".join(element(each) for each, parent in enumerate(parents) if parent == place)

    def element(each):
        device = each - switches
        inside = below(cpus + each) if device < 0 else gpu(device) if device < gpus else nic(device)
        return pci(each + 1, inside, width=lanes[each])

    told = "".join(f'<cpu numaid="{cpu}">{below(cpu)}</cpu>' for cpu in range(cpus))
    return f'<system version="1">{told}</system>'.encode()


def _walked(tree, one, other):
    """The distance and the narrowest lanes between two devices: up from both to where they meet."""
    cpus, switches, parents, lanes, _ = tree

    def up(device):
        places = [cpus + switches + device]
        while places[-1] >= cpus:
            places.append(parents[places[-1] - cpus])
        return places

    first, second = up(one), up(other)
    meeting = next((place for place in first if place in second), None)
    narrowest = [lanes[p - cpus] for side in (first, second) for p in side[: _index(side, meeting)] if p >= cpus]
    if meeting is None:
        return "SYS", min(narrowest)
    if meeting < cpus:
        return "PHB", min(narrowest)
    return ("PIX" if first.index(meeting) == second.index(meeting) == 1 else "PXB"), min(narrowest)


def _index(side, meeting):
    return len(side) if meeting is None else side.index(meeting)


@given(trees())
def test_each_distance_and_narrowest_link_is_what_a_walk_over_the_tree_finds(tree):
    node = _node(_written(*tree))
    for each in node.gpus:
        for port in node.ports:
            name, lanes = _walked(tree, each.dev, port.dev)
            found = way(each.slot, port.slot)
            assert (found.distance.name, found.rate) == (name, pytest.approx(pci_rate(16.0, lanes)))
            assert way(port.slot, each.slot) == found


@given(trees())
def test_every_gpu_is_in_one_group_and_groups_share_no_ports(tree):
    node = _node(_written(*tree))
    found = groups(node)
    assert sorted(each.dev for group in found for each in group.gpus) == [each.dev for each in node.gpus]
    near = [port.dev for group in found for port in group.ports]
    assert len(near) == len(set(near))
    for group in found:
        assert {port.dev for each in group.gpus for port in nearest(node, each)} == {port.dev for port in group.ports}


def test_the_example_has_two_ports_beside_each_gpu():
    node = _node(EXAMPLE.read_bytes())
    for each in node.gpus:
        assert [str(port) for port in nearest(node, each)] == [f"mlx5_{2 * each.dev + n}:1" for n in range(2)]
        assert {way(each.slot, port.slot).distance for port in nearest(node, each)} == {Distance.PIX}
        assert [(port.rail, port.plane) for port in nearest(node, each)] == [(each.dev, 0), (each.dev, 1)]
    assert [len(card) for card in node.cards] == [2] * 8 + [1]
    frontend = node.ports[-1]
    assert way(node.gpus[0].slot, frontend.slot).distance is Distance.PHB
    assert way(node.gpus[4].slot, frontend.slot) == way(frontend.slot, node.gpus[4].slot)
    assert way(node.gpus[4].slot, frontend.slot).distance is Distance.SYS


def test_the_small_host_has_every_other_distance_and_a_card_on_no_bus():
    node = _node(SMALL.encode())
    ways = [[way(each.slot, port.slot) for port in node.ports] for each in node.gpus]
    assert [[each.distance.name for each in row] for row in ways] == [["PXB", "SYS"], ["SYS", "PHB"]]
    # 8 lanes of 8 GT/s into the card; 8 lanes of 16 GT/s between the switches; 8 lanes of 8 GT/s; 16 of 16 GT/s
    gigabytes = [[round(each.rate / 1e9, 2) for each in row] for row in ways]
    assert gigabytes == [[7.88, 15.75], [7.88, 31.51]]
    assert [str(port) for port in nearest(node, node.gpus[1])] == ["eth0:0"]


def test_of_ports_that_are_as_near_the_fastest_are_nearest():
    data = host(pci(1, gpu(0)), pci(2, nic(0)), pci(3, nic(1, speed=25_000)), pci(4, nic(2), width=1), pci(5, nic(3)))
    node = _node(data)
    assert [port.dev for port in nearest(node, node.gpus[0])] == [0, 3]


def test_gpus_that_share_a_card_are_one_group():
    shared = pci(1, pci(2, gpu(0)), pci(3, gpu(1)), pci(4, nic(0, 1)))
    node = _node(host(shared, pci(9, pci(10, gpu(2)), pci(11, nic(2)))))
    assert [([each.dev for each in group.gpus], [port.dev for port in group.ports]) for group in groups(node)] == [
        ([0, 1], [0, 1]),
        ([2], [2]),
    ]


def test_a_host_without_a_network_has_no_nearest_ports():
    node = _node(host(pci(1, gpu(0))))
    assert nearest(node, node.gpus[0]) == ()
    assert [group.ports for group in groups(node)] == [()]


@pytest.mark.parametrize(
    ("speed", "lanes", "gigabytes"),
    [(2.5, 16, 4.0), (5.0, 16, 8.0), (8.0, 16, 15.754), (16.0, 16, 31.508), (32.0, 16, 63.015), (64.0, 16, 121.0)],
)
def test_a_pci_link_carries_what_its_coding_leaves(speed, lanes, gigabytes):
    assert pci_rate(speed, lanes) / 1e9 == pytest.approx(gigabytes, abs=5e-4)


def test_json_tells_each_device_and_every_distance():
    found = json.loads(json.dumps(document(_node(SMALL.encode()))))
    assert [each["rank"] for each in found["gpus"]] == [1, None]
    assert found["gpus"][0]["nvlinks"] == [{"count": 4, "to": "gpu", "gpu": 1}]
    assert found["gpus"][0]["pci_switches"] == ["0000:02:00.0", "0000:01:00.0"]
    assert (found["ports"][0]["bits_per_second"], found["ports"][0]["latency_seconds"]) == (100e9, 2.5e-6)
    assert (found["ports"][0]["rail"], found["ports"][0]["plane"]) == (None, None)
    assert found["distances"] == [["PXB", "SYS"], ["SYS", "PHB"]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda node: {"gpus": ()}, "x.xml names no GPU. Let a running job write the file (NCCL_TOPO_DUMP_FILE)"),
        (lambda node: {"gpus": node.gpus * 200}, "x.xml has 400 GPUs. One host has at most 256."),
        (lambda node: {"ports": node.ports * 200}, "x.xml has 400 ports. One host has at most 256."),
        (
            lambda node: {"gpus": (node.gpus[0], dataclasses.replace(node.gpus[1], dev=0))},
            "x.xml: two GPUs have the dev 0. A file describes one host, each device once.",
        ),
        (
            lambda node: {"gpus": (node.gpus[0], dataclasses.replace(node.gpus[0], dev=1))},
            "x.xml: two GPUs have the busid 0000:03:00.0.",
        ),
        (
            lambda node: {"ports": (node.ports[0], dataclasses.replace(node.ports[0], dev=1))},
            "x.xml: two ports are called mlx5_0:1.",
        ),
    ],
)
def test_what_no_host_can_be_is_refused(change, said):
    node = _node(SMALL.encode())
    with pytest.raises(PlanError) as refused:
        dataclasses.replace(node, **change(node))
    assert said in str(refused.value)
