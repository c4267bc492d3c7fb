"""All that a report shows, as plain numbers and words: from runs to a dictionary for JSON. Pure: nothing is read or written."""

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hrac import config as configs
from hrac.config import Config
from hrac.errors import HracError
from hrac.experiments import compare, statistics, tasks
from hrac.experiments.compare import HOW_TO_SEPARATE, UNIMPORTANT, CompareError, Comparison, Logged
from hrac.experiments.statistics import Cell, Numbers, StatisticsError
from hrac.folder.reading import NoSuchMetricError, series_of
from hrac.reports.reading import Run
from hrac.view.colours import places
from hrac.worlds.numbers import FAILURES

RESAMPLES = 1_000
UNKNOWN = "unknown task"


class Metric(NamedTuple):
    """A chart: what it is called, whether it is a share, and how to read it."""

    title: str
    share: bool
    meaning: str


SECTIONS: Mapping[str, Mapping[str, Metric]] = {
    "curves": {
        "eval/success": Metric("Success", True, "Share of evaluation episodes in which the task was done."),
        "eval/return": Metric("Return", False, "Reward of an evaluation episode, summed, without discount."),
        "eval/episode_length": Metric("Length of an episode", False, "Steps of an evaluation episode."),
    },
    "subgoals": {
        "eval/subgoal_within_k": Metric("Truly within k steps", True, "Share of subgoals that can be reached in time."),
        "eval/subgoal_judged_adjacent": Metric(
            "Judged within k steps", True, "Share of subgoals that the adjacency network takes to be within k steps."
        ),
        "eval/subgoal_in_wall": Metric("In a wall", True, "Share of subgoals in a wall or outside of the map."),
        "eval/subgoal_miss": Metric("Missed by", False, "Distance from the subgoal to the agent when its time was over."),
        "eval/subgoal_length": Metric("Asked for", False, "Distance from the agent to its subgoal when it was proposed."),
        "eval/window_displacement": Metric("Walked", False, "Distance that the agent covered in the time of a subgoal."),
    },
    "adjacency": {
        "adjacency/accuracy": Metric("Accuracy", True, "Share of pairs of cells that are judged as they truly are."),
        "adjacency/loss": Metric("Contrastive loss", False, "Loss of the adjacency network when it was last trained."),
        "adjacency/cells": Metric("Explored cells", False, "Cells that the network has learned from."),
    },
}
"""docs/metrics.md says more of each."""

ENDINGS = {"success": "success", **FAILURES}


def collect(
    runs: Sequence[Run], played: Sequence[Mapping[str, Any]], notes: Sequence[str], labels: Sequence[str] = ()
) -> dict[str, Any]:
    """The content of a report. `played` are the policies with their episodes, each with the number of its run.

    `labels` name the groups of the runs instead of their methods.
    """
    short = compare.names([run.path for run in runs])
    names = [run.place if run.is_packaged else name for run, name in zip(runs, short, strict=True)]
    result, labels, refusals = _compared(runs, names, labels)
    tasks_of = [UNKNOWN if run.config is None else run.config.task for run in runs]
    keys = list(zip(tasks_of, labels, strict=True))
    groups = list(dict.fromkeys(keys))
    cells = {group: _cells([run for run, key in zip(runs, keys, strict=True) if key == group]) for group in groups}
    place = [groups.index(key) for key in keys]
    colours = places(label for _, label in groups)
    return {
        "title": _title(groups),
        "problems": [problem for run in runs for problem in run.problems] + list(notes),
        "sections": {
            section: {name: metric._asdict() for name, metric in metrics.items()} for section, metrics in SECTIONS.items()
        },
        "groups": [
            {
                "task": task,
                "label": label,
                "colour": colours[label],
                "charts": _charts(cells[task, label]),
                "endings": _endings(cells[task, label]),
            }
            for task, label in groups
        ],
        "runs": [{"name": name, "group": group, **_about(run)} for run, name, group in zip(runs, names, place, strict=True)],
        "comparison": None if result is None else _tables(result),
        "refusals": refusals,
        "policies": [{**policy, "group": place[policy["run"]]} for policy in played],
    }


