"""Statistics against numbers worked out by hand, and intervals against samples whose answer is known."""

import numpy as np
import pytest

from hrac.experiments import statistics
from hrac.experiments.statistics import Cell, StatisticsError


def _cell(values, steps=None, task="maze", method="hrac"):
    values = np.array(values, float)
    steps = np.arange(1, values.shape[1] + 1) * 100 if steps is None else np.array(steps)
    return Cell(task, method, tuple(range(len(values))), steps, values)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([7.0], 7.0),
        ([1.0, 2.0], 1.5),
        ([0.0, 0.0, 9.0], 3.0),  # a quarter of three is none
        ([100.0, 1.0, 2.0, -50.0], 1.5),
        ([5.0, 4.0, 3.0, 2.0, 100.0], 4.0),  # 3, 4, 5
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 800.0], 4.5),  # 3, 4, 5, 6
    ],
)
def test_the_interquartile_mean_leaves_out_a_quarter_at_each_end(scores, expected):
    assert statistics.interquartile_mean(np.array(scores)) == expected
    columns = np.array([scores, scores]).T
    np.testing.assert_array_equal(statistics.interquartile_mean(columns, axis=0), [expected, expected])


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        ([2.0, 3.0], [0.0, 1.0], 1.0),
        ([0.0, 1.0], [2.0, 3.0], 0.0),
        ([1.0, 1.0, 1.0], [1.0], 0.5),
        ([1.0, 3.0], [0.0, 2.0, 3.0], (1 + 0 + 0 + 1 + 1 + 0.5) / 6),
    ],
)
def test_improvement_counts_all_pairs_and_half_of_the_ties(x, y, expected):
    x, y = np.array(x), np.array(y)
    assert statistics.improvement(x, y) == pytest.approx(expected)
    assert statistics.improvement(y, x) == pytest.approx(1 - expected)


def test_improvement_over_tasks_is_the_mean_of_the_tasks():
    low, high, other = np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([3.0, 5.0])
    result = statistics.probability_of_improvement([high, high], [low, other])
    assert result.value == (1.0 + (0 + 0.5 + 0 + 1) / 4) / 2
    assert result.interval[0] <= result.value <= result.interval[1]


def test_the_final_score_is_the_mean_of_the_last_evaluations_and_not_the_best():
    cell = _cell([[9.0] * 18 + [1.0, 2.0], [0.0] * 18 + [4.0, 4.0]])
    np.testing.assert_array_equal(statistics.final_scores(cell), [1.5, 4.0])  # 10 % of 20 are 2
    np.testing.assert_array_equal(statistics.final_scores(cell, last=0.01), [2.0, 4.0])  # at least one
    np.testing.assert_allclose(statistics.final_scores(cell, last=1.0), [(162 + 3) / 20, 8 / 20])
    for last in (0.0, -1.0, 1.1, float("nan")):
        with pytest.raises(StatisticsError, match="last must be more than 0 and at most 1"):
            statistics.final_scores(cell, last)


def test_steps_to_a_threshold_are_those_of_the_first_evaluation_at_it():
    cell = _cell([[0.0, 5.0, 1.0], [6.0, 0.0, 0.0], [4.9, 4.9, 4.9]])
    np.testing.assert_array_equal(statistics.steps_to(cell, 5.0), [200, 100, np.inf])


def test_cells_are_compared_where_all_were_evaluated():
    short, coarse = _cell([[1.0, 2.0, 3.0, 4.0]]), _cell([[10.0, 20.0, 30.0]], steps=[100, 300, 500])
    first, second = statistics.at_common_steps([short, coarse])
    assert first.steps.tolist() == second.steps.tolist() == [100, 300]
    np.testing.assert_array_equal(first.values, [[1.0, 3.0]])
    np.testing.assert_array_equal(second.values, [[10.0, 20.0]])
    with pytest.raises(StatisticsError, match="maze hrac, maze flat: there is no step at which all of them were evaluated"):
        statistics.at_common_steps([short, _cell([[1.0]], steps=[50], method="flat")])


def test_pooled_cells_have_all_seeds_where_all_were_evaluated():
    first, second = _cell([[1.0, 2.0, 3.0, 4.0]]), _cell([[10.0, 20.0, 30.0]], steps=[100, 300, 500])
    pooled = statistics.pooled([first, second])
    assert pooled.steps.tolist() == [100, 300]
    assert pooled.seeds == first.seeds + second.seeds
    np.testing.assert_array_equal(pooled.values, [[1.0, 3.0], [10.0, 20.0]])


def test_one_seed_has_no_interval():
    assert statistics.score(np.array([3.0])) == (3.0, None)
    assert statistics.probability_of_improvement([np.array([3.0, 4.0])], [np.array([1.0])]) == (1.0, None)


def test_equal_seeds_have_an_interval_of_no_width():
    assert statistics.score(np.full(5, 6.0)) == (6.0, (6.0, 6.0))


def test_an_interval_repeats_itself():
    scores = np.array([1.0, 4.0, 2.0, 8.0, 5.0])
    assert statistics.score(scores) == statistics.score(scores)


def test_the_interval_of_two_seeds_is_known():
    """Their mean is the low one, the high one or half way with probabilities 1/4, 1/4, 1/2: 2.5 % are at each end."""
    assert statistics.score(np.array([0.0, 1.0])) == (0.5, (0.0, 1.0))


def test_tasks_are_resampled_by_themselves():
    """Two tasks without differences between seeds leave nothing to resample, though their scores differ."""
    assert statistics.score(np.zeros(4), np.ones(4)) == (0.5, (0.5, 0.5))


def test_about_95_of_100_intervals_hold_the_truth():
    rng = np.random.default_rng(7)
    samples = rng.normal(3.0, 2.0, (40, 500))  # the interquartile mean of a symmetric distribution is its middle
    low, high = statistics.bootstrap([samples], statistics.interquartile_mean, axis=0, resamples=1_000)
    assert 0.90 < ((low < 3.0) & (high > 3.0)).mean() < 0.98  # a little less than 95 %: a known bias of the method
    np.testing.assert_allclose((high - low).mean(), 2 * 1.96 * 2.0 * 1.09 / np.sqrt(40), rtol=0.1)


def test_about_95_of_100_intervals_hold_the_probability_of_improvement():
    rng = np.random.default_rng(8)
    x, y = rng.normal(1.0, 1.0, (300, 25)), rng.normal(0.0, 1.0, (300, 25))
    low, high = statistics.bootstrap([x, y], statistics.improvement, resamples=500)
    truth = 0.7602  # of a normal variable with mean 1 and variance 2 to be above 0
    assert 0.89 < ((low < truth) & (high > truth)).mean() < 0.99
