"""A plan played against the clock: its rows, bytes and memory exactly, its seconds in the right order."""

import dataclasses
from operator import attrgetter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.cluster.presets import local_cpu
from headway.cluster.spec import Link
from headway.plan.memory import states
from headway.plan.work import message_bytes, unit_cost
from headway.schedule.operation import LANES
from headway.sim.simulate import simulate

PARALLEL = [
    {"pipeline": 1, "data": 1},
    {"pipeline": 1, "data": 2},
    {"pipeline": 3, "data": 1, "schedule": "gpipe"},
    {"pipeline": 2, "data": 2},
    {"pipeline": 2, "data": 2, "schedule": "interleaved", "chunks": 2, "unit_bytes": 1},
    {"pipeline": 2, "data": 2, "zero": 1, "unit_bytes": 1, "whole_below": 0},
    {"pipeline": 1, "data": 2, "zero": 3, "unit_bytes": 1, "whole_below": 0},
    {"pipeline": 2, "data": 2, "zero": 3, "schedule": "interleaved", "chunks": 2, "unit_bytes": 1, "whole_below": 0},
]
each = pytest.mark.parametrize("parallel", PARALLEL, ids=str)


def _saved(plan, stage):
    """Bytes that one micro-batch keeps in a stage until its backward."""
    return sum(unit_cost(plan, unit).saved for unit in plan.units_of_stage(stage))


def _slower(plan, latency, slowness):
    def slow(link):
        return Link(link.name, link.latency + latency, link.bandwidth / slowness, link.call)

    cluster = dataclasses.replace(plan.cluster, inside=slow(plan.cluster.inside), between=slow(plan.cluster.between))
    return dataclasses.replace(plan, cluster=cluster)


@each
def test_every_rank_plays_the_operations_of_its_row_lane_by_lane(plan_of, parallel):
    plan = plan_of(parallel=parallel)
    for program in (plan.program, plan.evaluation_program):
        played = simulate(plan, program).rows()
        assert list(played) == list(range(plan.layout.world))
        for rank, lanes in played.items():
            mine = np.flatnonzero(program.ranks == plan.layout.coord(rank)["pipeline"])
            expected = {}
            for place in mine.tolist():
                expected.setdefault(str(LANES[program.lanes[place]]), []).append(str(program.operations[place]))
            assert {lane: list(ops) for lane, ops in lanes.items()} == expected


def test_bytes_of_each_edge_are_exact(plan_of):
    plan = plan_of(parallel={"pipeline": 2, "data": 2, "unit_bytes": 1})
    of_stage = [4 * sum(unit.numel for unit in plan.units_of_stage(stage)) for stage in (0, 1)]
    message = plan.num_microbatches * message_bytes(plan)
    assert simulate(plan).edges() == {
        "0→2": message,
        "1→3": message,
        "2→0": message,
        "3→1": message,
        "{0,1}": of_stage[0],
        "{2,3}": of_stage[1] + 8,  # the count of tokens
        "{0,1,2,3}": 4 * plan.units[-1].numel + 32,  # the tied weight, and the totals of the step
    }


def test_an_evaluation_sends_activations_forward_and_the_loss_to_all(plan_of):
    plan = plan_of(parallel={"pipeline": 2, "data": 2})
    message = plan.num_microbatches * message_bytes(plan)
    edges = simulate(plan, plan.evaluation_program).edges()
    assert edges == {"0→2": message, "1→3": message, "{2,3}": 8, "{0,1,2,3}": 32}


@pytest.mark.parametrize("pipeline", [1, 2, 4])
@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_peak_activations_are_those_in_flight(plan_of, schedule, pipeline):
    plan = plan_of(
        parallel={"pipeline": pipeline, "data": 1, "schedule": schedule},
        train={"global_batch": 32, "microbatch": 4},
    )
    memory = simulate(plan).memory
    for stage in range(pipeline):
        in_flight = 8 if schedule == "gpipe" else min(8, pipeline - stage)
        assert memory[stage]["activations"] == in_flight * _saved(plan, stage)


@each
def test_states_are_held_by_every_rank_through_the_step(plan_of, parallel):
    plan = plan_of(parallel=parallel)
    for rank, held in simulate(plan).memory.items():
        assert states(plan, rank).items() <= held.items()


