"""Rates: max-min fair as linear programs have it, within capacity, and played until every byte is moved."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from headway.fabric.rates import Uses, max_min, play


def _uses(*flows):
    """Flows as lists of links, or of (link, weight)."""
    rows = [
        (flow, *(use if isinstance(use, tuple) else (use, 1.0))) for flow, links in enumerate(flows) for use in links
    ]
    flow, link, weight = zip(*rows, strict=True)
    return Uses(len(flows), np.array(flow, np.int32), np.array(link, np.int32), np.array(weight, float))


@st.composite
def cases(draw):
    """Capacities of a few links, and flows over some of them with weights, some of which repeat a link."""
    links, flows = draw(st.integers(1, 6)), draw(st.integers(1, 7))
    capacity = np.array(draw(st.lists(st.sampled_from([1.0, 2.0, 3.5, 10.0]), min_size=links, max_size=links)))
    use = st.tuples(st.integers(0, links - 1), st.sampled_from([0.25, 0.5, 1.0, 1.0, 2.0]))
    return capacity, _uses(*draw(st.lists(st.lists(use, min_size=1, max_size=4), min_size=flows, max_size=flows)))


def _random(number):
    """One of hundreds of random cases, larger than hypothesis draws them."""
    random = np.random.default_rng(number)
    links, flows = random.integers(2, 7), random.integers(2, 9)
    many = int(random.integers(flows, 4 * flows))
    flow = np.concatenate([np.arange(flows), random.integers(flows, size=many)]).astype(np.int32)
    link = random.integers(links, size=len(flow)).astype(np.int32)
    weight = random.choice([0.1, 0.5, 1.0, 3.0], size=len(flow))
    return random.uniform(0.5, 20, links).round(int(random.integers(3))) + 0.5, Uses(int(flows), flow, link, weight)


def _matrix(capacity, uses):
    """[links, flows]: what a flow takes of a link at rate 1."""
    matrix = np.zeros((len(capacity), uses.flows))
    np.add.at(matrix, (uses.link, uses.flow), uses.weight)
    return matrix


def _lexicographic(capacity, uses):
    """Max-min rates by a sequence of linear programs: raise the least rate, then fix those that cannot be raised.

    Flows that can be raised alone can be raised together by a little, so one program finds all of them.
    """
    matrix, fixed = _matrix(capacity, uses), np.zeros(uses.flows)
    free = np.ones(uses.flows, bool)
    while free.any():
        least = -_program(matrix, capacity, [*fixed[~free]], free, np.inf, 0.0).fun
        little = 1e-3 * least
        raised = _program(matrix, capacity, [*fixed[~free]], free, little, least * (1 - 1e-9)).x[-int(free.sum()) :]
        stays = np.flatnonzero(free)[raised < little / 100]
        fixed[stays] = least
        free[stays] = False
    return fixed


def _program(matrix, capacity, fixed, free, most, least):
    """Rates, then how far above `least` each free flow is, at most `most`, in sum the most (inf: all alike)."""
    flows, count = matrix.shape[1], int(free.sum())
    together = most == np.inf
    extra = np.full((count, 1), 1.0) if together else np.eye(count)
    above = np.concatenate([-np.eye(flows)[free], extra], axis=1)
    bounds = [(0, None)] * flows
    for flow, rate in zip(np.flatnonzero(~free), fixed, strict=True):
        bounds[flow] = (rate, rate)
    found = linprog(
        np.concatenate([np.zeros(flows), -np.ones(extra.shape[1])]),
        np.concatenate([np.concatenate([matrix, np.zeros((len(matrix), extra.shape[1]))], axis=1), above]),
        np.concatenate([capacity * (1 + 1e-9), np.full(count, -least)]),
        bounds=bounds + [(0, None if together else most)] * extra.shape[1],
    )
    assert found.success, found.message
    return found


@pytest.mark.parametrize("tens", range(20))
def test_rates_are_those_of_a_sequence_of_linear_programs(tens):
    """Two hundred cases."""
    for number in range(10 * tens, 10 * tens + 10):
        capacity, uses = _random(number)
        rates, _ = max_min(capacity, uses)
        assert rates == pytest.approx(_lexicographic(capacity, uses), rel=1e-6), number


@given(cases())
def test_rates_of_small_cases_with_ties_are_those_of_linear_programs(case):
    assert max_min(*case)[0] == pytest.approx(_lexicographic(*case), rel=1e-6)


@given(cases())
def test_no_link_carries_more_than_its_capacity_and_each_flow_is_bound_by_a_full_one(case):
    capacity, uses = case
    rates, bound = max_min(capacity, uses)
    loads = uses.loads(rates, len(capacity))
    assert (loads <= capacity * (1 + 1e-9)).all()
    assert loads[bound] == pytest.approx(capacity[bound])
    matrix = _matrix(capacity, uses)
    for flow, link in enumerate(bound):
        assert matrix[link, flow] > 0
        # the bottleneck of max-min fairness (Bertsekas and Gallager, 6.5.2): nobody has more on it
        assert rates[flow] >= rates[matrix[link] > 0].max() * (1 - 1e-9)


@given(cases(), st.integers(0, 5), st.floats(0.1, 10))
def test_more_capacity_of_a_link_never_lowers_the_least_rate(case, link, more):
    capacity, uses = case
    raised = capacity.copy()
    raised[link % len(capacity)] += more
    assert max_min(raised, uses)[0].min() >= max_min(capacity, uses)[0].min() * (1 - 1e-9)


@given(cases(), st.floats(1e-3, 1e12))
def test_rates_scale_as_capacities_do(case, times):
    capacity, uses = case
    assert max_min(times * capacity, uses)[0] == pytest.approx(times * max_min(capacity, uses)[0], rel=1e-9)


def test_a_flow_that_uses_no_link_has_no_rate_and_no_bound():
    rates, bound = max_min(np.array([1.0]), Uses(2, np.array([1]), np.array([0]), np.array([1.0])))
    assert rates.tolist() == [0.0, 1.0]
    assert bound.tolist() == [-1, 0]


def test_what_is_used_with_weight_0_bounds_nobody():
    rates, bound = max_min(np.array([0.0, 6.0]), _uses([(0, 0.0), (1, 2.0)], [0], [(0, 0.0)]))
    assert rates.tolist() == [3.0, 0.0, 0.0]
    assert bound.tolist() == [1, 0, -1]


def test_a_dead_link_gives_nothing_and_leaves_the_others_whole():
    rates, _ = max_min(np.array([0.0, 6.0]), _uses([0, 1], [1], [1]))
    assert rates.tolist() == [0.0, 3.0, 3.0]


def test_the_worked_example_of_three_flows_on_two_links():
    """Two flows share a link of 10 with one that a link of 4 halves: 2 and 2 there, which leaves 8."""
    rates, bound = max_min(np.array([10.0, 4.0]), _uses([0], [0, 1], [1]))
    assert rates.tolist() == [8.0, 2.0, 2.0]
    assert bound.tolist() == [0, 1, 1]


def test_three_flows_end_one_after_another_as_reckoned_by_hand():
    """Link 0 of 12 carries all, link 1 of 2 the last. 5, 5, 2 until 50 bytes are gone at 10; then 10, 2 until 150 more.

    The second has moved 50 by 10 s, and 10 a second after that until 200 are gone at 25 s; the third goes on at 2: 100
    bytes take 50 s.
    """
    ends = play(np.array([12.0, 2.0]), _uses([0], [0], [0, 1]), np.array([50.0, 200.0, 100.0])).ends
    assert ends.tolist() == [10.0, 25.0, 50.0]


def test_flows_that_end_together_are_one_event():
    """A thousand flows with sizes that differ by rounding only end as one: rates are found once."""
    sizes = np.full(1000, 7.0) * (1 + 1e-9 * np.random.default_rng(0).random(1000))
    ends = play(np.array([1000.0]), _uses(*[[0]] * 1000), sizes).ends
    assert len(set(ends.tolist())) == 1
    assert ends[0] == pytest.approx(7.0, rel=1e-8)
    assert len(set(play(np.array([1000.0]), _uses(*[[0]] * 10), np.arange(1.0, 11)).ends.tolist())) == 10


@given(cases(), st.integers(0, 2**16))
def test_all_bytes_are_moved_and_no_link_moves_more_than_it_can_in_the_time(case, seed):
    capacity, uses = case
    sizes = np.random.default_rng(seed).uniform(0, 10, uses.flows)
    ends = play(capacity, uses, sizes).ends
    assert np.isfinite(ends).all()
    moved = _matrix(capacity, uses) @ sizes
    assert (moved <= capacity * ends.max() * (1 + 1e-5)).all()
    # nothing ends before what its links alone would need, nor after all bytes would go one after another
    alone = 1 / (capacity[:, None] / np.maximum(_matrix(capacity, uses), 1e-300)).min(axis=0)
    assert (ends >= sizes * alone * (1 - 1e-5)).all()
    assert ends.max() <= (sizes * alone).sum() * (1 + 1e-5)


def _event_by_event(capacity, uses, sizes):
    """When flows end, with rates found anew whenever one of them does."""
    left, ends, now = sizes.copy(), np.zeros(uses.flows), 0.0
    while (active := left > 0).any():
        rates, _ = max_min(capacity, uses.of(active))
        takes = np.where(active, left / np.where(active, rates, 1.0), np.inf)
        first = int(np.argmin(takes))
        now += takes[first]
        left = np.where(active, left - rates * takes[first], 0.0)
        left[first], ends[first] = 0.0, now
        left[left < 1e-9 * sizes], ends[active & (left < 1e-9 * sizes)] = 0.0, now
    return ends


@pytest.mark.parametrize("tens", range(10))
def test_ends_are_those_of_finding_rates_anew_whenever_a_flow_ends(tens):
    """Sizes that differ, equal ones, and those that are equal once the smaller ones have ended."""
    for number in range(10 * tens, 10 * tens + 10):
        capacity, uses = _random(number)
        flows = np.arange(uses.flows)
        for sizes in (1.0 + flows % 4, np.full(uses.flows, 5.0), np.where(flows % 3, 5.0, 0.0)):
            assert play(capacity, uses, sizes).ends == pytest.approx(_event_by_event(capacity, uses, sizes), rel=1e-4)


def test_one_bottleneck_is_busy_until_the_last_byte():
    sizes = np.array([3.0, 1.0, 4.0, 1.5, 9.0])
    ends = play(np.array([2.0]), _uses(*[[0]] * 5), sizes).ends
    assert ends.max() == pytest.approx(sizes.sum() / 2)
    assert np.argsort(ends).tolist() == np.argsort(sizes, kind="stable").tolist()


def test_a_flow_over_a_dead_link_never_ends_and_one_without_bytes_has():
    ends = play(np.array([0.0, 2.0]), _uses([0], [1], [1]), np.array([1.0, 4.0, 0.0])).ends
    assert ends.tolist() == [np.inf, 2.0, 0.0]


def test_some_of_the_flows_keep_their_numbers():
    uses = _uses([0, 1], [1], [0]).of(np.array([True, False, True]))
    assert uses.flows == 3
    assert uses.flow.tolist() == [0, 0, 2]
    assert uses.loads(np.array([1.0, 5.0, 2.0]), 2).tolist() == [3.0, 1.0]
