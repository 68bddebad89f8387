"""Makeup: the fullest moment of the fullest memory, what it is made of, and the bar that shows it."""

import numpy as np
import pytest

from headway.report.makeup import FREE, STATES, bar, by_rank, document, fullest, verdict
from headway.schedule.action import GIVES_WEIGHT_GRADIENT, Kind
from headway.sim.simulate import simulate
from headway.sim.unit_time import peak_in_flight
from headway.trace import Changes, Trace, as_columns
from headway.units import Bytes, Seconds

GIB = 2**30


def _text(lines):
    return ["".join(piece.text for piece in line) for line in lines]


@pytest.fixture(scope="module")
def large(plan_of):
    """A plan whose ranks hold gathered parameters, activations and logits at once, and its trace."""
    plan = plan_of(
        model="gpt-1.3b",
        parallel={"pipeline": 2, "data": 4, "zero": 3},
        data={"sequence_length": 2048, "tokenizer": "none"},
        train={"precision": "bfloat16", "global_batch": 32, "microbatch": 2},
    )
    return plan, simulate(plan)


def test_the_parts_of_the_fullest_moment_add_up_to_the_most_that_is_held_at_any_time(large):
    plan, trace = large
    place, rank = fullest(trace, plan.cluster), fullest(trace, plan.cluster).ranks[0]
    states = sum(trace.memory[rank][kind] for kind in STATES)
    most = states + int(trace.held.totals(rank)[1].max())
    besides = plan.cluster.device.besides(most)
    assert place.used == most + sum(besides.values())
    assert place.parts["allocator"] == besides["allocator"] == int(most * 0.03 / 0.97)
    assert place.parts["context"] == plan.cluster.device.reserved
    assert place.margin == place.room - place.used == 80 * GIB - place.used


def test_the_peak_is_not_above_the_sum_of_the_categories_peaks_and_below_it_where_they_come_apart(large):
    plan, trace = large
    held = trace.held
    logits = int(held.bytes[held.categories == held.names.index("logits")].max())
    for rank, size in by_rank(trace, plan.cluster).items():
        peaks = sum(trace.memory[rank].values())
        assert size <= peaks + logits + sum(plan.cluster.device.besides(peaks + logits).values())
    # gathered parameters are all there in turn, never at once with the most activations and the reductions
    first = [kind for kind in trace.memory[0] if kind not in STATES]
    assert {"activations", "gathered", "unreduced", "messages"} <= set(first)
    most = int(trace.held.totals(0)[1].max())
    assert most < sum(trace.memory[0][kind] for kind in first)


def test_the_moment_is_when_most_micro_batches_are_in_flight(plan_of):
    """GPipe keeps all of them until the first backward: that is the moment."""
    plan = plan_of(parallel={"pipeline": 2, "data": 1, "schedule": "gpipe"})
    trace = simulate(plan)
    place = fullest(trace, plan.cluster)
    row = plan.schedule.compute(place.ranks[0])
    last = int(row.microbatches[row.of(Kind.FORWARD)].max())
    stage = place.ranks[0]
    assert place.operation in {f"{stage}F{last}", f"{stage}B0"}
    assert 0 < place.at < trace.makespan
    before = [
        span.end for span in trace.spans if span.rank == place.ranks[0] and span.operation == f"{stage}F{last - 1}"
    ]
    assert place.at >= before[0]
    assert peak_in_flight(row) == row.of(*GIVES_WEIGHT_GRADIENT).sum() == last + 1


def test_the_last_stage_holds_logits_only_while_it_computes_the_loss(plan_of):
    plan = plan_of(parallel={"pipeline": 1, "data": 1}, train={"global_batch": 4, "microbatch": 4})
    trace = simulate(plan)
    held = trace.held.of(0)
    logits = held.bytes[held.categories == held.names.index("logits")]
    one = 4 * 256 * plan.model.vocabulary * 4  # tokens × vocabulary × 4 bytes of float32
    assert logits.tolist() == [one, 0, one, 0]
    assert "logits" not in trace.memory[0]  # no trainer accounts for what passes, so it is not compared
    assert fullest(trace, plan.cluster).parts["logits"] == one


