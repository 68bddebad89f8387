"""A row and its prediction: what is compared with what, and what no predictor can do."""

import pytest

from headway.advise.inputs import Lacking
from headway.advise.validate import Judged, judge
from headway.errors import PlanError
from tests.advise.rows import GIB, by_microbatch, row_of


def test_a_row_that_ran_has_a_pair_of_times_and_one_of_memory_where_that_was_measured(tmp_path):
    found = judge(row_of(tmp_path, peak_mem_gb=50, mem_unit="GiB", mem_kind="nvidia-smi"), by_microbatch({2: 2.5}))
    assert (found.time_pair.predicted, found.time_pair.published, found.time_pair.error) == (2.5, 2.0, 0.25)
    assert found.memory_pair.error == pytest.approx(-0.2, rel=1e-12)
    assert judge(row_of(tmp_path), by_microbatch({2: 2.5})).memory_pair is None


def test_a_row_that_did_not_run_is_compared_in_nothing(tmp_path):
    found = judge(row_of(tmp_path, status="crashed", peak_mem_gb=50, mem_unit="GB"), by_microbatch({2: 2.5}))
    assert isinstance(found, Judged)
    assert found.time_pair is None
    assert found.memory_pair is None


@pytest.mark.parametrize(("kind", "counted"), [("allocated", 40), ("reserved", 40), ("", 40), ("nvidia-smi", 43)])
def test_what_torch_cannot_see_is_not_compared_with_what_torch_counted(tmp_path, kind, counted):
    row = row_of(tmp_path, peak_mem_gb=50, mem_unit="GiB", mem_kind=kind)
    assert judge(row, by_microbatch({2: 1.0}, context=3)).memory == counted * GIB


def test_rows_of_a_sweep_differ_in_their_layout_alone(tmp_path):
    def sweep(**changes):
        return judge(row_of(tmp_path, **changes), by_microbatch(dict.fromkeys(range(1, 99), 1.0))).sweep

    assert sweep() == sweep(tp=1, dp=4, id="lab-2") == sweep(mbs=1, framework="other")
    for other in ({"model": "GPT 2B"}, {"seq_len": 1024}, {"gbs": 32}, {"source_group": "x"}, {"dp": 4, "n_gpus": 16}):
        assert sweep() != sweep(**other)


def test_a_row_that_lacks_an_input_is_never_predicted(tmp_path):
    assert judge(row_of(tmp_path, vocab=""), by_microbatch({})) == Lacking("no vocab")


def test_what_a_predictor_refuses_is_a_reason(tmp_path):
    def refuse(_outline):
        raise PlanError("zb-v is not priced yet.")

    assert judge(row_of(tmp_path), refuse) == Lacking("not predicted: zb-v is not priced yet.")
