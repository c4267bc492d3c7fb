"""The tables and figures of this folder's README, from the run folders beside this file: `python benchmarks/report.py`."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import hrac
from hrac.experiments import statistics
from hrac.experiments.compare import Score
from hrac.experiments.published import LEVELS
from hrac.experiments.statistics import Cell, Estimate
from hrac.folder import log
from hrac.folder.log import TIMING
from hrac.folder.reading import NoSuchMetricError, Series, series_of
from hrac.view import curves, figures

HERE = Path(__file__).parent
RESULTS, CHOICES, IMAGES = HERE / "results", HERE / "choices", HERE.parent / "docs" / "images"
TASKS = ("maze", "key-chest")
TITLES = {task: curves.title_of(task) for task in TASKS}


def read(folder: Path, metric: str) -> Series:
    """A metric of a run. One that was made by several processes has a folder for each."""
    return series_of(folder, [row for part in parts_of(folder) for row in log.read(part)], metric)


def parts_of(folder: Path) -> list[Path]:
    """The run folders of a run: one for each of its processes, or itself."""
    return sorted(folder.glob("seed*-*")) or [folder]


def first_above(folder: Path, level: float) -> str:
    """The first evaluation at which the mean return over seeds passes a level."""
    series = read(folder, "eval/return")
    above = series.steps[series.mean > level]
    return f"{above[0]:,}" if len(above) else "never"


def last_ten(folder: Path, metric: str) -> tuple[float, float]:
    """Mean over the last ten evaluations and all seeds, and its standard error over seeds."""
    values = read(folder, metric).values[:, -10:].mean(axis=1)
    return values.mean(), values.std(ddof=1) / np.sqrt(len(values))


def results() -> None:
    print("| task | method | seeds | return, last ten evaluations | first mean return > 5.0 | subgoals within k | accuracy |")
    print("|---|---|---|---|---|---|---|")
    for task, title in TITLES.items():
        best = LEVELS[task, "eval/return"].value
        for suffix, method in (("", "HRAC"), ("-eta0", "the same, eta = 0")):
            folder = RESULTS / f"{task}{suffix}"
            score, error = last_ten(folder, "eval/return")
            within, _ = last_ten(folder, "eval/subgoal_within_k")
            accuracy = read(folder, "adjacency/accuracy")
            print(
                f"| {title} | {method} | {len(accuracy.values)} | {score:.2f} +- {error:.2f} (best {best}) | "
                f"{first_above(folder, 5.0)} | {within:.1%} | {accuracy.mean[-1]:.3f} |"
            )


METHODS = {
    "maze": ("hrac", "hrac-o", "flat", "hrl-her", "neg-reward", "hiro-range-10", "hiro", "vanilla", "no-adj"),
    "key-chest": ("hrac", "hrac-o", "neg-reward", "hiro", "hrl-her", "vanilla", "flat", "no-adj"),
    "ant-maze": ("hrac", "hiro", "neg-reward", "no-adj", "hrl-her", "vanilla"),
}
PANELS = {
    "baselines": ("hrac", "flat", "hrl-her", "hiro", "hiro-range-10", "vanilla"),
    "variants": ("hrac", "hrac-o", "neg-reward", "no-adj"),
}
ETAS = (1, 5, 10, 20)
SOLVED = 5.0


def method_folder(task: str, method: str) -> Path:
    return RESULTS / task if (task, method) == ("ant-maze", "hrac") else RESULTS / f"{task}-methods" / method


def cell_of(folder: Path, metric: str) -> Cell | None:
    """A metric of a run; none if the run does not have it."""
    try:
        series = read(folder, metric)
    except NoSuchMetricError:
        return None
    return Cell("", folder.name, series.seeds, series.steps, series.values)


def middle(folder: Path, metric: str) -> float:
    """The interquartile mean over seeds of the last tenth of the measurements, as `hrac compare` has it."""
    cell = cell_of(folder, metric)
    return np.nan if cell is None else float(statistics.interquartile_mean(statistics.final_scores(cell)))


def shown(value: float, form: str) -> str:
    return "" if np.isnan(value) else f"{100 * value:.1f} %" if form == "%" else f"{value:{form}}"


def fallen(folder: Path) -> str:
    """Of the evaluations after each seed's first at `SOLVED`, the share below it, with an interval over these seeds."""
    cell = cell_of(folder, "eval/return")
    later = cell.steps > statistics.steps_to(cell, SOLVED)[:, None]
    counts = np.array([(later & (cell.values < SOLVED)).sum(axis=1), later.sum(axis=1)])[:, later.any(axis=1)]
    if not counts.size:
        return ""

    def share(seeds: np.ndarray, axis: int = -1) -> np.ndarray:
        below, all_later = counts[:, seeds.astype(int)].sum(axis=axis if axis < 0 else axis + 1)
        return below / all_later

    whole = statistics.estimate([np.arange(counts.shape[1], dtype=float)], share)
    interval = "" if whole.interval is None else " ({:.0f} to {:.0f})".format(*(100 * bound for bound in whole.interval))
    return f"{100 * whole.value:.0f} %{interval}"


