"""Devices as the tools of a host show them: tools are small scripts, nodes are links to /dev/null."""

from pathlib import Path

import pytest

from headway.launch.doctor.looking import devices, tool

GOLDEN = Path(__file__).parents[3] / "golden"
MAPPING = "NPU ID   Chip ID   Chip Logic ID   Chip Name\\n0   0   0   Ascend910\\n0   1   1   Ascend910\\n"
LISTED = "0, NVIDIA H100 80GB HBM3, 550.54.15, 81559, 4, Default, Disabled, 0"


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A tree to look at, and a directory of tools that is all of PATH but for sh's own."""
    monkeypatch.setattr(tool, "_DIRECTORIES", ())
    tools = tmp_path / "bin"
    tools.mkdir()
    (tmp_path / "dev").mkdir()
    monkeypatch.setenv("PATH", str(tools))

    def add(name, text):
        path = tools / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    return tmp_path, add


def _nodes(root, *names):
    for name in names:
        (root / "dev" / name).symlink_to("/dev/null")


def _npu_smi(sample):
    return f"if [ \"$2\" = -m ]; then printf '{MAPPING}'; else /bin/cat {GOLDEN}/npu-smi-{sample}.txt; fi"


def test_a_host_without_tools_has_the_nodes_alone(host):
    root, _ = host
    _nodes(root, "davinci0", "davinci1", "davinci_manager", "hisi_hdc", "nvidia3", "nvidiactl")
    npus, gpus = devices.npus(root), devices.gpus(root)
    assert (npus.nodes, npus.table, npus.manager, npus.trouble) == ((0, 1), None, True, "it is not installed")
    assert (gpus.nodes, gpus.asked, gpus.trouble) == ((3,), False, "it is not installed")


def test_an_a3_is_read_with_its_links_and_addresses(host):
    root, add = host
    _nodes(root, "davinci0", "davinci1")
    add("npu-smi", _npu_smi("a3"))
    add("hccn_tool", '[ "$2" = 0 ] && echo "link status: UP" || echo "link status: DOWN"')
    (root / "etc").mkdir()
    (root / "etc/hccn.conf").write_text(
        "address_0=192.168.100.101\nnetmask_0=255.255.255.0\naddress_1=192.168.100.102\n"
    )
    found = devices.npus(root)
    assert [each.bus for each in found.table.npus] == ["0000:9D:00.0", "0000:9F:00.0"]
    assert (found.logical, found.links, found.addresses) == ((0, 1), {0: True, 1: False}, 2)
    assert (found.manager, found.trouble) == (False, None)


def test_a_link_that_is_told_in_other_words_is_not_known(host):
    root, add = host
    _nodes(root, "davinci0")
    add("npu-smi", _npu_smi("910b"))
    add("hccn_tool", "echo '/usr/bin/env: no such thing'; exit 1")
    assert devices.npus(root).links == {0: None}


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("echo 'dcmi model initialized failed, ret is -8005'; exit 1", "another container's"),
        ("echo 'ret is -8020'", "another container's"),
        ("echo nothing of the kind", "it shows no table of NPUs"),
        ("exit 2", "it ended with status 2"),
    ],
)
def test_an_npu_smi_that_is_of_no_help_says_why(host, text, trouble):
    root, add = host
    add("npu-smi", text)
    found = devices.npus(root)
    assert trouble in found.trouble
    assert found.table.npus == ()


def test_an_npu_smi_that_is_a_directory_was_made_by_an_engine(host, monkeypatch):
    root, _ = host
    (root / "sbin" / "npu-smi").mkdir(parents=True)
    monkeypatch.setattr(tool, "_DIRECTORIES", (str(root / "sbin"),))
    assert "it is a directory" in devices.npus(root).trouble


def test_gpus_are_read_with_their_topology_and_cuda(host):
    root, add = host
    _nodes(root, "nvidia0")
    add(
        "nvidia-smi",
        f'case "$1" in --query*) echo "{LISTED}";; topo) /bin/cat {GOLDEN}/nvidia-smi-topo.txt;; '
        '*) echo "| CUDA Version: 12.4 |";; esac',
    )
    found = devices.gpus(root)
    assert (found.nodes, found.asked, found.cuda, found.trouble) == ((0,), True, (12, 4), None)
    assert found.listed[0].memory == 81559 * 2**20
    assert found.topology.nearest("GPU0") == ("mlx5_0", "PIX")


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("echo 'Failed to initialize NVML: Unknown Error'; exit 255", "status 255: Failed to initialize NVML"),
        ("echo 'No devices were found'", "it lists no GPU"),
    ],
)
def test_an_nvidia_smi_that_is_of_no_help_says_why(host, text, trouble):
    root, add = host
    add("nvidia-smi", text)
    found = devices.gpus(root)
    assert trouble in found.trouble
    assert (found.asked, found.listed) == (True, ())
