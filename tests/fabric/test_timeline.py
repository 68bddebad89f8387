"""Time lines: small jobs by hand, what converges when, who lives, and what holds for any faults on any fabric."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.cluster.presets import preset
from headway.errors import PlanError
from headway.fabric import seating
from headway.fabric.bench import Case
from headway.fabric.connect import Connecting
from headway.fabric.convergence import Delays
from headway.fabric.fault import NEVER, links, parse
from headway.fabric.timeline import timeline
from headway.fabric.topologies import build
from headway.fabric.traffic import GOODPUT
from tests.fabric.jobs import BOTH_PORTS, DCN, HPN, SINGLE_PLANE, SINGLE_TOR, job
from tests.fabric.shapes import shapes

PORT = 25e9 * GOODPUT
WHOLE = [0, 10, 10.1, 10.3, 11, 40, 40.3, 41, 60]


def _line(text, *faults, hosts=None, until=60.0, kind="all_reduce", how=BOTH_PORTS, by_rail=True, **delays):
    fabric, case = job(text, hosts, kind, how, by_rail=by_rail)
    return timeline(fabric, case, [parse(each) for each in faults], Delays(**delays), until, 0)


def _edges(line):
    return [0.0, *(each.end for each in line.phases)]


def _rates(line):
    """Bytes a second of the first channel, phase by phase."""
    return [float(each.measured.carried.rates[0]) for each in line.phases]


def _at(line, moment):
    return next(each for each in line.phases if each.start <= moment < each.end)


def test_a_port_down_halves_its_card_and_leaves_the_others_whole():
    """Two rails, two hosts in each of two segments: only the ring of the rail is slower, and by half."""
    two_rails = HPN.replace("rails=1 gpus_per_host=1", "rails=2 gpus_per_host=2")
    line = _line(two_rails, "port host-1/gpu-1:0 at 10s for 30s")
    assert _edges(line) == pytest.approx(WHOLE)
    first = line.phases[0].measured.carried.rates
    settled = _at(line, 20).measured.carried.rates
    assert first == pytest.approx([2 * PORT, 2 * PORT], rel=1e-9)
    assert settled == pytest.approx([2 * PORT, PORT], rel=1e-9)
    assert line.phases[-1].measured.carried.rates == pytest.approx(first, rel=1e-9)


def test_bus_bandwidth_is_that_of_the_slowest_rail():
    line = _line(HPN, "port host-1/gpu-0:0 at 10s for 30s")
    measured = _at(line, 20).measured
    moved = 2 * 3 / 4 * 4 * 2**30
    assert measured.busbw == pytest.approx(moved / (measured.latency + moved / PORT), rel=1e-9)
    assert line.mean == pytest.approx(sum(each.busbw * (each.end - each.start) for each in line.phases) / 60, rel=1e-9)


@pytest.mark.parametrize("text", [HPN, DCN, SINGLE_PLANE])
@pytest.mark.parametrize("tor", [0, 1])
def test_a_tor_down_loses_no_host_that_has_two(text, tor):
    line = _line(text, f"tor tor-s0-r0-{tor} at 10s", kind="all_to_all", by_rail=False)
    assert _at(line, 10).still
    assert _at(line, 20).still == 0
    assert _at(line, 20).busbw > 0
    assert line.goes_on


def test_a_tor_down_loses_every_host_that_has_one():
    """Of 4 hosts 2 are cut off, so that only the pairs of the other two are left."""
    line = _line(SINGLE_TOR, "tor tor-s0-r0-0 at 10s", kind="all_to_all", by_rail=False)
    assert _at(line, 50).still == 4 * 3 - 2
    assert _at(line, 50).busbw == 0
    assert line.dies == pytest.approx(130, rel=1e-9)


@pytest.mark.parametrize(
    ("text", "hosts", "fault", "seconds"),
    [
        # within a segment both ends lose the carrier of a ToR at once, of which nobody else need know
        (HPN, 2, "tor tor-s0-r0-0", 0.1),
        (DCN, 2, "tor tor-s0-r0-0", 0.1),
        # a dead port at the other end: joined planes lead around it, isolated ones do not, even under the same ToR
        (HPN, 2, "port host-1/gpu-0:0", 1.0),
        (DCN, 2, "port host-1/gpu-0:0", 0.3),
        (SINGLE_PLANE, 2, "port host-1/gpu-0:0", 0.3),
        # across segments
        (HPN, 4, "tor tor-s0-r0-0", 1.0),
        (DCN, 4, "tor tor-s0-r0-0", 0.3),
        (SINGLE_PLANE, 4, "tor tor-s0-r0-0", 0.3),
        (HPN, 4, "plane 0", 0.1),
        (HPN, 4, "plane 0 of pod 0", 0.1),
    ],
)
def test_how_long_a_fault_stops_a_job_depends_on_who_must_act(text, hosts, fault, seconds):
    line = _line(text, f"{fault} at 10s for 30s", hosts=hosts)
    assert line.still == pytest.approx(seconds, rel=1e-9)
    assert _at(line, 20).measured.carried.rates[0] == pytest.approx(PORT, rel=1e-9)
    assert line.phases[-1].busbw == line.healthy.busbw


def test_an_agg_down_stops_what_went_over_it_until_the_tors_take_the_others():
    """Of three Aggs a plane two remain: with one pair between segments each way nothing is slower then."""
    still = [_line(HPN, f"agg agg-p0-0-{agg} at 10s for 30s").still for agg in range(3)]
    assert sorted(still) in ([0, 0, pytest.approx(0.3)], [0, pytest.approx(0.3), pytest.approx(0.3)])
    line = _line(HPN, f"agg agg-p0-0-{int(np.argmax(still))} at 10s for 30s")
    assert _at(line, 20).measured.carried.rates[0] == pytest.approx(2 * PORT, rel=1e-9)


def test_a_learn_delay_is_how_long_isolated_planes_stop_remote_senders():
    for learn in (0.3, 2.0, 7.5):
        assert _line(HPN, "port host-1/gpu-0:0 at 10s for 30s", learn=learn).still == pytest.approx(learn, rel=1e-9)


def test_senders_that_never_learn_send_into_a_black_hole_until_the_repair():
    """Of an isolated plane; then the pair retries 9 s later."""
    line = _line(HPN, "port host-1/gpu-0:0 at 10s for 30s", learn=NEVER)
    assert line.goes_on
    assert line.still == pytest.approx(30 + 9, rel=1e-9)
    assert "senders" in _at(line, 35).waiting
    assert _at(line, 45).waiting == ("retries",)
    assert _line(HPN, "port host-1/gpu-0:0 at 10s", learn=NEVER).dies == pytest.approx(130, rel=1e-9)
    assert _line(DCN, "port host-1/gpu-0:0 at 10s", learn=NEVER).still == pytest.approx(0.3, rel=1e-9)


@pytest.mark.parametrize(("repair", "still"), [("1min", 69.0), ("100s", 109.0)])
def test_a_single_tor_halts_at_once_and_recovers_from_a_repair_within_the_timeout(repair, still):
    """HPN §9.3, figure 18: from one within a minute."""
    line = _line(SINGLE_TOR, f"port host-1/gpu-0:0 at 10s for {repair}", until=200.0)
    assert line.goes_on
    assert line.still == pytest.approx(still, rel=1e-9)
    assert line.phases[1].start == 10.0
    assert line.phases[-1].busbw == line.healthy.busbw


@pytest.mark.parametrize("repair", ["112s", "2min", "1h"])
def test_a_single_tor_job_is_dead_when_the_repair_comes_after_the_timeout(repair):
    """HPN §9.3, figure 18: after two minutes."""
    line = _line(SINGLE_TOR, f"port host-1/gpu-0:0 at 10s for {repair}", until=200.0)
    assert line.dies == pytest.approx(130, rel=1e-9)
    assert line.phases[-1].end == line.dies
    assert _line(HPN, f"port host-1/gpu-0:0 at 10s for {repair}", until=200.0).goes_on


def test_a_death_after_the_end_of_the_time_line_is_foreseen():
    line = _line(SINGLE_TOR, "nic host-1/gpu-0 at 10s", until=30.0)
    assert (line.phases[-1].end, line.dies) == (30.0, pytest.approx(130))
    assert _line(SINGLE_TOR, "nic host-1/gpu-0 at 10s for 50s", until=30.0).goes_on


def test_the_timeout_counts_what_stands_still_in_one_go():
    twice = "port host-1/gpu-0:0 at 10s for 20s", "port host-1/gpu-0:0 at 60s for 20s"
    assert _line(SINGLE_TOR, *twice, until=100.0, collective_timeout=30.0).goes_on
    assert _line(SINGLE_TOR, *twice, until=100.0, collective_timeout=28.0).dies == pytest.approx(38.0)


def test_a_flap_stops_dual_tors_as_long_as_it_takes_to_act_and_a_single_tor_for_nine_seconds_more():
    """HPN §9.3: single-ToR stalls over 9 s."""
    flap = "port host-1/gpu-0:0 at 10s for 10s flapping every 5s"
    assert _line(HPN, flap).still == pytest.approx(2 * 1.0, rel=1e-9)
    assert _line(DCN, flap).still == pytest.approx(2 * 0.3, rel=1e-9)
    assert _line(SINGLE_TOR, flap).still == pytest.approx(5 + 2.5 + 9, rel=1e-9)
    once = "port host-1/gpu-0:0 at 10s for 100ms"
    assert _line(SINGLE_TOR, once).still == pytest.approx(9.1, rel=1e-9)
    # once while it lasts, and once when the switches act on what is over by then
    assert _line(HPN, once).still == pytest.approx(0.2, rel=1e-9)


def test_a_repair_stops_nobody_and_is_used_when_switches_and_then_senders_know():
    line = _line(HPN, "port host-1/gpu-0:0 at 10s for 30s")
    back = [(each.start, each.waiting, each.still) for each in line.phases if each.start >= 40]
    assert [each[1:] for each in back] == [(("hosts", "switches", "senders"), 0), (("senders",), 0), ((), 0)]
    assert [each[0] for each in back] == pytest.approx([40, 40.3, 41])


def test_phases_say_what_is_down_and_who_has_yet_to_act():
    line = _line(HPN, "tor tor-s0-r0-0 at 10s for 30s")
    assert line.phases[0].broken == line.phases[0].waiting == ()
    assert line.phases[1].broken == ("tor-s0-r0-0 is down: 2 cards keep 1 of 2 ports",)
    assert [each.waiting for each in line.phases[1:5]] == [
        ("hosts", "switches", "senders"),
        ("switches", "senders"),
        ("senders",),
        (),
    ]
    assert line.phases[1].slowest == "host-0/gpu-0 → host-1/gpu-0"
    assert " → " in line.phases[0].slowest


def test_what_a_job_does_not_use_may_break():
    line = _line(HPN, "nic host-3/gpu-0 at 10s", "tor tor-s1-r0-0 at 20s", hosts=2)
    assert {each.busbw for each in line.phases} == {line.healthy.busbw}
    assert line.goes_on


def test_two_faults_together_may_cut_off_what_neither_does_alone():
    ports = [f"port host-1/gpu-0:{port} at {10 + port}s for 20s" for port in (0, 1)]
    line = _line(HPN, *ports)
    assert _at(line, 25).still > 0
    assert _at(line, 25).waiting == ()
    assert _line(HPN, ports[0]).still == pytest.approx(1.0, rel=1e-9)
    # the second port goes when senders have just left the first; 9 s after that is back, pairs send again
    assert line.still == pytest.approx(30 + 9 - 10, rel=1e-9)


def test_a_time_line_of_nothing_or_of_faults_that_begin_after_it_is_refused():
    with pytest.raises(PlanError, match=r"the time line ends at 0 s\. Use one above 0 s"):
        _line(HPN, until=0.0)
    with pytest.raises(PlanError, match="'nic host-1/gpu-0 at 60s' begins after the time line, which ends at 60 s"):
        _line(HPN, "nic host-1/gpu-0 at 60s")
    with pytest.raises(PlanError, match="contradict"):
        _line(HPN, "nic host-1/gpu-0 at 6s", "nic host-1/gpu-0 at 7s")


def test_without_faults_there_is_one_phase():
    line = _line(HPN)
    assert [(each.start, each.end, each.busbw) for each in line.phases] == [(0.0, 60.0, line.healthy.busbw)]


@st.composite
def outages(draw):
    """A small fabric, and one or two things that break in it for some seconds."""
    fabric = build(draw(shapes()))
    found = {}
    for _ in range(draw(st.integers(1, 2))):
        link = draw(st.integers(0, fabric.num_links - 1))
        node = draw(st.integers(0, fabric.num_nodes - 1))
        name = fabric.node_name(node)
        kind = "nic" if node < fabric.num_gpus else fabric.node_name(node).partition("-")[0]
        port = f"port {fabric.node_name(int(fabric.upper[link]))}:{fabric.upper_port[link]}"
        what = draw(st.sampled_from([f"{kind} {name}", port]))
        start, lasts = draw(st.integers(0, 20)), draw(st.integers(1, 20))
        found[links(fabric, parse(what)).tobytes()] = parse(f"{what} at {start}s for {lasts}s")
    return fabric, list(found.values())


@given(outages(), st.sampled_from(["equal", "least_loaded"]), st.sampled_from(["hash", "round_robin", "disjoint"]))
@settings(max_examples=25, deadline=None)
def test_whatever_breaks_no_link_carries_more_than_it_can_and_a_dead_one_nothing(outage, split, ports):
    fabric, faults = outage
    active = int((~fabric.backup).sum())
    hosts = seating.order(fabric, active // fabric.gpus_per_host, "packed", 0)
    if active < 2:
        return
    groups = seating.groups(fabric, hosts, active)
    how = Connecting(connections=2, ports=ports, split=split)
    case = Case(kind="all_reduce", groups=groups, size=2**30, how=how, node=preset("h800-hpn"))
    line = timeline(fabric, case, faults, Delays(collective_timeout=1e3), 100.0, 0, "ring")
    assert [each.start for each in line.phases] == _edges(line)[:-1]
    assert line.phases[-1].end == 100.0
    for each in line.phases:
        carried = each.measured.carried
        assert (carried.loads <= carried.capacity * (1 + 1e-9)).all()
        down = [fault for fault in faults if fault.at <= each.start < fault.end]
        for fault in down:
            dead = np.tile(links(fabric, fault), 2)
            assert not carried.capacity[dead].any()
            assert not carried.loads[dead].any()
        assert len(each.broken) == len(down)
        assert (each.busbw == 0) == bool(each.still)
    assert line.phases[-1].busbw == line.healthy.busbw
