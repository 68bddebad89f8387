"""NCCL's topology XML: what is read, what is refused with its line, and that no bytes do anything else."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.errors import PlanError
from headway.fabric import nccl_xml
from headway.fabric.node import NvLinks, Peer, document, way
from headway.report.node import draw, facts, rows
from tests.fabric.nodes import EXAMPLE, SMALL, gpu, host, nic, pci


def _node(data):
    return nccl_xml.parse(data.encode() if isinstance(data, str) else data, "folder/x.xml")


def test_the_small_host():
    node = _node(SMALL)
    assert (str(node), node.cpus, node.assumptions) == ("x.xml", (0, 1), ())
    first, second = node.gpus
    assert (first.dev, first.busid, first.sm, first.rank, first.gdr) == (0, "0000:03:00.0", 86, 1, False)
    assert (second.rank, second.slot.switches) == (-1, ())
    assert first.nvlinks == (NvLinks(4, Peer.GPU, 1),)
    card, socket = node.ports
    assert (card.name, card.number, card.card, card.rate, card.latency) == ("mlx5_0", 1, "0000:04:00", 12.5e9, 2.5e-6)
    assert (card.gdr, card.rail, card.plane) == (True, -1, -1)
    assert (socket.name, socket.rate, socket.latency, socket.gdr) == ("eth0", 1.25e9, 0.0, False)
    assert (socket.slot.cpu, socket.slot.links) == (1, ())


def test_the_example_is_a_host_of_eight_gpus_and_nine_cards():
    node = _node(EXAMPLE.read_bytes())
    assert [each.dev for each in node.gpus] == list(range(8))
    assert {each.nvlinks for each in node.gpus} == {(NvLinks(8, Peer.SWITCH),)}
    assert [(port.rail, port.plane) for port in node.ports[:-1]] == [(gpu, port) for gpu in range(8) for port in (0, 1)]
    assert node.ports[-1].rail == node.ports[-1].plane == -1


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ('target="0000:f5:00.0" count="5" tclass="0x068000"', NvLinks(5, Peer.SWITCH)),
        ('target="0004:04:00.0" count="3" tclass="0x068001"', NvLinks(3, Peer.CPU)),
        ('target="0000:02:00.0" count="4" tclass="0x030200"', NvLinks(4, Peer.GPU, 1)),
        ('target="00000000:02:00.0" count="4"', NvLinks(4, Peer.GPU, 1)),
        ('target="0000:77:00.0" count="4" tclass="0x030200"', NvLinks(4, Peer.GPU)),
    ],
)
def test_an_nvlink_leads_where_its_class_says(link, expected):
    node = _node(host(pci(1, gpu(0, f"<nvlink {link}/>")), pci(2, gpu(1))))
    assert node.gpus[0].nvlinks == (expected,)


def test_nvlinks_to_several_chips_of_one_switch_are_added():
    links = "".join(f'<nvlink target="0000:f{n}:00.0" count="{n}" tclass="0x068000"/>' for n in (4, 5, 4, 5))
    assert _node(host(pci(1, gpu(0, links)))).gpus[0].nvlinks == (NvLinks(18, Peer.SWITCH),)


def test_rails_and_planes_that_nccl_numbered_itself_are_not_told():
    node = _node(host(pci(1, gpu(0)), pci(2, nic(0, more='rail="65539" plane="65536"'), nic(1, more='rail="-1"'))))
    assert [(port.rail, port.plane) for port in node.ports] == [(-1, -1), (-1, -1)]


def test_ports_that_nccl_fused_into_one_are_left_out():
    card = nic(0, more='net="0"') + nic(1, more='net="0"') + nic(2, speed=400_000)
    node = _node(host(pci(1, gpu(0)), pci(2, card)))
    assert [(port.dev, port.rate) for port in node.ports] == [(2, 50e9)]


@pytest.mark.parametrize(("speed", "width"), [("", 0), ("Unknown", 8), ("16.0 GT/s PCIe", 0), ("", "")])
def test_a_link_that_the_kernel_does_not_know_is_taken_as_nccl_takes_it_and_said(speed, width):
    node = _node(host(pci(1, gpu(0), speed=speed, width=width)))
    rate = {"": 15.75, "Unknown": 7.88}.get(speed, 31.51)
    assert round(node.gpus[0].slot.links[0] / 1e9, 2) == rate
    assert "the speed or the width of 1 PCI link. Taken are 8 GT/s and 16 lanes" in node.assumptions[0]


@pytest.mark.parametrize(
    ("upper", "lower", "distance"),
    [
        ("0xc010 0xa096", "0xc010 0xa096", "PIX"),
        ("0xc030 0x0104", "0xc030 0x1104", "PIX"),
        ("0xc030 0x0104", "0xc030 0x0104", "PXB"),
        ("0xc010 0xa096", "0xc030 0x1104", "PXB"),
        ("0x8232 0x0000", "0x8232 0x0000", "PXB"),
    ],
)
def test_two_levels_of_broadcoms_switches_are_one_switch(upper, lower, distance):
    def chip(words):
        device, model = words.split()
        return f'vendor="0x1000" device="{device}" subsystem_vendor="0x1000" subsystem_device="{model}"'

    inner = pci(2, pci(3, gpu(0)), more=chip(lower), width=1)
    node = _node(host(pci(1, inner, pci(4, nic(0)), more=chip(upper))))
    found = way(node.gpus[0].slot, node.ports[0].slot)
    assert found.distance.name == distance
    assert round(found.rate / 1e9, 2) == {"PIX": 31.51, "PXB": 1.97}[distance]  # no link where there is one switch


LAUGHS = '<!DOCTYPE system [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (SMALL, "", "folder/x.xml, line 1 is no XML (no element found). It may be cut short, or edited."),
        (SMALL, "GPU 0 is here", "line 1 is no XML (syntax error)"),
        (SMALL, "<html><system/></html>", "folder/x.xml has no <system>, so it is no topology of NCCL's."),
        ("<system v", LAUGHS + "<system v", "line 2: a DOCTYPE is not read, as entities are a known attack."),
        ("<system v", '<!DOCTYPE a SYSTEM "file:///etc/passwd"><system v', "line 2: a DOCTYPE is not read"),
        ("</future>", "&a;</future>", "line 30 is no XML (undefined entity)"),
        ("</system>", "", "is no XML (no element found). It may be cut short, or edited."),
        ("</system>", "</system><system/>", "is no XML (junk after document element)"),
        ('version="1">', ">", "line 2: <system> has no version. NCCL writes one; complete the line."),
        ('version="1">', 'version="2">', "line 2: <system> has version 2. Only 1 is known, to NCCL as well."),
        ('<cpu numaid="1"', '<cpu host_hash="0xf00" numaid="1"', "folder/x.xml describes 2 hosts (host_hash)."),
        ('<cpu numaid="1"', "<cpu", "line 19: <cpu> has no numaid."),
        (
            '<cpu numaid="1"',
            '<cpu numaid="0x0"',
            "line 19: <cpu> has numaid 0x0, as one in line 3 has. A file describes one",
        ),
        ('busid="0000:04:00.0" ', "", "line 12: <pci> has no busid."),
        ('busid="0000:04:00.0"', 'busid="0:1;2"', "line 12: <pci> has busid '0:1;2'. Write a PCI bus like 0000:18:"),
        ('busid="0000:81', 'busid="0000:03', "line 20: <pci> has busid 0000:03:00.0, as one in line 6 has. A"),
        ('<gpu dev="1"', '<gpu dev="0"', "x.xml: two GPUs have the dev 0."),
        ('<gpu dev="1"', "<gpu", "line 21: <gpu> has no dev."),
        ('<gpu dev="1"', '<gpu dev="one"', "line 21: <gpu> has dev 'one'. Write a whole number from 0 to 2147483647."),
        ('<gpu dev="1"', '<gpu dev="-1"', "line 21: <gpu> has dev '-1'."),
        ('<gpu dev="1"', '<gpu dev="99999999999"', "line 21: <gpu> has dev '99999999999'."),
        ('<gpu dev="1"', '<gpu dev="١"', "line 21: <gpu> has dev '١'."),
        ('<gpu dev="1" sm="86"', '<gpu dev="1"', "line 21: <gpu> has no sm."),
        ('rank="1"', 'rank="1.5"', "line 7: <gpu> has rank '1.5'."),
        ('count="4" tclass="0x030000"/>\n          </gpu>', 'tclass="0x03"/></gpu>', "line 8: <nvlink> has no count."),
        (
            'target="0000:03:00.0" count="4"',
            'target="0000:03:00.0" count="0"',
            "line 22: <nvlink> has count '0'. Write a whole number from 1 to",
        ),
        ('target="0000:03:00.0" count="4" tclass="0x030000"', 'count="4"', "line 22: <nvlink> has no tclass."),
        ('name="mlx5_0" ', "", "line 14: <net> has no name."),
        ('name="mlx5_0"', 'name="mlx5\u009b31m"', r"line 14: <net> has name 'mlx5\x9b31m'. Use letters that can be"),
        ('name="mlx5_0"', f'name="{"m" * 256}"', "line 14: <net> has name 'mmm"),
        ('name="mlx5_0" dev="0"', 'name="mlx5_0"', "line 14: <net> has no dev."),
        ('name="eth0" dev="1"', 'name="eth0" dev="0"', "x.xml: two ports have the dev 0."),
        ('speed="100000"', 'speed="fast"', "line 14: <net> has speed 'fast'."),
        ('latency="2.5"', 'latency="nan"', "line 14: <net> has latency 'nan'. Write microseconds, like 2.5."),
        ('latency="2.5"', 'latency="-1"', "line 14: <net> has latency '-1'."),
        ('link_speed="8 GT/s"', 'link_speed="fast"', "line 12: <pci> has link_speed 'fast'. Write it like 16.0 GT/s"),
        ('link_speed="8 GT/s"', 'link_speed="0 GT/s"', "line 12: <pci> has link_speed '0 GT/s'."),
        ('GT/s" link_width="8"', 'GT/s" link_width="64"', "line 12: <pci> has link_width 64. Use 1 to 32 lanes."),
        ('GT/s" link_width="8"', 'GT/s" link_width="-8"', "line 12: <pci> has link_width -8."),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_line(old, new, said):
    assert SMALL.count(old) == 1
    with pytest.raises(PlanError) as refused:
        _node(SMALL.replace(old, new))
    assert said in str(refused.value)
    assert "folder/x.xml" in str(refused.value) or "x.xml:" in str(refused.value)


def test_a_file_without_gpus_says_how_to_have_them():
    with pytest.raises(PlanError, match=r"x\.xml names no GPU\. Let a running job write the file"):
        _node(re.sub(r"<gpu.*?</gpu>", "", SMALL, flags=re.DOTALL))


def test_devices_of_one_bus_are_refused_even_in_one_line():
    with pytest.raises(PlanError, match=r"line 1: <pci> has busid 0000:01:00\.0, as one in line 1 has"):
        _node(host(pci(1, gpu(0)), pci(2), pci(1)))
    with pytest.raises(PlanError, match="line 1: <cpu> has numaid 0, as one in line 1 has"):
        _node('<system version="1"><cpu numaid="0"/><cpu numaid="0"/></system>')


def test_two_gpus_on_one_bus_are_refused():
    with pytest.raises(PlanError, match=r"two GPUs have the busid 0000:01:00\.0"):
        _node(host(pci(1, gpu(0), gpu(1))))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"<a>" * 100_000, "line 1: elements are nested more than 64 deep"),
        (b'<system version="1">' + b"<cpu/>" * 70_000 + b"</system>", "has more than 65,536 elements"),
        (b"<!--" + b"a" * 2**23 + b"--><system/>", "is larger than 8 MiB. A host's topology is far smaller."),
        (SMALL.encode("utf-16"), "is not text in UTF-8 (byte 0)"),
        (SMALL.replace("red", "röd").encode("latin-1"), "is not text in UTF-8 (byte 779)"),
        (b"\0" * 100, "line 1 is no XML"),
        (b"<system version='1'><cpu numaid='0'><pci busid='" + b"0" * 2**22, "is no XML"),
        (host(*(pci(n, gpu(n)) for n in range(257))), "has 257 GPUs. One host has at most 256."),
    ],
)
def test_what_is_too_much_or_no_text_is_refused_at_once(data, said):
    with pytest.raises(PlanError) as refused:
        _node(data)
    assert said in str(refused.value)


def test_a_declared_encoding_changes_nothing():
    assert _node(SMALL.replace('encoding="utf-8"', 'encoding="utf-7"')) == _node(SMALL)
    assert _node("\ufeff" + SMALL) == _node(SMALL)


def _does_no_harm(data):
    """Parsed and shown, or refused in one line."""
    try:
        node = _node(data)
    except PlanError as error:
        lines = str(error).splitlines()
    else:
        lines = [node.name]
        document(node)
        rows(node)
        facts(node, None, "")
        draw(node, 80, coloured=False)
    assert len(lines) == 1
    assert len(lines[0]) < 1000


WORDS = [
    "",
    "-1",
    "0",
    "1",
    "2",
    "0x10",
    "4294967296",
    "1e9",
    "nan",
    "0000:03:00.0",
    "Unknown",
    "8 GT/s",
    "<",
    '"',
    "\0",
]
PLACES = [match.span(1) for match in re.finditer(r'="([^"]*)"', SMALL)]


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_one_line(data):
    _does_no_harm(data)


@settings(max_examples=300)
@given(st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(WORDS) | st.text(max_size=5)), max_size=4))
def test_a_host_with_other_values_is_a_node_or_refused_in_one_line(changes):
    text = SMALL
    for (start, end), word in sorted(changes, reverse=True):
        text = text[:start] + word + text[end:]
    _does_no_harm(text.encode("utf-8", "surrogatepass"))


@settings(max_examples=300)
@given(
    st.integers(0, len(SMALL)),
    st.integers(0, 200),
    st.integers(0, len(SMALL)),
    st.integers(0, 200),
    st.binary(max_size=8),
)
def test_a_host_with_parts_moved_is_a_node_or_refused_in_one_line(cut, length, place, other, noise):
    data = SMALL.encode()
    data = data[:cut] + data[cut + length :]
    _does_no_harm(data[:place] + noise + SMALL.encode()[cut : cut + other] + data[place:])


@settings(max_examples=100)
@given(st.integers(0, len(SMALL.rstrip()) - 1))
def test_a_file_that_was_cut_short_is_refused(end):
    with pytest.raises(PlanError, match="is no XML"):
        _node(SMALL[:end])
