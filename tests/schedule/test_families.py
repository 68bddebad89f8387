"""Families: the rows of the papers and of torch, and what must hold for all sizes."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import ScheduleError
from headway.schedule import families, passes
from headway.schedule.action import Action, Kind
from headway.schedule.check import check
from headway.schedule.row import row
from headway.schedule.schedule import Schedule, to_csv

EXPECTED = json.loads((Path(__file__).parent.parent / "golden" / "schedules_expected.json").read_text())
MICROBATCHES = range(1, 17)


def _sizes(key):
    """`interleaved P2 V2 M4` → the schedule."""
    family = key.split()[0]
    sizes = {name: int(value) for name, value in re.findall(r"([PVM])(\d+)", key)}
    return families.build(family, pipeline=sizes["P"], microbatches=sizes["M"], chunks=sizes.get("V", 1))


def _all_sizes(pipeline):
    for m in MICROBATCHES:
        yield families.build("gpipe", pipeline=pipeline, microbatches=m)
        yield families.build("1f1b", pipeline=pipeline, microbatches=m)
        if m % pipeline == 0:
            for v in range(1, 5):
                yield families.build("interleaved", pipeline=pipeline, microbatches=m, chunks=v)


@pytest.mark.parametrize("key", [key for key, value in EXPECTED.items() if value["rows"]])
def test_rows_are_those_of_torch_and_megatron(key):
    assert to_csv(_sizes(key)).splitlines() == EXPECTED[key]["rows"]


def test_gpipe_is_all_forwards_then_all_backwards():
    """Huang et al. 2019, figure 2."""
    assert to_csv(families.build("gpipe", pipeline=3, microbatches=4)) == (
        "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n1F0,1F1,1F2,1F3,1B0,1B1,1B2,1B3\n2F0,2F1,2F2,2F3,2B0,2B1,2B2,2B3\n"
    )


def test_1f1b_alternates_after_its_warm_up():
    """Narayanan et al. 2021, figure 3, with three stages and four micro-batches."""
    assert to_csv(families.build("1f1b", pipeline=3, microbatches=4)) == (
        "0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3\n1F0,1F1,1B0,1F2,1B1,1F3,1B2,1B3\n2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3\n"
    )


def test_zb_h1_defers_weight_backwards_to_where_1f1b_is_idle():
    """Qi et al. 2023, §3.1, with three stages and four micro-batches."""
    assert to_csv(families.build("zb-h1", pipeline=3, microbatches=4)) == (
        "0F0,0F1,0F2,0I0,0W0,0F3,0I1,0W1,0I2,0W2,0I3,0W3\n"
        "1F0,1F1,1I0,1F2,1I1,1W0,1F3,1I2,1W1,1I3,1W2,1W3\n"
        "2F0,2I0,2F1,2I1,2F2,2I2,2W0,2F3,2I3,2W1,2W2,2W3\n"
    )


def test_zb_h2_warms_up_twice_as_long():
    """Qi et al. 2023, §3.2."""
    assert to_csv(families.build("zb-h2", pipeline=2, microbatches=4)) == (
        "0F0,0F1,0F2,0I0,0W0,0F3,0I1,0W1,0I2,0W2,0I3,0W3\n1F0,1I0,1F1,1I1,1F2,1I2,1W0,1F3,1I3,1W1,1W2,1W3\n"
    )


def test_zb_v_goes_down_the_ranks_and_up_again():
    """Qi et al. 2023, §6: stage s on rank s, and on rank 2P − 1 − s from the turn on."""
    assert to_csv(families.build("zb-v", pipeline=2, microbatches=3, chunks=2)) == (
        "0F0,0F1,0F2,3F0,3I0,3W0,3F1,3I1,3W1,0I0,0W0,3F2,3I2,3W2,0I1,0W1,0I2,0W2\n"
        "1F0,2F0,1F1,2F1,2I0,2W0,1F2,1I0,1W0,2F2,2I1,2W1,1I1,2I2,1I2,1W1,2W2,1W2\n"
    )


def test_pipedream_stashes_the_weights_of_each_forward_for_its_backward():
    """Narayanan et al. 2019, §3.3: version v is the one after v backwards of the stage."""
    assert to_csv(families.build("pipedream", pipeline=2, microbatches=4)) == (
        "0USE0,0F0,0F1,0B0,0USE1,0F2,0USE0,0B1,0USE2,0F3,0USE1,0B2,0USE2,0B3\n"
        "1USE0,1F0,1B0,1USE1,1F1,1B1,1USE2,1F2,1B2,1USE3,1F3,1B3\n"
    )


def test_bpipe_evicts_the_newest_activations_and_restores_them_for_their_backward():
    """Kim et al. 2023, BPipe: of four ranks the first would hold 4 and may hold 3."""
    schedule = families.build("bpipe", pipeline=4, microbatches=6)
    assert to_csv(schedule).splitlines()[0] == (
        "0F0,0F1,0F2,0EVICT2,0F3,0B0,0F4,0B1,0F5,0EVICT5,0RESTORE2,0B2,0B3,0B4,0RESTORE5,0B5"
    )
    plain = families.build("1f1b", pipeline=4, microbatches=6)
    assert schedule.rows[1:] == plain.rows[1:]
    assert [schedule.compute(rank) for rank in range(4)] == list(plain.rows)


@pytest.mark.parametrize("pipeline", range(1, 9))
def test_pipedream_and_bpipe_pass_the_check_for_all_sizes(pipeline):
    for family in ("pipedream", "pipedream-2bw", "bpipe"):
        for m in (1, 2, 3, 7, 8, 15, 16):
            check(passes.add_messages(check(families.build(family, pipeline=pipeline, microbatches=m))))


def _split_sizes(pipeline):
    for family in ("zb-h1", "zb-h2", "zb-v"):
        for m in (1, 2, 3, 7, 8, 15, 16):
            yield families.build(family, pipeline=pipeline, microbatches=m, chunks=families.CHUNKS[family])


@pytest.mark.parametrize("pipeline", range(1, 9))
def test_every_family_of_split_backwards_passes_the_check_for_all_sizes(pipeline):
    for schedule in _split_sizes(pipeline):
        check(passes.add_messages(check(schedule)))
        assert all(len(row) == 3 * schedule.num_microbatches * len(schedule.stages(0)) for row in schedule.rows)


def test_pipedream_2bw_computes_a_batch_of_p_microbatches_with_the_version_before_the_last():
    """Narayanan et al. 2021, 2BW, §3.1 and figure 2: W(b + 1) = W(b) − ν∇f(W(b − 1))."""
    assert to_csv(families.build("pipedream-2bw", pipeline=2, microbatches=6)) == (
        "0USE0,0F0,0F1,0B0,0F2,0B1,0F3,0B2,0USE1,0F4,0USE0,0B3,0USE1,0F5,0B4,0B5\n"
        "1USE0,1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3,1USE1,1F4,1B4,1F5,1B5\n"
    )


@pytest.mark.parametrize("pipeline", range(1, 9))
def test_no_batch_of_pipedream_2bw_uses_a_version_that_is_not_made_yet(pipeline):
    """Version v needs the backwards of all micro-batches of batches before v."""
    schedule = check(families.build("pipedream-2bw", pipeline=pipeline, microbatches=5 * pipeline))
    check(passes.add_messages(schedule))
    for actions in schedule.rows:
        done = 0
        for action in actions:
            done += action.kind is Kind.BACKWARD
            if action.kind is Kind.USE:
                assert done >= pipeline * action.microbatch


def test_an_evaluation_takes_every_microbatch_forward_only_on_the_ranks_that_hold_its_stages():
    interleaved = families.build("interleaved", pipeline=2, microbatches=4, chunks=2)
    assert to_csv(families.forward_only(interleaved)) == (
        "0F0,0F1,2F0,2F1,0F2,0F3,2F2,2F3\n1F0,1F1,3F0,3F1,1F2,1F3,3F2,3F3\n"
    )
    zb_v = families.build("zb-v", pipeline=2, microbatches=3, chunks=2)
    assert to_csv(families.forward_only(zb_v)) == "0F0,0F1,3F0,3F1,0F2,3F2\n1F0,1F1,2F0,2F1,1F2,2F2\n"


@pytest.mark.parametrize("pipeline", range(1, 9))
def test_the_invariants_of_a_row_hold_for_all_sizes(pipeline):
    """Megatron's `test_get_pipeline_parallel_order` and torch's `_validate_schedule`."""
    for schedule in _all_sizes(pipeline):
        m, chunks = schedule.num_microbatches, schedule.num_stages // pipeline
        for rank, actions in enumerate(schedule.rows):
            assert len(actions) == len(set(actions)) == 2 * m * chunks
            assert {action.stage for action in actions} == set(range(rank, pipeline * chunks, pipeline))
            seen, running = set(), 0
            for action in actions:
                running += 1 if action.kind is Kind.FORWARD else -1
                assert running >= 0
                if action.kind is Kind.FORWARD:
                    seen.add((action.stage, action.microbatch))
                else:
                    assert (action.stage, action.microbatch) in seen
            assert running == 0
            assert len(seen) == m * chunks


@pytest.mark.parametrize("pipeline", range(1, 9))
def test_every_family_passes_the_check_with_messages_for_all_sizes(pipeline):
    """Up to 8 ranks, 16 micro-batches and 4 chunks; `check` plays both kinds of send."""
    for schedule in _all_sizes(pipeline):
        check(passes.add_messages(schedule))


@pytest.mark.parametrize("pipeline", range(1, 9))
@pytest.mark.parametrize("family", families.FAMILIES)
def test_an_evaluation_of_every_family_passes_the_check_with_messages(pipeline, family):
    for groups in (1, 2, 3):
        for v in (1, 2, 4) if family == "interleaved" else (families.CHUNKS[family],):
            training = families.build(family, pipeline=pipeline, microbatches=pipeline * groups, chunks=v)
            evaluation = check(passes.add_messages(families.forward_only(training)))
            assert evaluation.ranks == training.ranks
            assert evaluation.num_microbatches == training.num_microbatches


@given(st.lists(st.integers(0, 5), min_size=1, max_size=14), st.integers(1, 13))
def test_an_evaluation_finishes_wherever_the_stages_are(owners, microbatches):
    """Any stage on any rank: `check` plays it with sends that complete only with their receives."""
    ranks = {owner: place for place, owner in enumerate(sorted(set(owners)))}
    rows = [[] for _ in ranks]
    for kind in (Kind.FORWARD, Kind.BACKWARD):
        for stage, owner in enumerate(owners):
            rows[ranks[owner]] += [Action(kind, stage, index) for index in range(microbatches)]
    evaluation = families.forward_only(Schedule("any", tuple(map(row, rows))))
    check(passes.add_steps(passes.add_messages(evaluation)))
    assert evaluation.ranks == {stage: ranks[owner] for stage, owner in enumerate(owners)}
    assert evaluation.num(Kind.FORWARD) == len(owners) * microbatches


@pytest.mark.parametrize("key", EXPECTED)
def test_bare_rows_pass_the_check(key):
    check(_sizes(key))


@pytest.mark.parametrize(
    ("microbatches", "pipeline", "legal"),
    [(6, 4, "4 or 8"), (3, 4, "4"), (5, 2, "4 or 6"), (17, 8, "16 or 24")],
)
def test_interleaved_refuses_a_broken_group_and_names_the_nearest_that_work(microbatches, pipeline, legal):
    with pytest.raises(ScheduleError, match=rf"got {microbatches} micro-batches for {pipeline} ranks\. Use {legal}\."):
        families.build("interleaved", pipeline=pipeline, microbatches=microbatches, chunks=2)
    for number in map(int, legal.split(" or ")):
        families.build("interleaved", pipeline=pipeline, microbatches=number, chunks=2)


def test_zb_v_refuses_other_than_two_stages_a_rank():
    with pytest.raises(ScheduleError, match=r"zb-v has 2 stages on each rank, got chunks 1\. Use chunks 2\."):
        families.build("zb-v", pipeline=2, microbatches=4)


@pytest.mark.parametrize("family", ["gpipe", "1f1b", "zb-h1", "zb-h2"])
def test_a_family_of_one_stage_a_rank_refuses_chunks(family):
    with pytest.raises(ScheduleError, match=r"got chunks 2\. Use schedule interleaved, or chunks 1\."):
        families.build(family, pipeline=2, microbatches=4, chunks=2)


@pytest.mark.parametrize("name", ["pipeline", "microbatches", "chunks"])
def test_a_size_below_one_is_refused(name):
    sizes = {"pipeline": 2, "microbatches": 4, "chunks": 1, name: 0}
    with pytest.raises(ScheduleError, match=f"{name} must be at least 1, got 0"):
        families.build("interleaved", **sizes)


def test_an_unknown_family_gets_the_nearest_name():
    with pytest.raises(ScheduleError, match=r"called '1fb1'\. Did you mean '1f1b'\?"):
        families.build("1fb1", pipeline=2, microbatches=4)
