"""Who holds what: every block once, every rank at its stage, times and memory as the simulator has them."""

import pytest

from headway.plan.memory import states
from headway.report.holdings import dearest, dearest_text, holdings, runs
from headway.sim.simulate import simulate
from tests.train.cases import V_SHAPED

PARALLEL = [
    {"pipeline": 1, "data": 1},
    {"pipeline": 3, "data": 2, "schedule": "gpipe"},
    {"pipeline": 4, "data": 1, "split": "E|tt||ttL"},
    {"pipeline": 2, "data": 2, "schedule": "interleaved", "chunks": 2, "unit_bytes": 1},
    {"pipeline": 2, "data": 1, "schedule": "interleaved", "chunks": 3, "split": [0, 2, 0, 0, 1, 1]},
]
each_layout = pytest.mark.parametrize("parallel", PARALLEL, ids=str)


@pytest.mark.parametrize(("schedule", "chunks"), [("1f1b", 1), ("interleaved", 2)])
def test_stages_share_out_the_model_and_the_ranks(schedule, chunks, plan_of):
    plan = plan_of(parallel={"chunks": chunks, "schedule": schedule})
    found = holdings(plan)
    assert [each.ranks for each in found] == [(0, 1), (2, 3)] * chunks
    shared = 256 * 128  # the token embedding stands at both ends
    assert sum(each.parameters for each in found) == sum(unit.numel for unit in plan.units) + shared
    assert found[0].blocks.startswith("embedding, layer")


@each_layout
def test_times_are_those_of_the_simulated_spans(plan_of, parallel):
    plan = plan_of(parallel=parallel)
    spans = {span.operation: span.seconds for span in simulate(plan).spans if span.rank % parallel["data"] == 0}
    for each in holdings(plan):
        assert spans[f"{each.stage}F0"] == pytest.approx(each.forward, rel=1e-9, abs=1e-15)
        assert spans[f"{each.stage}B0"] == pytest.approx(each.backward, rel=1e-9, abs=1e-15)


@each_layout
def test_activations_in_flight_add_up_to_the_simulated_peak_of_the_rank(plan_of, parallel):
    plan = plan_of(parallel=parallel)
    peaks = simulate(plan).memory
    for rank in range(plan.layout.world):
        own = [each for each in holdings(plan) if rank in each.ranks]
        assert sum(each.activations for each in own) == peaks[rank]["activations"]


def test_a_rank_of_unequal_chunks_peaks_where_its_bytes_do(tmp_path, plan_of):
    from headway.plan.build import build
    from headway.plan.job import Job
    from headway.plan.read import decode

    (tmp_path / "v.csv").write_text(V_SHAPED)
    parallel = {"pipeline": 2, "data": 1, "chunks": 2, "schedule": "v.csv", "split": "E|t||t*3L"}
    sections = {"cluster": "a100-80gb-hdr", "parallel": parallel, "train": {"global_batch": 4, "microbatch": 1}}
    plan = build(decode(Job, sections, "job"), folder=tmp_path)
    own = [each for each in holdings(plan) if each.rank == 0]
    assert sum(each.activations for each in own) == simulate(plan).memory[0]["activations"]


@each_layout
def test_states_of_a_ranks_stages_are_what_the_rank_holds(plan_of, parallel):
    """No rank but one with both ends of a tied embedding holds anything twice."""
    plan = plan_of(parallel=parallel, model={"preset": "gpt-tiny", "tied": False})
    for rank in range(plan.layout.world):
        own = [each for each in holdings(plan) if rank in each.ranks]
        assert sum(each.states for each in own) == sum(states(plan, rank).values())


def test_an_empty_stage_passes_on_and_costs_nothing(plan_of):
    empty = holdings(plan_of(parallel={"pipeline": 3, "split": "Ett||ttL"}))[1]
    assert empty.blocks == "(passes on)"
    assert (empty.parameters, empty.seconds, empty.states, empty.activations) == (0, 0, 0, 0)


def test_the_dearest_stage_is_named_with_its_excess_over_the_mean(plan_of):
    found = holdings(plan_of(parallel={"pipeline": 2, "split": "E|t*4L"}))
    worst, over = dearest(found)
    mean = (found[0].seconds + found[1].seconds) / 2
    assert worst.stage == 1
    assert over == pytest.approx(found[1].seconds / mean - 1)
    assert dearest_text(found).startswith("Dearest: stage 1 (layers 0–3, head) with ")
    assert f"{over:.1%} over the mean of" in dearest_text(found)


def test_one_stage_is_not_called_the_dearest(plan_of):
    assert dearest_text(holdings(plan_of(parallel={"pipeline": 1}))) == ""


def test_alike_neighbours_are_drawn_together_whatever_is_in_flight(plan_of):
    model = {"preset": "gpt-tiny", "layers": 30}
    parallel = {"pipeline": 30, "data": 1}
    found = holdings(plan_of(model=model, parallel=parallel, train={"global_batch": 32, "microbatch": 1}))
    assert [len(run) for run in runs(found)] == [1, 28, 1]
