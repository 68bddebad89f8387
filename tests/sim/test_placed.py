"""Where ranks sit on a fabric: segments and pods, both orders of the axes side by side, and what is said of them."""

import dataclasses

import pytest

from headway.layout import Layout
from headway.sim import network
from headway.sim.network import FREE
from headway.sim.placed import advice, placed, reordered
from headway.sim.simulate import simulate
from tests.sim.test_network import HASHED, HOPS, NARROW, _plan
from tests.sim.test_sent import PODS


def _placed(seated):
    return placed(seated, HASHED, 2)


def _both(plan_of, parallel, fabric):
    seated = network.seat(_plan(plan_of, parallel, fabric))
    return _placed(seated), _placed(reordered(seated))


def test_ranks_fill_hosts_and_hosts_fill_segments(plan_of):
    found = _placed(network.seat(_plan(plan_of, HOPS["three axes"], "dcn+ hosts=2")))
    assert (found.hosts, found.segments, found.pods, found.fewest) == (4, 2, 1, (2, 1))


def test_hosts_that_lie_apart_take_more_segments_than_needed(plan_of):
    seated = network.seat(_plan(plan_of, HOPS["three axes"], "dcn+ hosts=2"), [0, 2, 4, 6])
    assert (_placed(seated).segments, _placed(seated).fewest) == (4, (2, 1))


def test_data_ranks_outside_of_pipelines_cross_segments_in_place_of_messages(plan_of):
    one, other = _both(plan_of, HOPS["three axes"], NARROW)
    assert (one.order, other.order) == ("tensor, data, pipeline", "tensor, pipeline, data")
    far = [{each.purpose for each in of.sent if each.segments} for of in (one, other)]
    assert far[0] == {"activations", "their gradients", "shared embedding", "step totals"}
    assert far[1] == {"gradient sums", "shared embedding", "step totals", "token counts"}


def test_the_step_is_that_of_the_simulator_in_both_orders(plan_of):
    for found in _both(plan_of, HOPS["three axes"], NARROW):
        plan = found.seated.plan
        assert found.seconds == simulate(plan, over=found.over).makespan
        assert found.closed == simulate(plan, over=FREE).makespan


@pytest.mark.parametrize("parallel", [{"tensor": 8, "data": 4}, {"tensor": 8, "pipeline": 4}])
def test_without_data_ranks_or_pipelines_there_is_no_other_order(plan_of, parallel):
    assert reordered(network.seat(_plan(plan_of, parallel, NARROW))) is None


def test_the_other_order_of_the_other_order_is_the_usual_one(plan_of):
    seated = network.seat(_plan(plan_of, HOPS["three axes"], NARROW))
    assert reordered(reordered(seated)).plan.layout == seated.plan.layout


def test_advice_says_what_crosses_pods_and_which_order_would_have_less_do_so(plan_of):
    pipeline, data = _both(plan_of, HOPS["three axes"], PODS)
    assert pipeline.pods == 2
    assert advice(pipeline, data) == "Across pods: shared embedding, activations, their gradients, step totals."
    said = advice(data, pipeline)
    assert said.startswith("Across pods: gradient sums, ")
    share = sum(each.pods for each in pipeline.sent) / sum(each.pods for each in data.sent)
    assert said.endswith(f" In the order tensor, data, pipeline, {share:.1%} of these bytes would cross pods.")


def test_one_segment_needs_no_advice(plan_of):
    found = _placed(network.seat(_plan(plan_of, HOPS["three axes"], "hpn")))
    assert advice(found, None) == "All ranks are in one segment: no byte passes an Agg."


def test_a_job_with_another_order_of_axes_is_placed_by_it(plan_of):
    plan = _plan(plan_of, HOPS["three axes"], NARROW)
    axes = ("tensor", "context", "pipeline", "data")
    moved = dataclasses.replace(plan, layout=Layout(tuple((axis, plan.layout.size(axis)) for axis in axes)))
    assert _placed(network.seat(moved)).order == "tensor, pipeline, data"
