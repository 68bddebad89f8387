"""The network of a plan: shares by hand, the closed form where nothing is contended, and what never makes it slower."""

import dataclasses
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import PlanError
from headway.fabric import collectives
from headway.fabric.connect import Connecting, connect
from headway.fabric.hashing import hashing
from headway.fabric.topologies import named
from headway.fabric.traffic import GOODPUT, capacities, carry
from headway.fabric.ways import ways
from headway.layout import Layout
from headway.plan.network import kept
from headway.sim import exchanges, network
from headway.sim.estimate import estimate
from headway.sim.exchanges import EXCHANGES
from headway.sim.network import FREE
from headway.sim.planned import outline
from headway.sim.simulate import simulate, step_seconds

WORDS = {"sequence_length": 1024, "tokenizer": "none"}
HASHED = Connecting(ports="hash", split="equal")
# two segments of two hosts; a ToR has 16 cards of 400 Gbps below and one link up as fast as a card
NARROW = "clos segments=2 hosts=2 nic_ports=1 nic_speed=400Gbps"
HOPS = {
    "three axes": {"tensor": 8, "data": 2, "pipeline": 2},
    "pipelines in nodes": {"tensor": 1, "data": 4, "pipeline": 8, "schedule": "interleaved", "chunks": 2},
    "data over all": {"pipeline": 1, "data": 32, "zero": 3},
    "half nodes": {"tensor": 4, "data": 2, "pipeline": 4, "zero": 1},
    "tensor ranks in two nodes": {"tensor": 16, "data": 2, "pipeline": 1},
    "a node that is not full": {"tensor": 4, "data": 3, "pipeline": 1},
}


def _plan(plan_of, parallel, fabric=None, model="gpt-1.3b"):
    axes = {"pipeline": 1, "data": 1} | parallel
    train = {"precision": "bfloat16", "global_batch": 16 * axes["data"], "microbatch": 1}
    cluster = {"preset": "h800-hpn"} | ({} if fabric is None else {"fabric": fabric})
    return plan_of(cluster=cluster, model=model, parallel=axes, data=WORDS, train=train)


def _shares(plan, how=HASHED, seeds=3):
    found = network.contended(network.seat(plan), how, seeds)
    return {exchange: share.median for exchange, share in found.shares.items()}


def _on(plan, fabric):
    return dataclasses.replace(plan, cluster=dataclasses.replace(plan.cluster, fabric=kept(fabric)))


@pytest.mark.parametrize("parallel", HOPS.values(), ids=HOPS)
def test_where_nothing_is_contended_a_fabric_costs_what_the_closed_form_does(plan_of, parallel):
    plan = _plan(plan_of, parallel)
    free, over = simulate(plan), network.network(_on(plan, "hpn segments=1"))
    found = simulate(_on(plan, "hpn segments=1"))
    if "not full" not in str(parallel):
        assert {share.median for share in over.shares.values()} <= {1.0}
    assert found.makespan == free.makespan
    assert found.edges() == free.edges()


@pytest.mark.parametrize(("hosts", "members"), [(2, 8), (16, 8), (5, 1)])
def test_a_ring_on_free_links_takes_what_the_closed_form_says(hosts, members):
    fabric = named("hpn segments=1")
    cards = (np.arange(hosts)[:, None] * 8 + np.arange(members)).ravel()
    size = 2.0**30
    sent = collectives.traffic(fabric, [collectives.group(fabric, cards)], "all_reduce", "ring", size)
    connected = connect(ways(fabric), hashing(fabric, 0), sent.source, sent.destination, Connecting(), 0)
    taken = carry(sent, connected, capacities(fabric), "equal").seconds.max()
    n, card = len(cards), 50e9 * GOODPUT
    assert taken == pytest.approx(2 * (n - 1) / n * size / (members * card), rel=1e-12)


