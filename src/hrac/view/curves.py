"""Learning curves: the interquartile mean over seeds with its 95 % bootstrap interval."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from hrac.experiments.statistics import bootstrap, interquartile_mean
from hrac.folder import files
from hrac.folder.reading import read_series

RESAMPLES = 2_000


class Curve(NamedTuple):
    """A metric over training with a label."""

    label: str
    steps: NDArray[np.int64]
    """(n)"""
    values: NDArray[np.float64]
    """(seeds, n)"""


def of_folder(label: str, folder: Path, metric: str) -> Curve:
    """The curve of one run folder."""
    series = read_series(folder, metric)
    return Curve(label, series.steps, series.values)


def draw(panels: Mapping[str, Sequence[Curve]], metric: str, path: Path, seeds: bool = False) -> None:
    """Write a picture of one metric: a panel per title, at most three in a row. A label has the same colour in all of them."""
    labels = dict.fromkeys(curve.label for curves in panels.values() for curve in curves)
    colours = {label: f"C{i}" for i, label in enumerate(labels)}
    columns = min(len(panels), 3)
    rows = math.ceil(len(panels) / columns)
    height = 3.3 + 0.2 * max(map(len, panels.values()))  # an axis and its legend
    figure = Figure(figsize=(6.0 if columns == 1 else 4.6 * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, (title, curves) in zip(axes, panels.items(), strict=False):
        panel(axis, curves, metric, colours=[colours[curve.label] for curve in curves], seeds=seeds)
        axis.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.18))
        axis.set_title(title)
    for axis in axes[len(panels) :]:
        axis.remove()
    with files.atomic(path) as file:
        figure.savefig(file, format=path.suffix[1:], dpi=130)


def panel(
    axis: Axes, curves: Sequence[Curve], metric: str, smooth: int = 1, seeds: bool = False, colours: Sequence[str] | None = None
) -> None:
    """Draw curves into an axis; `smooth` is the number of points in a running mean of each seed, `seeds` shows them too."""
    for i, curve in enumerate(curves):
        values = np.array([_running_mean(seed, smooth) for seed in curve.values])
        number = f"{len(values)} seeds" if len(values) > 1 else "1 seed"
        middle, label = interquartile_mean(values, axis=0), f"{curve.label} ({number})"
        colour, marker = colours[i] if colours else f"C{i}", "" if len(curve.steps) > 1 else "."
        axis.plot(curve.steps, middle, label=label, color=colour, linewidth=1.6, marker=marker)
        if (interval := bootstrap([values], interquartile_mean, axis=0, resamples=RESAMPLES)) is not None:
            axis.fill_between(curve.steps, *interval, color=colour, alpha=0.2, linewidth=0)
        if seeds:
            axis.plot(curve.steps, values.T, color=colour, linewidth=0.5, alpha=0.6)
    axis.set_xlabel("environment steps")
    axis.set_ylabel(metric)
    axis.xaxis.set_major_formatter(FuncFormatter(_short))
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


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