def chance(estimate: Estimate) -> str:
    return "{:.2f} ({:.2f} to {:.2f})".format(estimate.value, *estimate.interval)


def scored(row: Score) -> str:
    """What `hrac compare` says of a row."""
    low, high = row.final.interval
    median = "never" if np.isinf(row.reached.steps) else f"{row.reached.steps:,.0f}"
    numbers = f"{row.final.value:.3f} | {low:.3f} to {high:.3f} | {row.mean:.3f} | {row.worst:.3f}"
    return f"{numbers} | {median} | {row.reached.seeds} of {row.seeds}"


SUBGOALS = {"eval/success": "%", "eval/subgoal_within_k": "%", "eval/subgoal_miss": ".1f", "adjacency/accuracy": ".3f"}
SCORED = "return, interquartile mean | 95 % interval | mean | worst seed | steps to 5.0, median | seeds that reach 5.0"


def methods(task: str) -> None:
    """The methods on a grid world: scores, HRAC against each other one, and what the subgoals are like."""
    folders = {name: method_folder(task, name) for name in METHODS[task]}
    result = hrac.compare(list(folders.values()), "eval/return", by="folder", threshold=SOLVED)
    cells = {cell.method: cell for cell in statistics.at_common_steps(result.cells)}
    ends = {pair.other: pair.probability for pair in result.pairs if pair.method == "hrac"}
    print(f"{TITLES[task]}\n\n| method | {SCORED} |\n|{'---|' * 7}")
    for row in result.scores:
        print(f"| `{row.method}` | {scored(row)} |")
    print("\n| method | HRAC ends higher | HRAC is sooner at 5.0 | success | subgoals within k | missed by, cells ", end="")
    print(f"| adjacency accuracy | below 5.0 after the first at 5.0 |\n|{'---|' * 8}")
    soon = {name: -statistics.steps_to(cell, SOLVED) for name, cell in cells.items()}
    for name, folder in folders.items():
        sooner = statistics.probability_of_improvement([soon["hrac"]], [soon[name]])
        against = " | " if name == "hrac" else f"{chance(ends[name])} | {chance(sooner)}"
        numbers = " | ".join(shown(middle(folder, metric), form) for metric, form in SUBGOALS.items())
        print(f"| `{name}` | {against} | {numbers} | {fallen(folder)} |")
    print()
    for name, other in (("hrac", "hiro"), ("hrac", "hiro-range-10"), ("hiro-range-10", "hiro")):
        if {name, other} <= set(cells):
            apart(cells[name], cells[other])
    by_miss(cells["hiro"], folders["hiro"])


