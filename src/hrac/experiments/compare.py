"""Compares the runs of several folders, pooled by task and method: what `hrac.compare` does."""

import csv
import dataclasses
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hrac import config as configs
from hrac.config import Config
from hrac.errors import HracError
from hrac.experiments import statistics
from hrac.experiments.statistics import LAST, Cell, Estimate, Numbers
from hrac.experiments.tables import Table
from hrac.folder import log
from hrac.folder.log import Row
from hrac.folder.reading import read_config, series_of

SUCCESS, RETURN = "eval/success", "eval/return"
UNIMPORTANT = (
    *("seeds", "method"),
    *("training.total_env_steps", "training.checkpoint_every_env_steps", "training.env_threads"),
)
"""Where configurations may differ and still be the same experiment: names, and what changes no number before the common end."""
ALL = "all tasks"
HOW_TO_SEPARATE = "Compare folders (--by folder) or name the groups yourself (--labels)"

By = Literal["method", "folder"]


class CompareError(HracError, ValueError):
    """Runs that cannot be compared; the message names them and says what to do."""


class Reached(NamedTuple):
    """When seeds were first at or above a threshold."""

    steps: float
    """The median over all seeds; infinite if half of them never were."""
    seeds: int
    """How many were, at any time."""


class Score(NamedTuple):
    """The result of a method on a task."""

    task: str
    method: str
    seeds: int
    step: int
    """The last evaluation that all runs of the task have."""
    evaluations: int
    """How many of the last evaluations make a seed's final score."""
    final: Estimate
    """The interquartile mean of the final scores."""
    mean: float
    worst: float
    best: float
    """Of the final scores: the best seed, not the best moment."""
    reached: Reached | None


class Overall(NamedTuple):
    """The result of a method on all tasks, from normalised final scores."""

    method: str
    seeds: int
    """On each task."""
    final: Estimate


class Pair(NamedTuple):
    """The probability that a seed of one method has a higher final score than a seed of another."""

    task: str
    method: str
    other: str
    probability: Estimate


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Scores of methods on tasks, as numbers and as tables."""

    metric: str
    last: float
    """The share of the evaluations that make a final score."""
    threshold: float | None
    cells: tuple[Cell, ...]
    """The metric over training, by task and method; for curves."""
    scores: tuple[Score, ...]
    pairs: tuple[Pair, ...]
    overall: tuple[Overall, ...]
    notes: tuple[str, ...]
    """What a reader of the tables must know."""

    def text(self) -> str:
        """Tables for a terminal."""
        tables = [table.text() for table in self.tables()]
        return "\n\n".join([*tables, *(["\n".join(self.notes)] if self.notes else [])]) + "\n"

    def markdown(self) -> str:
        """The same tables in Markdown."""
        notes = "\n".join(f"- {note}" for note in self.notes)
        return "\n\n".join([*(table.markdown() for table in self.tables()), *([notes] if notes else [])]) + "\n"

    def _repr_markdown_(self) -> str:
        """What a notebook shows."""
        return self.markdown()

    def csv(self) -> str:
        """One row per number, with its interval where there is one."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("task", "method", "other", "seeds", "step", "name", "value", "low", "high"))
        writer.writerows(self._records())
        return text.getvalue()

    def _records(self) -> Iterator[tuple[object, ...]]:
        for row in self.scores:
            start = (row.task, row.method, "", row.seeds, row.step)
            yield (*start, "final_iqm", *_plain(row.final))
            for name in ("mean", "worst", "best"):
                yield (*start, f"final_{name}", getattr(row, name), "", "")
            if row.reached is not None:
                yield (*start, "steps_to_threshold_median", row.reached.steps, "", "")
                yield (*start, "seeds_that_reached_threshold", row.reached.seeds, "", "")
        for overall in self.overall:
            yield (ALL, overall.method, "", overall.seeds, "", "final_iqm_normalised", *_plain(overall.final))
        for pair in self.pairs:
            yield (pair.task, pair.method, pair.other, "", "", "probability_of_improvement", *_plain(pair.probability))

    def tables(self) -> Iterator[Table]:
        """The tables one by one."""
        yield self._table_of_scores()
        if self.overall:
            yield Table(
                "All tasks: interquartile mean of the normalised final scores",
                ("method", "seeds per task", "IQM", "95 % interval"),
                [(row.method, str(row.seeds), *_shown(row.final)) for row in self.overall],
                names=1,
            )
        if self.pairs:
            yield Table(
                "Probability that a seed of X ends higher than a seed of Y (a tie is half)",
                ("task", "X", "Y", "P(X > Y)", "95 % interval"),
                [(pair.task, pair.method, pair.other, *_shown(pair.probability)) for pair in self.pairs],
                names=3,
            )

    def _table_of_scores(self) -> Table:
        title = f"Final {self.metric}: the last {100 * self.last:g} % of the evaluations, interquartile mean (IQM) over seeds"
        header = ["task", "method", "seeds", "at step", "evaluations", "IQM", "95 % interval", "mean", "worst", "best"]
        rows = []
        for row in self.scores:
            numbers = (f"{row.seeds}", f"{row.step:,}", f"{row.evaluations}", *_shown(row.final))
            rows.append([row.task, row.method, *numbers, *(f"{value:.3f}" for value in (row.mean, row.worst, row.best))])
            if row.reached is not None:
                median = "never" if math.isinf(row.reached.steps) else f"{row.reached.steps:,.0f}"
                rows[-1] += [median, f"{row.reached.seeds} of {row.seeds}"]
        if self.threshold is not None:
            header += [f"steps to {self.threshold:g}, median", "reached by"]
        return Table(title, header, rows, names=2)


