"""Shares: every element that several ranks hold is written by one of them, and the work is spread."""

import pytest

from headway.plan.shares import LEAST, share

MODEL = {"layers": 4, "hidden": 16, "heads": 4, "feed_forward": 24, "vocabulary": 97, "positions": 12}
LAYOUTS = [(1, 1, 1), (1, 1, 4), (1, 2, 2), (2, 2, 1), (2, 2, 2), (4, 1, 2), (2, 1, 3)]


def _plan(plan_of, tensor, pipeline, data, *, tied=True):
    parallel = {"tensor": tensor, "pipeline": pipeline, "data": data, "unit_bytes": 0}
    train = {"global_batch": 12, "microbatch": 1}
    return plan_of(
        model=MODEL | {"tied": tied}, data={"sequence_length": 8, "tokenizer": "none"}, parallel=parallel, train=train
    )


def _holders(plan, unit):
    return [rank for rank in range(plan.layout.world) if unit in plan.units_of_rank(rank)]


def _whole(plan, unit):
    return dict.fromkeys(_holders(plan, unit), slice(0, unit.numel))


def _cut(plan, unit):
    """Cut over the data axis, each data rank the same padded number of elements: what ZeRO keeps of the optimizer."""
    data = plan.layout.size("data")
    each = -(-unit.numel // data)
    places = {rank: plan.layout.coord(rank)["data"] for rank in _holders(plan, unit)}
    return {rank: slice(each * place, each * (place + 1)) for rank, place in places.items()}


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("owned", [_whole, _cut])
@pytest.mark.parametrize("least", [1, 50, LEAST])
def test_every_element_is_written_once_by_a_rank_that_keeps_it(plan_of, layout, owned, least):
    plan = _plan(plan_of, *layout)
    for unit in plan.units:
        keeps = owned(plan, unit)
        written = {}
        for rank in _holders(plan, unit):
            tensor = plan.layout.coord(rank)["tensor"]
            for window in share(plan, unit, rank, keeps, least=least):
                assert keeps[rank].start <= window.start < window.stop <= min(keeps[rank].stop, unit.numel)
                for held, copies in unit.copies:
                    for element in range(max(window.start, held.start), min(window.stop, held.stop)):
                        written.setdefault((element, tensor if copies == 1 else 0), []).append(rank)
        assert all(len(ranks) == 1 for ranks in written.values())
        wanted = sum(
            (held.stop - held.start) * (1 if copies > 1 else plan.layout.size("tensor")) for held, copies in unit.copies
        )
        assert len(written) == wanted, unit.name


def test_replicas_share_large_units_evenly_and_small_ones_in_turn(plan_of):
    plan = _plan(plan_of, 1, 1, 4)
    for unit in plan.units:
        sizes = [
            sum(w.stop - w.start for w in share(plan, unit, rank, _whole(plan, unit), least=1)) for rank in range(4)
        ]
        assert max(sizes) - min(sizes) <= 1
    small = [[bool(share(plan, unit, rank, _whole(plan, unit))) for rank in range(4)] for unit in plan.units]
    assert all(sum(writers) == 1 for writers in small)
    assert {writers.index(True) for writers in small} == {0, 1, 2, 3}


def test_a_tied_weight_that_two_pipeline_ranks_hold_is_shared_by_both(plan_of):
    plan = _plan(plan_of, 1, 2, 1)
    shared = plan.units[-1]
    halves = [share(plan, shared, rank, _whole(plan, shared), least=1) for rank in (0, 1)]
    assert {len(each) for each in halves} == {1}
    assert sorted((each.start, each.stop) for (each,) in halves) == [
        (0, shared.numel // 2),
        (shared.numel // 2, shared.numel),
    ]
