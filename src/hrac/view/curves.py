"""Learning curves from run folders: the mean over seeds with its standard error."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from hrac.errors import HracError
from hrac.folder import log


class Curve(NamedTuple):
    """A run folder and its label."""

    label: str
    folder: Path


class Series(NamedTuple):
    """A metric over training: steps (n) and values (seeds, n)."""

    steps: NDArray[np.int64]
    values: NDArray[np.float64]

    @property
    def mean(self) -> NDArray[np.float64]:
        """Over seeds."""
        return self.values.mean(axis=0)

    @property
    def standard_error(self) -> NDArray[np.float64]:
        """Of the mean over seeds; zero for one seed."""
        seeds = len(self.values)
        return self.values.std(axis=0, ddof=1) / np.sqrt(seeds) if seeds > 1 else np.zeros(self.values.shape[1])


class NoSuchMetricError(HracError, ValueError):
    """A metric that a run folder does not have; the message names the metrics that it has."""


def read(folder: Path, metric: str) -> Series:
    """A metric of a run folder, at the steps that all seeds have."""
    rows = log.read(folder)
    table: dict[int, dict[int, float]] = {}
    for row in rows:
        if row.name == metric:
            table.setdefault(row.seed, {})[row.step] = row.value
    if not table:
        raise NoSuchMetricError(f"{folder} has no {metric!r}. Metrics are: {', '.join(sorted({row.name for row in rows}))}")
    steps = sorted(set.intersection(*(set(values) for values in table.values())))
    if not steps:
        raise NoSuchMetricError(f"{folder} has no step at which all of its {len(table)} seeds have {metric!r}")
    return Series(np.array(steps), np.array([[values[step] for step in steps] for values in table.values()]))


def draw(curves: Sequence[Curve], metric: str, path: Path) -> None:
    """Write a picture of one metric for several run folders."""
    figure = Figure(figsize=(6.0, 3.6), layout="constrained")
    panel(figure.subplots(), curves, metric)
    figure.savefig(path, dpi=130)


def panel(axis: Axes, curves: Sequence[Curve], metric: str, smooth: int = 1) -> None:
    """Draw curves into an axis; `smooth` is the number of points in a running mean."""
    for curve in curves:
        series = read(curve.folder, metric)
        mean, error = (_running_mean(values, smooth) for values in (series.mean, series.standard_error))
        (line,) = axis.plot(series.steps, mean, label=f"{curve.label} ({len(series.values)} seeds)", linewidth=1.6)
        axis.fill_between(series.steps, mean - error, mean + error, color=line.get_color(), alpha=0.2, linewidth=0)
    axis.set_xlabel("environment steps")
    axis.set_ylabel(metric)
    axis.xaxis.set_major_formatter(FuncFormatter(_short))
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9)


def _short(number: float, _: int) -> str:
    """A label on an axis: 500k, 1.5M."""
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:g}{name}"
    return f"{number:g}"


def _running_mean(values: NDArray[np.float64], points: int) -> NDArray[np.float64]:
    """A centred mean over `points` values, over fewer at the ends."""
    ones = np.ones(points)
    return np.convolve(values, ones, "same") / np.convolve(np.ones_like(values), ones, "same")
