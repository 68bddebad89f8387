"""headway fabric run: what it prints of a job on a fabric, and what it refuses."""

import json
from pathlib import Path

import pytest

from headway.cli.fabric.run import run
from headway.cli.main import main
from headway.sim.network import SEEDS

EXAMPLE = str(Path(__file__).parents[2] / "examples/gpt-175b-hpn.yaml")
JOB = """
model: gpt-1.3b
cluster: {preset: h800-hpn, fabric: dcn+ hosts=2}
parallel: {tensor: 8, pipeline: 2, data: 2}
data: {sequence_length: 1024, tokenizer: none}
train: {global_batch: 16, microbatch: 1, precision: bfloat16}
"""


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    return str(path)


def _said(capsys, *words):
    assert main(["fabric", "run", *words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def _document(capsys, *words):
    return json.loads(_said(capsys, *words, "--json"))


def test_a_job_is_taken_to_its_fabric(capsys, job):
    out = _said(capsys, job, "--seeds", "3")
    words = " ".join(out.split())
    for text in (
        "on dcn+ hosts=2;",
        "on 4 hosts in 2 segments and 1 pod, hosts packed",
        "2 connections a pair, ports hash, split equal; 3 hash seeds",
        "what for groups × ranks bytes across hosts segments ─",
        "what for seconds closed form share seeds slowest link ─",
        "activations 16 × 2",
        "axes, fastest first step of across segments across pods ─",
        "tensor, pipeline, data",
        "Across segments: shared embedding, activations, their gradients, step totals.",
        "Not modelled: flow control (PFC)",
    ):
        assert text in words
    assert max(map(len, out.splitlines())) <= 80


def test_what_is_free_is_not_called_slowed(capsys, job):
    words = " ".join(_said(capsys, job, "--fabric", "hpn").split())
    assert "All ranks are in one segment: no byte passes an Agg." in words
    assert " → " not in words
    assert "axes, fastest first" not in words


def test_the_document_agrees_with_simulate(capsys, job):
    found = _document(capsys, job)
    assert main(["simulate", job, "--json"]) == 0
    simulated = json.loads(capsys.readouterr().out)
    assert found["step_seconds"] == simulated["step_seconds"]
    assert found["digest"] == simulated["digest"]
    shares = simulated["network"]["shares"]
    assert simulated["network"]["fabric"] == found["fabric"] == "dcn+ hosts=2"
    for each in found["sent"]:
        assert each["share"] == (shares[each["exchange"]]["median"] if each["exchange"] in shares else 1.0)
    assert next(each for each in run.params if each.name == "seeds").default == SEEDS


def test_the_document_adds_up(capsys, job):
    found = _document(capsys, job, "--order", "random", "--connections", "3", "--ports", "round_robin", "--seeds", "2")
    assert (found["connections"], found["ports"], found["split"], found["order"]) == (
        3,
        "round_robin",
        "equal",
        "random",
    )
    assert found["across_segments_bytes"] == sum(each["across_segments_bytes"] for each in found["sent"])
    own, other = found["orders"]
    assert own["step_seconds"] == found["step_seconds"] >= found["closed_form_seconds"]
    assert own["across_segments_bytes"]["all"] == found["across_segments_bytes"]
    assert (own["axes"], other["axes"]) == ("tensor, data, pipeline", "tensor, pipeline, data")
    slowest = next(each for each in found["sent"] if each["purpose"] == "activations")
    assert slowest["share_range"][0] <= slowest["share"] <= slowest["share_range"][1]
    assert " → " in slowest["slowest_link"]


def test_hosts_may_be_named(capsys, tmp_path, job):
    (tmp_path / "hosts").write_text("0\n2\n4\n6\n")
    found = _document(capsys, job, "--order", str(tmp_path / "hosts"))
    assert (found["segments"], found["fewest_segments"]) == (4, 2)
    assert "in 4 segments (2 would do)" in " ".join(_said(capsys, job, "--order", str(tmp_path / "hosts")).split())


def test_the_page_about_fabrics_shows_what_is_printed_of_the_example(capsys):
    page = (Path(EXAMPLE).parents[1] / "docs/fabric.md").read_text(encoding="utf-8")
    printed = [line.rstrip() for line in _said(capsys, EXAMPLE).splitlines()]
    assert "\n".join(["$ headway fabric run examples/gpt-175b-hpn.yaml", *printed[1:]]) in page  # without the digest


def test_a_plan_file_takes_another_fabric(capsys, tmp_path, job):
    path = tmp_path / "plan.json"
    assert main(["plan", job, "--output", str(path)]) == 0
    assert "fabric dcn+ hosts=2" in " ".join(capsys.readouterr().out.split())
    assert _document(capsys, str(path), "--fabric", "hpn")["fabric"] == "hpn"


def test_simulate_names_the_network(capsys, job):
    assert main(["simulate", job]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "network dcn+ hosts=2, 2 connections a pair, ports hash, split equal: forward " in words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--set", "cluster.fabric=none"],
            "job.yaml has no fabric. Set cluster.fabric: hpn in it, or give --fabric hpn.",
        ),
        (["--fabric", "hpm"], "no fabric is called 'hpm'. Did you mean 'hpn'?"),
        (["--fabric", "hpn segments=1 hosts=2"], "the layout needs 4 hosts of 8 devices, but cluster.fabric hpn"),
        (
            ["--fabric", "hpn nic_ports=1 tors=1 planes=1"],
            "the ports of a card of hpn nic_ports=1 tors=1 planes=1 have 200",
        ),
        (["--order", "nowhere"], "--order nowhere: No such file or directory. Use packed, random or a file"),
        (["--ports", "all"], "ports is 'all'."),
        (["--connections", "0"], "0 connections of a pair. Use 1 to 128."),
        (["--seeds", "0"], "--seeds is 0. Use 1 to 1000."),
    ],
)
def test_wrong_input_is_one_message(capsys, job, words, said):
    assert main(["fabric", "run", job, *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1
