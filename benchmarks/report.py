"""The tables and figures of this folder's README, from the run folders beside this file: `python benchmarks/report.py`."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from hrac.folder.log import TIMING
from hrac.folder.reading import read_series as read
from hrac.view.curves import of_folder, panel

HERE = Path(__file__).parent
RESULTS, CHOICES, IMAGES = HERE / "results", HERE / "choices", HERE.parent / "docs" / "images"
TASKS = {"maze": ("Maze", 5.8), "key-chest": ("Key-Chest", 6.0)}


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
    for task, (title, best) in TASKS.items():
        for suffix, method in (("", "HRAC"), ("-eta0", "the same, eta = 0")):
            folder = RESULTS / f"{task}{suffix}"
            score, error = last_ten(folder, "eval/return")
            within, _ = last_ten(folder, "eval/subgoal_within_k")
            accuracy = read(folder, "adjacency/accuracy")
            print(
                f"| {title} | {method} | {len(accuracy.values)} | {score:.2f} +- {error:.2f} (best {best}) | "
                f"{first_above(folder, 5.0)} | {within:.1%} | {accuracy.mean[-1]:.3f} |"
            )


def choices() -> None:
    """All runs of a task are compared at the step that the shortest of them reached."""
    print(
        "| run | seeds | compared at | return, last ten evaluations | worst seed | mean > 5.0 at | seeds past 5.0, and when |"
    )
    print("|---|---|---|---|---|---|---|")
    for task in TASKS:
        runs = {folder.name: read(folder, "eval/return") for folder in sorted(CHOICES.glob(f"{task}-*"))}
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


def figure(metric: str, label: str, path: Path, best: bool) -> None:
    picture = Figure(figsize=(9.5, 3.4), layout="constrained")
    for axis, (task, (title, most)) in zip(picture.subplots(1, 2), TASKS.items(), strict=True):
        runs = {"HRAC": RESULTS / task, "eta = 0": RESULTS / f"{task}-eta0"}
        panel(axis, [of_folder(name, folder, metric) for name, folder in runs.items()], metric, smooth=5)
        axis.set_title(title)
        axis.set_ylabel(label)
        axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))
        if best:
            axis.axhline(most, color="grey", linewidth=0.8, linestyle="--")
    picture.legend(*axis.get_legend_handles_labels(), frameon=False, loc="outside upper center", ncols=2)
    picture.savefig(path, dpi=130)
    print(f"drawn: {path.name}")


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
    """What is shown of a task: the runs, the metric, from which step on, and the published result."""

    title: str
    runs: dict[str, Path]
    metric: str
    label: str
    table_from: int
    published: float

    def show(self, value: float) -> str:
        return f"{value:.0%}" if self.metric == "eval/success" else f"{value:.2f}"


ANTS = [
    AntTask(
        "Ant Maze",
        {
            "40 copies": RESULTS / "ant-maze",
            "20 copies": RESULTS / "ant-maze-20copies",
            "8 copies": RESULTS / "ant-maze-8copies",
        },
        "eval/success",
        "success at (0, 16)",
        500_000,
        0.96,
    ),
    AntTask("Ant Maze Sparse", {"40 copies": RESULTS / "ant-maze-sparse"}, "eval/success", "success at (2, 9)", 200_000, 0.89),
    AntTask("Ant Gather", {"40 copies": RESULTS / "ant-gather"}, "eval/return", "return", 200_000, 3.0),
]


def ants() -> None:
    """Success or return on the ant tasks by step, every seed and their mean."""
    picture = Figure(figsize=(12.0, 3.6), layout="constrained")
    axes = picture.subplots(1, len(ANTS))
    for axis, task in zip(axes, ANTS, strict=True):
        print(f"{task.title}\n\n| run | step | {task.metric.split('/')[1]}, mean of seeds | each seed | cells explored |")
        print("|---|---|---|---|---|")
        for label, folder in task.runs.items():
            measured, cells = read(folder, task.metric), read(folder, "adjacency/cells")
            for step, row in zip(measured.steps, measured.values.T, strict=True):
                if step >= task.table_from:
                    each = ", ".join(task.show(value) for value in row)
                    explored = cells.mean[cells.steps <= step][-1]
                    print(f"| {label} | {step:,} | {task.show(row.mean())} | {each} | {explored:.0f} |")
        print()
        panel(axis, [of_folder(label, folder, task.metric) for label, folder in task.runs.items()], task.metric)
        first = read(next(iter(task.runs.values())), task.metric)
        axis.plot(first.steps, first.values.T, color="C0", linewidth=0.6, alpha=0.5)
        axis.axhline(task.published, color="grey", linewidth=0.8, linestyle="--", label="published, at 5,000,000 steps")
        axis.set_ylabel(task.label)
        axis.set_title(task.title)
    picture.legend(*axes[0].get_legend_handles_labels(), frameon=False, loc="outside upper center", ncols=4)
    picture.savefig(IMAGES / "ants.png", dpi=130)
    print("drawn: ants.png")


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
    """Success on Ant Maze with a preset for speed, and when: in no table with the paper's settings."""
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


if __name__ == "__main__":
    results()
    print()
    choices()
    figure("eval/return", "return in evaluation", IMAGES / "curves.png", best=True)
    figure("eval/subgoal_within_k", "share of subgoals within k steps", IMAGES / "within_k.png", best=False)
    ants()
    print()
    points()
    print()
    quiet()
    print()
    fast(CHOICES / "ant-maze-fast")
    print()
    fast(CHOICES / "ant-maze-fast-200copies")
    print()
    raw_steps()
