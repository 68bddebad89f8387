"""What ZeRO's stages send: the paper's multiples of plain data parallelism, with accumulation and pipelines."""

import pytest

from headway.report.sharing import sharing, sharing_text


def _plan(plan_of, zero, microbatches=1, pipeline=1, model="gpt-tiny", **parallel):
    parallel = {"zero": zero, "data": 4, "pipeline": pipeline, "unit_bytes": 0, "whole_below": 0} | parallel
    return plan_of(model=model, parallel=parallel, train={"microbatch": 1, "global_batch": 4 * microbatches})


@pytest.mark.parametrize(("zero", "times"), [(0, 1.0), (1, 1.0), (2, 1.0), (3, 1.5)])
def test_stages_1_and_2_send_what_plain_data_parallelism_sends_and_stage_3_half_as_much_again(plan_of, zero, times):
    """Rajbhandari et al. 2020, §7; but the head, where forward turns into backward, is gathered once."""
    plan = _plan(plan_of, zero, model={"preset": "gpt-tiny", "tied": False})
    found, head = sharing(plan), plan.unit("head").numel / plan.num_parameters
    assert found.sent / found.plain == pytest.approx(times - (head / 2 if zero == 3 else 0), rel=1e-3)


@pytest.mark.parametrize(("microbatches", "times"), [(1, 1.0), (2, 1.5), (8, 4.5)])
def test_gradients_that_are_cut_are_reduced_for_each_micro_batch(plan_of, microbatches, times):
    found = sharing(_plan(plan_of, 2, microbatches))
    assert found.reductions == microbatches * len(_plan(plan_of, 2).units)
    assert found.sent / found.plain == pytest.approx(times, rel=1e-3)


def test_a_pipelines_every_micro_batch_gathers_twice_under_stage_3(plan_of):
    plan = _plan(plan_of, 3, microbatches=8, pipeline=2, prefetch=0, model={"preset": "gpt-tiny", "tied": False})
    found = sharing(plan)
    turns = 13  # F0 F1 B0 F2 B1 … F7 B6 B7: what was used last is used next
    assert (found.rank, found.gathers) == (0, 2 * 8 * len(plan.units_of_rank(0)) - turns)


def test_the_line_says_what_is_cut_and_what_it_costs(plan_of):
    assert sharing_text(plan_of(parallel={"data": 1, "pipeline": 1}, train={"global_batch": 4})) == ""
    assert sharing_text(_plan(plan_of, 0)).startswith("nothing cut: 7 reductions a step send ")
    text = sharing_text(_plan(plan_of, 3, whole_below="64KiB"))
    assert text.startswith("params, grads, optimizer cut over 4 data ranks, ")
    assert text.endswith("× as much as with nothing cut")
    assert ", 128 × as much" in sharing_text(_plan(plan_of, 2, 255))


def test_where_zero_cuts_nothing_the_line_says_why(plan_of):
    alone = "parallel.zero cuts over the data ranks, of which there is 1"
    for pipeline, starts in ((1, f"nothing cut: {alone}"), (2, f"nothing cut ({alone}): 1 reductions a step send ")):
        sizes = {"data": 1, "pipeline": pipeline, "zero": 2}
        assert sharing_text(plan_of(parallel=sizes, train={"global_batch": 4})).startswith(starts)
    small = _plan(plan_of, 3, whole_below="1GiB")
    assert sharing_text(small).startswith(
        "nothing cut (every unit has fewer bytes than parallel.whole_below 1.00 GiB): "
    )
