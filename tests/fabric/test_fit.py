"""Whether a node fits a fabric: what is equal is told, the first difference is refused with its numbers."""

import pytest

from headway.errors import PlanError
from headway.fabric import nccl_xml
from headway.fabric.blueprint import Blueprint, Segment, Switches, build
from headway.fabric.fit import Fit, fit
from headway.fabric.topologies import named
from tests.fabric.nodes import EXAMPLE, gpu, host, nic, pci

HPN = "hpn segments=1 hosts=2 backup_hosts=0"
PAIR = "clos gpus_per_host=2"  # one ToR, two ports of 200Gbps a GPU


def _node(data):
    return nccl_xml.parse(data, "x.xml")


def _beside(*cards):
    """A host in which card g is beside GPU g."""
    return host(*(pci(4 * g + 1, pci(4 * g + 2, gpu(g)), pci(4 * g + 3, card)) for g, card in enumerate(cards)))


def test_the_example_is_a_host_of_hpn_its_frontend_card_left_out():
    node = nccl_xml.parse(EXAMPLE.read_bytes(), "node.xml")
    assert fit(node, named(HPN)) == Fit(gpus=8, ports=16, rails=True, planes=True)


def test_what_the_file_does_not_tell_is_not_compared():
    data = EXAMPLE.read_text().replace(' plane="1"', "")
    assert fit(_node(data.encode()), named(HPN)) == Fit(gpus=8, ports=16, rails=True, planes=False)
    plain = _node(_beside(nic(0, 1), nic(2, 3)))
    assert fit(plain, named(PAIR)) == Fit(gpus=2, ports=4, rails=False, planes=False)


def test_cards_that_gpus_share_are_compared_together():
    ports = "".join(
        f'<net name="m{n}" dev="{n}" speed="200000" port="1" rail="{rail}" plane="{n % 2}"/>'
        for n, rail in enumerate((1, 1, 0, 0))
    )
    shared = _node(host(pci(1, pci(2, gpu(0)), pci(3, gpu(1)), pci(4, f"<nic>{ports}</nic>"))))
    assert fit(shared, named("clos gpus_per_host=2 rails=2 tors=2 planes=2")).rails
    with pytest.raises(
        PlanError, match=r"near GPU 0, 1 of x\.xml are on rail 0 plane 0, rail 0 plane 1, rail 1 plane 0"
    ):
        fit(shared, named("clos gpus_per_host=2 tors=2 planes=2"))


@pytest.mark.parametrize(
    ("data", "fabric", "said"),
    [
        (
            EXAMPLE.read_bytes(),
            "clos gpus_per_host=4",
            "x.xml has 8 GPUs, a host of clos gpus_per_host=4 has 4. Use a fabric of 8 GPUs a host, or another node.",
        ),
        (
            _beside(nic(0, 1), nic(2)),
            PAIR,
            "the number of ports near GPU 1 of x.xml is 1 (mlx5_2:1), in clos gpus_per_host=2 it is 2.",
        ),
        (host(pci(1, gpu(0)), pci(2, gpu(1))), PAIR, "the number of ports near GPU 0 of x.xml is 0 (none), in"),
        (
            _beside(nic(0, 1), nic(2, 3, speed=100_000)),
            PAIR,
            "the ports near GPU 1 of x.xml have 2 × 100Gbps (mlx5_2:1, mlx5_3:1), in clos gpus_per_host=2 2 × 200Gbps.",
        ),
        (
            EXAMPLE.read_bytes(),
            "dcn+ segments=1 hosts=1",
            "the ports near GPU 0 of x.xml are on rail 0 plane 0, rail 0 plane 1 (mlx5_0:1, mlx5_1:1), in dcn+ "
            "segments=1 hosts=1 on rail 0 plane 0, rail 0 plane 0. Mend NCCL_IB_HCA",
        ),
        (
            EXAMPLE.read_bytes().replace(b'rail="3"', b'rail="4"'),
            HPN,
            "near GPU 3 of x.xml are on rail 4 plane 0, rail 4 plane 1 (mlx5_6:1, mlx5_7:1), in hpn segments=1 hosts=2",
        ),
        (
            EXAMPLE.read_bytes().replace(b' plane="1"', b""),
            "dcn+ segments=1 hosts=1",
            "GPU 1 of x.xml are on rail 1, rail 1 (mlx5_2:1, mlx5_3:1), in dcn+ segments=1 hosts=1 on rail 0, rail 0",
        ),
    ],
)
def test_the_first_difference_is_refused_with_its_numbers(data, fabric, said):
    with pytest.raises(PlanError) as refused:
        fit(_node(data), named(fabric))
    assert said in str(refused.value)


def test_a_fabric_whose_hosts_differ_has_no_host_to_compare():
    tors = Switches(names="tor-[0-1]", tier="tor")
    segments = Segment(hosts=0, rails=(("tor-0",),)), Segment(hosts=1, rails=(("tor-1",) * 2,))
    told = Blueprint(name="mixed", gpus_per_host=1, switches=(tors,), segments=segments)
    with pytest.raises(PlanError, match="the hosts of mixed differ in rails or planes, or in the speed of their ports"):
        fit(_node(host(pci(1, gpu(0)))), build(told))
