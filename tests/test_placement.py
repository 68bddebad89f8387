"""The ZeRO family is one table."""

import pytest

from headway.placement import Placement, State, zero


@pytest.mark.parametrize(
    ("stage", "params", "grads", "optimizer"),
    [
        (0, "whole", "whole", "whole"),
        (1, "whole", "whole", "cut"),
        (2, "whole", "cut", "cut"),
        (3, "cut", "cut", "cut"),
    ],
)
def test_each_zero_stage_is_one_row_of_the_table(stage, params, grads, optimizer):
    expected = f"params {params} on device, grads {grads} on device, optimizer {optimizer} on device"
    assert str(zero(stage)) == expected


def test_a_placement_names_the_tier_of_each_state():
    placement = Placement(State(), State(cut=True, tier="host"), State(cut=True, tier="disk"))
    assert str(placement) == "params whole on device, grads cut on host, optimizer cut on disk"
