"""Every layout trains as one process does, and does exactly what the simulator says; one launch plays them all."""

import json
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import pytest

from headway.units import Dtype
from tests.train.cases import (
    MAX_WORLD,
    Case,
    half_precision,
    matrix,
    seats,
    single_precision,
    smoothed,
    splits,
    tensors,
    timed_zeros,
    zeros,
)
from tests.train.covering import combinations_of, full, sampled
from tests.train.launching import run_ranks

pytestmark = pytest.mark.dist
TOLERANCE = 1e-9
SCRIPT = Path(__file__).parent / "play_cases.py"
SAME_JOB = Case(2, 2, 2, "interleaved", 4)
SAME_LLAMA = replace(SAME_JOB, key_value_heads=2, attention_dropout=0.1, hidden_dropout=0.1)
SAME_HALF = half_precision()[1]
SAME_JOBS = (SAME_JOB, SAME_LLAMA, SAME_HALF)
EPSILON = {Dtype.BFLOAT16: 2.0**-7, Dtype.FLOAT16: 2.0**-10}


def _play(cases: list[Case], folder: Path, timeout: float) -> dict[str, list[dict]]:
    (folder / "cases.json").write_text(json.dumps([asdict(case) for case in cases]))
    run_ranks(SCRIPT, [str(folder / "cases.json"), str(folder / "out.json")], MAX_WORLD, timeout)
    return json.loads((folder / "out.json").read_text())


@pytest.fixture(scope="module", params=["sampled", pytest.param("full", marks=pytest.mark.full)])
def played(request, tmp_path_factory):
    cases = sampled() if request.param == "sampled" else full()
    everything = [*cases, *(job for job in SAME_JOBS for _ in range(2))]
    found = _play(everything, tmp_path_factory.mktemp("played"), timeout=600 if cases == sampled() else 3000)
    assert set(found) >= {case.id for case in cases}
    return found


def test_every_case_is_played_once_by_as_many_neighbouring_processes_as_it_has_ranks():
    cases = [*matrix(), *splits(), *tensors()]
    found = seats(cases, MAX_WORLD)
    assert sorted(number for number, _ in found) == list(range(len(cases)))
    assert all(0 <= first <= MAX_WORLD - cases[number].world for number, first in found)
    busy = [0] * MAX_WORLD
    for number, first in found:
        for process in range(first, first + cases[number].world):
            busy[process] += 1
    assert max(busy) < 1.1 * min(busy)


EVERY = (matrix, splits, smoothed, tensors, zeros, single_precision, half_precision)


def test_the_sample_has_every_pair_of_values_that_any_case_has():
    pairs = {pair for cases in EVERY for case in cases() for pair in combinations_of(case, 2)}
    assert {pair for case in sampled() for pair in combinations_of(case, 2)} == pairs
    assert len(sampled()) < 130


@pytest.mark.full
@pytest.mark.parametrize("cases", [matrix, tensors])
def test_the_full_matrix_has_every_three_values_that_any_case_of_a_kind_has(cases):
    wanted = {three for case in cases() for three in combinations_of(case, 3)}
    assert wanted <= {three for case in full() for three in combinations_of(case, 3)}


@pytest.mark.parametrize("quantity", ["loss", "norm", "gradients", "parameters", "gathered", "evaluation"])
def test_every_layout_equals_one_process(played, quantity):
    exact = {name: runs for name, runs in played.items() if "float32" not in name and "float16" not in name}
    worst = {name: each["worst"][quantity] for name, runs in exact.items() for each in runs}
    assert {name: error for name, error in worst.items() if not error <= TOLERANCE} == {}


def test_single_precision_is_right_to_a_hundred_thousandth_of_the_largest_entry(played):
    for case in single_precision():
        for each in played[case.id]:
            assert each["worst"]["gradients"] <= 1e-5 * each["largest"], case.id
            assert each["worst"]["loss"] <= 1e-5, case.id


def test_half_precision_is_right_to_some_units_in_the_last_place(played):
    """Of 16-bit numbers: first gradients to 2 of the largest entry, losses to a sixteenth.

    Later gradients are of other weights: AdamW turns the sign of a gradient near zero into a whole step.
    """
    for case in half_precision():
        for each in played[case.id]:
            assert each["first"] <= 2 * EPSILON[case.precision], case.id
            assert each["worst"]["loss"] <= EPSILON[case.precision] / 16 * each["history"][0][0], case.id


def test_layouts_of_half_precision_agree_as_those_of_float32_do(played):
    """The same micro-batches under one process and under pipeline 2 × data 2: only float32 sums differ."""
    one, four = (played[case.id][0]["history"] for case in (half_precision()[0], half_precision()[2]))
    for (loss, norm), (other_loss, other_norm) in zip(one, four, strict=True):
        assert other_loss == pytest.approx(loss, rel=1e-5)
        assert other_norm == pytest.approx(norm, rel=1e-3)


