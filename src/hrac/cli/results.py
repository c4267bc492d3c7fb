"""`hrac compare` and `hrac curves`: what trainings achieved."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from hrac.cli.checks import check_file, check_picture
from hrac.config import ConfigError

if TYPE_CHECKING:
    from hrac import Comparison


@dataclasses.dataclass(frozen=True)
class CompareOptions:
    """Compare runs: final scores, their 95 % intervals over seeds, and how likely one method is to end above another."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders. Those of the same task and method are pooled."""
    metric: str | None = None
    """A name from metrics.csv (default: eval/success if all runs have it, else eval/return)."""
    by: Literal["method", "folder"] = "method"
    """What is compared: methods, or folders one by one."""
    labels: tuple[str, ...] = ()
    """Names to compare by instead, one per folder. Folders of the same task and name are pooled."""
    threshold: float | None = None
    """Also tell when seeds first reach this value of the metric."""
    last: float = 0.1
    """The share of the evaluations, at the end of training, that make a final score."""
    normalise: dict[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    """A worst and a best score for each task, for a score over all tasks: maze 0 5.8 key-chest 0 6."""
    format: Literal["text", "markdown", "csv"] = "text"
    """Of the tables."""
    out: Path | None = None
    """Write the tables to this file."""
    curves: Path | None = None
    """Draw learning curves too, a panel per task: .png, .pdf or .svg."""
    seeds: tyro.conf.FlagCreatePairsOff[bool] = False
    """Draw a thin curve for each seed too."""


def compare(arguments: Sequence[str]) -> int:
    """`hrac compare`."""
    import hrac

    options = tyro.cli(CompareOptions, args=arguments, prog="hrac compare")
    if options.curves is not None:
        check_picture(options.curves, "--curves")
    result = hrac.compare(
        options.runs,
        options.metric,
        by=options.by,
        labels=options.labels,
        threshold=options.threshold,
        last=options.last,
        normalise=options.normalise or None,
    )
    tables = {"text": result.text, "markdown": result.markdown, "csv": result.csv}[options.format]()
    if options.out is None:
        print(tables, end="")
    else:
        _write(options.out, tables)
    if options.curves is not None:
        _draw(result, options.curves, options.seeds)
    return 0


def _write(path: Path, tables: str) -> None:
    from hrac.folder import files

    check_file(path)
    files.write_atomic(path, tables.encode())
    print(f"written: {path}")


def _draw(result: "Comparison", path: Path, seeds: bool) -> None:
    from hrac.view import curves as view
    from hrac.view import figures

    figures.save(view.figure(view.of_cells(result.cells, result.metric), seeds=seeds), path)
    print(f"drawn: {path}")


@dataclasses.dataclass(frozen=True)
class CurvesOptions:
    """Draw learning curves: the interquartile mean over a folder's seeds, with its 95 % bootstrap interval. Each task has a
    panel."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders, one curve per folder."""
    metric: str | None = None
    """A name from metrics.csv (default: the paper's for a task of the paper, else eval/success if all its runs have it, else
    eval/return)."""
    labels: tuple[str, ...] = ()
    """Names of the curves (default: the folders' names). Folders of one task and name are pooled."""
    smooth: int = 1
    """Evaluations in a running mean of each seed; 1 smooths nothing. The figure says it."""
    seeds: bool | None = None
    """Draw a thin curve for each seed too (default: if a panel has at most three curves)."""
    out: Path = Path("curves.png")
    """The picture, .png, .pdf or .svg."""


def curves(arguments: Sequence[str]) -> int:
    """`hrac curves`."""
    from hrac.view import curves as view
    from hrac.view import figures

    options = tyro.cli(CurvesOptions, args=arguments, prog="hrac curves")
    if options.smooth < 1:
        raise ConfigError(f"--smooth must be at least 1, got {options.smooth}")
    check_picture(options.out)
    panels = figures.panels_of(options.runs, options.metric, options.labels, options.smooth)
    if len(panels) > 1:
        print(f"the runs have {len(panels)} tasks: each has a panel")
    figures.save(view.figure(panels, seeds=options.seeds), options.out)
    print(f"drawn: {options.out}")
    return 0
