"""Accuracy: errors, rank correlation with ties, and picks within sweeps, against values worked out by hand."""

import pytest

from headway.advise.accuracy import Pair, errors, ranks, spearman, sweeps


def pairs(*values):
    return [Pair(f"row {i}", predicted, published) for i, (predicted, published) in enumerate(values)]


def test_errors_are_of_the_prediction_over_what_was_published():
    found = errors(pairs((1.1, 1.0), (1.5, 2.0), (3.0, 3.0), (2.0, 1.0)))
    assert found.rows == 4
    assert found.mean == pytest.approx((0.1 + 0.25 + 0 + 1) / 4, rel=1e-12)
    assert found.median == pytest.approx((0.1 + 0.25) / 2, rel=1e-12)
    assert found.bias == pytest.approx((0.1 - 0.25 + 0 + 1) / 4, rel=1e-12)
    assert (found.worst.id, found.worst.error) == ("row 3", 1.0)


def test_nothing_compared_has_no_errors_and_no_ranks():
    assert errors([]) is None
    found = sweeps([])
    assert (found.count, found.spearman, found.loss, found.worst) == (0, None, None, None)


def test_equal_values_share_the_average_of_their_ranks():
    assert ranks([3.0, 1.0, 3.0, 3.0, 2.0]).tolist() == [4.0, 1.0, 4.0, 4.0, 2.0]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([(1, 10), (2, 20), (3, 30)], 1.0),
        ([(1, 30), (2, 20), (3, 10)], -1.0),
        ([(1, 1), (2, 2), (3, 4), (4, 3)], 1 - 6 * 2 / (4 * 15)),  # 1 − 6 Σd² / n(n² − 1)
        ([(1, 1), (1, 2), (2, 3)], 1.5 / 3**0.5),  # ranks 1.5 1.5 3 beside 1 2 3
        ([(1, 1), (1, 2), (1, 3)], 0.0),
        ([(1, 2), (2, 2), (3, 2)], None),
    ],
)
def test_rank_correlation_with_ties(values, expected):
    found = spearman(pairs(*values))
    assert found == (None if expected is None else pytest.approx(expected, abs=1e-12))


def test_sweeps_of_three_rows_and_more_count_weighted_by_their_rows():
    right, wrong = pairs((1, 1), (2, 2), (3, 3), (4, 4), (5, 5)), pairs((3, 1), (2, 2), (1, 3))
    found = sweeps([right, wrong, pairs((2, 1), (1, 2)), pairs((1, 1))])
    assert (found.count, found.rows) == (2, 8)
    assert found.spearman == pytest.approx((5 * 1 + 3 * -1) / 8, rel=1e-12)


def test_the_row_ranked_first_is_compared_with_the_best_one_and_of_equal_predictions_the_slowest_counts():
    near = pairs((1, 1.04), (2, 1.0), (3, 9))
    tied = pairs((1, 1.0), (1, 1.5), (3, 9))
    found = sweeps([near, tied])
    assert found.near == 1
    assert found.loss == pytest.approx((0.04 + 0.5) / 2, rel=1e-9)
    assert (found.worst.id, found.worst.predicted, found.worst.published) == ("row 1", 1.5, 1.0)