def _plain(estimate: Estimate) -> tuple[object, ...]:
    return (estimate.value, *(("", "") if estimate.interval is None else estimate.interval))


def _shown(estimate: Estimate) -> tuple[str, str]:
    interval = "-" if estimate.interval is None else f"{estimate.interval[0]:.3f} to {estimate.interval[1]:.3f}"
    return f"{estimate.value:.3f}", interval


class Logged(NamedTuple):
    """What was read of a run folder; `compare` takes it in place of the folder."""

    folder: Path
    config: Config
    rows: Sequence[Row]

    @classmethod
    def read(cls, folder: Path) -> "Logged":
        """The configuration and the log of a folder."""
        return cls(folder, read_config(folder), log.read(folder))


class _Run(NamedTuple):
    """A run folder: its configuration, and its part of the cell that it counts for."""

    folder: Path
    config: Config
    cell: Cell


def compare(
    folders: str | Path | Sequence[str | Path | Logged],
    metric: str | None = None,
    *,
    by: By = "method",
    labels: Sequence[str] = (),
    threshold: float | None = None,
    last: float = LAST,
    normalise: Mapping[str, tuple[float, float]] | None = None,
) -> Comparison:
    """Compare run folders. Those of one task and method are pooled, or of one label, or none (`by="folder"`).

    The metric is `eval/success` if all runs have it, else `eval/return`. A seed's final score is the mean of the last share
    of its evaluations, at steps that all runs of the task have. With `normalise`, a worst and a best score for each task
    (`{"maze": (0, 5.8)}`), there is also a score over all tasks. docs/comparing.md explains the numbers.
    """
    chosen, runs = _read(folders, metric, by, labels)
    if by == "method" and not labels:
        _require_equal_settings(runs)
    cells = _pool(runs)
    scores: list[Score] = []
    pairs: list[Pair] = []
    notes: list[str] = []
    finals: dict[str, dict[str, Numbers]] = {}
    for task in dict.fromkeys(cell.task for cell in cells):
        of_task = [cell for cell in cells if cell.task == task]
        common = statistics.at_common_steps(of_task)
        finals[task] = {cell.method: statistics.final_scores(cell, last) for cell in common}
        scores += [_score(cell, finals[task][cell.method], last, threshold) for cell in common]
        pairs += _pairs(task, {method: [final] for method, final in finals[task].items()})
        notes += _notes(task, [run for run in runs if run.cell.task == task], common[0].steps)
    notes += [f"{row.task}, {row.method}: one seed, so there is no interval" for row in scores if row.seeds == 1]
    overall: list[Overall] = []
    if normalise is not None:
        complete = _normalised(finals, normalise)
        overall = [Overall(method, len(tasks[0]), statistics.score(*tasks)) for method, tasks in complete.items()]
        pairs += _pairs(ALL, complete)
        left_out = [method for method in dict.fromkeys(cell.method for cell in cells) if method not in complete]
        notes += [f"{method}: not scored over all tasks, it needs each with equally many seeds" for method in left_out]
    return Comparison(chosen, last, threshold, tuple(cells), tuple(scores), tuple(pairs), tuple(overall), tuple(notes))


