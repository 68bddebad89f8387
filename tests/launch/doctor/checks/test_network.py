"""The interface to meet over and why; both ports of each card, bonds, MTU, RDMA, and variables that name nothing."""

from dataclasses import replace

import pytest

from headway.launch.doctor.checks import network
from headway.launch.doctor.finding import Status
from headway.launch.doctor.machine import Network, RdmaPort
from headway.launch.interfaces import Interface, Make
from tests.launch.doctor.machines import CPU, ETHERNET, LOOPBACK, port

FAST = port("ens1", ipv4="10.1.0.7")


def test_the_interface_of_the_default_route_is_chosen_and_said_why():
    found = network.interface(Network((FAST, ETHERNET), resolved="10.0.0.7"), "cpu", alone=False)
    assert "ranks should meet over eth0 (10.0.0.7): it has the default route; ens1 could be used too" in found.what
    assert found.status is Status.WARN  # another host may choose another
    assert found.remedy == "On each host: export GLOO_SOCKET_IFNAME=eth0."


def test_without_a_default_route_the_fastest_is_chosen():
    found = network.interface(Network((replace(ETHERNET, default_route=False), FAST)), "cuda", alone=True)
    assert "ens1 (10.1.0.7): it is the fastest with an address" in found.what
    assert found.numbers["export"] == "GLOO_SOCKET_IFNAME=ens1 NCCL_SOCKET_IFNAME==ens1"


def test_hccl_is_told_the_address_too():
    found = network.interface(Network((ETHERNET,)), "npu", alone=False)
    for word in ("HCCL_IF_IP=10.0.0.7", "HCCL_SOCKET_IFNAME=eth0", "TP_SOCKET_IFNAME=eth0", "GLOO_SOCKET_IFNAME=eth0"):
        assert word in found.remedy


def test_a_host_whose_name_leads_to_loopback_must_export_the_choice_for_several_hosts():
    here = Network((ETHERNET, LOOPBACK), resolved="127.0.1.1")
    found = network.interface(here, "cpu", alone=False)
    assert found.status is Status.WARN
    assert "The host's own name leads to 127.0.1.1, which is what gloo would bind" in found.what
    assert network.interface(here, "cpu", alone=True).status is Status.OK
    exported = replace(here, variables={"GLOO_SOCKET_IFNAME": "eth0"})
    assert network.interface(exported, "cpu", alone=False).status is Status.OK


@pytest.mark.parametrize(("alone", "status"), [(True, Status.OK), (False, Status.FAIL)])
def test_without_an_interface_a_job_starts_on_this_host_alone(alone, status):
    down = replace(ETHERNET, carrier=False)
    docker = Interface("docker0", Make.VIRTUAL, carrier=True, mtu=1500, ipv4="172.17.0.1")
    assert network.interface(Network((down, LOOPBACK, docker)), "cpu", alone=alone).status is status


@pytest.mark.parametrize(
    ("variable", "value", "good"),
    [
        ("GLOO_SOCKET_IFNAME", "eth0", True),
        ("GLOO_SOCKET_IFNAME", "eth", False),
        ("GLOO_SOCKET_IFNAME", "eth1", False),
        ("NCCL_SOCKET_IFNAME", "eth", True),
        ("NCCL_SOCKET_IFNAME", "=eth0", True),
        ("NCCL_SOCKET_IFNAME", "=eth", False),
        ("NCCL_SOCKET_IFNAME", "^docker0,lo", True),
        ("HCCL_SOCKET_IFNAME", "ens", False),
        ("HCCL_IF_IP", "10.0.0.7", True),
        ("HCCL_IF_IP", "10.0.0.8", False),
    ],
)
def test_a_variable_that_names_no_interface_of_this_host_keeps_jobs_from_starting(variable, value, good):
    here = Network((ETHERNET, LOOPBACK), variables={variable: value})
    found = list(network.bound(here, "cuda" if variable.startswith("NCCL") else "npu"))
    assert [each.status for each in found] == ([] if good else [Status.FAIL])
    assert good or f"unset {variable}" in found[0].remedy


