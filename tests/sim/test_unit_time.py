"""Bare schedules against the clock: the figures and formulas of the papers."""

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.errors import ScheduleError
from headway.schedule import families, graph, passes
from headway.schedule.action import Kind
from headway.schedule.check import check
from headway.schedule.program import Program
from headway.schedule.row import row
from headway.schedule.schedule import Schedule, from_csv
from headway.sim import engine
from headway.sim.unit_time import WEIGHTS, peak_in_flight, play, weight_versions

EXPECTED = json.loads((Path(__file__).parent.parent / "golden" / "schedules_expected.json").read_text())
both_rows = pytest.mark.parametrize("add", [lambda s: s, passes.add_messages], ids=["bare", "with messages"])


@pytest.mark.parametrize(("key", "expected"), EXPECTED.items(), ids=list(EXPECTED))
@both_rows
def test_step_time_bubble_and_peaks_are_the_expected_ones(key, expected, add):
    family = key.split()[0]
    sizes = {name: int(value) for name, value in re.findall(r"([PVM])(\d+)", key)}
    schedule = families.build(family, pipeline=sizes["P"], microbatches=sizes["M"], chunks=sizes.get("V", 1))
    played = play(add(schedule))
    assert played.step_time == expected["makespan"]
    assert played.trace.bubble() == expected["bubble"]
    assert set(played.trace.busy().values()) == {expected["ideal"]}
    peaks = expected.get("peak_inflight") or expected["peak_inflight_chunks"]
    assert list(played.peak_in_flight) == peaks


@both_rows
@pytest.mark.parametrize("family", ["gpipe", "1f1b"])
@pytest.mark.parametrize("pipeline", range(1, 9))
def test_gpipe_and_1f1b_take_m_plus_p_minus_1_rounds(family, pipeline, add):
    """(m + p − 1)(tF + tB) with free links: Narayanan et al. 2021, §2.2.1."""
    for m, (forward, backward) in zip([1, 2, 3, 4, 5, 8, 11, 16], [(1, 2), (1, 1), (3, 5), (2, 0.5)] * 2, strict=True):
        schedule = add(families.build(family, pipeline=pipeline, microbatches=m))
        played = play(schedule, {Kind.FORWARD: forward, Kind.BACKWARD: backward})
        assert played.step_time == (m + pipeline - 1) * (forward + backward)
        assert played.trace.bubble() == pytest.approx((pipeline - 1) / m, abs=1e-12)


@both_rows
@pytest.mark.parametrize("pipeline", range(1, 9))
def test_interleaving_divides_the_bubble_by_the_chunks(pipeline, add):
    """(p − 1)/(v·m): Narayanan et al. 2021, §2.2.2."""
    for m in range(pipeline, 17, pipeline):
        for v in (1, 2, 4):
            schedule = add(families.build("interleaved", pipeline=pipeline, microbatches=m, chunks=v))
            assert play(schedule).trace.bubble() == pytest.approx((pipeline - 1) / (v * m), abs=1e-9)


TIMES = [(1, 1, 1), (3, 2, 1), (2, 2, 1.5), (2, 3, 0.5), (2, 2, 0)]


def _weights(forward, give, weigh):
    return {Kind.FORWARD: forward, Kind.INPUT_BACKWARD: give, Kind.WEIGHT_BACKWARD: weigh}


@both_rows
@pytest.mark.parametrize("pipeline", range(1, 9))
def test_the_zero_bubble_schedules_idle_as_long_as_the_paper_says(pipeline, add):
    """(P − 1)(TF + TI − TW) for ZB-H1, (P − 1)(TF + TI − 2TW) for ZB-H2: Qi et al. 2023, table 1.

    On the first rank, which idles longest; on rank r it is P − 1 − r times as much, since it begins that much later.
    """
    for m in (2 * pipeline, 2 * pipeline + 1):
        for forward, give, weigh in TIMES:
            for family, times in (("zb-h1", 1), ("zb-h2", 2)):
                schedule = add(families.build(family, pipeline=pipeline, microbatches=m))
                each = forward + give - times * weigh
                idle = play(schedule, _weights(forward, give, weigh)).idle
                assert idle == tuple((pipeline - 1 - rank) * each for rank in range(pipeline))


