"""The picture of a node and the text beside it: what is in them, and that they fit any terminal."""

import pytest

from headway.fabric import nccl_xml
from headway.fabric.fit import Fit
from headway.report.node import draw, facts, nvlinks, rows
from tests.fabric.nodes import EXAMPLE, SMALL, gpu, host, nic, pci

BIG = host(*(pci(2 * n + 1, pci(2 * n + 2, gpu(n)), nic(n)) for n in range(64)))
SHARED = host(pci(1, pci(2, gpu(0)), pci(3, gpu(1)), pci(4, nic(0, 1))), pci(9, pci(10, gpu(2)), pci(11, nic(2))))


def _node(data):
    return nccl_xml.parse(data, "x.xml")


def _text(lines):
    return ["".join(piece.text for piece in line).rstrip() for line in lines]


def _picture(data, columns=80):
    return _text(draw(_node(data), columns, coloured=False))


def test_the_example_in_80_columns():
    assert _picture(EXAMPLE.read_bytes()) == [
        "       rail 0  rail 1  rail 2  rail 3  rail 4  rail 5  rail 6  rail 7",
        "plane [0] [1] [0] [1] [0] [1] [0] [1] [0] [1] [0] [1] [0] [1] [0] [1]",
        "        │ 2 × 200Gbps near each GPU, PIX, 63.0 GB/s of PCI",
        "GPU   [  0  ] [  1  ] [  2  ] [  3  ] [  4  ] [  5  ] [  6  ] [  7  ]",
        "        │ 8 NVLinks of each GPU to switches",
        "CPU   [              0              ] [              1              ]",
    ]


def test_the_small_host_tells_how_far_apart_its_cards_are():
    assert [" ".join(line.split()) for line in _picture(SMALL.encode())] == [
        "port [ 0 ] [ 1 ]",
        "│ ports near each GPU, PXB to PHB, 7.88 to 31.5 GB/s of PCI",
        "GPU [ 0 ] [ 1 ]",
        "│ 4 NVLinks of each GPU to GPUs",
        "CPU [ 0 ] [ 1 ]",
    ]


def test_a_card_that_gpus_share_spans_them():
    ports, _, gpus, *_ = _picture(SHARED)
    assert [ports.index(f"{n}") < gpus.index("2") for n in range(2)] == [True, True]
    assert len(ports) == len(gpus)


def test_planes_have_colours():
    ports = draw(_node(EXAMPLE.read_bytes()), 80, coloured=True)[1]
    styles = [piece.style for piece in ports if "on #" in piece.style]
    assert len(styles) == 16
    assert len({*styles[::2]}) == len({*styles[1::2]}) == 1
    assert styles[0] != styles[1]


def test_of_many_gpus_those_that_fit_are_drawn_and_the_others_counted():
    ports, _, gpus, *_ = _picture(BIG)
    assert ports.endswith("[11] … 52 more")
    assert gpus.endswith("[11] … 52 more")


def test_of_many_ports_beside_one_gpu_those_that_fit_are_drawn():
    ports, _, gpus, *_ = _picture(host(pci(1, pci(2, gpu(0)), pci(3, nic(*range(100))))))
    assert ports.endswith("[11] … 88 more")
    assert not gpus.endswith("more")


def test_a_host_without_a_network_is_drawn_without_ports():
    lines = _picture(host(pci(1, gpu(0))))
    assert [line.split()[0] for line in lines] == ["GPU", "│", "CPU"]
    assert lines[1].endswith("no NVLinks")
    node = _node(host(pci(1, gpu(0))))
    assert rows(node)[0][3:] == ("–",) * 5
    assert ("ports", "none") in facts(node, None, "")


@pytest.mark.parametrize("columns", [1, 20, 40, 79, 80, 300])
@pytest.mark.parametrize("data", [EXAMPLE.read_bytes(), SMALL.encode(), SHARED, BIG])
def test_a_picture_keeps_to_its_columns_from_70_on(data, columns):
    assert max(map(len, _picture(data, columns))) <= max(columns, 70)


def test_a_row_tells_a_gpus_links_ports_and_distance():
    assert rows(_node(EXAMPLE.read_bytes()))[1] == (
        *("1", "39:00.0", "8 to switches", "mlx5_2:1, mlx5_3:1", "PIX", "63.0", "1", "0, 1"),
    )
    assert rows(_node(SMALL.encode())) == [
        ("0", "03:00.0", "4 to GPU 1", "mlx5_0:1", "PXB", "7.88", "–", "–"),
        ("1", "81:00.0", "4 to GPU 0", "eth0:0", "PHB", "31.5", "–", "–"),
    ]


@pytest.mark.parametrize(
    ("links", "text"),
    [
        ([], "–"),
        ([(2, "02", "0x03"), (2, "03", "0x03"), (2, "04", "0x03")], "2 each to GPU 1–3"),
        ([(2, "02", "0x03"), (1, "03", "0x03")], "2 to GPU 1, 1 to GPU 2"),
        ([(6, "aa", "0x068000"), (3, "bb", "0x068001")], "6 to switches, 3 to the CPU"),
        ([(4, "77", "0x030200")], "4 to GPUs not in the file"),
    ],
)
def test_nvlinks_are_counted_by_what_they_lead_to(links, text):
    told = "".join(f'<nvlink target="0000:{bus}:00.0" count="{n}" tclass="{kind}"/>' for n, bus, kind in links)
    node = _node(host(pci(1, gpu(0, told)), *(pci(n + 1, gpu(n)) for n in (1, 2, 3))))
    assert nvlinks(node.gpus[0]) == text


def test_what_stands_below_the_table():
    node = _node(EXAMPLE.read_bytes())
    assert facts(node, Fit(gpus=8, ports=16, rails=True, planes=False), "hpn") == [
        ("GPUs", "8 of compute capability 9.0"),
        ("CPUs", "2 (NUMA nodes 0, 1)"),
        ("ports", "17 × 200Gbps on 9 cards"),
        ("near no GPU", "mlx5_16:1"),
        ("rails", "8 rails, 2 planes"),
        ("fits hpn", "GPUs, ports, speeds and rails are those of its hosts"),
    ]
    assert facts(_node(SMALL.encode()), None, "")[2:] == [
        ("ports", "1 × 10Gbps + 1 × 100Gbps on 2 cards"),
        ("rails", "the file tells neither rails nor planes"),
    ]