def apart(cell: Cell, other: Cell) -> None:
    """Two methods where interquartile means say little: their means, and how many seeds solve the task."""
    from scipy import stats

    finals = [statistics.final_scores(each) for each in (cell, other)]
    more = statistics.estimate(finals, lambda x, y, axis=-1: x.mean(axis=axis) - y.mean(axis=axis))
    solved = [int((each.values >= SOLVED).any(axis=1).sum()) for each in (cell, other)]
    ends = [int((final >= SOLVED).sum()) for final in finals]
    p = stats.fisher_exact([[n, len(final) - n] for n, final in zip(solved, finals, strict=True)]).pvalue
    print(f"{cell.method} and {other.method}: mean return higher by {chance(more)}; ", end="")
    print(f"seeds that reach 5.0 {solved} (Fisher's exact test: {p:.2g}), that end there {ends}")


def by_miss(cell: Cell, folder: Path) -> None:
    """The seeds of a method that end below 2 and the others, and by how much their subgoals are missed."""
    from scipy import stats

    final, missed = statistics.final_scores(cell), statistics.final_scores(cell_of(folder, "eval/subgoal_miss"))
    for words, chosen in (("below 2", final < 2.0), ("others", final >= 2.0)):
        scores, misses = final[chosen], missed[chosen]
        print(f"{cell.method}, {words}: {len(scores)} seeds, returns {scores.min():.2f} to {scores.max():.2f}, ", end="")
        print(f"subgoals missed by {misses.min():.1f} to {misses.max():.1f} cells")
    print(f"{cell.method}: rank correlation of return and miss {stats.spearmanr(final, missed).statistic:.2f}\n")


def draw(name: str, panels: list[curves.Panel], seeds: bool | None = None) -> None:
    """Write a figure of the README: what `hrac curves` draws."""
    figures.save(curves.figure(panels, seeds=seeds), IMAGES / name)
    print(f"drawn: {name}")


def methods_figure(task: str, smooth: int = 5, until: int | None = None) -> None:
    """HRAC beside its baselines, and beside its variants."""
    panels = []
    for words, names in PANELS.items():
        chosen = [name for name in names if name in METHODS[task]]
        (one,) = figures.panels_of([method_folder(task, name) for name in chosen], None, chosen, smooth)
        panels.append(one._replace(title=f"{one.title}: HRAC and {words}", until=until))
    draw(f"{task}-methods.png", panels, seeds=False)


def eta_folder(task: str, eta: int) -> Path:
    return RESULTS / f"{task}-methods" / "hrac" if eta == 20 else RESULTS / f"{task}-eta" / str(eta)


AGAINST = f"{SCORED} | success | subgoals within k | below 5.0 after the first at 5.0"


def against_the_last(folders: dict[str, Path]) -> dict[str, str]:
    """Runs of a grid world: their scores, and the probabilities that each ends higher, and is sooner at 5.0, than the last."""
    *_, last = folders
    result = hrac.compare(list(folders.values()), "eval/return", labels=list(folders), threshold=SOLVED)
    ends = {pair.method: pair.probability for pair in result.pairs if pair.other == last}
    soon = {cell.method: -statistics.steps_to(cell, SOLVED) for cell in statistics.at_common_steps(result.cells)}
    rows = {}
    for row in result.scores:
        folder, name = folders[row.method], row.method
        shares = " | ".join(shown(middle(folder, metric), "%") for metric in ("eval/success", "eval/subgoal_within_k"))
        sooner = statistics.probability_of_improvement([soon[name]], [soon[last]])
        against = " | " if name == last else f"{chance(ends[name])} | {chance(sooner)}"
        rows[name] = f"{scored(row)} | {shares} | {fallen(folder)} | {against}"
    return rows


def etas() -> None:
    """Balancing coefficients on the grid worlds."""
    print(f"| task | eta | {AGAINST} | ends higher than 20 | is sooner at 5.0 than 20 |")
    print("|" + "---|" * 13)
    for task, title in TITLES.items():
        for eta, row in against_the_last({str(eta): eta_folder(task, eta) for eta in ETAS}).items():
            print(f"| {title} | {eta} | {row} |")
    folders = [eta_folder(task, eta) for task in TASKS for eta in ETAS]
    draw("eta.png", figures.panels_of(folders, None, [f"eta = {eta}" for _ in TASKS for eta in ETAS], 5))


