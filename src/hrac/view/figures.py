"""Figures: learning curves of run folders, and those of the paper by name, for a page of two columns."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from matplotlib.figure import Figure

from hrac.config import Config, ConfigError
from hrac.experiments.compare import pooled
from hrac.experiments.published import LEVELS, Level, level_for
from hrac.folder import files
from hrac.folder.reading import read_config
from hrac.view import curves

FORMATS = ("pdf", "svg", "png")
PAGE_WIDTH = 7.0
"""Inches: both columns of a page."""
PAGE: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 7.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7.5,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.1,
    "savefig.dpi": 300,
}
SAVED: Any = {"pdf.fonttype": 42, "svg.hashsalt": "hrac"}
"""Text in a PDF stays text, and an SVG has the same bytes every time."""
OFTEN = 50
"""So many evaluations are smoothed."""
NO_DATE: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}


class OfCurves(NamedTuple):
    """A figure of learning curves, a panel per task."""

    summary: str
    experiments: tuple[str, ...]
    """Those of `hrac sweep` that train what it shows."""
    committed: tuple[str, ...]
    """Folders in `benchmarks/results`."""
    label: Callable[[Config], str]
    """The name of a run's curve."""


def _method(config: Config) -> str:
    return config.method


def _eta(config: Config) -> str:
    return f"eta = {config.manager.eta:g}"


def _sigma(config: Config) -> str:
    return f"{config.method}, sigma = {config.env.sigma or 0:g}"


def _of_grids(*methods: str) -> tuple[str, ...]:
    return tuple(f"{task}-methods/{method}" for task in ("maze", "key-chest") for method in methods)


FIGURES = {
    "learning-curves": OfCurves(
        "Figure 6: HRAC and the paper's baselines",
        ("grid-methods", "ant-methods"),
        (
            *_of_grids("hrac", "hiro", "hrl-her", "vanilla", "flat"),
            *("ant-gather", "ant-maze", *(f"ant-maze-methods/{method}" for method in ("hiro", "hrl-her", "vanilla"))),
            "ant-maze-sparse",
        ),
        _method,
    ),
    "ablations": OfCurves(
        "Figure 7: HRAC and its variants",
        ("grid-ablations", "ant-ablations"),
        (
            *_of_grids("hrac", "hrac-o", "no-adj", "neg-reward"),
            *("ant-maze", "ant-maze-methods/no-adj", "ant-maze-methods/neg-reward"),
        ),
        _method,
    ),
    "eta": OfCurves(
        "Figure 8: balancing coefficients",
        ("eta",),
        tuple(
            folder
            for task in ("maze", "key-chest")
            for folder in (*(f"{task}-eta/{eta}" for eta in (1, 5, 10)), f"{task}-methods/hrac")
        ),
        _eta,
    ),
    "stochastic": OfCurves(
        "Figure 10: ants with noise",
        ("stochastic-ants",),
        (*(f"stochastic/ant-maze-hrac-sigma-{sigma}" for sigma in (0.01, 0.05, 0.1)), "stochastic/ant-maze-hiro-sigma-0.1"),
        _sigma,
    ),
}
"""By name. The numbers are the paper's."""


def panels_of(
    runs: Sequence[Path], metric: str | None = None, labels: Sequence[str] = (), smooth: int = 1
) -> list[curves.Panel]:
    """The learning curves of run folders, a panel per task. Folders of one task and label are pooled.

    Without a metric each task has that of the paper, or else `eval/success` if all its runs have it, or `eval/return`.
    """
    if not runs:
        raise ConfigError("name at least one run folder")
    if labels and len(labels) != len(runs):
        raise ConfigError(f"--labels: {len(runs)} are needed, one per run, got {len(labels)}")
    tasks = [read_config(run).task for run in runs]
    panels = []
    for task in dict.fromkeys(tasks):
        chosen = [i for i, other in enumerate(tasks) if other == task]
        of_task, names = [runs[i] for i in chosen], [labels[i] for i in chosen] if labels else ()
        paper = next((name for known, name in LEVELS if known == task), None)
        found, cells = pooled(of_task, metric or paper, labels=names)
        (panel,) = curves.of_cells(cells, found)
        panels.append(panel._replace(level=_level(of_task, found), smooth=smooth))
    return panels


def _level(runs: Sequence[Path], metric: str) -> Level | None:
    """The level of a task, if all runs have the paper's environment."""
    levels = {level_for(read_config(run), metric) for run in runs}
    return levels.pop() if len(levels) == 1 else None


def of_the_paper(name: str, runs: Sequence[Path], results: Path) -> Figure:
    """A figure of `FIGURES`, from run folders or, if there are none, from those in `results`. Raises `ConfigError`."""
    what = FIGURES[name]
    if not runs and not results.is_dir():
        commands = " and ".join(f"hrac sweep {experiment}" for experiment in what.experiments)
        raise ConfigError(
            f"{results} is not here: name run folders (trained by {commands}), or with --results the folder of the "
            "repository's results"
        )
    chosen = runs or [results / folder for folder in what.committed]
    panels = panels_of(chosen, labels=[what.label(read_config(run)) for run in chosen])
    often = [panel._replace(smooth=5) if len(panel.curves[0].steps) >= OFTEN else panel for panel in panels]
    columns = 2 if len(panels) in (1, 2, 4) else 3
    with matplotlib.rc_context(PAGE):
        return curves.figure(often, seeds=False, columns=columns, size=(PAGE_WIDTH / columns, 1.9))


def save(figure: Figure, path: Path, dpi: float = 130) -> None:
    """Write a figure as what its name ends in: .pdf, .svg or .png. Its folder is made."""
    kind = path.suffix[1:]
    with files.naming(path.parent, "made"):
        path.parent.mkdir(parents=True, exist_ok=True)
    with files.atomic(path) as file, matplotlib.rc_context(SAVED):
        figure.savefig(file, format=kind, dpi=dpi, metadata=NO_DATE.get(kind))


def save_for_a_page(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure in all formats; returns the files."""
    paths = [folder / f"{name}.{kind}" for kind in FORMATS]
    for path in paths:
        files.refuse_link(path)
        save(figure, path, PAGE["savefig.dpi"])
    return paths
