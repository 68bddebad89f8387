"""The document of a validation: figures of each source by hand, reasons of what was skipped, one row explained."""

import json

import pytest

from headway.advise.published import read
from headway.advise.results import document, explanation
from headway.advise.validate import judge
from headway.stack.spec import preset
from tests.advise.rows import GIB, by_microbatch, write

# a sweep of three rows of 2 s, 1 s and 1.02 s that are predicted 10 % too slow, right, and 50 % too fast
SWEEP = [
    {
        "id": "slow",
        "mbs": 1,
        "iter_s": 2.0,
        "mfu_pct": 15,
        "peak_mem_gb": 50,
        "mem_unit": "GiB",
        "mem_kind": "reserved",
    },
    {
        "id": "best",
        "mbs": 2,
        "iter_s": 1.0,
        "mfu_pct": 30,
        "peak_mem_gb": 40,
        "mem_unit": "GiB",
        "mem_kind": "reserved",
    },
    {"id": "near", "mbs": 4, "iter_s": 1.02, "mfu_pct": 29},
]
SECONDS = {1: 2.2, 2: 1.0, 4: 0.51}


def result(folder, *rows, predict=None, **how):
    found = read([write(folder / "rows.csv", *rows)])
    return document([(row, judge(row, predict or by_microbatch(SECONDS))) for row in found], **how)


def test_the_figures_of_a_source(tmp_path):
    found = result(tmp_path, *SWEEP)["sources"]["lab"]
    assert (found["rows"], found["time_rows"], found["memory_rows"], found["skipped"]) == (3, 3, 2, 0)
    assert found["time_mape"] == pytest.approx((0.1 + 0 + 0.5) / 3, rel=1e-9)
    assert found["time_median"] == pytest.approx(0.1, rel=1e-9)
    assert found["time_bias"] == pytest.approx((0.1 + 0 - 0.5) / 3, rel=1e-9)
    assert found["time_worst"] == {"id": "near", "error": pytest.approx(-0.5, rel=1e-9)}
    assert found["memory_mape"] == pytest.approx((0.2 + 0) / 2, rel=1e-9)
    assert found["memory_bias"] == pytest.approx((-0.2 + 0) / 2, rel=1e-9)
    assert found["memory_worst"]["id"] == "slow"
    assert found["memory_by_kind"]["reserved"]["memory_rows"] == 2


def test_the_order_within_a_sweep_and_the_row_that_is_picked(tmp_path):
    found = result(tmp_path, *SWEEP)["sources"]["lab"]
    assert (found["sweeps"], found["sweep_rows"], found["picks_within_5_percent"]) == (1, 3, 1)
    assert found["spearman"] == pytest.approx(1 - 6 * 2 / (3 * 8), rel=1e-9)
    assert found["worst_pick"] == {"id": "near", "loss": pytest.approx(0.02, rel=1e-9)}
    assert found["pick_loss"] == pytest.approx(0.02, rel=1e-9)


def test_rows_of_at_least_20_percent_mfu_are_reported_apart(tmp_path):
    found = result(tmp_path, *SWEEP)["sources"]["lab"]
    assert found["mfu_rows"] == 3
    good = found["at_least_20_mfu"]
    assert (good["rows"], good["mfu_rows"], good["sweeps"], good["spearman"]) == (2, 2, 0, None)
    assert good["time_mape"] == pytest.approx(0.25, rel=1e-9)
    assert result(tmp_path, {})["sources"]["lab"]["time_bias"] == pytest.approx(-0.5, rel=1e-9)
    assert result(tmp_path, {})["sources"]["lab"]["at_least_20_mfu"] is None


def test_what_was_flagged_of_the_rows_that_ran_and_of_those_that_did_not(tmp_path):
    small = {"gpu": "V100-32GB", "precision": "fp16"}
    ran = [{"id": f"ran-{i}"} for i in range(3)] + [{"id": "ran-3", **small}]
    crashed = [{"id": f"oom-{i}", **small, "status": "oom", "iter_s": ""} for i in range(2)]
    crashed.append({"id": "oom-2", "status": "crashed", "iter_s": "", "source_group": "other"})
    found = result(tmp_path, *ran, *crashed)
    assert found["fits"] == {"ran": 4, "ran_flagged": 0.25, "did_not_run": 3, "did_not_run_flagged": 2 / 3}
    lab, other = found["sources"]["lab"], found["sources"]["other"]
    assert (lab["rows"], lab["ran_flagged"], lab["did_not_run"], lab["did_not_run_flagged"]) == (4, 0.25, 2, 1.0)
    assert (other["rows"], other["time_mape"], other["did_not_run_flagged"]) == (0, None, 0.0)


