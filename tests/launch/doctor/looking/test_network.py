"""Interfaces read from a tree that is made like sysfs: cards, ports, bonds, virtual functions, RDMA, routes."""

import pytest

from headway.launch.doctor.looking.network import look, resolve
from headway.launch.doctor.machine import RdmaPort
from headway.launch.interfaces import Make

ROUTES = (
    "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
    "eth1\t00000000\t0100000A\t0003\t0\t0\t200\t00000000\t0\t0\t0\n"
    "eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
    "eth2\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n"
)
IPV6 = (
    "fe8000000000000000fc00fffe000001 04 40 20 80     eth0\n"
    "fd000000000000000000000000000002 04 40 00 82     eth0\n"
    "00000000000000000000000000000001 01 80 10 80       lo\n"
)


def _interface(root, name, card=None, **files):
    path = root / "sys/class/net" / name
    path.mkdir(parents=True)
    for file, text in {"type": "1", "mtu": "1500", "carrier": "1", **files}.items():
        (path / file).write_text(f"{text}\n")
    if card:
        device = root / "sys/devices/pci0000:c0" / card
        device.mkdir(parents=True, exist_ok=True)
        (path / "device").symlink_to(device)
    return path


def _look(root, addresses=None):
    found = look(root, (addresses or {}).get)
    return {each.name: each for each in found.interfaces}


def test_both_ports_of_a_card_have_its_place_and_their_own_numbers(tmp_path):
    _interface(tmp_path, "ens1f0", "0000:c1:00.0", speed="200000", mtu="9000")
    _interface(tmp_path, "ens1f1", "0000:c1:00.1", speed="-1", carrier="0")
    found = _look(tmp_path, {"ens1f0": "10.1.0.7"})
    first, second = found["ens1f0"], found["ens1f1"]
    assert (first.card, first.number, second.card, second.number) == ("0000:c1:00", 0, "0000:c1:00", 16)
    assert (first.make, first.carrier, first.mtu, first.speed, first.ipv4) == (Make.PORT, True, 9000, 200e9, "10.1.0.7")
    assert (second.carrier, second.speed, second.ipv4) == (False, None, None)


def test_a_card_behind_virtio_is_found_one_level_up_and_a_virtual_function_has_none(tmp_path):
    _interface(tmp_path, "eth0", "0000:00:03.0/virtio2")
    _interface(tmp_path, "ens1v0", "0000:c1:01.0")
    (tmp_path / "sys/devices/pci0000:c0/0000:c1:01.0/physfn").symlink_to("../0000:c1:00.0")
    (tmp_path / "sys/devices/pci0000:c0/0000:c1:00.0").mkdir()
    found = _look(tmp_path)
    assert found["eth0"].card == "0000:00:03"
    assert found["ens1v0"].card is None


def test_a_bond_knows_its_mode_and_ports_and_they_know_it(tmp_path):
    bond = _interface(tmp_path, "bond0")
    (bond / "bonding").mkdir()
    (bond / "bonding/slaves").write_text("ens1f1 ens1f0\n")
    (bond / "bonding/mode").write_text("802.3ad 4\n")
    port = _interface(tmp_path, "ens1f0", "0000:c1:00.0")
    (port / "master").symlink_to("../bond0")
    found = _look(tmp_path)
    assert (found["bond0"].make, found["bond0"].members, found["bond0"].bonding) == (
        Make.BOND,
        ("ens1f0", "ens1f1"),
        "802.3ad",
    )
    assert found["ens1f0"].master == "bond0"


def test_loopback_and_virtual_interfaces_are_told_apart(tmp_path):
    _interface(tmp_path, "lo", type="772")
    _interface(tmp_path, "docker0")
    found = _look(tmp_path)
    assert (found["lo"].make, found["docker0"].make) == (Make.LOOPBACK, Make.VIRTUAL)


def test_the_default_route_is_that_of_least_metric_and_global_addresses_count(tmp_path):
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/route").write_text(ROUTES)
    (tmp_path / "proc/net/if_inet6").write_text(IPV6)
    for name in ("eth0", "eth1"):
        _interface(tmp_path, name)
    found = _look(tmp_path)
    assert [name for name, each in found.items() if each.default_route] == ["eth0"]
    assert found["eth0"].address == "fd00::2"


def test_rdma_ports_say_their_state_and_rate(tmp_path):
    for device, state, rate, layer in (
        ("mlx5_0", "4: ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand"),
        ("mlx5_bond_1", "1: DOWN", "odd", "Ethernet"),
    ):
        path = tmp_path / "sys/class/infiniband" / device / "ports/1"
        path.mkdir(parents=True)
        for name, text in (("state", state), ("rate", rate), ("link_layer", layer)):
            (path / name).write_text(text)
    assert look(tmp_path).rdma == (
        RdmaPort("mlx5_0", 1, active=True, rate=400e9, ethernet=False),
        RdmaPort("mlx5_bond_1", 1, active=False, rate=None, ethernet=True),
    )


@pytest.mark.parametrize("text", ["", "garbage\x00\xff", "-" * 5000, "eth0 " * 12])
def test_odd_files_give_no_traceback(tmp_path, text):
    (tmp_path / "proc/net").mkdir(parents=True)
    for name in ("route", "if_inet6"):
        (tmp_path / "proc/net" / name).write_text(f"head\n{text}", encoding="latin-1")
    _interface(tmp_path, "eth0", mtu=text, speed=text, carrier=text)
    assert _look(tmp_path)["eth0"].mtu == 0


def test_a_tree_without_sysfs_has_no_interfaces(tmp_path):
    assert look(tmp_path).interfaces == ()


def test_this_machine_has_a_loopback_with_its_address():
    found = {each.make: each for each in look().interfaces}
    if Make.LOOPBACK in found:  # a sandbox may show none
        assert found[Make.LOOPBACK].ipv4 == "127.0.0.1"
    resolve()
