"""headway compare: a run's prediction beside its measurement, and what it refuses."""

import json
from dataclasses import replace

import pytest

from headway import chrome
from headway.cli.main import main
from headway.plan import plan as plans
from headway.sim.simulate import simulate
from headway.trace import as_columns


@pytest.fixture
def run(tmp_path, plan_of, monkeypatch):
    """The directory of a run whose step took twice as long as predicted."""
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    directory, plan = tmp_path / "run", plan_of(run={"profile": 5})
    directory.mkdir()
    predicted = simulate(plan)
    spans = replace(predicted.spans, starts=2 * predicted.spans.starts, ends=2 * predicted.spans.ends)
    chrome.write(directory / "predicted.trace.json.gz", predicted)
    chrome.write(directory / "measured.trace.json.gz", replace(predicted, source="measured", spans=spans))
    (directory / "plan.json").write_text(plans.dumps(plan))
    summary = {"measured_step_seconds": 2 * predicted.makespan, "traced_step": 5}
    (directory / "summary.json").write_text(json.dumps(summary))
    return directory


def test_it_shows_both_steps_on_one_axis_the_differences_and_that_counts_and_bytes_agree(run, capsys):
    assert main(["compare", str(run)]) == 0
    out = capsys.readouterr().out
    before, _, after = out.partition("measured, step 5\n")
    assert "predicted\n" in before
    assert before.count("rank ") == after.partition("step time")[0].count("rank ") == 4
    lines = {words[0]: words for words in map(str.split, after.splitlines()) if words}
    assert lines["step"][-2:] == ["+100.0", "%"]
    assert lines["F"][-1] == "2.00"
    assert "Counts and bytes agree exactly" in " ".join(out.split())


def test_json_is_one_document_with_counts_seconds_and_bytes(run, capsys):
    assert main(["compare", str(run), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["agree"], document["disagreements"], document["traced_step"]) == (True, [], 5)
    forward = document["operations"]["F"]
    assert forward["count"]["predicted"] == forward["count"]["measured"] == 4 * 4  # ranks, micro-batches
    assert forward["ratio"] == pytest.approx(2.0, rel=1e-12)
    assert document["edges"]["predicted"] == document["edges"]["measured"] != {}


def test_a_byte_too_many_is_named_and_exits_1(run, capsys):
    path = run / "measured.trace.json.gz"
    trace = chrome.read(path)
    first = next(i for i, span in enumerate(trace.spans) if span.edge == "0→2")
    spans = [*trace.spans]
    spans[first] = replace(spans[first], bytes=spans[first].bytes + 1)
    chrome.write(path, replace(trace, spans=as_columns(spans)))
    assert main(["compare", str(run)]) == 1
    printed = capsys.readouterr()
    assert "agree exactly" not in printed.out
    assert "predicted and measured must agree exactly, but differ in bytes 0→2." in printed.err


def test_a_picture_that_is_too_wide_is_squeezed_onto_the_terminal(run, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["compare", str(run)]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("rank ", "r0 "))]
    assert rows
    assert max(map(len, rows)) <= 60


@pytest.mark.parametrize("verb", ["compare", "generate"])
@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("run", "there is no run"),
        ("plan.json", "is no run: it has no plan.json."),
        ("end", "which is written when a run ends. Wait for its end or stop it with Ctrl-C, which saves"),
    ],
)
def test_no_run_and_a_run_that_has_not_ended_exit_2_with_a_remedy(run, capsys, verb, missing, said):
    path = run / "nowhere" if missing == "run" else run
    if missing != "run":
        (run / ("summary.json" if missing == "end" else missing)).unlink()
    assert main([verb, str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
