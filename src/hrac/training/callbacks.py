"""What a user's code sees of a training while it runs, and how it can stop it."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hrac.errors import HracError


@dataclasses.dataclass(frozen=True)
class Moment:
    """A training at the moment of an evaluation."""

    folder: Path
    """The run folder."""
    step: int
    """Environment steps of each run."""
    seeds: tuple[int, ...]
    metrics: Mapping[str, NDArray[np.floating]]
    """The newest value of each metric (docs/metrics.md), one per seed; NaN where a seed has none."""
    best: Mapping[int, Mapping[str, float]]
    """Of each seed the step and the scores of its best evaluation so far."""
    save_policies: Callable[[str | Path], None] = dataclasses.field(repr=False)
    """Writes the present policies into a folder: one file per seed, to `hrac.load`."""

    def mean(self, metric: str) -> float:
        """The mean of a metric over the seeds that have it, NaN while none has."""
        return mean_of_seeds(self.metrics, metric)


def mean_of_seeds(metrics: Mapping[str, NDArray[np.floating]], metric: str) -> float:
    """The mean of a metric over the seeds that have it, NaN if none has."""
    values = np.asarray(metrics.get(metric, np.nan))
    return float(values[~np.isnan(values)].mean()) if not np.isnan(values).all() else np.nan


Callback: TypeAlias = Callable[[Moment], bool | None]
"""Called after each evaluation. If it returns True, the training stops with a checkpoint."""


class StopAt:
    """A callback that stops a training once the mean of a metric over seeds is at a value or above, in so many evaluations in a
    row."""

    def __init__(self, metric: str, value: float, evaluations: int = 1) -> None:
        if evaluations < 1:
            raise HracError(f"evaluations must be at least 1, got {evaluations}")
        self._metric, self._value, self._evaluations, self._row = metric, value, evaluations, 0

    def __call__(self, moment: Moment) -> bool:
        """Whether to stop."""
        self._row = self._row + 1 if moment.mean(self._metric) >= self._value else 0
        return self._row >= self._evaluations

    def __repr__(self) -> str:
        return f"StopAt({self._metric!r}, {self._value:g}, evaluations={self._evaluations})"
