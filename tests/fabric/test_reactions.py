"""Reactions: what connections do step by step while hosts, switches and senders find out."""

import numpy as np
import pytest

from headway.fabric.bench import choose, measure
from headway.fabric.convergence import Delays
from headway.fabric.fault import links, parse
from headway.fabric.hashing import Flows, hashing
from headway.fabric.history import history
from headway.fabric.reactions import Reactions
from headway.fabric.route import Hop, arrives, routes
from headway.fabric.topologies import named
from headway.fabric.ways import ways
from tests.fabric.jobs import HPN, SMALL, job

PODS = f"hpn {SMALL} pods=2 segments=1 hosts=1 aggs=3 cores=2 core_links=2"


def _reactions(text, *faults, **delays):
    fabric, case = job(text)
    events = history(fabric, [parse(each) for each in faults], 100.0)
    return Reactions(fabric, case, choose(ways(fabric), case), 0, Delays(**delays), events)


def test_without_faults_a_phase_is_what_the_bench_measures():
    fabric, case = job(HPN)
    phase = _reactions(HPN).phase(0.0, 1.0)
    assert phase.busbw == measure(ways(fabric), case, 0).busbw
    assert (phase.still, phase.waiting, phase.broken) == (0, (), ())


def test_moments_are_all_those_at_which_somebody_acts():
    found = _reactions(HPN, "port host-1/gpu-0:0 at 10s for 30s").moments()
    assert found == pytest.approx([0, 10, 10.1, 10.3, 11, 40, 40.1, 40.3, 41, 100])


def test_only_pairs_that_were_cut_off_retry():
    """A card loses both ports: of its ring of four the two pairs that it is in."""
    play = _reactions(HPN, "nic host-1/gpu-0 at 10s for 20s")
    assert play.moments()[-2:] == pytest.approx([39, 100])
    phase = play.phase(32.0, 33.0)
    assert (phase.still, phase.waiting) == (2, ("retries",))


def test_a_host_that_leaves_a_port_frees_its_own_pair_and_not_that_which_sends_to_it():
    play = _reactions(HPN, "port host-1/gpu-0:0 at 10s")
    assert [play.phase(moment, moment + 0.05).still for moment in (9.0, 10.0, 10.1, 10.3, 11.0)] == [0, 2, 1, 1, 0]


def test_learning_before_switches_do_counts_for_faults_and_not_for_repairs():
    play = _reactions(HPN, "port host-1/gpu-0:0 at 10s for 30s", learn=0.0, notice=0.0)
    assert [play.phase(moment, moment + 0.1).still for moment in (10.0, 10.2, 40.0, 40.2, 41.0)] == [0] * 5


def test_cores_whose_fixed_port_is_down_hash_instead():
    """HPN §7: what comes in at one port of a core goes out at one, unless that is down."""
    fabric = named(PODS)
    count = 400
    ends = (np.full(count, card, np.int32) for card in (0, 1))
    flows = Flows(*ends, np.arange(50_000, 50_000 + count, dtype=np.int32))
    hashes, port = hashing(fabric, 0), np.zeros(count, np.int32)

    def taken(alive=None):
        found = routes(ways(fabric, alive), hashes, flows, port)
        assert arrives(found).all()
        out = {}
        for came, left in found[:, [Hop.AGG_UP, Hop.CORE_DOWN]].tolist():
            out.setdefault(came, set()).add(left)
        return found, out

    _, before = taken()
    assert {len(each) for each in before.values()} == {1}
    broken = next(iter(before))
    dead = np.arange(fabric.num_links) == next(iter(before[broken])) - fabric.num_links
    found, after = taken(~dead)
    assert not dead[found % fabric.num_links].any()
    assert len(after.pop(broken)) == 2
    del before[broken]
    assert after == before


def test_a_core_link_down_stops_what_crosses_it_until_the_switches_reroute():
    fabric, case = job(PODS)
    sent = measure(ways(fabric), case, 0).carried
    used = np.flatnonzero(sent.loads[fabric.num_links :])
    link = next(each for each in used.tolist() if fabric.node_name(int(fabric.upper[each])).startswith("core"))
    name = f"link {fabric.node_name(int(fabric.lower[link]))} {fabric.node_name(int(fabric.upper[link]))}"
    assert links(fabric, parse(name)).sum() == 1
    play = _reactions(PODS, f"{name} at 10s")
    first, settled = play.phase(10.0, 10.3), play.phase(10.3, 11.0)
    assert first.still > 0  # the pairs whose connections cross it
    assert first.busbw == 0
    assert settled.still == 0