@both_rows
@pytest.mark.parametrize("pipeline", range(1, 9))
def test_zb_h2_and_zb_v_have_no_bubble_at_equal_times(pipeline, add):
    """Qi et al. 2023, §3.2 and §6. A bubble of the makespan remains: ranks start one after another."""
    for m in (2 * pipeline, 2 * pipeline + 1, 3 * pipeline):
        for family in ("zb-h2", "zb-v"):
            schedule = add(families.build(family, pipeline=pipeline, microbatches=m, chunks=families.CHUNKS[family]))
            assert play(schedule, _weights(1, 1, 1)).idle == (0,) * pipeline


@pytest.mark.parametrize("pipeline", range(1, 9))
def test_a_split_backward_holds_its_activations_until_its_weight_backward(pipeline):
    """ZB-H1 as many as the first rank of 1F1B, ZB-H2 2P − 1, ZB-V 2P chunks of half the size: Qi et al. 2023."""
    for m in range(2 * pipeline, 17):
        peaks = {
            family: max(
                play(
                    families.build(family, pipeline=pipeline, microbatches=m, chunks=families.CHUNKS[family])
                ).peak_in_flight
            )
            for family in ("zb-h1", "zb-h2", "zb-v")
        }
        assert peaks == {"zb-h1": pipeline, "zb-h2": 2 * pipeline - 1, "zb-v": 2 * pipeline}


@pytest.mark.parametrize("pipeline", range(1, 9))
def test_peaks_in_flight_are_those_of_the_warm_up(pipeline):
    for m in range(1, 17):
        peaks = {
            family: list(play(families.build(family, pipeline=pipeline, microbatches=m)).peak_in_flight)
            for family in ("gpipe", "1f1b")
        }
        assert peaks == {"gpipe": [m] * pipeline, "1f1b": [min(m, pipeline - rank) for rank in range(pipeline)]}


@pytest.mark.parametrize("pipeline", range(1, 9))
def test_of_weight_versions_stage_s_of_pipedream_keeps_p_minus_s_and_each_of_2bw_at_most_two(pipeline):
    """Narayanan et al. 2019, §3.3, the current one included; Narayanan et al. 2021 (2BW), §3.1."""

    def kept(family, microbatches):
        schedule = families.build(family, pipeline=pipeline, microbatches=microbatches)
        return [weight_versions(row) for row in schedule.rows]

    for m in (2 * pipeline, 3 * pipeline + 1):
        assert kept("pipedream", m) == [pipeline - stage for stage in range(pipeline)]
        assert max(kept("pipedream-2bw", m + pipeline)) == (2 if pipeline > 1 else 1)


@both_rows
@pytest.mark.parametrize("family", ["pipedream", "pipedream-2bw"])
@pytest.mark.parametrize("pipeline", range(1, 9))
def test_pipedreams_steady_state_has_no_bubble(pipeline, family, add):
    """From a rank's first backward to its last forward it never waits: Narayanan et al. 2019, §3.2."""
    for m in (2 * pipeline, 3 * pipeline + 1):
        schedule = families.build(family, pipeline=pipeline, microbatches=m)
        spans = [span for span in play(add(schedule)).trace.spans if span.seconds]
        for rank in range(pipeline):
            row = [span for span in spans if span.rank == rank]
            first = next(i for i, span in enumerate(row) if "B" in span.operation)
            last = max(i for i, span in enumerate(row) if "F" in span.operation)
            steady = row[first : last + 1]
            assert len(steady) == 2 * (m - (pipeline - rank))
            assert sum(span.seconds for span in steady) == steady[-1].end - steady[0].start


