"""Layouts: axes, coordinates and groups."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import PlanError
from headway.layout import AXES, Layout, layout, parse

_SIZES = st.integers(1, 4)
_LAYOUTS = st.permutations(AXES).flatmap(
    lambda axes: st.tuples(*[_SIZES] * len(axes)).map(lambda sizes: Layout(tuple(zip(axes, sizes, strict=True))))
)


@given(_LAYOUTS)
def test_rank_is_the_inverse_of_coord(place):
    assert [place.rank(place.coord(rank)) for rank in range(place.world)] == list(range(place.world))
    coords = [tuple(place.coord(rank).items()) for rank in range(place.world)]
    assert len(set(coords)) == place.world


@given(_LAYOUTS, st.sets(st.sampled_from(AXES)))
def test_groups_partition_the_world(place, axes):
    groups = place.groups(*axes)
    assert sorted(itertools.chain(*groups)) == list(range(place.world))
    expected = 1
    for axis in axes:
        expected *= place.size(axis)
    assert {len(group) for group in groups} == {expected}
    assert [group[0] for group in groups] == sorted(group[0] for group in groups)


@given(_LAYOUTS, st.sets(st.sampled_from(AXES)), st.integers(0, 255))
def test_a_ranks_group_is_the_one_of_the_groups_that_it_is_in(place, axes, number):
    rank = number % place.world
    assert place.group(rank, *axes) == next(group for group in place.groups(*axes) if rank in group)


@given(_LAYOUTS)
def test_the_text_of_a_layout_reads_back(place):
    assert parse(str(place)) == place


def test_the_order_is_megatrons():
    """The example of Megatron's `initialize_model_parallel`: 16 ranks, tensor 2, pipeline 4."""
    place = layout(tensor=2, pipeline=4, data=2)
    assert place.world == 16
    assert place.groups("data") == ((0, 2), (1, 3), (4, 6), (5, 7), (8, 10), (9, 11), (12, 14), (13, 15))
    assert place.groups("tensor") == tuple((i, i + 1) for i in range(0, 16, 2))
    assert place.groups("pipeline") == ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
    assert place.groups("tensor", "pipeline")[0] == (0, 1, 4, 5, 8, 9, 12, 13)


def test_groups_along_no_axis_are_single_ranks_and_along_all_axes_the_world():
    place = layout(data=2, pipeline=3)
    assert place.groups() == tuple((rank,) for rank in range(6))
    assert place.groups(*AXES) == (tuple(range(6)),)


@pytest.mark.parametrize("size", [0, -1])
def test_an_axis_without_ranks_is_refused_by_its_key(size):
    with pytest.raises(PlanError, match=rf"parallel\.data must be at least 1, got {size}\."):
        layout(data=size)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tensor=1 context=1 data=2",
        "tensor=1 context=1 data=2 data=2 pipeline=1",
        "tensor=1 context=1 data=2 pipeline=1 expert=2",
        "tensor=1, context=1, data=2, pipeline=-1",
    ],
)
def test_text_that_is_no_layout_is_refused(text):
    with pytest.raises(PlanError):
        parse(text)
