"""Tables of a validation: a line for each source, what is left out, and that all of it can be read at 80 columns."""

import io

import pytest
from rich.console import Console

from headway.advise.published import read
from headway.advise.results import document, explanation
from headway.advise.validate import judge
from headway.report import validation as report
from headway.stack.spec import preset
from tests.advise.rows import by_microbatch, write

ROWS = [
    {"id": "a", "mbs": 1, "iter_s": 2.0, "mfu_pct": 15, "peak_mem_gb": 50, "mem_unit": "GiB", "mem_kind": "reserved"},
    {"id": "b", "mbs": 2, "iter_s": 1.0, "mfu_pct": 30},
    {"id": "c", "mbs": 4, "iter_s": 1.02, "mfu_pct": 29},
    {"id": "oom", "status": "oom", "iter_s": "", "gpu": "V100-32GB", "precision": "fp16"},
    {"id": "d", "source_group": "other", "framework": "homemade"},
    {"id": "e", "source_group": "none of them", "vocab": ""},
]


@pytest.fixture
def found(tmp_path):
    rows = read([write(tmp_path / "rows.csv", *ROWS)])
    predict = by_microbatch({1: 2.2, 2: 1.0, 4: 0.51})
    judged = [(row, judge(row, predict)) for row in rows]
    return document(judged, rows=True) | {"explained": [explanation(*judged[0])]}


def drawn(table, columns=80):
    out = Console(file=io.StringIO(), width=columns)
    out.print(table)
    lines = out.file.getvalue().splitlines()
    assert max(map(len, lines)) <= columns
    return [line.split() for line in lines]


def test_a_source_has_a_line_and_its_rows_of_good_mfu_another(found):
    lines = drawn(report.accuracy(found))
    assert ["lab", "3", "20.0", "%", "10.0", "%", "-13.3", "%", "20.0", "%", "0.500"] in lines
    assert ["at", "least", "20", "%", "MFU", "2", "25.0", "%", "25.0", "%", "-25.0", "%", "–", "–"] in lines
    assert ["other", "1", "50.0", "%", "50.0", "%", "-50.0", "%", "–", "–"] in lines
    assert not [line for line in lines if line[:1] == ["none"]]  # nothing of it was predicted


def test_sweeps_show_how_many_picks_are_near_the_best_row(found):
    assert ["lab", "3", "0.500", "1", "of", "1", "2.0", "%", "2.0", "%"] in drawn(report.sweeps(found))


def test_what_was_flagged_is_shown_by_source_and_altogether(found):
    lines = drawn(report.fits(found))
    assert ["lab", "1", "100.0", "%", "3", "0.0", "%"] in lines
    assert ["other", "0", "–", "1", "0.0", "%"] in lines
    assert ["all", "1", "100.0", "%", "4", "0.0", "%"] in lines


def test_worst_rows_kinds_of_memory_and_reasons_are_named(found):
    assert ["c", "-50.0", "%", "–"] in drawn(report.worst(found))
    assert ["lab:", "reserved", "1", "20.0", "%", "-20.0", "%"] in drawn(report.kinds(found))
    assert ["no", "vocab", "1"] in drawn(report.skipped(found))


def test_every_row_has_a_line(found):
    lines = drawn(report.rows(found))
    assert ["c", "510", "ms", "1.02", "s", "-50.0", "%", "40.0", "GiB", "–", "yes"] in lines
    assert ["oom", "1.00", "s", "–", "–", "40.0", "GiB", "–", "no"] in lines


def test_unknown_frameworks_are_said_in_a_sentence(found):
    said = "Frameworks that Headway does not know were predicted with its stack 'generic': homemade (1 row)."
    assert report.notes(found) == [said]
    assert report.notes(found | {"generic_stack": {}}) == []


def test_an_explained_row_shows_its_facts_its_inputs_its_stack_its_time_and_its_memory(found):
    first = found["explained"][0]
    assert ["gpu", "A100-80GB"] in drawn(report.facts(first))
    assert ["model.layers", "8"] in drawn(report.outline(first))
    overlaps = next(line for line in drawn(report.stack(first), 120) if line[:1] == ["overlaps"])
    known = preset("generic")
    assert " ".join(overlaps) == f"overlaps {', '.join(sorted(known.overlaps))} {known.reasons['overlaps']}"
    assert ["the", "device", "has", "80.0", "GiB", "100.0", "%"] in drawn(report.memory(first))
    assert ["step", "time", "2.20", "s", "2.00", "s", "+10.0", "%"] in drawn(report.verdict(first))
