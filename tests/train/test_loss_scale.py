"""The loss scale: sequences of finite and overflowing steps, as Megatron and DeepSpeed answer them."""

from itertools import accumulate

import pytest

from headway.plan.job import Train
from headway.train.loss_scale import FLOOR, HYSTERESIS, INITIAL, LossScale, after, first
from headway.units import Dtype


def _values(scale, steps):
    """The scale behind each step: `o` overflows, `.` does not."""
    states = accumulate(steps, lambda state, step: after(state, overflowed=step == "o"), initial=scale)
    return [state.value for state in states][1:]


def test_ten_overflows_take_it_from_sixteen_to_its_floor_where_it_stays():
    assert _values(LossScale(16.0, patience=1), "o" * 10) == [8, 4, 2, 1, 1, 1, 1, 1, 1, 1]


def test_it_is_exhausted_by_the_overflow_that_comes_at_the_floor():
    scale, found = LossScale(16.0, patience=1), []
    for _ in range(6):
        found.append(scale.exhausted)
        scale = after(scale, overflowed=True)
    assert found == [False, False, False, False, True, True]


def test_one_overflow_is_forgiven_and_every_other_soon_after_it_is_not():
    assert HYSTERESIS == 2
    assert _values(LossScale(16.0), "oooo") == [16, 8, 4, 2]
    assert _values(LossScale(16.0), "o.o.o") == [16, 16, 8, 8, 4]


def test_it_doubles_after_a_window_of_steps_without_overflow_and_again_after_the_next():
    assert _values(LossScale(16.0, window=3), "......") == [16, 16, 32, 32, 32, 64]


def test_an_overflow_begins_the_window_anew():
    assert _values(LossScale(16.0, window=3), "..o...") == [16, 16, 16, 16, 16, 32]


def test_growth_gives_patience_back():
    assert _values(LossScale(16.0, window=2), "oo..oo") == [16, 8, 8, 16, 16, 8]


def test_a_fixed_scale_never_moves_nor_runs_out():
    fixed = first(Train(precision=Dtype.FLOAT16, loss_scale=1.0))
    assert _values(fixed, "o" * 9 + "." * 5000) == [1.0] * 5009
    assert not fixed.exhausted


@pytest.mark.parametrize("precision", [Dtype.FLOAT32, Dtype.FLOAT64, Dtype.BFLOAT16])
def test_other_precisions_have_none(precision):
    assert first(Train(precision=precision)) == LossScale(1.0, dynamic=False)


def test_a_job_in_float16_starts_high_with_its_own_window():
    assert first(Train(precision=Dtype.FLOAT16, loss_scale_window=7)) == LossScale(INITIAL, window=7)
    assert (INITIAL, FLOOR) == (65536, 1)
