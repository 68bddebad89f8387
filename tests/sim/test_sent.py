"""What a step sends on a fabric: bytes by purpose, counted again from the trace and by hand, and how far they go."""

import pytest

from headway.plan.work import TOTAL_BYTES, message_bytes
from headway.sim import network
from headway.sim.sent import crossing, sent
from headway.sim.simulate import simulate
from tests.sim.test_network import HASHED, HOPS, NARROW, _plan

PODS = "clos pods=2 hosts=2 nic_ports=1 nic_speed=400Gbps cores=1 core_links=1"
REDUCES_ONLY = {name: each for name, each in HOPS.items() if not each.get("zero")}


def _sent(plan):
    seated = network.seat(plan)
    return {each.purpose: each for each in sent(seated, network.contended(seated, HASHED, 1))}


@pytest.mark.parametrize("parallel", REDUCES_ONLY.values(), ids=REDUCES_ONLY)
def test_bytes_are_those_of_the_trace(plan_of, parallel):
    plan = _plan(plan_of, parallel, NARROW)
    passed = 0
    for edge, size in simulate(plan).edges().items():
        # all collectives of these plans are all-reduces: each of n ranks passes 2 (n − 1)/n of the buffer on
        passed += size if "→" in edge else 2 * edge.count(",") * size
    assert sum(each.bytes for each in _sent(plan).values()) == pytest.approx(passed, rel=1e-12)


def test_what_crosses_is_counted_link_by_link(plan_of):
    plan = _plan(plan_of, HOPS["three axes"], NARROW)
    found = _sent(plan)
    # 16 ranks of stage 0 send 16 micro-batches to 16 ranks in the other segment, and get as many gradients
    forward, backward = found["activations"], found["their gradients"]
    each = 16 * 16 * message_bytes(plan)
    assert (forward.groups, forward.ranks) == (16, 2)
    assert forward.bytes == forward.hosts == forward.segments == each == backward.segments
    # rings of two data ranks on the two hosts of a segment
    sums = found["gradient sums"]
    buffers = sum(plan.padded(unit) * 4 for unit in plan.units if len(unit.stages) == 1)
    assert sums.bytes == sums.hosts == 2 * 8 * buffers  # both pass half of it on twice, in 8 tensor ranks
    assert (sums.segments, sums.pods) == (0, 0)
    # one ring over 32 ranks on 4 hosts, of which two hops of four lie between the segments
    totals = found["step totals"]
    whole = 2 * 31 / 32 * TOTAL_BYTES
    assert (totals.bytes, totals.hosts, totals.segments) == (round(32 * whole), round(4 * whole), round(2 * whole))
    # tensor ranks stay in their hosts
    assert (found["tensor ranks"].hosts, found["tensor ranks"].share) == (0, None)


def test_pods_are_told_from_segments(plan_of):
    found = _sent(_plan(plan_of, HOPS["three axes"], PODS))
    assert found["activations"].pods == found["activations"].segments > 0
    assert found["gradient sums"].pods == 0
    every = tuple(found.values())
    assert crossing(every)[1] == sum(each.pods for each in every)
    assert crossing(every, "data") == (0, 0)


def test_seconds_are_those_of_the_rank_that_takes_longest(plan_of):
    plan = _plan(plan_of, HOPS["three axes"], NARROW)
    found, link = _sent(plan)["activations"], plan.cluster.between
    one = message_bytes(plan) / link.bandwidth
    assert found.closed == pytest.approx(16 * (link.call + link.latency + one))
    assert found.seconds == pytest.approx(16 * (link.call + link.latency + one / found.share.median))


def test_the_most_bytes_come_first(plan_of):
    sizes = [each.bytes for each in _sent(_plan(plan_of, HOPS["half nodes"], NARROW)).values()]
    assert sizes == sorted(sizes, reverse=True)


def test_gathers_of_zero_are_told_from_sums(plan_of):
    found = _sent(_plan(plan_of, HOPS["data over all"], NARROW))
    # ZeRO-3: parameters are gathered once forward and once backward for each micro-batch, in 16 bits; gradients are
    # reduced and scattered in 32 bits at once
    assert found["parameter gathers"].bytes == pytest.approx(found["gradient sums"].bytes, rel=0.01)