def test_shares_of_a_narrow_tree_are_those_found_by_hand(plan_of):
    plan = _plan(plan_of, HOPS["three axes"], NARROW)
    # all 16 cards of a segment send to the other one by one link; rings of data ranks stay below their ToR; of a ring
    # over all hosts 8 channels cross, and so do those of the 8 shared embeddings, each between two hosts of each side
    assert _shares(plan, Connecting(connections=1)) == {
        "forward": 1 / 16,
        "backward": 1 / 16,
        "data": 1.0,
        "shared": 1 / 8,
        "world": 1 / 8,
    }


def test_seconds_are_latency_and_bytes_at_the_share(plan_of):
    plan, free = _plan(plan_of, HOPS["three axes"], NARROW), _plan(plan_of, HOPS["three axes"])
    found, closed = ({span.edge: span for span in simulate(each).spans if "→" in span.edge} for each in (plan, free))
    link = plan.cluster.between
    for edge, span in found.items():
        alone = link.call + link.latency + span.bytes / link.bandwidth
        assert closed[edge].end - closed[edge].start == pytest.approx(alone)
        assert span.end - span.start == pytest.approx(alone + 15 * span.bytes / link.bandwidth)


def test_a_job_on_one_node_needs_no_network(plan_of):
    assert network.network(_plan(plan_of, {"tensor": 2, "data": 2, "pipeline": 2}, NARROW)) is FREE
    assert network.network(_plan(plan_of, {"tensor": 8, "data": 4})) is FREE


def test_hashing_makes_dcn_slower_than_hpn(plan_of):
    plan = _plan(plan_of, {"tensor": 8, "data": 32, "pipeline": 1})
    hpn, dcn = (simulate(_on(plan, fabric)).makespan for fabric in ("hpn", "dcn+"))
    assert hpn == simulate(plan).makespan
    assert dcn > 1.05 * hpn


@given(
    st.sampled_from(list(HOPS.values())),
    st.sampled_from(["segments=4 hosts=1", "segments=2 hosts=2", "segments=2 hosts=2 aggs=2"]),
    st.integers(0, 2),
)
def test_more_capacity_between_switches_never_makes_a_step_slower(plan_of, parallel, sizes, seed):
    plan = _plan(plan_of, parallel)
    before = FREE.shares, float("inf")
    for speed in ("50Gbps", "100Gbps", "200Gbps", "400Gbps"):
        seated = network.seat(_on(plan, f"dcn+ cores=0 core_links=0 {sizes} link_speed={speed}"), "random", seed)
        over = network.contended(seated, HASHED, 2)
        for exchange, share in before[0].items():
            assert over.shares[exchange].least >= share.least * (1 - 1e-9)
            assert over.shares[exchange].median >= share.median * (1 - 1e-9)
        seconds = step_seconds(plan, over)
        assert seconds <= before[1]
        before = over.shares, seconds


@pytest.mark.parametrize("fabric", [None, NARROW])
@pytest.mark.parametrize("parallel", HOPS.values(), ids=HOPS)
@pytest.mark.parametrize("outside", [False, True])
def test_a_step_without_its_trace_takes_as_long(plan_of, fabric, parallel, outside):
    plan = _plan(plan_of, parallel, fabric)
    if outside:
        sizes = dict(plan.layout.sizes)
        axes = ("tensor", "context", "pipeline", "data")
        plan = dataclasses.replace(plan, layout=Layout(tuple((axis, sizes[axis]) for axis in axes)))
    over = network.network(plan)
    assert step_seconds(plan, over) == simulate(plan, over=over).makespan


@pytest.mark.parametrize("name", ["three axes", "half nodes", "tensor ranks in two nodes"])
def test_an_estimate_takes_the_same_shares(plan_of, name):
    # untied: the estimate hides nothing of the sum of a shared embedding, which a share makes much longer
    plan = _plan(plan_of, HOPS[name], NARROW, model={"preset": "gpt-1.3b", "tied": False})
    over = network.network(plan)
    played, found = simulate(plan, over=over).makespan, estimate(outline(plan, over)).seconds
    assert found == pytest.approx(played, rel=0.02)
    assert found > 1.02 * estimate(outline(plan)).seconds


