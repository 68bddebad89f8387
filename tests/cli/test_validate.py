"""headway validate: tables, JSON, one row explained, and what it refuses."""

import json

import pytest

from headway.cli.main import main
from headway.sim.estimate import estimate
from tests.advise.rows import by_microbatch, write

KEYS = {"rows", "time_mape", "time_bias", "memory_mape", "spearman"}
ROWS = [
    {"id": "lab-1", "mbs": 1, "iter_s": 2.0, "peak_mem_gb": 50, "mem_unit": "GiB", "mem_kind": "reserved"},
    {"id": "lab-2", "mbs": 2, "iter_s": 1.0},
    {"id": "lab-3", "mbs": 4, "iter_s": 1.02},
    {"id": "lab-4", "vocab": ""},
    {"id": "other-1", "source_group": "other", "framework": "homemade"},
]


@pytest.fixture(autouse=True)
def _known_predictions(monkeypatch):
    monkeypatch.setattr("headway.sim.explain.estimate", estimate)  # bound where it is first imported
    monkeypatch.setattr("headway.sim.estimate.estimate", by_microbatch({1: 2.2, 2: 1.0, 4: 0.51}))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


@pytest.fixture
def file(tmp_path):
    return str(write(tmp_path / "rows.csv", *ROWS))


def _json(capsys, *words):
    assert main(["validate", *words, "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return json.loads(printed.out)


def test_json_is_one_document_with_sources_and_what_was_skipped(file, capsys):
    document = _json(capsys, file)
    assert list(document["sources"]) == ["lab", "other"]
    assert set(document["sources"]["lab"]) >= KEYS
    lab = document["sources"]["lab"]
    assert (lab["rows"], lab["time_mape"]) == (3, pytest.approx(0.2, rel=1e-9))
    assert (lab["time_bias"], lab["memory_mape"]) == (pytest.approx(-0.4 / 3, rel=1e-9), pytest.approx(0.2, rel=1e-9))
    assert lab["spearman"] == pytest.approx(0.5, rel=1e-9)
    assert document["sources"]["other"]["spearman"] is None
    assert document["skipped"] == {"no vocab": 1}
    assert "rows" not in document


def test_json_has_every_row_where_asked(file, capsys):
    rows = _json(capsys, file, "--rows")["rows"]
    assert [row["id"] for row in rows] == ["lab-1", "lab-2", "lab-3", "other-1"]
    assert {"id", "predicted_s", "published_s", "predicted_gb", "published_gb", "fits"} <= set(rows[0])
    assert (rows[0]["predicted_s"], rows[0]["published_s"]) == (2.2, 2.0)
    assert (rows[0]["predicted_gb"], rows[0]["published_gb"], rows[0]["fits"]) == (40.0, 50.0, True)


def test_several_files_count_together_and_a_source_can_be_chosen(file, tmp_path, capsys):
    more = write(tmp_path / "more.csv", {"id": "lab-9"})
    assert _json(capsys, file, str(more))["sources"]["lab"]["rows"] == 4
    assert list(_json(capsys, file, str(more), "--source", "other")["sources"]) == ["other"]


def test_tables_name_sources_reasons_and_unknown_frameworks_within_80_columns(file, capsys):
    assert main(["validate", file, "--rows"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    for said in ("lab-3", "no vocab", "homemade (1 row)", "1 of 1", "-13.3 %"):
        assert said in out


def test_one_row_is_explained_in_tables_and_in_json(file, capsys):
    assert main(["validate", file, "--row", "lab-2"]) == 0
    out = capsys.readouterr().out
    for said in ("A100-80GB", "model.layers", "stack generic", "where the step goes", "parameters", "it ran"):
        assert said in out
    explained = _json(capsys, file, "--row", "lab-2")["explained"]
    assert [each["id"] for each in explained] == ["lab-2"]
    assert explained[0]["outline"]["microbatches"] == 4


def test_a_row_that_is_not_predicted_says_why(file, capsys):
    assert main(["validate", file, "--row", "lab-4"]) == 0
    assert "This row is not predicted: no vocab." in capsys.readouterr().out


def test_without_files_the_packaged_rows_are_compared(capsys, monkeypatch):
    monkeypatch.setattr("headway.sim.estimate.estimate", by_microbatch(dict.fromkeys(range(1, 2048), 1.0)))
    document = _json(capsys)
    assert sum(source["rows"] for source in document["sources"].values()) == 2577
    assert document["fits"]["did_not_run"] == 804
    assert document["skipped"] == {"mixture of experts": 3, "inconsistent batch": 3}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.csv"], "there is no file none.csv."),
        (["FOLDER"], "is a directory. Name the CSV files in it."),
        (["FILE", "--row", "lab-11"], "no row has the id 'lab-11'. Did you mean lab-1"),
        (["FILE", "--row", "?"], "no row has the id '?'. --rows lists the rows with their ids."),
        (["FILE", "--source", "labb"], "no row is of the source 'labb'. Did you mean 'lab'?"),
        (["EMPTY"], "empty.csv is empty"),
        (["WRONG"], "wrong.csv, line 2, row 'lab-1': pp is no number: 'x'."),
    ],
)
def test_a_users_mistake_exits_2_with_one_message(file, tmp_path, capsys, words, said):
    (tmp_path / "empty.csv").touch()
    wrong = write(tmp_path / "wrong.csv", {"pp": "x"})
    places = {"FILE": file, "FOLDER": str(tmp_path), "EMPTY": str(tmp_path / "empty.csv"), "WRONG": str(wrong)}
    assert main(["validate", *(places.get(word, word) for word in words)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("Error: ") == 1
    assert said in printed.err
    assert "Traceback" not in printed.err
