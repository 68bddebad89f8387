"""Bare schedules against the clock: the figures and formulas of the papers."""

import json
import re
from pathlib import Path

import pytest

from headway.schedule import families, passes
from headway.schedule.action import Kind
from headway.schedule.schedule import from_csv
from headway.sim.unit_time import peak_in_flight, play

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


@pytest.mark.parametrize("pipeline", range(1, 9))
def test_peaks_in_flight_are_those_of_the_warm_up(pipeline):
    for m in range(1, 17):
        peaks = {
            family: list(play(families.build(family, pipeline=pipeline, microbatches=m)).peak_in_flight)
            for family in ("gpipe", "1f1b")
        }
        assert peaks == {"gpipe": [m] * pipeline, "1f1b": [min(m, pipeline - rank) for rank in range(pipeline)]}


def test_a_peak_counts_forwards_whose_backward_is_still_to_come():
    row = from_csv("0F0,0F1,0B0,0F2,0F3,0B1,0B2,0B3").rows[0]
    assert peak_in_flight(row) == 3


def test_a_stage_in_chunks_does_the_same_work_in_smaller_pieces():
    for v in (1, 2, 4):
        schedule = families.build("interleaved", pipeline=2, microbatches=4, chunks=v)
        assert set(play(schedule).trace.busy().values()) == {12}


def test_reductions_and_steps_take_no_time_on_free_links():
    bare = families.build("1f1b", pipeline=4, microbatches=8)
    full = passes.add_steps(passes.add_reductions(passes.add_messages(bare), frozenset(range(4))))
    assert play(full).step_time == play(bare).step_time
    assert play(full).trace.bubble() == play(bare).trace.bubble()
