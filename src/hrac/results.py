"""What a training and an evaluation gave: numbers, tables and curves."""

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hrac.folder import log
from hrac.folder.reading import read_config
from hrac.training.session import Ended
from hrac.worlds.numbers import FAILURES

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Outcome(Ended):
    """How a training ended, and what it measured."""

    def metrics(self) -> Any:
        """All numbers of metrics.csv, as `hrac.metrics` gives them."""
        return metrics(self.folder)

    def plot(self, metric: str | None = None, *, smooth: int = 1, seeds: bool | None = None) -> "Figure":
        """The learning curve, as `hrac.plot` draws it."""
        return plot(self.folder, metric=metric, smooth=smooth, seeds=seeds)

    def __repr__(self) -> str:
        config = read_config(self.folder) if self.folder.is_dir() else None
        parts = [] if config is None else [config.task, config.method, _seeds(config.seeds)]
        parts.append(f"{'finished' if self.finished else 'stopped'} at step {self.env_steps:,}")
        for name, form in (("return", ".2f"), ("success", ".0%")):
            if (values := self.last.get(f"eval/{name}")) is not None:
                parts.append(f"{name} {np.mean(values):{form}}")
        return f"Outcome({', '.join(parts)}, in {self.folder})"


def _seeds(seeds: tuple[int, ...]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds"


def metrics(folder: str | Path) -> Any:
    """All numbers of a run folder: a row for each seed and step, a column for each metric, NaN where it was not measured.

    A pandas DataFrame if pandas is installed, else a dictionary of NumPy arrays. docs/metrics.md explains the names.
    """
    rows = log.read(Path(folder))
    places = {place: i for i, place in enumerate(sorted({(row.seed, row.step) for row in rows}))}
    columns: dict[str, NDArray[Any]] = {
        "seed": np.array([seed for seed, _ in places], np.int64),
        "step": np.array([step for _, step in places], np.int64),
    }
    for row in rows:
        column = columns.setdefault(row.name, np.full(len(places), np.nan))
        column[places[row.seed, row.step]] = row.value
    if importlib.util.find_spec("pandas") is None:
        return columns
    import pandas as pd

    return pd.DataFrame(columns)


def plot(*folders: str | Path, metric: str | None = None, smooth: int = 1, seeds: bool | None = None) -> "Figure":
    """Learning curves of run folders, as `hrac curves` draws them: a panel per task, a curve per folder.

    Without a metric it is the paper's for a task of the paper, else `eval/success` where there is one, else `eval/return`.
    `hrac.view.curves.panel` draws into an axis of your own.
    """
    from hrac.view import curves, figures

    return curves.figure(figures.panels_of([Path(folder) for folder in folders], metric, smooth=smooth), seeds=seeds)


class Evaluation(NamedTuple):
    """The results of a policy's episodes."""

    seed: int
    episodes: int
    returns: NDArray[np.float64]
    """One per episode."""
    means: dict[str, float]
    """By the names of docs/metrics.md."""
    task: str = ""
    method: str = ""

    def __repr__(self) -> str:
        return f"Evaluation({', '.join(filter(None, (self.task, self.method)))}, {self})"

    def __str__(self) -> str:
        error = self.returns.std(ddof=1) / np.sqrt(self.episodes) if self.episodes > 1 else 0.0
        parts = [f"return {self.means['eval/return']:.3f} +- {error:.3f}"]
        if "eval/success" in self.means:
            parts.append(f"success {self.means['eval/success']:.1%}")
        parts.append(f"length {self.means['eval/episode_length']:.1f}")
        failed = {words: self.means.get(f"eval/{name}", 0.0) for name, words in FAILURES.items()}
        if any(failed.values()):
            parts.append(f"failed: {', '.join(f'{share:.1%} {words}' for words, share in failed.items() if share)}")
        elif self.means.get("eval/fallen") and "eval/success" not in self.means:
            parts.append(f"{self.means['eval/fallen']:.1%} on their backs at the end")
        if "eval/subgoal_within_k" in self.means:
            parts.append(f"subgoals within k {self.means['eval/subgoal_within_k']:.1%}")
        return f"seed {self.seed}: {', '.join(parts)} ({self.episodes} episodes)"
