"""The tables of "Without the off-policy correction" in this folder's README: `python benchmarks/correction.py`."""

from collections.abc import Mapping
from pathlib import Path

from improvements import TRAININGS, each_return
from report import CHOICES, RESULTS, by_step, cell_of, percent

from hrac.view.curves import title_of

LONG = {
    "first": TRAININGS["first"],
    "third": TRAININGS["third"],
    "without correction": RESULTS / "plus/ant-maze-no-correction",
}
"""Trainings of Ant Maze by `hrac-plus` on a GPU. The second one was evaluated by averages."""
STRETCHES = ((1_000_000, 1_750_000), (2_000_000, 2_750_000), (3_000_000, 5_000_000))
"""Steps over which their evaluations are compared on average."""
ON_AVERAGE = {
    "eval/success": ".1%",
    "eval/failed_fallen": ".1%",
    "eval/failed_stuck": ".1%",
    "eval/failed_out_of_time": ".1%",
    "eval/subgoal_length": ".2f",
    "eval/window_displacement": ".2f",
    "train/fallen": ".1%",
    "manager/value": ".0f",
}
ON_CORES = {"seeds 100 and 101": CHOICES / "ant-maze-no-correction"}
"""Ant Maze without correction, on two CPU cores."""
OTHERS = {
    task: {
        "seeds 0 to 4": RESULTS / "plus" / task,
        "torque of 20, seeds 100 to 102": CHOICES / f"{task}-plus-eta1-updates3",
        f"without correction, {seeds}": CHOICES / f"{task}-no-correction",
    }
    for task, seeds in (("ant-maze-sparse", "seed 100"), ("ant-gather", "seeds 100 and 101"))
}
"""The last column was made on CPU cores."""


def stretches(runs: Mapping[str, Path]) -> None:
    """Means over the evaluations of all seeds in a stretch of steps, for runs that reach its end, and the worst evaluation."""
    names = " | ".join(ON_AVERAGE)
    print(f"| steps | settings | evaluations of a seed | worst | {names} |\n|" + "---|" * (len(ON_AVERAGE) + 4))
    for first, last in STRETCHES:
        for name, folder in runs.items():
            cells = {metric: cell_of(folder, metric) for metric in ON_AVERAGE}
            if cells["eval/success"].steps[-1] < last:
                continue
            kept = {metric: cell.values[:, (cell.steps >= first) & (cell.steps <= last)] for metric, cell in cells.items()}
            success = kept["eval/success"]
            means = " | ".join(f"{kept[metric].mean():{form}}" for metric, form in ON_AVERAGE.items())
            print(f"| {first:,} to {last:,} | {name} | {success.size} | {success.min():.0%} | {means} |")


def others() -> None:
    """The other ants, to the step that all have."""
    for task, runs in OTHERS.items():
        metric, show = ("eval/success", percent) if task == "ant-maze-sparse" else ("eval/return", each_return)
        print(f"\n{title_of(task)}, {metric}\n")
        by_step(runs, metric, lambda step: 100_000 < step <= 500_000, show)
    print("\nAnt Gather, manager/value\n")
    by_step(OTHERS["ant-gather"], "manager/value", lambda step: step in (250_000, 500_000), each_return)


if __name__ == "__main__":
    by_step(LONG, wanted=lambda step: step % 250_000 == 0 and step > 0)
    print()
    stretches(LONG)
    print()
    by_step(ON_CORES, wanted=lambda step: step > 200_000)
    others()
