"""Who holds what: every block once, every rank at its stage, every FLOP counted."""

import pytest

from headway.report.holdings import holdings


@pytest.mark.parametrize(("schedule", "chunks"), [("1f1b", 1), ("interleaved", 2)])
def test_stages_share_out_the_model_and_the_ranks(schedule, chunks, plan_of):
    plan = plan_of(parallel={"chunks": chunks, "schedule": schedule})
    found = holdings(plan)
    assert sum(each.share for each in found) == pytest.approx(1)
    assert [each.ranks for each in found] == [(0, 1), (2, 3)] * chunks
    shared = 256 * 128  # the token embedding stands at both ends
    assert sum(each.parameters for each in found) == sum(unit.numel for unit in plan.units) + shared
    assert found[0].blocks.startswith("embedding, layer")