def _compared(
    runs: Sequence[Run], names: Sequence[str], given: Sequence[str]
) -> tuple[Comparison | None, Sequence[str], list[str]]:
    """The scores of methods, a label for each run, and why runs of one method are not pooled, or why there are no scores.

    Labels are those that are given, else methods, else methods with folders.
    """
    methods = [name if run.config is None else run.config.method for run, name in zip(runs, names, strict=True)]
    apart = [
        method if methods.count(method) == 1 or run.config is None else f"{method} ({name})"
        for run, name, method in zip(runs, names, methods, strict=True)
    ]
    logs = {
        at: Logged(run.path, run.config, run.rows)
        for at, run in enumerate(runs)
        if run.config is not None and any(row.name == compare.RETURN for row in run.rows)
    }
    if not logs:
        return None, given or methods, ["no run has both a readable configuration and an evaluation"]
    refusals: list[str] = []
    for labels in (given,) if given else (methods, apart):
        chosen = () if labels is methods else [labels[at] for at in logs]
        try:
            return compare.compare(list(logs.values()), labels=chosen), labels, refusals
        except (CompareError, StatisticsError, NoSuchMetricError) as error:
            refusals.append(str(error).removesuffix(f". {HOW_TO_SEPARATE}"))
    return None, given or apart, refusals


def _tables(result: Comparison) -> dict[str, Any]:
    return {"metric": result.metric, "tables": [table._asdict() for table in result.tables()], "notes": list(result.notes)}


def _title(groups: Sequence[tuple[str, str]]) -> str:
    names = list(dict.fromkeys(task for task, _ in groups))
    labels = list(dict.fromkeys(label for _, label in groups))
    what = labels[0] if len(labels) == 1 else ", ".join(labels) if len(labels) < 4 else f"{len(labels)} methods"
    return f"{', '.join(names[:3])}{' and more' if len(names) > 3 else ''}: {what}"


def _cells(runs: Sequence[Run]) -> dict[str, Cell]:
    """Every metric of the report that a group has, pooled over its folders."""
    names = [name for metrics in SECTIONS.values() for name in metrics] + [f"eval/{name}" for name in FAILURES]
    cells: dict[str, Cell] = {}
    for name in names:
        parts = [cell for run in runs if (cell := _cell(run, name)) is not None]
        with contextlib.suppress(StatisticsError):  # folders that have no step in common
            cells |= {name: statistics.pooled(parts)} if parts else {}
    return cells


def _cell(run: Run, metric: str) -> Cell | None:
    """A metric of a run; None if it has none."""
    try:
        return Cell("", "", *series_of(run.path, run.rows, metric))
    except NoSuchMetricError:
        return None


def _charts(cells: Mapping[str, Cell]) -> dict[str, Any]:
    return {name: _chart(cells[name]) for metrics in SECTIONS.values() for name in metrics if name in cells}


def _chart(cell: Cell) -> dict[str, Any]:
    """The interquartile mean over seeds with its 95 % interval, and every seed."""
    bounds = statistics.bootstrap([cell.values], statistics.interquartile_mean, axis=0, resamples=RESAMPLES)
    return {
        "steps": cell.steps.tolist(),
        "middle": numbers(statistics.interquartile_mean(cell.values, axis=0)),
        "interval": None if bounds is None else [numbers(bound) for bound in bounds],
        "seeds": list(cell.seeds),
        "values": [numbers(seed) for seed in cell.values],
    }


def _endings(cells: Mapping[str, Cell]) -> dict[str, float] | None:
    """How the last evaluations ended, as shares of all: success and the causes of failure. None: there is no success here."""
    if "eval/success" not in cells:
        return None
    shares = {
        words: float(statistics.final_scores(cells[f"eval/{name}"]).mean())
        for name, words in ENDINGS.items()
        if f"eval/{name}" in cells
    }
    rest = 1.0 - sum(shares.values())
    return shares | ({} if len(shares) > 1 else {"no success, cause not logged": max(rest, 0.0)})


def _about(run: Run) -> dict[str, Any]:
    """What was run, with what, how long it took, and where it differs from the settings of its method."""
    seeds = sorted({row.seed for row in run.rows}) if run.config is None else list(run.config.seeds)
    reached = max((row.step for row in run.rows), default=None)
    return {
        "facts": _facts(run, seeds, reached),
        "differences": None if run.config is None else differences(run.config),
        "time": _time(run),
    }


