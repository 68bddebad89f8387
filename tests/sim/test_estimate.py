"""Estimate: closed forms, what never makes a step faster, and a few periods in place of all micro-batches."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.cluster.presets import preset as cluster_preset
from headway.cluster.spec import Link
from headway.errors import PlanError
from headway.model.spec import PRESETS
from headway.sim import pipeline, stages
from headway.sim.estimate import estimate
from headway.sim.outline import Outline
from headway.stack.spec import HEADWAY, preset
from headway.units import Dtype

CLUSTER = cluster_preset("a100-80gb-hdr")
FREE = dataclasses.replace(CLUSTER, inside=Link("free", 0.0, 1e30), between=Link("free", 0.0, 1e30))
EVEN = dataclasses.replace(HEADWAY, splits="even")
WHOLE = Outline(
    model=PRESETS["gpt-175b"], cluster=CLUSTER, stack=HEADWAY, microbatch=1, microbatches=64, sequence=2048, tensor=8,
    pipeline=8, data=4,
)  # fmt: skip
SCHEDULES = [("1f1b", 1), ("gpipe", 1), ("interleaved", 2), ("interleaved", 3), ("zb-h1", 1), ("zb-h2", 1), ("zb-v", 2)]
_OUTLINES = st.builds(
    lambda tensor, pipeline, data, microbatches, zero, parallel: dataclasses.replace(
        WHOLE,
        tensor=tensor,
        pipeline=pipeline,
        data=data,
        microbatches=microbatches * pipeline,
        zero=zero,
        sequence_parallel=parallel and tensor > 1,
    ),
    st.sampled_from([1, 2, 8]),
    st.sampled_from([1, 2, 8]),
    st.sampled_from([1, 4, 16]),
    st.integers(1, 8),
    st.sampled_from([0, 1, 3]),
    st.booleans(),
)


def _middle(**changes):
    """An outline whose stages are all alike: as many layers, and a vocabulary that costs next to nothing."""
    model = dataclasses.replace(PRESETS["gpt-175b"], vocabulary=8)
    return dataclasses.replace(WHOLE, model=model, cluster=FREE, stack=EVEN, data=1, **changes)


@pytest.mark.parametrize(("schedule", "chunks"), SCHEDULES)
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_a_few_periods_are_as_good_as_all_micro_batches(schedule, chunks, ranks):
    outline = dataclasses.replace(
        _middle(pipeline=ranks, microbatches=12 * ranks), schedule=schedule, chunks=chunks, cluster=CLUSTER
    )
    few, all_of_them = estimate(outline), estimate(outline, whole=True)
    # zb-v repeats itself over more than P micro-batches where its ends differ from its middle
    assert few.seconds == pytest.approx(all_of_them.seconds, rel=1e-3 if schedule == "zb-v" else 1e-12)
    assert few.memory == all_of_them.memory


@pytest.mark.parametrize("layers", [16, 33, 96])
@pytest.mark.parametrize(("schedule", "chunks"), SCHEDULES)
def test_with_uneven_stages_a_few_periods_are_within_one_percent(schedule, chunks, layers):
    model = dataclasses.replace(WHOLE.model, layers=layers)
    outline = dataclasses.replace(WHOLE, schedule=schedule, chunks=chunks, model=model, microbatches=72)
    assert estimate(outline).seconds == pytest.approx(estimate(outline, whole=True).seconds, rel=1e-2)


def _of_alike_stages(outline):
    """The pipeline of `outline` played with stages that are all like its second, and the seconds of its two passes."""
    each = stages.stages(outline)
    ways = {way: (getattr(each, way)[1],) * len(each.layers) for way in ("forward", "backward")}
    alike = dataclasses.replace(each, **ways, weights=(each.weights[1],) * len(each.layers))
    return pipeline.play(outline, alike), alike.forward[0].seconds + alike.backward[0].seconds


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize(("p", "m"), [(2, 2), (4, 8), (8, 64)])
def test_gpipe_and_1f1b_take_m_plus_p_minus_1_passes_on_free_links(schedule, p, m):
    played, one = _of_alike_stages(dataclasses.replace(_middle(pipeline=p, microbatches=m), schedule=schedule))
    assert played.makespan == pytest.approx((m + p - 1) * one)


@pytest.mark.parametrize("chunks", [2, 3])
def test_interleaving_divides_the_bubble_by_the_chunks(chunks):
    outline = dataclasses.replace(_middle(pipeline=4, microbatches=32), schedule="interleaved", chunks=chunks)
    played, _ = _of_alike_stages(outline)
    assert played.makespan / played.busy[1] - 1 == pytest.approx(3 / (chunks * 32))


def test_with_equal_stages_a_longer_pipeline_never_lowers_the_bubble():
    shares = []
    for ranks in (2, 4, 8, 16, 32):
        played, _ = _of_alike_stages(_middle(pipeline=ranks, microbatches=32))
        shares.append(played.makespan / played.busy[1] - 1)
    assert shares == sorted(shares)
    assert shares == pytest.approx([(ranks - 1) / 32 for ranks in (2, 4, 8, 16, 32)])


@given(_OUTLINES, st.floats(0, 1e-3), st.floats(1, 50))
def test_a_slower_link_never_makes_a_step_faster(outline, latency, slowness):
    def slow(link):
        return Link(link.name, link.latency + latency, link.bandwidth / slowness, link.call)

    for which in ("inside", "between"):
        cluster = dataclasses.replace(CLUSTER, **{which: slow(getattr(CLUSTER, which))})
        outline = dataclasses.replace(outline, stack=EVEN)  # a balanced split may move with the times
        slower = dataclasses.replace(outline, cluster=cluster)
        assert estimate(slower).seconds >= estimate(outline).seconds * (1 - 1e-12)


@given(_OUTLINES, st.floats(0.1, 1))
def test_a_lower_clock_never_makes_a_step_faster(outline, clock):
    device = CLUSTER.device
    rates = {key: {t: clock * rate for t, rate in getattr(device, key).items()} for key in ("peak", "matmul")}
    cluster = dataclasses.replace(CLUSTER, device=dataclasses.replace(device, **rates))
    outline = dataclasses.replace(outline, stack=EVEN)
    assert estimate(dataclasses.replace(outline, cluster=cluster)).seconds >= estimate(outline).seconds * (1 - 1e-12)


@given(_OUTLINES)
def test_the_parts_add_up_to_the_step(outline):
    found = estimate(outline)
    assert sum(found.parts.values()) == pytest.approx(found.seconds)
    assert min(found.parts.values()) >= 0


def test_full_recompute_takes_one_more_forward_of_the_layers_and_keeps_their_inputs():
    none, full = (estimate(_middle(pipeline=1, tensor=8, recompute=mode)) for mode in ("none", "full"))
    layers = stages.stages(_middle(pipeline=1, tensor=8)).forward[0].seconds * 64
    assert full.seconds - none.seconds == pytest.approx(layers, rel=0.01)
    assert full.memory["activations"] == pytest.approx(
        96 * 2048 * 12288 * 2, rel=0.03
    )  # and the embedding's and loss's
    assert full.memory["activations"] < none.memory["activations"] / 5
    assert full.memory["recomputed"] > 0


def test_selective_recompute_lies_between():
    """Korthikanti et al. 2022, §5: it saves most of the memory for a small part of the time."""
    outline = dataclasses.replace(WHOLE, stack=preset("megatron-lm"), attention="unfused", sequence_parallel=True)
    none, some, full = (
        estimate(dataclasses.replace(outline, recompute=mode)) for mode in ("none", "selective", "full")
    )
    assert none.seconds < some.seconds < full.seconds
    assert none.memory["activations"] > some.memory["activations"] > full.memory["activations"]
    assert some.seconds / none.seconds < 1.08


def test_sequence_parallelism_keeps_less():
    cut = dataclasses.replace(WHOLE, sequence_parallel=True)
    assert estimate(cut).memory["activations"] < 0.6 * estimate(WHOLE).memory["activations"]


def test_gradients_that_overlap_cost_less_than_those_that_do_not():
    late = dataclasses.replace(WHOLE, stack=dataclasses.replace(HEADWAY, overlaps=frozenset()))
    assert estimate(WHOLE).parts["gradients"] < estimate(late).parts["gradients"]


def test_a_host_that_needs_longer_than_its_device_rules_the_step():
    slow = dataclasses.replace(HEADWAY, host=1e-2)
    found = estimate(dataclasses.replace(WHOLE, stack=slow, pipeline=1))
    assert found.parts["host"] > 0.9 * found.seconds


def test_float8_products_make_a_step_faster_but_not_twice():
    cluster = cluster_preset("h800-hpn")
    wide = dataclasses.replace(WHOLE, cluster=cluster, microbatch=4)
    narrow = dataclasses.replace(wide, products=Dtype.FLOAT8)
    assert 1.2 < estimate(wide).seconds / estimate(narrow).seconds < 2


def test_a_schedule_that_moves_activations_or_weights_is_refused_by_name():
    for schedule in ("bpipe", "pipedream"):
        with pytest.raises(PlanError, match=f"schedule {schedule} is not predicted yet"):
            estimate(dataclasses.replace(WHOLE, schedule=schedule, data=1))


def test_only_a_backward_gathers_again_so_that_a_forward_hides_none_of_its_gathers():
    """Korthikanti et al. 2022, §4.2.2: of a layer's six gathers two go behind a product, of a head's two one."""
    cut = dataclasses.replace(WHOLE, sequence_parallel=True)
    behind = dataclasses.replace(cut, stack=dataclasses.replace(EVEN, overlaps=frozenset({"regathers"})))
    all_of_it = dataclasses.replace(cut, stack=dataclasses.replace(EVEN, overlaps=frozenset()))
    one = stages.exchange(cut.inside(8, stride=1), "all_gather", 2048 * 12288 * 2)
    some, most = (stages.stages(outline) for outline in (behind, all_of_it))
    for way, hidden in (("forward", (0, 0)), ("backward", (2 * 12, 2 * 12 + 1))):
        for stage, count in ((0, hidden[0]), (-1, hidden[1])):
            parts = [getattr(each, way)[stage].parts["tensor exchange"] for each in (some, most)]
            assert parts[1] - parts[0] == pytest.approx(count * one, abs=1e-9)


def test_recompute_of_all_layers_costs_the_host_as_much_by_share_as_by_name():
    slow = dataclasses.replace(HEADWAY, host=1e-3)
    full, share = (estimate(_on_one_rank(stack=slow, recompute=mode)).parts["host"] for mode in ("full", "fraction"))
    none = estimate(_on_one_rank(stack=slow)).parts["host"]
    assert share == pytest.approx(full)
    assert full > 1.2 * none


def _on_one_rank(**changes):
    return dataclasses.replace(WHOLE, **({"pipeline": 1, "data": 1} | changes))


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_what_zero_cuts_over_a_part_of_the_ranks_is_summed_over_its_copies_too(zero):
    stack = dataclasses.replace(EVEN, overlaps=frozenset(), gathers_embedding=False)
    outline = dataclasses.replace(WHOLE, stack=stack, data=16, pipeline=1, zero=zero)
    some = dataclasses.replace(outline, zero_ranks=4)
    held = stages.stages(outline).numel[0]
    copies = stages.exchange(some.inside(4, stride=8 * 4), "all_reduce", held // 4 * 4)
    alone = dataclasses.replace(outline, data=4)  # as if there were no copies
    assert some.copied == 4
    assert estimate(some).parts["gradients"] - estimate(alone).parts["gradients"] == pytest.approx(copies)


def test_plain_data_ranks_sum_over_all_of_them_whatever_a_group_is_called():
    outline = dataclasses.replace(WHOLE, data=16, pipeline=1)
    assert estimate(dataclasses.replace(outline, zero_ranks=4)) == estimate(outline)


def test_the_ends_of_a_pipeline_inside_a_node_meet_there():
    stack = preset("megatron-lm")
    inside = dataclasses.replace(WHOLE, stack=stack, tensor=1, data=1, pipeline=8)
    assert inside.ends() == dataclasses.replace(inside, pipeline=2, tensor=4).ends()
    across = dataclasses.replace(inside, pipeline=4, tensor=4)  # neighbours share a node, the ends do not
    assert across.ends().bandwidth == CLUSTER.between.bandwidth