def test_ranks_that_share_a_node_share_its_memory_at_one_time(plan_of):
    plan = plan_of(cluster="local-cpu")
    trace = simulate(plan)
    place = fullest(trace, plan.cluster)
    assert place.name == "node 0 (4 ranks together)"
    assert set(place.ranks) == {0, 1, 2, 3}
    totals = [trace.held.totals(rank) for rank in range(4)]
    times = np.unique(np.concatenate([each for each, _ in totals]))

    def at(rank, time):
        held_at, sizes = totals[rank]
        index = int(np.searchsorted(held_at, time, side="right"))
        return int(sizes[index - 1]) if index else 0

    states = sum(trace.memory[rank][kind] for rank in range(4) for kind in STATES)
    assert place.used == states + max(sum(at(rank, time) for rank in range(4)) for time in times)
    peaks = sum(sum(each.values()) for each in trace.memory.values())
    assert place.used - place.parts["logits"] < peaks


def test_what_is_given_back_at_an_instant_is_not_counted_with_what_is_taken_then():
    held = Changes(
        np.zeros(4, int), np.array([0.0, 1.0, 1.0, 2.0]), np.array([0, 0, 1, 1]), np.array([8, 0, 5, 0]), ("a", "b")
    )
    trace = Trace("predicted", as_columns([]), {0: {"parameters": Bytes(1), "a": Bytes(8), "b": Bytes(5)}}, held)
    assert held.steps().tolist() == [8, -8, 5, -5]
    place = fullest(trace, _bare())
    assert (place.used, place.parts, place.at) == (9, {"parameters": 1, "a": 8}, Seconds(float("-inf")))


def test_where_nothing_is_known_over_time_the_peaks_are_added_up():
    trace = Trace("measured", as_columns([]), {0: {"parameters": Bytes(3)}, 1: {"parameters": Bytes(4)}})
    place = fullest(trace, _bare())
    assert (place.name, place.used, place.at, place.moment) == ("rank 1", 4, None, "")


def test_the_bar_is_as_long_as_the_room_and_the_legend_says_all(large):
    plan, trace = large
    place = fullest(trace, plan.cluster)
    lines = _text(bar(place, columns=80, coloured=False))
    assert len(lines[0]) == 80
    assert lines[0].count(FREE) == pytest.approx(80 * place.margin / place.room, abs=1)
    assert lines[0].count("A") == pytest.approx(80 * place.parts["activations"] / place.room, abs=1)
    assert [line.split()[1] for line in lines[1:]] == [*place.parts, "free"]
    shares = [float(line.split()[-1].rstrip("%")) for line in lines[1:]]
    assert sum(shares) == pytest.approx(100, abs=0.5)


def test_in_colour_each_category_has_its_own_and_no_letters(large):
    plan, trace = large
    first, *legend = bar(fullest(trace, plan.cluster), columns=200, coloured=True)
    styles = [piece.style for piece in first[:-1]]
    assert len(set(styles)) == len(styles)
    assert all(piece.text.isspace() for piece in first[:-1])
    assert {line[0].style for line in legend[:-1]} >= set(styles)


def test_a_bar_of_what_does_not_fit_marks_where_the_room_ends(plan_of):
    plan = plan_of(
        model="gpt-22b", data={"sequence_length": 2048, "tokenizer": "none"}, train={"global_batch": 8, "microbatch": 2}
    )
    place = fullest(simulate(plan), plan.cluster)
    lines = _text(bar(place, columns=60, coloured=False))
    assert FREE not in lines[0]
    assert lines[1].index("|") == round(60 * place.room / place.used)
    assert verdict(place).startswith(f"Does not fit: {place.name} needs ")
    assert verdict(place).endswith("too much.")


def test_the_document_says_what_the_verdict_says(large):
    plan, trace = large
    place = fullest(trace, plan.cluster)
    found = document(place, by_rank(trace, plan.cluster))
    assert found["bytes"] == sum(found["made_of"].values()) == max(found["by_rank"].values())
    assert found["bytes"] + found["margin"] == found["room"]
    assert found["margin_share"] == pytest.approx(found["margin"] / found["room"])
    assert found["fits"] is True
    assert len(found["by_rank"]) == plan.layout.world


def _bare():
    """A cluster of one device with 10 bytes that loses none of them."""
    from headway.cluster.spec import Cluster, Device, Link
    from headway.units import BytesPerSecond, Dtype, FlopsPerSecond

    rates, link = {Dtype.FLOAT32: FlopsPerSecond(1.0)}, Link("wire", Seconds(0.0), BytesPerSecond(1.0))
    device = Device("bare", "cuda", Bytes(10), rates, rates, BytesPerSecond(1.0), Seconds(0.0))
    return Cluster("bare", 1, 2, device, link, link)