def percent(row: np.ndarray) -> str:
    """The mean of seeds and, where they differ, each."""
    each = f" ({', '.join(f'{100 * value:.0f}' for value in row)})" if np.ptp(row) else ""
    return f"{row.mean():.0%}{each}"


def at(folder: Path, metric: str, step: int) -> np.ndarray | None:
    """A metric of all seeds at a step; none if the run does not have it."""
    cell = cell_of(folder, metric)
    return None if cell is None or step not in cell.steps else cell.values[:, cell.steps == step][:, 0]


def by_step(
    runs: Mapping[str, Path],
    metric: str = "eval/success",
    wanted: Callable[[int], bool] = bool,
    show: Callable[[np.ndarray], str] = percent,
) -> None:
    """A column per run, a row for each step that is wanted and that one of them has."""
    steps = sorted({step for folder in runs.values() for step in read(folder, metric).steps.tolist() if wanted(step)})
    print("| step |" + "".join(f" {name} |" for name in runs) + "\n|" + "---|" * (len(runs) + 1))
    for step in steps:
        rows = (at(folder, metric, step) for folder in runs.values())
        print(f"| {step:,} | " + " | ".join("" if row is None else show(row) for row in rows) + " |")


def spread(row: np.ndarray | None, form: str) -> str:
    return "" if row is None else f"{row.mean():{form}} ({row.min():{form}} to {row.max():{form}})"


def how_it_went(runs: Mapping[str, tuple[Path, int]], metrics: Mapping[str, str]) -> None:
    """A row per run with metrics at one of its steps, each in the form it is printed in."""
    print("| settings | step | " + " | ".join(metrics) + " |\n|" + "---|" * (len(metrics) + 2))
    for name, (folder, step) in runs.items():
        row = (spread(at(folder, metric, step), form) for metric, form in metrics.items())
        print(f"| {name} | {step:,} | " + " | ".join(row) + " |")


ANT_SUBGOALS = {
    "eval/return": ",.0f",
    "train/return": ",.0f",
    "eval/subgoal_miss": ".1f",
    "eval/subgoal_judged_adjacent": ".0%",
    "adjacency/cells": ".0f",
}


def ants_by_method() -> None:
    """The methods on Ant Maze by step, HRAC against each at the last step of both, and what their subgoals are like."""
    folders = {name: method_folder("ant-maze", name) for name in METHODS["ant-maze"]}
    evaluated = {name: set(read(folder, "eval/success").steps.tolist()) for name, folder in folders.items()}
    print("| step |" + "".join(f" `{name}` |" for name in folders) + "\n|" + "---|" * (len(folders) + 1))
    for step in sorted(evaluated["hrac"] & evaluated["vanilla"]):
        rows = (at(folder, "eval/success", step) for folder in folders.values())
        print(f"| {step:,} | {' | '.join('' if row is None else percent(row) for row in rows)} |")
    print("\n| method | HRAC is above it with probability | at step |\n|---|---|---|")
    for name, folder in folders.items():
        if name != "hrac":
            result = hrac.compare([folders["hrac"], folder], "eval/success", labels=["hrac", name])
            print(f"| `{name}` | {chance(result.pairs[0].probability)} | {result.scores[0].step:,} |")
    print("\n| method | step | return | return in training | subgoals missed by | judged adjacent | cells explored |")
    print("|" + "---|" * 7)
    shared = set.intersection(*evaluated.values())
    for name, folder in folders.items():
        for step in sorted({max(shared), max(evaluated[name] & evaluated["vanilla"])}):
            words = (spread(at(folder, metric, step), form) for metric, form in ANT_SUBGOALS.items())
            print(f"| `{name}` | {step:,} | {' | '.join(words)} |")
    reached = at(folders["vanilla"], "train/intrinsic_reward", max(evaluated["vanilla"]))
    print(f"`vanilla`: at its subgoal in {spread(reached, '.1%')} of the steps in training")