def test_few_messages_wait_in_memory_at_a_time(plan_of):
    """At most two unsent and two received ones of each direction."""
    plan = plan_of(
        parallel={"pipeline": 4, "data": 1, "schedule": "gpipe"}, train={"global_batch": 64, "microbatch": 4}
    )
    slow = _slower(plan, 1.0, 1e6)
    for held in simulate(slow).memory.values():
        assert 0 < held["messages"] <= 8 * message_bytes(plan)


@each
def test_the_same_plan_gives_the_same_trace(plan_of, parallel):
    plan = plan_of(parallel=parallel)
    assert simulate(plan) == simulate(plan)


def test_a_trace_starts_at_zero_and_ends_with_the_update(plan_of):
    played = simulate(plan_of())
    assert min(span.start for span in played.spans) == 0
    assert max(played.spans, key=lambda span: span.end).operation == "STEP/update"
    assert played.source == "predicted"


@given(st.floats(0, 1e-2), st.floats(1, 100), st.sampled_from(PARALLEL))
def test_a_slower_link_never_makes_a_step_faster(plan_of, latency, slowness, parallel):
    plan = plan_of(parallel=parallel)
    assert simulate(_slower(plan, latency, slowness)).makespan >= simulate(plan).makespan


def test_ranks_that_share_too_few_cores_take_longer(plan_of):
    plan = plan_of(parallel={"pipeline": 1, "data": 2}, cluster="local-cpu")
    times = {}
    for cores in (1, 2, 8):
        cluster = dataclasses.replace(local_cpu(), shared_cores=cores)
        trace = simulate(dataclasses.replace(plan, cluster=cluster))
        times[cores] = trace.makespan
    assert times[2] == times[8]
    assert 1.5 * times[2] < times[1] <= 2 * times[2]


def test_a_faster_device_makes_a_faster_step(plan_of):
    plan = plan_of()
    device = plan.cluster.device
    twice = dataclasses.replace(
        device,
        matmul={dtype: 2 * rate for dtype, rate in device.matmul.items()},
        memory_bandwidth=2 * device.memory_bandwidth,
        launch=device.launch / 2,
    )
    faster = dataclasses.replace(plan, cluster=dataclasses.replace(plan.cluster, device=twice))
    assert simulate(plan).makespan / 2 < simulate(faster).makespan < simulate(plan).makespan


def test_reductions_overlap_the_backward_that_is_still_running(plan_of):
    plan = plan_of(parallel={"pipeline": 1, "data": 2, "unit_bytes": 1})
    spans = {span.operation: span for span in simulate(plan).spans if span.rank == 0}
    last = plan.num_microbatches - 1
    assert spans["0REDUCE_GRAD/layers.3"].start == spans[f"0B{last}/layers.3"].end
    assert spans["0REDUCE_GRAD/layers.3"].start < spans[f"0B{last}/embedding"].end


def test_one_replica_played_for_all_gives_what_playing_all_gives(plan_of):
    """Cores enough for every rank are no hindrance, but make the simulator play each replica."""
    plan = plan_of(parallel={"pipeline": 2, "data": 4}, train={"global_batch": 32, "microbatch": 2})
    one = simulate(plan)
    every = simulate(
        dataclasses.replace(plan, cluster=dataclasses.replace(plan.cluster, shared_cores=plan.cluster.devices_per_node))
    )
    assert one.memory == every.memory
    assert one.edges() == every.edges()
    key = attrgetter("rank", "start", "end", "lane", "operation")
    for span, other in zip(sorted(one.spans, key=key), sorted(every.spans, key=key), strict=True):
        assert (span.rank, span.lane, span.operation, span.edge) == (
            other.rank,
            other.lane,
            other.operation,
            other.edge,
        )
        assert (span.start, span.end) == pytest.approx((other.start, other.end), rel=1e-12)


def test_replicas_whose_links_differ_are_each_played(plan_of):
    """Three data ranks on nodes of two: replica 0's neighbours sit on one node, replica 1's on two."""
    plan = plan_of(parallel={"pipeline": 2, "data": 3}, train={"global_batch": 12, "microbatch": 2})
    slow = dataclasses.replace(
        plan.cluster, devices_per_node=4, between=dataclasses.replace(plan.cluster.between, bandwidth=1e6)
    )
    trace = simulate(dataclasses.replace(plan, cluster=slow))
    sends = {span.edge: span.seconds for span in trace.spans if span.operation == "0SEND_F0"}
    assert sends["0→3"] < sends["1→4"] / 10
