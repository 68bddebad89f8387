"""Which interface other hosts reach this one over, and the variables that bind communication to it."""

import pytest

from headway.launch.interfaces import Interface, Make, candidates, exports


def _interface(name, **changes):
    return Interface(name, **{"make": Make.PORT, "carrier": True, "mtu": 1500, "ipv4": "10.0.0.1", **changes})


def test_the_default_route_comes_first_then_the_fastest_then_the_name():
    found = [
        _interface("b", speed=100e9),
        _interface("c", speed=None),
        _interface("a", speed=100e9),
        _interface("d", speed=1e9, default_route=True),
    ]
    assert [each.name for each in candidates(found)] == ["d", "a", "b", "c"]


@pytest.mark.parametrize(
    "unusable",
    [
        _interface("eth0", carrier=False),
        _interface("eth0", ipv4=None),
        _interface("lo", make=Make.LOOPBACK),
        *(
            _interface(name, make=Make.VIRTUAL)
            for name in ("docker0", "br-1f3a", "virbr0", "veth12", "cni0", "flannel.1")
        ),
    ],
)
def test_what_no_other_host_reaches_is_no_candidate(unusable):
    assert candidates([unusable]) == ()


def test_an_interface_of_ipv6_alone_can_be_met_over():
    six = _interface("eth0", ipv4=None, ipv6="fd00::2")
    assert candidates([six])[0].address == "fd00::2"


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("cpu", {"GLOO_SOCKET_IFNAME": "bond0"}),
        ("cuda", {"GLOO_SOCKET_IFNAME": "bond0", "NCCL_SOCKET_IFNAME": "=bond0"}),
        (
            "npu",
            {
                "GLOO_SOCKET_IFNAME": "bond0",
                "HCCL_SOCKET_IFNAME": "bond0",
                "TP_SOCKET_IFNAME": "bond0",
                "HCCL_IF_IP": "10.0.0.1",
            },
        ),
    ],
)
def test_each_kind_of_device_has_its_variables(kind, found):
    assert exports("bond0", kind, "10.0.0.1") == found