def pooled(
    folders: str | Path | Sequence[str | Path], metric: str | None = None, *, by: By = "folder", labels: Sequence[str] = ()
) -> tuple[str, list[Cell]]:
    """The metric, and the numbers of run folders, pooled as in `compare`; for curves. Their settings are not compared."""
    chosen, runs = _read(folders, metric, by, labels)
    return chosen, _pool(runs)


def _read(
    folders: str | Path | Sequence[str | Path | Logged], metric: str | None, by: By, labels: Sequence[str]
) -> tuple[str, list[_Run]]:
    """The metric, and what the runs have of it."""
    items = [folders] if isinstance(folders, str | Path) else folders
    if not items:
        raise CompareError("name at least one run folder")
    if labels and len(labels) != len(items):
        raise CompareError(f"labels: {len(items)} are needed, one per run folder, got {len(labels)}")
    logs = [item if isinstance(item, Logged) else Logged.read(Path(item)) for item in items]
    methods = labels or (names([run.folder for run in logs]) if by == "folder" else [run.config.method for run in logs])
    chosen = metric or (SUCCESS if all(any(row.name == SUCCESS for row in run.rows) for run in logs) else RETURN)
    runs = []
    for (folder, config, rows), method in zip(logs, methods, strict=True):
        series = series_of(folder, rows, chosen)
        if not np.isfinite(series.values).all():
            seed, step = np.argwhere(~np.isfinite(series.values))[0]
            where = f"of seed {series.seeds[seed]} at step {series.steps[step]:,}"
            raise CompareError(f"{folder}: {chosen} {where} is no finite number. Choose another metric or leave the folder out")
        runs.append(_Run(folder, config, Cell(config.task, method, *series)))
    return chosen, runs


def names(folders: Sequence[Path]) -> list[str]:
    """The folders' names, or their paths where several have the same name."""
    last = [folder.resolve().name for folder in folders]
    return [name if last.count(name) == 1 else str(folder) for name, folder in zip(last, folders, strict=True)]


def _require_equal_settings(runs: Sequence[_Run]) -> None:
    """Runs of a task have the same environment, and runs of a task and method the same settings in all that matters."""
    of_task: dict[str, _Run] = {}
    of_method: dict[tuple[str, str], _Run] = {}
    for run in runs:
        key = (run.cell.task, run.cell.method)
        other = of_task.setdefault(run.cell.task, run)
        if changed := [name for name in _differences(other, run) if name.startswith("env.")]:
            both = f"{run.cell.task}: {other.folder} and {run.folder} differ in {', '.join(changed)}"
            raise CompareError(f"{both}, so they are different tasks. {HOW_TO_SEPARATE}")
        other = of_method.setdefault(key, run)
        if changed := _differences(other, run):
            both = f"{', '.join(key)}: {other.folder} and {run.folder} differ in {', '.join(changed)}"
            raise CompareError(f"{both}, so they are not pooled. {HOW_TO_SEPARATE}")


