"""`hrac curves`: what trainings achieved."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import tyro

from hrac.cli.checks import check_picture
from hrac.config import ConfigError


@dataclasses.dataclass(frozen=True)
class CurvesOptions:
    """Draw learning curves: the mean over a folder's seeds, with its standard error."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders, one curve per folder."""
    metric: str = "eval/return"
    """A name from metrics.csv."""
    labels: tuple[str, ...] = ()
    """Names of the curves (default: the folders' names)."""
    out: Path = Path("curves.png")
    """The picture, .png, .pdf or .svg."""


def curves(arguments: Sequence[str]) -> int:
    """`hrac curves`."""
    from hrac.view import curves as view

    options = tyro.cli(CurvesOptions, args=arguments, prog="hrac curves")
    labels = options.labels or tuple(run.name for run in options.runs)
    if len(labels) != len(options.runs):
        raise ConfigError(f"--labels: {len(options.runs)} are needed, one per run, got {len(labels)}")
    if not options.runs:
        raise ConfigError("name at least one run folder")
    check_picture(options.out)
    view.draw([view.Curve(label, run) for label, run in zip(labels, options.runs, strict=True)], options.metric, options.out)
    print(f"drawn: {options.out}")
    return 0
