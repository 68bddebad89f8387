"""The model and the cluster of a job: presets, presets with changes, cluster files."""

from pathlib import Path

import pytest

from headway.cluster import presets as clusters
from headway.errors import PlanError
from headway.model.spec import PRESETS
from headway.plan import presets

EXAMPLE = (Path(__file__).parents[2] / "examples/cluster.yaml").read_text(encoding="utf-8")
HERE = Path()


def test_a_word_is_the_preset_itself():
    assert presets.cluster("h800-hpn", HERE) == clusters.preset("h800-hpn")
    assert presets.model("gpt2") == PRESETS["gpt2"]


def test_a_preset_may_be_changed_in_a_section_and_keeps_the_rest():
    base = clusters.preset("h800-hpn")
    found = presets.cluster({"preset": "h800-hpn", "nodes": 4, "device": {"memory": 2**36}}, HERE)
    assert (found.nodes, found.device.memory) == (4, 2**36)
    assert (found.between, found.device.peak, found.name) == (base.between, base.device.peak, base.name)


def test_a_cluster_file_may_be_a_preset_with_changes(tmp_path):
    (tmp_path / "mine.yaml").write_text("preset: h800-hpn\nname: mine\nnodes: 2\n")
    found = presets.cluster("mine.yaml", tmp_path)
    assert (found.name, found.nodes, found.device.name) == ("mine", 2, "H800-80GB")


def test_a_cluster_file_may_be_changed_by_the_job(tmp_path):
    (tmp_path / "boxes.yaml").write_text(EXAMPLE)
    found = presets.cluster({"preset": "boxes.yaml", "nodes": 3}, tmp_path)
    assert (found.name, found.nodes) == ("two-boxes", 3)


def test_a_cluster_file_is_no_preset_of_another(tmp_path):
    (tmp_path / "a.yaml").write_text("preset: a.yaml\n")
    with pytest.raises(PlanError, match=r"no cluster preset is called 'a\.yaml'"):
        presets.cluster("a.yaml", tmp_path)


def test_a_file_names_its_fabric_beside_itself_and_a_job_beside_the_job(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "net.yaml").write_text("family: hpn\nsegments: 2\n")
    (tmp_path / "net.yaml").write_text("family: hpn\nsegments: 3\n")
    (inner / "cluster.yaml").write_text("preset: h800-hpn\nfabric: net.yaml\n")
    assert presets.cluster("inner/cluster.yaml", tmp_path).fabric == "hpn segments=2"
    both = {"preset": "inner/cluster.yaml", "fabric": "net.yaml"}
    assert presets.cluster(both, tmp_path).fabric == "hpn segments=3"
