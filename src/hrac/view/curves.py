"""Learning curves: the interquartile mean over seeds with its 95 % bootstrap interval."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from hrac.experiments.published import Level
from hrac.experiments.statistics import Cell, bootstrap, interquartile_mean
from hrac.view.colours import COLOURS, places

RESAMPLES = 2_000
DASHES = ("-", "--", ":", "-.")
GREY = "#505050"
FEW = 3
"""Up to so many curves in a panel, single seeds are drawn too unless told otherwise."""
NAMES = {
    "eval/return": "return in evaluation",
    "eval/success": "success in evaluation",
    "eval/subgoal_within_k": "share of subgoals within k steps",
    "adjacency/accuracy": "accuracy of the adjacency network",
}
"""What the axis says of a metric; others have their own names."""


class Curve(NamedTuple):
    """A metric over training with a label."""

    label: str
    steps: NDArray[np.int64]
    """(n)"""
    values: NDArray[np.float64]
    """(seeds, n)"""


class Style(NamedTuple):
    """How a curve is drawn."""

    colour: str
    dash: str


class Panel(NamedTuple):
    """What one axis shows."""

    title: str
    metric: str
    curves: Sequence[Curve]
    level: Level | None = None
    """A dashed line."""
    smooth: int = 1
    """Evaluations in a running mean of each seed."""
    until: int | None = None
    """The last step that is shown."""


def title_of(task: str) -> str:
    """The name of a task as a title.

    >>> title_of("ant-maze-sparse"), title_of("key-chest"), title_of("gym:CartPole-v1")
    ('Ant Maze Sparse', 'Key-Chest', 'gym:CartPole-v1')
    """
    return "Key-Chest" if task == "key-chest" else task if ":" in task else task.replace("-", " ").title()


def plain(name: str) -> str:
    r"""A name for matplotlib, which draws it letter by letter: no formula, and in a legend also if it begins with "_".

    >>> plain("$x_$"), plain("_old")
    ('\\$x_\\$', ' _old')
    """
    escaped = name.replace("$", r"\$")
    return escaped if escaped and not escaped.startswith("_") else f" {escaped}"


def of_cells(cells: Sequence[Cell], metric: str) -> list[Panel]:
    """A panel per task, in the order of the cells."""
    tasks: dict[str, list[Curve]] = {}
    for cell in cells:
        tasks.setdefault(cell.task, []).append(Curve(cell.method, cell.steps, cell.values))
    return [Panel(title_of(task), metric, curves) for task, curves in tasks.items()]


def styles_of(labels: Iterable[str]) -> dict[str, Style]:
    """A style for each label: ten colours, those of methods their own, then the same ones dashed."""
    return {label: Style(COLOURS[i % 10], DASHES[i // 10 % len(DASHES)]) for label, i in places(labels).items()}


def figure(
    panels: Sequence[Panel], *, seeds: bool | None = None, columns: int = 2, size: tuple[float, float] | None = None
) -> Figure:
    """A figure of some panels with one legend and a note that says what is drawn. A label has one style in all of them.

    `seeds` is as in `panel`. `size` is that of a panel, in inches; without it a panel by itself is wider than one of several.
    """
    columns = min(len(panels), columns)
    rows = math.ceil(len(panels) / columns)
    across, up = size or (6.0 if columns == 1 else 4.6, 3.1)
    width = across * columns
    drawn = Figure(figsize=(width, up * rows + 0.6), layout="constrained")
    axes = drawn.subplots(rows, columns, squeeze=False).ravel()
    styles = styles_of(curve.label for each in panels for curve in each.curves)
    for axis, each in zip(axes, panels, strict=False):
        panel(axis, each, seeds=seeds, styles=styles)
    for axis in axes[len(panels) :]:
        axis.remove()
    _legend(drawn, width)
    words = textwrap.fill(note(panels), max(int(width / (0.85 * _letter())), 1))  # small letters
    drawn.supxlabel(plain(words), fontsize="small", color=GREY)
    return drawn


def _legend(drawn: Figure, width: float) -> None:
    """One legend above all axes, in as many columns as fit."""
    entries: dict[str, Any] = {}
    for axis in drawn.axes:
        entries |= {label: handle for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    columns = max(min(int(width / (_letter() * max(map(len, entries)) + 0.5)), len(entries)), 1)
    drawn.legend(list(entries.values()), list(entries), frameon=False, loc="outside upper center", ncols=columns)


def _letter() -> float:
    """The width of a letter in inches, on average."""
    return 0.0085 * float(matplotlib.rcParams["font.size"])


def note(panels: Sequence[Panel]) -> str:
    """What lines and bands are."""
    several = any(len(curve.values) > 1 for each in panels for curve in each.curves)
    what = "Interquartile mean over seeds and its 95 % bootstrap interval" if several else "One seed"
    smoothed = [each for each in panels if each.smooth > 1]
    if not smoothed:
        return f"{what}; not smoothed."
    where = "" if len(smoothed) == len(panels) else f"on {' and '.join(each.title for each in smoothed)} "
    return f"{what}; {where}each seed is a running mean of {smoothed[0].smooth} evaluations."


def panel(axis: Axes, what: Panel, *, seeds: bool | None = None, styles: Mapping[str, Style] | None = None) -> Axes:
    """Draw curves into an axis and return it. `seeds` shows single seeds too; None: if there are few curves."""
    styles = styles or styles_of(curve.label for curve in what.curves)
    for curve in what.curves:
        _draw(axis, curve, styles[curve.label], what.smooth, len(what.curves) <= FEW if seeds is None else seeds)
    axis.set_title(plain(f"{what.title} ({_seeds(what.curves)})".lstrip()))
    axis.set_xlabel("environment steps")
    axis.set_ylabel(plain(NAMES.get(what.metric, what.metric)))
    axis.set_xlim(0, what.until)
    low, high = axis.get_ylim()
    axis.set_ylim(min(low, 0.0), 1.04 if what.metric == "eval/success" else high)
    if what.level is not None:
        _level(axis, what.level)
    axis.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axis.xaxis.set_major_formatter(FuncFormatter(_short))
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    return axis


def _level(axis: Axes, level: Level) -> None:
    """A dashed line with its meaning above it."""
    low, high = axis.get_ylim()
    axis.set_ylim(low, max(high, level.value + 0.09 * (high - low)))
    axis.axhline(level.value, color="grey", linewidth=0.9, linestyle=(0, (6, 3)))
    words: Any = {"textcoords": "offset points", "xycoords": ("axes fraction", "data"), "ha": "right", "fontsize": "x-small"}
    halo = withStroke(linewidth=2.0, foreground="white")  # curves may run through the words
    axis.annotate(level.meaning, (1.0, level.value), (0, 1.5), color=GREY, zorder=4, path_effects=[halo], **words)


def _draw(axis: Axes, curve: Curve, style: Style, smooth: int, seeds: bool) -> None:
    """One curve: the line, its interval, and thin lines for its seeds."""
    values = np.array([_running_mean(seed, smooth) for seed in curve.values])
    middle, marker = interquartile_mean(values, axis=0), "" if len(curve.steps) > 1 else "."
    look: Any = {"color": style.colour, "linestyle": style.dash}
    axis.plot(curve.steps, middle, label=plain(curve.label), marker=marker, zorder=3, **look)
    if (interval := bootstrap([values], interquartile_mean, axis=0, resamples=RESAMPLES)) is not None:
        axis.fill_between(curve.steps, *interval, color=style.colour, alpha=0.18, linewidth=0)
    if seeds and len(values) > 1:
        axis.plot(curve.steps, values.T, linewidth=0.5, alpha=0.55, **look)


def _seeds(curves: Sequence[Curve]) -> str:
    """How many seeds the curves have: "1 seed", "5 seeds", "5 to 20 seeds"."""
    numbers = sorted({len(curve.values) for curve in curves})
    return "1 seed" if numbers == [1] else f"{' to '.join(map(str, dict.fromkeys((numbers[0], numbers[-1]))))} seeds"


def _short(number: float, _: int) -> str:
    """A label on an axis: 500k, 1.5M."""
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:g}{name}"
    return f"{number:g}"


def _running_mean(values: NDArray[np.float64], points: int) -> NDArray[np.float64]:
    """A centred mean over `points` values, over fewer at the ends."""
    ones = np.ones(min(points, len(values)))
    return np.convolve(values, ones, "same") / np.convolve(np.ones_like(values), ones, "same")