def test_skipped_rows_are_counted_by_reason_the_most_frequent_first(tmp_path):
    lacking = [{"id": "a", "mlp": "moe"}, {"id": "b", "vocab": ""}, {"id": "c", "vocab": ""}]
    found = result(tmp_path, *lacking, {"id": "d", "source_group": "other"}, rows=True)
    assert list(found["skipped"].items()) == [("no vocab", 2), ("mixture of experts", 1)]
    assert found["sources"]["lab"]["skipped"] == 3
    assert (found["sources"]["lab"]["rows"], found["sources"]["other"]["rows"]) == (0, 1)
    assert found["skipped_rows"] == {"a": "mixture of experts", "b": "no vocab", "c": "no vocab"}
    assert [row["id"] for row in found["rows"]] == ["d"]


def test_frameworks_without_a_stack_and_memory_that_is_not_compared_are_counted(tmp_path):
    rows = [
        {"id": "a", "framework": "homemade"},
        {"id": "b", "framework": "homemade", "peak_mem_gb": 9},
        {"id": "c", "framework": "", "peak_mem_gb": 9, "mem_unit": "GB", "mem_kind": "formula"},
        {"id": "d", "peak_mem_gb": 9, "mem_unit": "GB", "mem_kind": "by eye"},
        {"id": "e", "framework": "headway"},
    ]
    found = result(tmp_path, *rows)
    assert found["generic_stack"] == {"homemade": 2, "not named": 1}
    assert found["memory_not_compared"] == {
        "no mem_unit": 1,
        "computed, not measured (mem_kind)": 1,
        "unknown mem_kind: by eye": 1,
    }


def test_each_row_has_its_seconds_and_its_memory_in_the_unit_in_which_it_was_published(tmp_path):
    rows = [
        {"id": "a", "mbs": 2, "iter_s": 0.8, "peak_mem_gb": 50, "mem_unit": "GB", "mem_kind": "nvidia-smi"},
        {"id": "b", "mbs": 2, "status": "oom", "iter_s": ""},
    ]
    found = result(tmp_path, *rows, rows=True)["rows"]
    assert {key: found[0][key] for key in ("id", "predicted_s", "published_s", "published_gb", "fits", "unit")} == {
        "id": "a", "predicted_s": 1.0, "published_s": 0.8, "published_gb": 50, "fits": True, "unit": "GB",
    }  # fmt: skip
    assert found[0]["predicted_gb"] == pytest.approx(40 * GIB / 1e9, rel=1e-12)
    assert found[0]["time_error"] == pytest.approx(0.25, rel=1e-12)
    assert (found[1]["published_s"], found[1]["published_gb"], found[1]["time_error"]) == (None, None, None)
    assert (found[1]["predicted_gb"], found[1]["unit"]) == (40, "GiB")
    assert "rows" not in result(tmp_path, *rows)


def test_one_row_is_explained_from_what_was_said_to_what_the_prediction_is_made_of(tmp_path):
    row = read([write(tmp_path / "rows.csv", {"notes": "async TP"})])[0]
    found = explanation(row, judge(row, by_microbatch(SECONDS, context=1)))
    json.dumps(found)  # it can be printed
    assert found["facts"]["intra_link"] == "NVLink3+NVSwitch"
    assert (found["outline"]["microbatches"], found["outline"]["model"]["layers"]) == (4, 8)
    assert found["outline"]["cluster"]["device"]["name"] == "A100-80GB"
    assert found["stack_entries"]["overlaps"]["is"] == sorted({*preset("generic").overlaps, "tensor"})
    assert found["stack_entries"]["overlaps"]["why"].endswith("the row says: async TP")
    assert found["parts"] == {"products": 1.0}
    named = [part["name"] for part in found["explain"]["parts"]]
    assert {"products", "attention", "memory traffic", "optimizer"} <= set(named)
    assert found["explain"]["twice_as_fast"][0]["name"] == "matrix products"
    assert found["memory"] == {"parameters": 40 * GIB, "context": GIB}
    assert (found["predicted_s"], found["published_s"], found["fits"]) == (1.0, 2.0, True)


def test_a_row_that_is_not_predicted_is_explained_by_what_it_lacks(tmp_path):
    row = read([write(tmp_path / "rows.csv", {"vocab": ""})])[0]
    found = explanation(row, judge(row, by_microbatch(SECONDS)))
    assert (found["lacking"], found["facts"]["layers"]) == ("no vocab", "8")
    assert "outline" not in found
