"""Fabrics by name and from files, and what is refused of a file."""

from pathlib import Path

import pytest

from headway.errors import PlanError
from headway.fabric.describe import describe
from headway.fabric.elements import MOST_BYTES
from headway.plan.fabric import fabric, is_node, node

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "fabric.yaml"


def test_a_file_may_name_a_family_and_what_differs(tmp_path):
    (tmp_path / "small.yaml").write_text("family: hpn\nsegments: 2\nhosts: 4\nnic_speed: 100Gbps\n")
    assert str(fabric("small.yaml", tmp_path)) == "hpn segments=2 hosts=4 nic_speed=100Gbps"
    assert str(fabric("small.yaml", tmp_path, {"pods": "2"})) == "hpn pods=2 segments=2 hosts=4 nic_speed=100Gbps"


def test_a_file_may_give_all_sizes(tmp_path):
    (tmp_path / "plain.yaml").write_text("{family: clos, hosts: 2, rails: 8, tors: 2, planes: 2}\n")
    assert fabric("plain.yaml", tmp_path).num_gpus == 16


def test_the_example_is_two_racks_under_two_planes():
    facts = describe(fabric(str(EXAMPLE)))
    assert (facts.name, facts.gpus, facts.backup_gpus, facts.planes) == ("two-racks", 64, 8, 2)
    assert facts.paths == 4 * 4 * 4


def test_a_fabric_without_a_name_has_its_files(tmp_path):
    text = "switches: [{names: a, tier: tor}]\nsegments: [{hosts: 0, rails: [[a, a]]}]\n"
    (tmp_path / "rack.yaml").write_text(text)
    assert str(fabric("rack.yaml", tmp_path)) == "rack"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "f.yaml tells no fabric. Give it `family: hpn` and sizes that differ, or switches, segments and links."),
        ("- a", "f.yaml holds a list, not a mapping"),
        ("a: [", "f.yaml is not YAML, line 1"),
        ("!!python/object/apply:os.system [ls]", "f.yaml is not YAML"),
        ("family: hpm", "no fabric is called 'hpm'. Did you mean 'hpn'?"),
        ("family: [hpn]", "no fabric is called"),
        ("{family: hpn, segmets: 2}", "f.yaml: unknown key 'segmets'. Did you mean 'segments'?"),
        ("{family: hpn, segments: two}", "f.yaml: segments is 'two', but should be a whole number."),
        ("{family: hpn, segments: 1.5}", "f.yaml: segments is 1.5"),
        ("{family: hpn, segments: 1000000000000000000000}", "segments"),
        ("{family: hpn, nic_speed: 200}", "f.yaml: nic_speed is 200, but should be a word."),
        ("{family: hpn, core_hash: both}", "f.yaml: core_hash is 'both'."),
        ("switches: 3", "f.yaml: switches is no list of mappings."),
        ("switches: [a, b]", "f.yaml: switches is no list of mappings."),
        ("switches: [{names: a, teir: tor}]", "f.yaml: switches 0: unknown key 'teir'. Did you mean 'tier'?"),
        ("switches: [{names: a, tier: spine}]", "f.yaml: switches 0: tier is 'spine'."),
        ("switches: [{names: a, tier: tor, ports: 7.5}]", "f.yaml: switches 0: ports is 7.5"),
        ("switches: [{tier: tor}]", "f.yaml: switches 0: names is missing. Give it a value."),
        ("{switches: [{names: a, tier: tor}], segments: [{hosts: 0, rails: a}]}", "f.yaml: segments 0: rails is 'a'"),
        ("{switches: [{names: a, tier: tor}], colour: red}", "f.yaml: unknown key 'colour'."),
        ("{switches: [{names: a, tier: tor}], segments: []}", "f has no hosts. Give a segment with hosts"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_clear_message(tmp_path, text, said):
    (tmp_path / "f.yaml").write_text(text)
    with pytest.raises(PlanError) as refused:
        fabric("f.yaml", tmp_path)
    assert said in str(refused.value).replace(f"{tmp_path}/", "")


def test_sizes_are_not_set_where_each_switch_is_told():
    with pytest.raises(PlanError, match="tells each switch, so pods cannot be set"):
        fabric(str(EXAMPLE), sizes={"pods": "2"})


def test_any_other_file_is_simais_topology(tmp_path):
    (tmp_path / "Pod").write_text("2 1 0 1 1 H800\n1\n0 1 400Gbps 0.0005ms 0\n")
    assert str(fabric("Pod", tmp_path)) == "Pod"
    (tmp_path / "hpn").write_text("a file that is called as a family does not hide it")
    assert fabric("hpn", tmp_path).num_gpus == 16_320
    with pytest.raises(PlanError, match="Pod tells each link, so pods cannot be set"):
        fabric("Pod", tmp_path, {"pods": "2"})


@pytest.mark.parametrize(
    ("content", "said"), [(b"\xff\xfe", "is not text in UTF-8"), (b"hello", "line 1 is no head of a SimAI topology")]
)
def test_a_file_that_is_neither_is_refused(tmp_path, content, said):
    (tmp_path / "thing").write_bytes(content)
    with pytest.raises(PlanError, match=said):
        fabric("thing", tmp_path)


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b"])
def test_a_name_that_no_path_can_have_is_no_fabric(name):
    with pytest.raises(PlanError, match="no fabric is called"):
        fabric(name)


def test_the_inside_of_a_node_is_read_by_its_ending_and_is_no_fabric(tmp_path):
    told = (EXAMPLE.parent / "node.xml").read_bytes()
    (tmp_path / "Host.XML").write_bytes(told)
    assert is_node("Host.XML")
    assert len(node("Host.XML", tmp_path).gpus) == 8
    with pytest.raises(PlanError, match=r"Host\.XML tells the inside of a node, and no fabric"):
        fabric("Host.XML", tmp_path)


def test_of_an_endless_file_no_more_is_read_than_is_allowed(tmp_path):
    (tmp_path / "big.xml").write_bytes(b" " * (MOST_BYTES + 1))
    with pytest.raises(PlanError, match=r"big\.xml is larger than 8 MiB"):
        node("big.xml", tmp_path)


@pytest.mark.parametrize("name", [".", "none.xml", "x" * 5000 + ".xml", "/dev/zero", "a\0b.xml"])
def test_a_nodes_file_is_a_file(name, tmp_path):
    with pytest.raises(PlanError, match=r"there is no file .* Give the path of a node's XML, like examples/node\.xml"):
        node(name, tmp_path)
