"""Tensor groups and nodes: which do not fit, and what that costs."""

import pytest

from headway.report.crossing import crossing, crossing_text


def _plan(plan_of, tensor, pipeline=1, data=1, heads=16):
    model = {"preset": "gpt-tiny", "hidden": 16 * heads, "heads": heads, "feed_forward": 768}
    train = {"global_batch": 8 * data, "microbatch": 4}
    return plan_of(model=model, parallel={"tensor": tensor, "pipeline": pipeline, "data": data}, train=train)


@pytest.mark.parametrize("tensor", [1, 2, 4, 8])
def test_groups_that_divide_a_node_sit_inside_it(plan_of, tensor):
    """8 devices a node: the tensor axis is the fastest."""
    plan = _plan(plan_of, tensor, pipeline=2, data=2)
    assert crossing(plan) is None
    assert crossing_text(plan) == ""


def test_a_group_larger_than_a_node_costs_the_link_between_nodes(plan_of):
    plan = _plan(plan_of, 16)
    found, cluster = crossing(plan), plan.cluster
    assert (found.crossing, found.groups) == (1, 1)
    b, s, h, layers = 4, 256, plan.model.hidden, plan.model.layers
    # of a micro-batch: four of a layer, one of the embedding, one of the head, and the loss's two
    sizes = [4 * b * s * h] * (4 * layers + 2) + [4 * b * s, 8 * b * s]
    # 16 ranks on two nodes: the ring crosses the border twice, through the cards of all 8 ranks of a node
    wide = min(cluster.inside.bandwidth, 8 * cluster.between.bandwidth)
    around = 2 * cluster.between.latency + 13 * cluster.inside.latency
    for link, once, bandwidth, seconds in (
        (cluster.between, around, wide, found.between),
        (cluster.inside, 15 * cluster.inside.latency, cluster.inside.bandwidth, found.inside),
    ):
        each = [link.call + 2 * (once + 15 / 16 * size / bandwidth) for size in sizes]
        assert seconds == pytest.approx(sum(each))
    text = crossing_text(plan)
    assert text.startswith("Tensor groups of 16 do not fit into nodes of 8 devices: 1 of 1 are on several")
    assert "over HDR InfiniBand, in place of" in text
    assert text.endswith("over NVLink3. parallel.tensor 8 fits.")


def test_only_the_groups_that_reach_over_a_nodes_edge_are_counted(plan_of):
    """Groups of 3 on nodes of 8: ranks 6 to 8 and 15 to 17 are on two."""
    plan = _plan(plan_of, 3, pipeline=2, data=4, heads=12)
    found = crossing(plan)
    assert (found.crossing, found.groups) == (2, 8)
    assert crossing_text(plan).endswith("parallel.tensor 1 fits.")