def choices() -> None:
    """All runs of a task are compared at the step that the shortest of them reached."""
    print(
        "| run | seeds | compared at | return, last ten evaluations | worst seed | mean > 5.0 at | seeds past 5.0, and when |"
    )
    print("|---|---|---|---|---|---|---|")
    for task in TASKS:
        folders = sorted(folder for kind in ("abs", "rel") for folder in CHOICES.glob(f"{task}-{kind}*"))
        runs = {folder.name: read(folder, "eval/return") for folder in folders}
        end = min(series.steps[-1] for series in runs.values())
        for name, series in runs.items():
            steps, values = series.steps[series.steps <= end], series.values[:, series.steps <= end]
            last = values[:, -10:].mean(axis=1)
            above = steps[values.mean(axis=0) > 5.0]
            passed = [steps[row > 5.0][0] // 1000 for row in values if (row > 5.0).any()]
            print(
                f"| {name} | {len(values)} | {end:,} | {last.mean():.2f} +- {last.std(ddof=1) / np.sqrt(len(last)):.2f} | "
                f"{last.min():.2f} | {f'{above[0]:,}' if len(above) else 'never'} | "
                f"{len(passed)} of {len(values)}{f', {np.mean(passed):.0f}k on average' if passed else ''} |"
            )


def layer_norm(task: str, others: dict[str, Path], first: int, last: int) -> None:
    """Layer norms in the manager's critics: how soon seeds are at 5.0, and how often they are below it later."""
    when = f"below 5.0 from {first:,} to {last:,}"
    print(f"| task | run | seeds | steps to 5.0, median | below 5.0 after the first at 5.0 | {when} |")
    print("|---|---|---|---|---|---|")
    for name, folder in ({"layer norms": CHOICES / f"{task}-layer-norm"} | others).items():
        cell = cell_of(folder, "eval/return")
        kept = cell.values[:, (cell.steps >= first) & (cell.steps <= last)]
        soon, below = np.median(statistics.steps_to(cell, SOLVED)), (kept < SOLVED).sum()
        print(
            f"| {TITLES[task]} | {name} | {len(cell.values)} | {soon:,.0f} | {fallen(folder)} | "
            f"{below} of {kept.size} ({below / kept.size:.0%}) |"
        )


def without_the_loss(metric: str, name: str) -> None:
    """HRAC and the same agent without the adjacency loss."""
    folders = [RESULTS / f"{task}{suffix}" for task in TASKS for suffix in ("", "-eta0")]
    draw(name, figures.panels_of(folders, metric, ["HRAC", "eta = 0"] * len(TASKS), 5))


POINTS = {
    "one update a step": RESULTS / "point-maze",
    "the same, `--overlap`": RESULTS / "point-maze-overlap",
    "seeds 5 to 14": RESULTS / "point-maze-more",
    "seeds 5 to 14, `--overlap`": RESULTS / "point-maze-more-overlap",
    "seeds 100 to 102": CHOICES / "point-maze-paper",
    "0.4 updates a step, minibatches twice as large": CHOICES / "point-maze-fewer-updates",
    "0.4, four times as large, rates doubled": CHOICES / "point-maze-fast",
    "the same, rounds of 500": CHOICES / "point-maze-fast-500steps",
    "0.2, four times as large, rates doubled": CHOICES / "point-maze-fast-200copies",
    "0.1, four times as large, rates doubled": CHOICES / "point-maze-fast-400copies",
    "0.2, four times as large": CHOICES / "point-maze-200copies",
    "0.2, eight times as large, rates tripled": CHOICES / "point-maze-200copies-rates-tripled",
}


def solved(folder: Path) -> tuple[list[float], list[float]]:
    """When each seed is first at 100 %, and from when on it stays there, in thousands of steps; infinite: never."""
    success = read(folder, "eval/success")
    right = success.values >= 1
    last = [len(row) - int(np.minimum.accumulate(row[::-1]).sum()) for row in right]
    first = [success.steps[row.argmax()] / 1000 if row.any() else np.inf for row in right]
    return first, [success.steps[at] / 1000 if at < len(success.steps) else np.inf for at in last]


def points() -> None:
    """When the seeds of Point Maze are first at 100 %, and from when on they stay there, in thousands of steps."""
    print("| settings | first evaluation at 100 % | stays at 100 % from | to step | seconds |")
    print("|---|---|---|---|---|")
    for label, folder in POINTS.items():
        seconds = float((folder / TIMING).read_text().split()[-1].split(",")[1])
        words = [", ".join("never" if at == np.inf else f"{at:.0f}" for at in seeds) for seeds in solved(folder)]
        print(f"| {label} | {' | '.join(words)} | {read(folder, 'eval/success').steps[-1]:,} | {seconds:,.0f} |")
    names = ("point-maze", "point-maze-more")
    plain, overlapping = (
        np.concatenate([solved(RESULTS / f"{name}{suffix}") for name in names], axis=1) for suffix in ("", "-overlap")
    )
    later = overlapping - plain
    for words, seeds in zip(("first at 100 %", "stays at 100 % from"), later, strict=True):
        error = seeds.std(ddof=1) / np.sqrt(len(seeds))
        print(f"with --overlap, {words} {seeds.mean():+.1f} +- {error:.1f} thousand steps later ({len(seeds)} seeds)")


class AntTask(NamedTuple):
    """What is shown of a task: the runs, and from which step on."""

    task: str
    runs: dict[str, Path]
    table_from: int

    @property
    def metric(self) -> str:
        return next(metric for task, metric in LEVELS if task == self.task)

    def show(self, value: float) -> str:
        return f"{value:.0%}" if self.metric == "eval/success" else f"{value:.2f}"


ANTS = [
    AntTask(
        "ant-maze",
        {
            "40 copies, the paper's length": RESULTS / "ant-maze-paper-length",
            "40 copies": RESULTS / "ant-maze",
            "20 copies": RESULTS / "ant-maze-20copies",
            "8 copies": RESULTS / "ant-maze-8copies",
        },
        500_000,
    ),
    AntTask(
        "ant-maze-sparse",
        {
            "40 copies, the paper's length": RESULTS / "ant-maze-sparse-paper-length",
            "40 copies": RESULTS / "ant-maze-sparse",
        },
        200_000,
    ),
    AntTask("ant-gather", {"40 copies": RESULTS / "ant-gather"}, 200_000),
]


def ants() -> None:
    """Success or return on the ant tasks by step, every seed and their mean."""
    for task in ANTS:
        title = curves.title_of(task.task)
        print(f"{title}\n\n| run | step | {task.metric.split('/')[1]}, mean of seeds | each seed | cells explored |")
        print("|---|---|---|---|---|")
        for label, folder in task.runs.items():
            measured, cells = read(folder, task.metric), read(folder, "adjacency/cells")
            for step, row in zip(measured.steps, measured.values.T, strict=True):
                if step >= task.table_from:
                    each = ", ".join(task.show(value) for value in row)
                    explored = cells.mean[cells.steps <= step][-1]
                    print(f"| {label} | {step:,} | {task.show(row.mean())} | {each} | {explored:.0f} |")
        print()
    folders = [part for task in ANTS for part in parts_of(next(iter(task.runs.values())))]
    plus = [RESULTS / "plus" / task.task for task in ANTS]
    draw("ants.png", figures.panels_of(folders + plus, None, ["HRAC"] * len(folders) + ["HRAC-plus"] * len(plus)))


def quiet(every: int = 40_000) -> None:
    """Success on the sparse maze of the point, with the published weight decay of the critics and without."""
    runs = {"1e-4": CHOICES / "point-maze-sparse", "0, the manager's": CHOICES / "point-maze-sparse-no-decay"}
    print("| weight decay | step | success, mean of seeds | each seed |\n|---|---|---|---|")
    for label, folder in runs.items():
        success = read(folder, "eval/success")
        for step, row in zip(success.steps, success.values.T, strict=True):
            if step % every == 0 or step == success.steps[-1]:
                print(f"| {label} | {step:,} | {row.mean():.0%} | {', '.join(f'{value:.0%}' for value in row)} |")


def fast(folder: Path) -> None:
    """Success on Ant Maze with settings for speed, and when: in no table with the paper's settings."""
    success = read(folder, "eval/success")
    seconds = {int(step): float(at) for step, at, _ in (row.split(",") for row in (folder / TIMING).read_text().split()[1:])}
    shown = [(step, value) for step, value in zip(success.steps, success.mean, strict=True) if step >= ANTS[0].table_from]
    print("| step |" + "".join(f" {step:,} |" for step, _ in shown))
    print("|" + "---|" * (len(shown) + 1))
    print("| success |" + "".join(f" {value:.0%} |" for _, value in shown))
    print("| seconds |" + "".join(f" {seconds[step]:.0f} |" for step, _ in shown))


def raw_steps() -> None:
    """Learning before and after one ring of raw steps: each seed's first evaluation above a level, and means over seeds."""
    before = [read(RESULTS / name, "eval/success") for name in ("point-maze", "point-maze-more")]
    after = read(CHOICES / "point-maze-raw-steps", "eval/success")
    points = {"before": np.concatenate([before[0].values, before[1].values[:5]]), "after": after.values}
    mazes = {"before": RESULTS / "maze", "after": CHOICES / "maze-raw-steps"}
    print("| | Maze, last ten by seed | first above 5.0 by seed | mean | Point Maze, first at 100 %, mean | success by step |")
    print("|---|---|---|---|---|---|")
    for name, folder in mazes.items():
        maze = read(folder, "eval/return")
        first = [int(maze.steps[row > 5.0][0]) for row in maze.values]
        solved_at = [int(after.steps[row >= 1.0][0]) for row in points[name]]
        shown = {
            int(step): points[name][:, i].mean() for i, step in enumerate(after.steps) if step in (100_000, 120_000, 150_000)
        }
        tens = ", ".join(f"{value:.2f}" for value in maze.values[:, -10:].mean(axis=1))
        firsts = ", ".join(f"{step:,}" for step in first)
        success = ", ".join(f"{step:,}: {value:.0%}" for step, value in shown.items())
        print(f"| {name} | {tens} | {firsts} | {np.mean(first):,.0f} | {np.mean(solved_at):,.0f} | {success} |")
    chests = {"before": CHOICES / "key-chest-before-raw-steps", "after": method_folder("key-chest", "hrac")}
    print(f"\n| Key-Chest | {AGAINST} | ends higher than after | is sooner at 5.0 than after |\n|{'---|' * 12}")
    for name, row in against_the_last(chests).items():
        print(f"| {name} | {row} |")


OTHERS = {
    "PointMaze_UMaze-v3": "point-umaze",
    "FetchReach-v4": "fetch-reach",
    "FrozenLake-v1, is_slippery false": "frozen-lake",
    "FrozenLake-v1, is_slippery false, `hrac-plus`": "frozen-lake-plus",
    "FrozenLake-v1 (slippery)": "frozen-lake-slippery",
    "FrozenLake-v1 (slippery), `hrac-plus`": "frozen-lake-slippery-plus",
    "Reacher-v5, reward_control_weight 0": "reacher",
    "Reacher-v5, reward_control_weight 0, `hrac-plus`": "reacher-plus",
    "PointMaze_Medium-v3, `hrac-plus`": "point-medium",
}
"""Environments of other packages, and their folders."""


def others() -> None:
    """The last evaluation on environments of other packages, and the first whose mean success is 95 %."""
    print("| environment | steps | success, each seed | return, mean of seeds | mean success first at 95 % | minutes |")
    print("|---|---|---|---|---|---|")
    for name, place in OTHERS.items():
        if not (folder := RESULTS / place).exists():
            continue
        success, score = read(folder, "eval/success"), read(folder, "eval/return")
        above = success.steps[success.mean >= 0.95]
        minutes = float((folder / TIMING).read_text().split()[-1].split(",")[1]) / 60
        each = ", ".join(f"{value:.0%}" for value in success.values[:, -1])
        first = f"{above[0]:,}" if len(above) else "never"
        print(f"| {name} | {success.steps[-1]:,} | {each} | {score.mean[-1]:.2f} | {first} | {minutes:.0f} |")


PULLS = {
    "no pull": "point",
    "pull of 1": "point-pull1",
    "pull of 4": "point-pull4",
    "no pull, no hindsight": "point-no-hindsight",
    "pull of 1, no hindsight": "point-pull1-no-hindsight",
}
"""`manager.way_pull` on point-medium, and the folders."""
MEDIUM = {
    "defaults": "../point-medium",
    "hindsight 0.5": "hindsight",
    "`hrac-plus`, 1 update; hindsight 0.8, k = 25, cells of 0.25 m, discount 0.95 past the time limit, rewards / 10": "k25",
    "the same with 10 updates per window, without correction": "updates10",
    "the same, seed 101": "updates10-101",
    "discount 0.9": "d90",
    "discount 0.8": "d80",
    "discount 0.8, layer norms": "d80-norm",
    "discount 0.9, quiet 0.3": "d90-quiet",
    "discount 0.9, quiet 0.3, hindsight 0.5": "d90-quiet-half",
    "discount 0.9, hindsight 0.5, episodes of 300 steps": "d90-short",
    "the same with layer norms": "d90-short-norm",
}
"""Settings tried on PointMaze_Medium-v3, and their folders."""


def by_settings(runs: Mapping[str, Path], steps: Sequence[int]) -> None:
    """Success by step, a row for each of several settings."""
    print("| settings | seeds | " + " | ".join(f"{step:,}" for step in steps) + " |\n|" + "---|" * (len(steps) + 2))
    for name, folder in runs.items():
        rows = [at(folder, "eval/success", step) for step in steps]
        seeds = ", ".join(map(str, cell_of(folder, "eval/success").seeds))
        print(f"| {name} | {seeds} | " + " | ".join("" if row is None else percent(row) for row in rows) + " |")


def mazes() -> None:
    """Success in the mazes of other papers."""
    for place in ("ant-medium", "point-medium"):
        folder = RESULTS / "mazes" / place
        steps = sorted({int(step) for step in read(folder, "eval/success").steps if step % 100_000 == 0})
        print(f"{place}\n\n| step | success | on their backs | stuck | subgoals in walls |\n|---|---|---|---|---|")
        for step in steps:
            backs, stuck, walls = (at(folder, f"eval/{name}", step) for name in ("fallen", "failed_stuck", "subgoal_in_wall"))
            rest = " | ".join("" if row is None else f"{row.mean():.0%}" for row in (backs, stuck, walls))
            print(f"| {step:,} | {percent(at(folder, 'eval/success', step))} | {rest} |")
        print()


if __name__ == "__main__":
    results()
    print()
    for task in TASKS:
        methods(task)
        methods_figure(task)
        print()
    etas()
    print()
    choices()
    print()
    layer_norm(
        "maze",
        {"none, seeds 100 to 107": CHOICES / "maze-abs20", "none, seeds 0 to 19": RESULTS / "maze-methods/hrac"},
        400_000,
        700_000,
    )
    without_the_loss("eval/return", "curves.png")
    without_the_loss("eval/subgoal_within_k", "within_k.png")
    ants()
    print()
    ants_by_method()
    methods_figure("ant-maze", smooth=1, until=1_500_000)
    print()
    points()
    print()
    others()
    print()
    settings = {name: CHOICES / "point-medium-settings" / place for name, place in MEDIUM.items()}
    by_settings(settings, (40_000, 60_000, 80_000, 100_000, 120_000, 140_000, 150_000))
    print()
    mazes()
    by_settings({name: CHOICES / "maze-medium" / place for name, place in PULLS.items()}, range(40_000, 200_001, 40_000))
    print()
    quiet()
    print()
    fast(CHOICES / "ant-maze-fast")
    print()
    fast(CHOICES / "ant-maze-fast-200copies")
    print()
    raw_steps()
