"""headway fabric: what it prints and writes, and what it refuses."""

import dataclasses
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from headway.cli.main import main
from headway.fabric.shape import Shape

EXAMPLE = str(Path(__file__).parent.parent.parent / "examples" / "fabric.yaml")
NODE = str(Path(EXAMPLE).parent / "node.xml")


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


def _said(capsys, *words):
    assert main(["fabric", "describe", *words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_hpn_is_drawn_and_counted_within_80_columns(capsys):
    out = _said(capsys, "hpn")
    assert max(map(len, out.splitlines())) <= 80
    words = " ".join(out.split())
    for text in (
        "Agg 120 120 × 400Gbps 8 × 400Gbps 128 of 128 × 400Gbps 15:1",
        "ToR 240 136 × 200Gbps 60 × 400Gbps 128 of 128 × 400Gbps 1.067:1",
        "1,024 GPUs + 64 in reserve: 128 hosts + 8 in reserve, 16 ToRs",
        "15,360 GPUs in 1 pod, 1,920 hosts + 120 in reserve",
        "paths in a pod 60 from a port",
        "assumption: No source gives the wiring of the cores.",
    ):
        assert text in words


def test_the_page_about_fabrics_shows_what_is_printed_and_every_size(capsys):
    page = (Path(EXAMPLE).parent.parent / "docs" / "fabric.md").read_text(encoding="utf-8")
    printed = "\n".join(line.rstrip() for line in _said(capsys, "hpn").splitlines())
    assert f"$ headway fabric describe hpn\n{printed}\n```" in page
    sizes = [field.name for field in dataclasses.fields(Shape) if field.name != "family"]
    assert page.partition("`--set` takes: `")[2].partition("`")[0].split() == sizes


def test_the_page_about_fabrics_shows_the_inside_of_the_example(capsys):
    page = (Path(EXAMPLE).parent.parent / "docs" / "fabric.md").read_text(encoding="utf-8")
    printed = "\n".join(line.rstrip() for line in _said(capsys, NODE).splitlines())
    assert f"$ headway fabric describe examples/node.xml\n{printed}\n```" in page


def test_the_inside_of_a_node_is_shown_within_80_columns(capsys, tmp_path):
    picture = tmp_path / "node.svg"
    out = _said(capsys, NODE, "--svg", str(picture))
    assert max(map(len, out.splitlines())) <= 80
    assert "  3   6b:00.0   8 to switches   mlx5_6:1, mlx5_7:1     PIX   63.0   3      0, 1" in out
    assert "Node: node.xml" in next(ElementTree.fromstring(picture.read_text()).iter()).findtext("{*}title")
    found = json.loads(_said(capsys, NODE, "--json"))
    assert [len(found[key]) for key in ("gpus", "ports", "distances")] == [8, 17, 8]


def test_a_node_is_shown_below_the_fabric_that_it_fits(capsys):
    out = _said(capsys, "hpn", "--node", NODE)
    assert out.startswith("hpn\n")
    assert "fits hpn     GPUs, ports, speeds, rails and planes are those of its hosts" in out
    found = json.loads(_said(capsys, "hpn", "--set", "segments=2", "--node", NODE, "--json"))
    assert (found["gpus"], found["node"]["ports"][3]["rail"]) == (2048, 1)


def test_what_a_nodes_file_lacks_is_said(capsys, tmp_path):
    (tmp_path / "vm.xml").write_text(Path(NODE).read_text().replace('link_width="16"', 'link_width="0"'))
    assert "assumption: The file does not tell the speed or the width of 33 PCI links." in _said(
        capsys, str(tmp_path / "vm.xml")
    )


def test_json_is_one_document(capsys):
    found = json.loads(_said(capsys, "hpn", "--json"))
    assert (found["gpus"], found["path_search_space"], found["aggs_per_plane"]) == (15_360, 60, 60)
    assert found["path_search_space_of_pods"] is None


def test_pods_and_other_sizes_are_options(capsys):
    found = json.loads(_said(capsys, "hpn", "--pods", "2", "--set", "segments=3", "--set", "hosts=16", "--json"))
    assert found["name"] == "hpn pods=2 segments=3 hosts=16"
    assert (found["gpus"], found["segments"], found["path_search_space_of_pods"]) == (2 * 3 * 16 * 8, 6, 480)


@pytest.mark.parametrize("name", ["dcn+", "single-tor", "single-plane", "hpn pods=2", "clos", EXAMPLE])
def test_each_fabric_can_be_described(capsys, name):
    out = _said(capsys, name)
    assert max(map(len, out.splitlines())) <= 80


def test_the_picture_the_cables_and_slurms_tree_are_written(capsys, tmp_path):
    files = {option: tmp_path / option for option in ("svg", "cables", "slurm", "nccl")}
    options = [word for option, path in files.items() for word in (f"--{option}", str(path))]
    _said(capsys, EXAMPLE, *options)
    assert "Fabric: two-racks" in next(ElementTree.fromstring(files["svg"].read_text()).iter()).findtext("{*}title")
    assert len(files["cables"].read_text().splitlines()) == 1 + 144 + 64
    assert files["nccl"].read_text().startswith("NCCL_IB_HCA==mlx5_0:1:0:0,mlx5_1:1:0:1,")
    assert files["slurm"].read_text().startswith("SwitchName=segment0 Nodes=host[0-3]\n")


def test_the_help_has_examples(capsys):
    assert main(["fabric", "describe", "--help"]) == 0
    assert "headway fabric describe dcn+ --pods 32" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("descirbe hpn", "no verb of fabric is called 'descirbe'. Did you mean 'describe'?"),
        ("describe", "Missing argument"),
        ("describe hpm", "no fabric is called 'hpm'. Did you mean 'hpn'?"),
        ("describe hpn --pods 9", "core-0-0 needs 135 ports of 400Gbps for its links and has 128"),
        ("describe hpn --pods 0", "hpn: pods is 0. Use 1 or more."),
        ("describe hpn --set pods", "--set pods: write it as KEY=VALUE, like --set segments=2."),
        ("describe hpn --set racks=2", "a fabric has no 'racks'. Did you mean 'rails'?"),
        (
            "describe none.yaml",
            "there is no file none.yaml. Give the path of a fabric file, like examples/fabric.yaml.",
        ),
        (f"describe {EXAMPLE} --pods 2", "tells each switch, so pods cannot be set."),
        ("describe dcn+ --svg /nowhere/x.svg", "/nowhere/x.svg cannot be written"),
        ("describe none.xml", "there is no file none.xml. Give the path of a node's XML, like examples/node.xml."),
        (f"describe {NODE} --pods 2", "tells the inside of a node, and --pods is for a fabric."),
        (f"describe {NODE} --nccl x", "tells the inside of a node, and --nccl is for a fabric."),
        (f"describe {NODE} --node {NODE}", "tells the inside of a node, and --node is for a fabric."),
        (f"describe {NODE} --svg /nowhere/x.svg", "/nowhere/x.svg cannot be written"),
        (
            f"describe single-tor --node {NODE}",
            "the number of ports near GPU 0 of node.xml is 2 (mlx5_0:1, mlx5_1:1), in single-tor it is 1.",
        ),
        (f"describe hpn --node {EXAMPLE}", "fabric.yaml, line 1 is no XML (not well-formed (invalid token))."),
    ],
)
def test_a_users_mistake_exits_2_with_one_message(capsys, line, said):
    assert main(["fabric", *line.split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert "Traceback" not in err
