"""`hrac report`."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import tyro


@dataclasses.dataclass(frozen=True)
class ReportOptions:
    """Write one HTML file about runs, which opens from disk without a network: what was run, learning curves, subgoals,
    adjacency, failures, the table of `hrac compare`, the time, and evaluation episodes to play."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders, policy files, or names of tasks whose trained policies are in the package."""
    labels: tuple[str, ...] = ()
    """Names to show instead of methods, one per run. Runs of the same task and name are shown together."""
    out: Path = Path("report.html")
    """The file."""
    episodes: int = 2
    """Evaluation episodes of each policy; 0: none."""
    best: tyro.conf.FlagCreatePairsOff[bool] = False
    """Play the policies of the seeds' best evaluations in training instead of the newest ones of run folders."""


def report(arguments: Sequence[str]) -> int:
    """`hrac report`."""
    import hrac

    options = tyro.cli(ReportOptions, args=arguments, prog="hrac report")
    path = hrac.report(options.runs, options.out, labels=options.labels, episodes=options.episodes, best=options.best)
    print(f"written: {path} ({path.stat().st_size / 1e6:.1f} MB)")
    return 0