@pytest.mark.parametrize("parallel", HOPS.values(), ids=HOPS)
def test_groups_are_those_that_the_operations_name(plan_of, parallel):
    plan = _plan(plan_of, parallel)
    edges = {span.edge: str(span.operation) for span in simulate(plan).spans if span.edge}
    known = {}
    for exchange in EXCHANGES:
        known |= {f"{{{','.join(map(str, ranks))}}}": exchange for ranks in exchanges.groups(plan, exchange)}
        pairs = chain.from_iterable(exchanges.messages(plan, exchange))
        known |= {f"{source}→{target}": exchange for source, target in pairs}
    assert set(edges) <= set(known)


def test_messages_that_go_at_once_never_share_an_end(plan_of):
    plan = _plan(plan_of, HOPS["pipelines in nodes"])
    (forward,), (backward,) = (exchanges.messages(plan, each) for each in ("forward", "backward"))
    assert len(forward) == 32  # the last rank sends to the first again: two chunks
    assert sorted(forward) == sorted((target, source) for source, target in backward)
    assert len({source for source, _ in forward}) == len({target for _, target in forward}) == 32


def test_where_a_rank_sends_both_ways_the_messages_go_in_parts(plan_of, tmp_path):
    rows = "0F0,5F0,5B0,0B0\n1F0,4F0,4B0,1B0\n2F0,3F0,3B0,2B0\n"  # a V: rank 1 sends on to rank 2, and back to rank 0
    (tmp_path / "v.csv").write_text(rows)
    plan = plan_of(
        parallel={"pipeline": 3, "data": 1, "chunks": 2, "schedule": str(tmp_path / "v.csv")},
        train={"global_batch": 1, "microbatch": 1},
    )
    assert exchanges.messages(plan, "forward") == (((0, 1), (1, 2)), ((2, 1), (1, 0)))
    assert exchanges.messages(plan, "backward") == (((0, 1), (1, 2)), ((2, 1), (1, 0)))
    assert exchanges.messages(plan, "data") == ()


def test_segments_without_a_way_between_them_are_refused(plan_of, tmp_path):
    text = (
        "nic_speed: 200Gbps\nswitches: [{names: 'tor-[0-3]', tier: tor}]\n"
        "segments: [{hosts: 0-1, rails: [[tor-0, tor-1]]}, {hosts: 2-3, rails: [[tor-2, tor-3]]}]\n"
    )
    (tmp_path / "apart.yaml").write_text(text)
    plan = _plan(plan_of, {"tensor": 8, "data": 4}, str(tmp_path / "apart.yaml"))
    with pytest.raises(PlanError, match=r"apart has no way for all bytes from host-\d/gpu-\d to .* which the data "):
        simulate(plan)


def test_only_the_card_between_nodes_is_slowed(plan_of):
    plan = _plan(plan_of, HOPS["three axes"], NARROW)
    over = network.network(plan)
    slowed = over.cluster(plan.cluster, "forward")
    assert slowed.inside == plan.cluster.inside
    assert slowed.between.bandwidth == plan.cluster.between.bandwidth / 16
    assert over.cluster(plan.cluster, "tensor") is plan.cluster


def test_what_a_network_is_is_said_with_how_pairs_connect(plan_of):
    over = network.network(_plan(plan_of, HOPS["three axes"], NARROW))
    said = (
        "2 connections a pair, ports hash, split equal: forward 6%, backward 6%, shared 12%, world 12% of a card's rate"
    )
    assert str(over) == f"{NARROW}, {said}"
    free = network.network(_plan(plan_of, HOPS["three axes"], "hpn"))
    assert str(free).endswith("ports disjoint, split least loaded: all exchanges 100% of a card's rate")
