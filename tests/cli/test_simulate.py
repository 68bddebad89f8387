"""headway simulate: the predicted figures, the timeline, the trace file and the JSON document."""

import dataclasses
import json

import pytest

from headway import chrome
from headway.cli.main import main
from headway.cluster import presets


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text("model: gpt-tiny\ncluster: a100-80gb-hdr\n")
    return str(path)


@pytest.mark.parametrize("name", ["step.json", "step.json.gz"])
def test_the_trace_file_holds_what_the_document_says(job, tmp_path, name, capsys):
    path = tmp_path / name
    assert main(["simulate", job, "--json", "--trace", str(path)]) == 0
    found, trace = json.loads(capsys.readouterr().out), chrome.read(path)
    assert found["step_seconds"] == trace.makespan
    assert found["bubble"] == trace.bubble()
    assert found["edges"] == trace.edges()
    assert found["tokens_per_second"] == pytest.approx(32 * 256 / trace.makespan)
    assert 0 < found["mfu"] < 1
    peaks = found["peak_memory"]["3"]
    assert peaks.pop("total") == sum(peaks.values())
    assert peaks == trace.memory[3]
    assert found["peak"]["bytes"] == sum(found["peak"]["made_of"].values()) == max(found["peak"]["by_rank"].values())
    assert 0 <= found["peak"]["seconds"] < found["step_seconds"]


def test_the_page_has_figures_edges_and_a_timeline_within_the_width(job, capsys):
    assert main(["simulate", job]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 120
    for said in ("tokens/s", "MFU", "0→2, 1→3, 2→0, 3→1", "2.00 MiB", "\nrank 3 ·"):
        assert said in out


def test_a_timeline_of_too_many_ranks_is_left_to_the_trace_file(job, capsys):
    assert main(["simulate", job, "--set", "parallel.data=32", "--set", "train.global_batch=128"]) == 0
    assert "No timeline here: it would take 64 ranks." in capsys.readouterr().out


def test_waiting_for_shared_cores_is_not_passed_off_as_a_bubble(tmp_path, capsys):
    cluster = dataclasses.asdict(dataclasses.replace(presets.local_cpu(), shared_cores=2))
    (tmp_path / "small.yaml").write_text(json.dumps({"cluster": cluster}))
    assert main(["simulate", str(tmp_path / "small.yaml")]) == 0
    assert "(includes waiting: 4 ranks share 2 cores)" in capsys.readouterr().out


def test_a_trace_file_of_another_kind_is_refused(job, tmp_path, capsys):
    assert main(["simulate", job, "--trace", str(tmp_path / "step.txt")]) == 2
    assert "must end in .json or .json.gz" in capsys.readouterr().err


def test_a_step_is_explained_on_the_page_and_in_the_document(job, capsys):
    assert main(["simulate", job, "--explain"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 120
    for said in (
        "where the step goes",
        "matrix products",
        "if it were twice as fast",
        "that playing every operation gives",
    ):
        assert said in out
    assert main(["simulate", job, "--explain", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    why = found["explain"]
    assert why["played_seconds"] == found["step_seconds"]
    assert sum(part["seconds"] for part in why["parts"]) == pytest.approx(why["seconds"])
    assert why["shared_cores"] == 0
    assert main(["simulate", job, "--json"]) == 0
    assert "explain" not in json.loads(capsys.readouterr().out)


def test_an_explanation_says_that_it_does_not_see_shared_cores(tmp_path, capsys):
    cluster = dataclasses.asdict(dataclasses.replace(presets.local_cpu(), shared_cores=2))
    path = tmp_path / "local.yaml"
    path.write_text(f"model: gpt-tiny\ncluster: {json.dumps(cluster)}\n")
    assert main(["simulate", str(path), "--explain"]) == 0
    assert "4 ranks share 2: that is not in it." in " ".join(capsys.readouterr().out.split())