@both_rows
@pytest.mark.parametrize("pipeline", range(1, 13))
def test_bpipe_holds_no_more_than_half_of_the_pipeline_and_one(pipeline, add):
    """⌈(P + 2) / 2⌉ from P = 4 on, whatever a transfer takes; for free it costs no time: Kim et al. 2023, §3."""
    for m in (1, 2, pipeline, 2 * pipeline + 1):
        schedule = add(families.build("bpipe", pipeline=pipeline, microbatches=m))
        plain = play(families.build("1f1b", pipeline=pipeline, microbatches=m))
        assert play(schedule).step_time == plain.step_time
        for transfer in (0.0, 0.1, 1.5):
            played = play(schedule, {**WEIGHTS, Kind.EVICT: transfer, Kind.RESTORE: transfer})
            assert max(played.peak_in_flight) <= max((pipeline + 3) // 2, 1)
            if pipeline < 4:
                assert played.peak_in_flight == plain.peak_in_flight


@pytest.mark.parametrize("pipeline", [4, 5, 8])
def test_bpipe_moves_one_activation_of_a_pair_at_a_time(pipeline):
    schedule = families.build("bpipe", pipeline=pipeline, microbatches=3 * pipeline)
    spans = play(schedule, {**WEIGHTS, Kind.EVICT: 0.7, Kind.RESTORE: 0.7}).trace.spans
    moved = 0
    for rank in range(pipeline // 2):
        pair = {rank, schedule.partner(rank)}
        transfers = sorted((s.start, s.end) for s in spans if s.rank in pair and s.lane == "pair")
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(transfers))
        moved += len(transfers)
    assert moved == sum(span.lane == "pair" for span in spans) > 0


@st.composite
def _shuffled(draw):
    """A small schedule of any family, bare or with messages, with some actions of its rows moved."""
    family = draw(st.sampled_from(sorted(families.FAMILIES)))
    p, groups = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    schedule = families.build(family, pipeline=p, microbatches=p * groups, chunks=families.CHUNKS.get(family, 2))
    if draw(st.booleans()):
        schedule = passes.add_messages(schedule)
    rows = [list(row) for row in schedule.rows]
    for _ in range(draw(st.integers(0, 3))):
        each = draw(st.sampled_from(rows))
        each.insert(draw(st.integers(0, len(each) - 1)), each.pop(draw(st.integers(0, len(each) - 1))))
    return Schedule(family, tuple(map(row, rows)))


@settings(max_examples=150)
@given(_shuffled())
def test_the_check_accepts_exactly_the_schedules_that_the_engine_can_finish(schedule):
    def accepts(judge):
        try:
            judge(schedule)
        except ScheduleError:
            return False
        return True

    assert accepts(check) == accepts(_by_the_clock)


def _by_the_clock(schedule):
    """The engine with its clock, which knows nothing of the walk that the check does."""
    rows = graph.build(Program(schedule))
    engine.play(rows, np.ones(len(rows)), engine.Shared(np.full(len(rows), -1), np.ones(1)))


def test_a_peak_counts_forwards_whose_backward_is_still_to_come():
    assert peak_in_flight(from_csv("0F0,0F1,0B0,0F2,0F3,0B1,0B2,0B3").rows[0]) == 3
    assert peak_in_flight(from_csv("0F0,0F1,0I0,0I1,0F2,0W0,0W1,0B2").rows[0]) == 3


def test_idle_time_is_between_a_ranks_first_start_and_last_end():
    played = play(families.build("1f1b", pipeline=3, microbatches=4))
    assert played.idle == (6, 3, 0)


def test_a_stage_in_chunks_does_the_same_work_in_smaller_pieces():
    for v in (1, 2, 4):
        schedule = families.build("interleaved", pipeline=2, microbatches=4, chunks=v)
        assert set(play(schedule).trace.busy().values()) == {12}


def test_reductions_and_steps_take_no_time_on_free_links():
    bare = families.build("1f1b", pipeline=4, microbatches=8)
    full = passes.add_steps(passes.add_reductions(passes.add_messages(bare), frozenset(range(4))))
    assert play(full).step_time == play(bare).step_time
    assert play(full).trace.bubble() == play(bare).trace.bubble()