def _differences(first: _Run, second: _Run) -> list[str]:
    return [name for name in configs.differences(first.config, second.config) if name not in UNIMPORTANT]


def _pool(runs: Sequence[_Run]) -> list[Cell]:
    """One cell per task and method, in the order of the folders."""
    groups: dict[tuple[str, str], list[_Run]] = {}
    for run in runs:
        groups.setdefault((run.cell.task, run.cell.method), []).append(run)
    cells = []
    for group in groups.values():
        _refuse_equal_seeds(group)
        cells.append(statistics.pooled([run.cell for run in group]))
    return cells


def _refuse_equal_seeds(group: Sequence[_Run]) -> None:
    owner: dict[int, _Run] = {}
    for run in group:
        for seed in run.cell.seeds:
            if (other := owner.setdefault(seed, run)) is not run:
                where = f"{run.cell.task}, {run.cell.method}: seed {seed} is in both {other.folder} and {run.folder}"
                raise CompareError(f"{where}. A seed counts once: leave a folder out. {HOW_TO_SEPARATE}")


def _score(cell: Cell, finals: Numbers, last: float, threshold: float | None) -> Score:
    reached = None
    if threshold is not None:
        steps = statistics.steps_to(cell, threshold)
        reached = Reached(float(np.median(steps)), int(np.isfinite(steps).sum()))
    return Score(
        task=cell.task,
        method=cell.method,
        seeds=len(cell.seeds),
        step=int(cell.steps[-1]),
        evaluations=statistics.final_evaluations(len(cell.steps), last),
        final=statistics.score(finals),
        mean=float(finals.mean()),
        worst=float(finals.min()),
        best=float(finals.max()),
        reached=reached,
    )


def _pairs(task: str, methods: Mapping[str, Sequence[Numbers]]) -> list[Pair]:
    """Every two methods, given their scores by task; the earlier one first."""
    names = list(methods)
    return [
        Pair(task, x, y, statistics.probability_of_improvement(methods[x], methods[y]))
        for i, x in enumerate(names)
        for y in names[i + 1 :]
    ]


def _normalised(
    finals: Mapping[str, Mapping[str, Numbers]], normalise: Mapping[str, tuple[float, float]]
) -> dict[str, list[Numbers]]:
    """Scores by task, from 0 (worst) to 1 (best), of the methods that have all tasks with equally many seeds."""
    for task in finals:
        low, high = normalise.get(task, (0.0, 0.0))
        if not low < high:
            raise CompareError(f"normalise: {task} needs a worst and a best score, the worst first, got {normalise.get(task)}")
    complete = {}
    for method in dict.fromkeys(method for methods in finals.values() for method in methods):
        tasks = [
            (methods[method] - normalise[task][0]) / (normalise[task][1] - normalise[task][0])
            for task, methods in finals.items()
            if method in methods
        ]
        if len(tasks) == len(finals) and len({len(scores) for scores in tasks}) == 1:
            complete[method] = tasks
    return complete


def _notes(task: str, runs: Sequence[_Run], common: NDArray[np.int64]) -> Iterator[str]:
    """What the runs of a task do not have in common."""
    end, ends = common[-1], sorted({int(run.cell.steps[-1]) for run in runs})
    if ends[-1] > end:
        listed = _listed([f"{at:,}" for at in ends])
        yield f"{task}: compared at step {end:,}, the last at which all were evaluated; they end at {listed}"
    if any((run.cell.steps <= end).sum() > len(common) for run in runs):
        yield f"{task}: only the {len(common)} evaluations at steps that all have are used"
    if changed := dict.fromkeys(name for run in runs for name in _differences(runs[0], run)):
        yield f"{task}: the runs differ in {_listed(list(changed))}"


def _listed(words: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(words[:most])
    return shown if len(words) <= most else f"{shown} and {len(words) - most} more"