def _facts(run: Run, seeds: Sequence[int], reached: int | None) -> list[tuple[str, str]]:
    """Names and values, in the order of the page."""
    config, about = run.config, run.about
    versions = about.get("versions")
    facts: list[tuple[str, Any]] = [("seeds", ranges(seeds))]
    commit = about.get("commit")
    if config is not None:
        facts = [("task", config.task), ("method", config.method), *facts]
        planned = config.training.total_env_steps
        steps = "no log" if reached is None else f"{reached:,}" + (f" of {planned:,}" if reached < planned else "")
        facts += [("steps per seed", steps), ("k", config.k), ("copies per seed", config.training.envs_per_run)]
    elif reached is not None:
        facts.append(("steps per seed", f"{reached:,}"))
    facts += [("hardware", about.get("device")), ("commit", commit and str(commit)[:10]), ("Python", about.get("python"))]
    if isinstance(versions, dict):
        facts.append(("versions", ", ".join(f"{name} {version}" for name, version in versions.items() if version)))
    if run.timing:
        facts.append(("time", duration(run.timing[-1].seconds)))
    facts.append(("place", run.place))
    facts += [("learning rates changed", _change(change)) for change in _list(about.get("changes"))]
    return [(name, str(value)) for name, value in facts if value is not None]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _change(change: Any) -> str:
    return ", ".join(f"{name} {value}" for name, value in change.items()) if isinstance(change, dict) else str(change)


def differences(config: Config) -> list[tuple[str, str, str]] | None:
    """Where settings differ from those of the method on the task: name, theirs, here. None: it is not known."""
    try:
        usual = tasks.config_for(config.task, config.method)
    except HracError:
        return None
    names = [name for name in configs.differences(usual, config) if name not in UNIMPORTANT]
    if config.task not in tasks.BUILT_IN_NAMES:  # what was measured of an environment is no choice
        names = [name for name in names if not name.startswith("env.")]
    both = [(name, configs.value_of(usual, name), configs.value_of(config, name)) for name in names]
    return [(name, str(theirs), str(here)) for name, theirs, here in both if not _nearly_equal(theirs, here)]


def _nearly_equal(first: Any, second: Any) -> bool:
    """Whether these are numbers that differ by rounding only."""
    return isinstance(first, float) and isinstance(second, float) and math.isclose(first, second, rel_tol=1e-6)


def _time(run: Run) -> dict[str, Any] | None:
    """Where the time went, in seconds by phase, and the speed over training."""
    if not run.timing:
        return None
    first, last = run.timing[0], run.timing[-1]
    start = math.inf if run.config is None else run.config.learning_env_steps
    learned = next((row for row in run.timing if row.step >= start), last)
    phases = {
        "until the first evaluation": first.seconds,
        "until learning starts": learned.seconds - first.seconds,
        "learning and evaluations": last.seconds - learned.seconds,
    }
    return {
        "phases": {name: round(seconds, 1) for name, seconds in phases.items()},
        "steps": [row.step for row in run.timing[1:]],
        "speed": numbers(np.array([row.steps_per_second for row in run.timing[1:]])),
    }


def numbers(values: Numbers) -> list[float | None]:
    """Five digits of each number; none of one that is not finite.

    >>> numbers(np.array([1.23456789, np.nan]))
    [1.2346, None]
    """
    return [float(f"{value:.5g}") if math.isfinite(value) else None for value in values.tolist()]


def ranges(seeds: Sequence[int]) -> str:
    """Seeds in short.

    >>> ranges([0, 1, 2, 5, 7, 8])
    '0 to 2, 5, 7, 8'
    """
    parts: list[list[int]] = []
    for seed in seeds:
        if parts and seed == parts[-1][-1] + 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    words = [f"{part[0]} to {part[-1]}" if len(part) > 2 else ", ".join(map(str, part)) for part in parts]
    return ", ".join(words)


def duration(seconds: float) -> str:
    """A time in words.

    >>> duration(42.4), duration(4000)
    ('42 s', '1 h 6 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
