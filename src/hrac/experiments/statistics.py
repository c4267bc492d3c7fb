"""Statistics of runs: final scores, interquartile means, bootstrap intervals, chances of improvement, steps to a threshold.

Pure functions on arrays. The score of a method is a statement about seeds, so seeds are what is resampled.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hrac.errors import HracError

CONFIDENCE = 0.95
RESAMPLES = 10_000
LAST = 0.1
"""The share of the evaluations, at the end of training, that make a final score."""
_NUMBERS_AT_ONCE = 10_000_000

Numbers = NDArray[np.float64]


class StatisticsError(HracError, ValueError):
    """Numbers that a statistic cannot be made of; the message says why."""


class Cell(NamedTuple):
    """One method on one task: a metric of all its seeds, at steps that all of them have."""

    task: str
    method: str
    seeds: tuple[int, ...]
    steps: NDArray[np.int64]
    """(n), increasing"""
    values: Numbers
    """(seeds, n)"""


class Estimate(NamedTuple):
    """A statistic over seeds with its 95 % interval; none if a sample has one seed only."""

    value: float
    interval: tuple[float, float] | None


def interquartile_mean(scores: Numbers, axis: int = -1) -> Numbers:
    """The mean of what is left without the lowest and the highest quarter, each rounded down.

    >>> float(interquartile_mean(np.array([9.0, 1.0, 2.0, 3.0])))  # without 1 and 9
    2.5
    >>> float(interquartile_mean(np.array([0.0, 0.0, 9.0])))  # a quarter of three seeds is none
    3.0
    """
    from scipy import stats  # half a second, which other commands need not wait

    return stats.trim_mean(scores, 0.25, axis=axis)


def improvement(x: Numbers, y: Numbers, axis: int = -1) -> Numbers:
    """P(X > Y) + P(X = Y) / 2 for a random seed of each sample.

    >>> float(improvement(np.array([3.0, 1.0]), np.array([2.0, 1.0])))  # more, more; less, equal
    0.625
    """
    x, y = np.moveaxis(x, axis, -1)[..., :, None], np.moveaxis(y, axis, -1)[..., None, :]
    return ((x > y) + 0.5 * (x == y)).mean(axis=(-2, -1))


def bootstrap(
    samples: Sequence[Numbers], statistic: Callable[..., Any], axis: int = -1, resamples: int = RESAMPLES
) -> tuple[Numbers, Numbers] | None:
    """The 95 % percentile interval of a statistic of samples, each resampled by itself along `axis`; the same at every call.

    None if a sample has one seed only: it says nothing of how seeds differ.
    """
    from scipy import stats

    if min(sample.shape[axis] for sample in samples) < 2:
        return None
    size = sum(sample.size for sample in samples) * max(sample.shape[axis] for sample in samples)  # at most, with all pairs
    result = stats.bootstrap(
        tuple(samples),
        statistic,
        n_resamples=resamples,
        batch=max(_NUMBERS_AT_ONCE // size, 1),
        vectorized=True,
        axis=axis,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    return result.confidence_interval.low, result.confidence_interval.high


def estimate(samples: Sequence[Numbers], statistic: Callable[..., Any]) -> Estimate:
    """A statistic of one-dimensional samples, with its interval. Samples of several tasks are resampled task by task."""
    bounds = bootstrap(samples, statistic)
    return Estimate(float(statistic(*samples)), None if bounds is None else (float(bounds[0]), float(bounds[1])))


def score(*tasks: Numbers) -> Estimate:
    """The interquartile mean over the seeds of a task, or over all seeds of several tasks whose scores are normalised."""
    return estimate(tasks, lambda *samples, axis=-1: interquartile_mean(np.concatenate(samples, axis=axis), axis))


def probability_of_improvement(x: Sequence[Numbers], y: Sequence[Numbers]) -> Estimate:
    """`improvement` of one method on another, given their scores by task; the mean over tasks."""

    def mean(*samples: Numbers, axis: int = -1) -> Any:
        pairs = zip(samples[::2], samples[1::2], strict=True)
        return np.mean([improvement(first, second, axis) for first, second in pairs], axis=0)

    return estimate([sample for pair in zip(x, y, strict=True) for sample in pair], mean)


def final_evaluations(evaluations: int, last: float = LAST) -> int:
    """How many evaluations make a final score: a share of them, at least one.

    >>> final_evaluations(96), final_evaluations(4)
    (10, 1)
    """
    if not 0 < last <= 1:
        raise StatisticsError(f"last must be more than 0 and at most 1, a share of the evaluations, got {last:g}")
    return max(round(last * evaluations), 1)


def final_scores(cell: Cell, last: float = LAST) -> Numbers:
    """(seeds): the mean of each seed's last evaluations, never its best ones."""
    return cell.values[:, -final_evaluations(len(cell.steps), last) :].mean(axis=1)


def at_common_steps(cells: Sequence[Cell]) -> list[Cell]:
    """The same cells at the steps that all of them have, so that all are measured equally often and equally late."""
    common = sorted(set.intersection(*(set(cell.steps.tolist()) for cell in cells)))
    if not common:
        names = ", ".join(dict.fromkeys(f"{cell.task} {cell.method}" for cell in cells))
        raise StatisticsError(f"{names}: there is no step at which all of them were evaluated")
    kept = [np.isin(cell.steps, common) for cell in cells]
    return [cell._replace(steps=cell.steps[at], values=cell.values[:, at]) for cell, at in zip(cells, kept, strict=True)]


def pooled(cells: Sequence[Cell]) -> Cell:
    """One cell with the seeds of all, at the steps that all of them have."""
    common = at_common_steps(cells)
    seeds = tuple(seed for cell in common for seed in cell.seeds)
    return common[0]._replace(seeds=seeds, values=np.concatenate([cell.values for cell in common]))


def steps_to(cell: Cell, threshold: float) -> Numbers:
    """(seeds): the step of the first evaluation at or above a threshold; infinite if there is none."""
    passed = cell.values >= threshold
    return np.where(passed.any(axis=1), cell.steps[passed.argmax(axis=1)], np.inf)