@pytest.mark.parametrize("what", ["rows of spans", "edges of spans", "rows of null", "edges of null"])
def test_what_is_played_is_what_was_simulated(played, what):
    assert [name for name, runs in played.items() for each in runs if not each[what]] == []


def test_planned_parameters_gradients_and_optimizer_are_the_live_tensors(played):
    for name, runs in played.items():
        for each in runs:
            for live, planned in zip(each["live"], each["planned"], strict=True):
                for category in ("parameters", "gradients", "optimizer"):
                    assert live[category] == planned[category], f"{name}: {category}"


def test_whole_parameters_of_which_a_rank_keeps_a_part_take_the_memory_that_was_planned(played):
    found = [(live["gathered"], planned) for runs in played.values() for r in runs for live, planned in _ranks(r)]
    assert all(live == planned.get("gathered", 0) for live, planned in found)
    assert any(live for live, _ in found)


def test_zeros_stages_end_with_the_weights_of_plain_data_parallelism_to_the_bit(played):
    """The sum of two does not depend on their order; where each micro-batch is reduced apart, that of four does."""
    cases = [case for case in zeros() if case.id in played and (case.world, case.steps) == (2, 5)]
    same = [case for case in cases if case.zero == 1 or (case.zero and case.microbatches == 1)]
    pairs = [(case, plain.id) for case in same if (plain := replace(case, zero=0, prefetch=1)).id in played]
    assert {case.zero for case, _ in pairs} == {1, 2, 3}
    for case, plain in pairs:
        assert played[case.id][0]["weights"] == played[plain][0]["weights"], case.id


def test_reductions_that_overlap_with_nothing_or_start_late_change_no_bit(played):
    for case in timed_zeros():
        if case.timing:
            at_ease = replace(case, timing="")
            assert played[case.id][0]["weights"] == played[at_ease.id][0]["weights"], case.id


def _ranks(run):
    return zip(run["live"], run["planned"], strict=True)


def test_planned_buffers_of_narrow_reductions_are_those_of_all_gradients_that_are_reduced(played):
    found = {case: played[case.id][0]["planned"] for case in half_precision()}
    for case, planned in found.items():
        for held in planned:
            if not case.reduce_dtype:
                assert "reductions" not in held, case.id
            elif case.data > 1:  # as long as a 16-bit parameter
                assert held["reductions"] == held["parameters"], case.id
            else:
                assert held["reductions"] == 260 * 16 * 2, case.id  # the tied embedding alone


def test_planned_activations_are_the_bytes_that_autograd_saves(played):
    for name, runs in played.items():
        for each in runs:
            for live, planned in zip(each["live"], each["planned"], strict=True):
                assert live["activations"] == pytest.approx(planned["activations"], rel=0.02), name


@pytest.mark.parametrize("job", SAME_JOBS, ids=lambda job: job.id)
def test_the_same_job_twice_is_the_same_to_the_bit(played, job):
    first, second = played[job.id][-2:]
    assert first["digest"] == second["digest"]


def test_data_ranks_hold_the_same_weights_to_the_bit(played):
    for runs in played.values():
        for each in runs:
            assert all(len(set(group)) == 1 for group in each["replicas"])


def _over_tensor_ranks(played):
    cases = [case for case in [*tensors(), *smoothed()] if case.tensor > 1 and case.id in played]
    assert {(case.tensor, case.sequence_parallel) for case in cases} == set(product((2, 4), (False, True)))
    return [(case, each) for case in cases for each in played[case.id]]


def test_gradients_of_what_tensor_ranks_hold_whole_are_the_same_to_the_bit(played):
    for case, each in _over_tensor_ranks(played):
        assert {len(group) for group in each["replicated"]} == {case.tensor}
        assert all(len(set(group)) == 1 for group in each["replicated"]), case.id


def test_a_nan_that_one_tensor_rank_has_in_a_norms_gradient_keeps_all_ranks_from_updating(played):
    for case, each in _over_tensor_ranks(played):
        assert each["fault"] == [[False, False]] * case.world, case.id


def test_planned_flops_of_each_tensor_rank_equal_torchs_counter(played):
    for case, each in _over_tensor_ranks(played):
        assert all(counted == planned > 0 for counted, planned in each["flops"] if planned), case.id
        assert any(planned for _, planned in each["flops"])


def test_both_copies_of_a_tied_embedding_stay_the_same_to_the_bit(played):
    """Megatron-LM #844: the copies drifted apart with data parallelism and pipelines."""
    for runs in played.values():
        for each in runs:
            assert all(len(set(group)) <= 1 for group in each["shared"])