def test_a_variable_of_another_backend_is_only_worth_a_look():
    (found,) = network.bound(Network((ETHERNET,), variables={"NCCL_SOCKET_IFNAME": "gone"}), "cpu")
    assert found.status is Status.WARN


def _card(carriers, speed=200e9, **changes):
    return [
        port(f"ens1f{i}", carrier=up, speed=speed, card="0000:c1:00", number=16 * i, **changes)
        for i, up in enumerate(carriers)
    ]


def test_both_ports_of_a_card_are_looked_at():
    (both,) = network.ports(_card([True, True]))
    assert (both.status, both.what) == (
        Status.OK,
        "card 0000:c1:00: 2 of 2 ports of 200Gbps have a carrier (ens1f0, ens1f1)",
    )
    (one,) = network.ports(_card([True, False]))
    assert one.status is Status.WARN
    assert "ens1f1 has no carrier, so that 1 of 2 ports carry all of its traffic" in one.what
    assert "ethtool ens1f1" in one.remedy


@pytest.mark.parametrize("carriers", [(True, False, False, False), (False, False)])
def test_unused_ports_of_slow_cards_are_nothing_to_worry_about(carriers):
    (found,) = network.ports(_card(carriers, speed=1e9))
    assert found.status is Status.OK


def test_a_card_with_one_port_has_no_both():
    assert list(network.ports([ETHERNET])) == []


def test_a_bond_says_which_of_its_ports_is_down():
    members = _card([True, False], speed=25e9, master="bond0")
    bond = Interface(
        "bond0", Make.BOND, carrier=True, mtu=9000, ipv4="10.0.0.7", members=("ens1f0", "ens1f1"), bonding="802.3ad"
    )
    (found,) = network.ports([bond, *members])
    assert found.status is Status.WARN
    assert found.what.startswith("bond bond0 (802.3ad): ens1f1 has no carrier")
    (dead,) = network.ports([bond, *_card([False, False], master="bond0")])
    assert dead.status is Status.WARN
    (empty,) = network.ports([replace(bond, members=())])
    assert empty.status is Status.WARN


@pytest.mark.parametrize(
    ("sizes", "status", "said"),
    [
        ((9000, 9000), Status.OK, "MTU: a 9000"),
        ((9000, 1500), Status.WARN, "differ in MTU (b 1500, a 9000)"),
        ((1500, 1500), Status.WARN, "an MTU of 1500: RoCE's packets of 4096 bytes need 4200"),
    ],
)
def test_ports_of_the_training_network_have_one_large_mtu(sizes, status, said):
    (found,) = network.mtu([port(name, mtu=size) for name, size in zip("ab", sizes, strict=True)])
    assert found.status is status
    assert said in found.what


def test_the_mtu_of_an_ordinary_host_is_only_told():
    (found,) = network.mtu([ETHERNET, LOOPBACK])
    assert (found.status, found.what) == (Status.OK, "MTU: eth0 1500")
    assert list(network.mtu([LOOPBACK])) == []


def test_rdma_ports_that_are_not_active_are_named():
    ports = [RdmaPort(f"mlx5_{i}", 1, active=i != 1, rate=400e9, ethernet=True) for i in range(3)]
    (found,) = network.rdma(Network(rdma=tuple(ports)))
    assert found.what == "1 of 3 RDMA ports are not active: mlx5_1 port 1"
    (well,) = network.rdma(Network(rdma=tuple(each for each in ports if each.active)))
    assert well.what == "2 RDMA ports are active at 400Gbps"
    assert list(network.rdma(Network())) == []


def test_a_network_that_could_not_be_looked_at_gives_nothing():
    assert list(network.check(replace(CPU, network=None), "cpu", alone=True)) == []
