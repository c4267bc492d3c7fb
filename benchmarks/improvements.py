"""The tables of "Towards a better agent" in this folder's README: `python benchmarks/improvements.py`."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from report import (
    CHOICES,
    RESULTS,
    SOLVED,
    TITLES,
    at,
    by_step,
    cell_of,
    fallen,
    first_above,
    how_it_went,
    last_ten,
    percent,
    read,
)

from hrac.experiments import statistics

QUIET_AFTER = "slope, eta 8, discount 0.95, early, displacement, quiet 0.5 after success"
"""What `hrac-plus` was before the search."""
GRIDS = {
    "maze": {
        "plain, eta 20": RESULTS / "maze-methods/hrac",
        "plain, eta 5": RESULTS / "maze-eta/5",
        "mean, eta 1": CHOICES / "maze-mean1",
        "mean, eta 2": CHOICES / "maze-mean2",
        "mean, eta 2, discount 0.97": CHOICES / "maze-mean2-d97",
        "mean, eta 2, discount 0.95": CHOICES / "maze-mean2-d95",
        "mean, eta 2, discount 0.95, layer norms": CHOICES / "maze-mean2-d95-norm",
        "slope, eta 1, discount 0.95, layer norms": CHOICES / "maze-slope1-d95-norm",
        "slope, eta 4, discount 0.95, layer norms": CHOICES / "maze-slope4-d95-norm",
        "slope, eta 8, discount 0.95": CHOICES / "maze-slope8-d95",
        "slope, eta 4, discount 0.95": CHOICES / "maze-slope4-d95",
        "slope, eta 2, discount 0.95": CHOICES / "maze-slope2-d95",
        "slope, eta 2, discount 0.95, quiet 0.2": CHOICES / "maze-slope2-d95-quiet",
        "slope, eta 8, discount 0.95, early": CHOICES / "maze-slope8-d95-early",
        "slope, eta 8, discount 0.95, early, displacement": CHOICES / "maze-slope8-d95-early-displacement",
        "slope, eta 20, discount 0.95, early, displacement": CHOICES / "maze-slope20-d95-early-displacement",
        "slope, eta 20, discount 0.95, early, displacement, output": CHOICES / "maze-slope20-d95-early-displacement-output",
        "slope, eta 20, discount 0.95, early, displacement, quiet 0.2": CHOICES / "maze-slope20-d95-early-displacement-quiet",
        QUIET_AFTER: CHOICES / "maze-slope8-d95-early-displacement-quiet-after",
        "slope, eta 20, discount 0.95, early, displacement, quiet 0.5 after success": CHOICES
        / "maze-slope20-d95-early-displacement-quiet-after",
        f"{QUIET_AFTER} (ten seeds)": CHOICES / "maze-falls-neither",
        f"{QUIET_AFTER}, search": CHOICES / "maze-falls-search",
        f"{QUIET_AFTER}, search, copies": CHOICES / "maze-falls-both",
        f"{QUIET_AFTER}, search, faster copies": CHOICES / "maze-falls-faster",
        f"{QUIET_AFTER}, search, faster copies (ten other seeds)": CHOICES / "maze-falls-faster-again",
        f"{QUIET_AFTER}, adjacent search, copies": CHOICES / "maze-search-adjacent",
        f"{QUIET_AFTER}, adjacent search, faster copies": CHOICES / "maze-search-adjacent-faster",
    },
    "key-chest": {
        "plain, eta 20": RESULTS / "key-chest-methods/hrac",
        "plain, eta 5": RESULTS / "key-chest-eta/5",
        "mean, eta 2": CHOICES / "key-chest-mean2",
        "mean, eta 2, discount 0.97": CHOICES / "key-chest-mean2-d97",
        "mean, eta 2, discount 0.95": CHOICES / "key-chest-mean2-d95",
        "slope, eta 1, discount 0.95, layer norms": CHOICES / "key-chest-slope1-d95-norm",
        "slope, eta 4, discount 0.95, layer norms": CHOICES / "key-chest-slope4-d95-norm",
        "slope, eta 4, discount 0.95": CHOICES / "key-chest-slope4-d95",
        "slope, eta 2, discount 0.95": CHOICES / "key-chest-slope2-d95",
        "slope, eta 2, discount 0.95, quiet 0.2": CHOICES / "key-chest-slope2-d95-quiet",
        "slope, eta 2, discount 0.95, 3 updates": CHOICES / "key-chest-slope2-d95-updates3",
        "slope, eta 8, discount 0.95, early": CHOICES / "key-chest-slope8-d95-early",
        "slope, eta 8, discount 0.95, early, displacement": CHOICES / "key-chest-slope8-d95-early-displacement",
        "slope, eta 20, discount 0.95, early, displacement, quiet 0.2": CHOICES
        / "key-chest-slope20-d95-early-displacement-quiet",
        QUIET_AFTER: CHOICES / "key-chest-slope8-d95-early-displacement-quiet-after",
        "slope, eta 20, discount 0.95, early, displacement, quiet 0.5 after success": CHOICES
        / "key-chest-slope20-d95-early-displacement-quiet-after",
        f"{QUIET_AFTER}, search, copies": CHOICES / "key-chest-search-copies",
        f"{QUIET_AFTER}, search, faster copies": CHOICES / "key-chest-search-faster",
        f"{QUIET_AFTER}, adjacent search, faster copies": CHOICES / "key-chest-search-adjacent-faster",
    },
}
ANTS = {
    "ant-maze": {
        "paper's settings": RESULTS / "ant-maze",
        "torque of 20": CHOICES / "ant-maze-action-share",
        "scaled": CHOICES / "ant-maze-scaled",
        "mean, eta 2, torque of 20": CHOICES / "ant-maze-mean2-action-share",
        "mean, eta 2, torque of 20, scaled": CHOICES / "ant-maze-mean2-action-share-scaled",
        "slope, eta 1, torque of 20": CHOICES / "ant-maze-slope1-action-share",
        "slope, eta 4, torque of 20": CHOICES / "ant-maze-slope4-action-share",
        "slope, eta 2, torque of 20, scaled": CHOICES / "ant-maze-slope2-action-share-scaled",
    },
    "ant-maze-sparse": {
        "paper's settings": RESULTS / "ant-maze-sparse",
        "mean, eta 2": CHOICES / "ant-maze-sparse-mean2",
        "mean, eta 2, torque of 20": CHOICES / "ant-maze-sparse-mean2-action-share",
        "torque of 20, unexplored 0.3": CHOICES / "ant-maze-sparse-action-share-unexplored",
        "slope, eta 2, torque of 20, other controller": CHOICES / "ant-maze-sparse-slope2-action-share-controller",
    },
    "ant-gather": {
        "paper's settings": RESULTS / "ant-gather",
        "mean, eta 2, torque of 20": CHOICES / "ant-gather-mean2-action-share",
        "slope, eta 4, torque of 20, decay 1e-5": CHOICES / "ant-gather-slope4-action-share-decay",
    },
}
PLUS = {
    task: {
        "`hrac`": RESULTS / task,
        "eta 2, 1 update": RESULTS / "plus" / f"{task}-1-update",
        "eta 2": RESULTS / "plus" / f"{task}-eta2",
        "torque of 20": RESULTS / "plus" / f"{task}-torque20",
        "`hrac-plus`": RESULTS / "plus" / task,
    }
    for task in ("ant-maze", "ant-maze-sparse", "ant-gather")
}
"""On Ant Maze the two with eta 2 have no hindsight. These two have a torque of 20, too."""
TRAININGS = {
    "first": RESULTS / "plus/ant-maze",
    "second, averaged": RESULTS / "plus-ablations/ant-maze-hrac-plus",
    "third": RESULTS / "averaging-ant-maze/newest",
    "third, averaged": RESULTS / "averaging-ant-maze/20000",
}
"""`hrac-plus` on Ant Maze, by the newest actors or by averages over 20,000 steps."""
PLUS_GRIDS = {
    task: {
        "`hrac`": RESULTS / f"{task}-methods/hrac",
        "before the search": RESULTS / "plus" / f"{task}-no-search",
        "search not limited": RESULTS / "plus" / f"{task}-search-not-limited",
        "the same, faster copies": RESULTS / "plus" / f"{task}-faster-copies",
        "`hrac-plus`": RESULTS / "plus" / task,
    }
    for task in ("maze", "key-chest")
}
SEARCHES = {
    "maze": {
        "neither": CHOICES / "maze-falls-neither",
        "search": CHOICES / "maze-falls-search",
        "search, copies": CHOICES / "maze-falls-both",
        "search, faster copies": CHOICES / "maze-falls-faster",
        "search, faster copies, ten other seeds": CHOICES / "maze-falls-faster-again",
        "adjacent search, copies": CHOICES / "maze-search-adjacent",
        "adjacent search, faster copies": CHOICES / "maze-search-adjacent-faster",
    }
}
SEARCHED = 500_000
"""All of these were trained for so many steps."""
VARIANTS = {
    "ant-maze": {
        "1 update": RESULTS / "plus/ant-maze-1-update",
        "1 update, quiet 0.2": CHOICES / "ant-maze-plus-quiet",
        "1 update, eta 1": CHOICES / "ant-maze-plus-eta1",
        "1 update, eta 1, quiet 0.2": CHOICES / "ant-maze-plus-eta1-quiet",
        "3 updates": CHOICES / "ant-maze-plus-updates3",
        "3 updates, eta 1": CHOICES / "ant-maze-plus-eta1-updates3",
        "10 updates, eta 1": CHOICES / "ant-maze-plus-eta1-updates10",
        "3 updates, eta 1, rewards / 10": CHOICES / "ant-maze-plus-eta1-updates3-scale",
    },
    "ant-maze-sparse": {
        "1 update": RESULTS / "plus/ant-maze-sparse-1-update",
        "3 updates": CHOICES / "ant-maze-sparse-plus-updates3",
        "3 updates, eta 1": CHOICES / "ant-maze-sparse-plus-eta1-updates3",
    },
    "ant-gather": {
        "1 update": RESULTS / "plus/ant-gather-1-update",
        "1 update, eta 1": CHOICES / "ant-gather-plus-eta1",
        "3 updates": CHOICES / "ant-gather-plus-updates3",
        "3 updates, eta 1": CHOICES / "ant-gather-plus-eta1-updates3",
    },
}
"""All without hindsight, and with eta 2 unless another is named."""
POINTS = {
    "point-maze-sparse": {
        "plain, eta 20": CHOICES / "point-maze-sparse",
        "slope, eta 4": CHOICES / "point-maze-sparse-slope4",
        "slope, eta 2": CHOICES / "point-maze-sparse-slope2",
        "slope, eta 4, decay 1e-5": CHOICES / "point-maze-sparse-slope4-decay",
        "slope, eta 2, decay 1e-5": CHOICES / "point-maze-sparse-slope2-decay",
        "slope, eta 1, decay 1e-5": CHOICES / "point-maze-sparse-slope1-decay",
    },
    "point-maze": {
        "plain, eta 20": CHOICES / "point-maze-paper",
        "slope, eta 4": CHOICES / "point-maze-slope4",
        "slope, eta 1, decay 1e-5": CHOICES / "point-maze-slope1-decay",
    },
}
PLUS_POINTS = {
    task: {
        "eta 2, 1 update": RESULTS / "plus" / f"{task}-1-update",
        "eta 2": RESULTS / "plus" / f"{task}-eta2",
        "`hrac-plus`": RESULTS / "plus" / task,
    }
    for task in ("point-maze", "point-maze-sparse")
}
"""On Point Maze the two with eta 2 have no hindsight."""
HOW = {
    "eval/fallen": ".0%",
    "eval/failed_stuck": ".0%",
    "eval/subgoal_length": ".2f",
    "eval/window_displacement": ".2f",
    "eval/subgoal_in_wall": ".0%",
    "manager/value": ".2f",
    "train/fallen": ".1%",
}
PAPERS_ETA = 20
SETTLED = 100_000
"""Steps after a seed's first evaluation at `SOLVED`."""


def falls() -> None:
    """Evaluations of solved seeds, those at 5.0 and those below: what the same agent does in training at that time."""
    names = ("eval/return", "train/return", "train/success", "eval/subgoal_miss", "train/subgoal_miss", "manager/value")
    print("| task | evaluations of solved seeds | how many | " + " | ".join(names) + " |\n|" + "---|" * (len(names) + 3))
    for task, title in TITLES.items():
        cells = {name: cell_of(RESULTS / task, name) for name in names}
        returns = cells["eval/return"]
        later = returns.steps > statistics.steps_to(returns, SOLVED)[:, None]
        for words, kept in ("at 5.0 or above", returns.values >= SOLVED), ("below 5.0", returns.values < SOLVED):
            means = (_where(cells[name], returns.steps, later & kept) for name in names)
            print(f"| {title} | {words} | {(later & kept).sum()} | " + " | ".join(f"{mean:.2f}" for mean in means) + " |")


def _where(cell: statistics.Cell, steps: np.ndarray, kept: np.ndarray) -> float:
    """The mean of a metric over some of the evaluations, by the steps that both were logged at."""
    both = np.isin(steps, cell.steps)
    return float(cell.values[:, np.isin(cell.steps, steps)][kept[:, both]].mean())


def falls_by_seed() -> None:
    """Which seeds of `hrac-plus` fall later than `SETTLED` steps after their first evaluation at `SOLVED`, and until when."""
    print("| task | run | seed | first at 5.0 | below 5.0, 100,000 steps later | the last at |\n|" + "---|" * 6)
    for task, runs in PLUS_GRIDS.items():
        for name, folder in {
            "reporting seeds": runs["`hrac-plus`"],
            "chosen by": GRIDS[task][f"{QUIET_AFTER}, adjacent search, faster copies"],
        }.items():
            cell = cell_of(folder, "eval/return")
            for seed, values, first in zip(cell.seeds, cell.values, statistics.steps_to(cell, SOLVED), strict=True):
                if len(low := cell.steps[(cell.steps > first + SETTLED) & (values < SOLVED)]):
                    print(f"| {TITLES[task]} | {name} | {seed} | {first:,.0f} | {len(low)} | {low[-1]:,} |")


def each_ant() -> None:
    """How the evaluation of each seed of `hrac-plus` on Ant Maze went at 1,000,000 steps."""
    names = ("eval/success", "eval/failed_stuck", "eval/failed_out_of_time", "eval/failed_fallen", "eval/window_displacement")
    names += ("train/return", "adjacency/cells")
    print("| settings | seed | " + " | ".join(names) + " |\n|" + "---|" * (len(names) + 2))
    for label, folder in list(PLUS["ant-maze"].items())[1:]:
        for seed, row in enumerate(zip(*(at(folder, name, 1_000_000) for name in names), strict=True)):
            print(f"| {label} | {seed} | " + " | ".join(f"{value:,.2f}" for value in row) + " |")


def far_subgoals() -> None:
    """Evaluations of solved seeds on Maze, those at 5.0 and those below: how many subgoals are within k."""
    print("| settings | subgoals within k, at 5.0 or above | below 5.0 |\n|---|---|---|")
    for name, folder in GRIDS["maze"].items():
        returns, within = cell_of(folder, "eval/return"), cell_of(folder, "eval/subgoal_within_k")
        later = returns.steps > statistics.steps_to(returns, SOLVED)[:, None]
        parts = (later & (returns.values >= SOLVED), later & (returns.values < SOLVED))
        shown = (f"{_where(within, returns.steps, part):.0%} of {part.sum()}" if part.any() else "" for part in parts)
        print(f"| {name} | " + " | ".join(shown) + " |")


def after_settling(folder: Path) -> str:
    """Evaluations below `SOLVED` later than `SETTLED` steps after a seed's first one at it."""
    cell = cell_of(folder, "eval/return")
    later = cell.steps > statistics.steps_to(cell, SOLVED)[:, None] + SETTLED
    return f"{(later & (cell.values < SOLVED)).sum()} of {later.sum()}"


def grids(tasks: Mapping[str, Mapping[str, Path]]) -> None:
    print("| task | settings | seeds | to step | return, last ten evaluations | worst seed | first mean return > 5.0 ", end="")
    print("| steps to 5.0, median | below 5.0 after the first at 5.0 | the same, 100,000 steps later |\n|" + "---|" * 10)
    for task, runs in tasks.items():
        for name, folder in runs.items():
            cell = cell_of(folder, "eval/return")
            score, error = last_ten(folder, "eval/return")
            median = np.median(statistics.steps_to(cell, SOLVED))
            soon = f"{median:,.0f}" if np.isfinite(median) else "never"
            print(
                f"| {TITLES[task]} | {name} | {len(cell.values)} | {cell.steps[-1]:,} | {score:.2f} +- {error:.2f} | "
                f"{cell.values[:, -10:].mean(axis=1).min():.2f} | {first_above(folder, SOLVED)} | {soon} | "
                f"{fallen(folder)} | {after_settling(folder)} |"
            )


def ends(tasks: Mapping[str, Mapping[str, Path]], until: float = np.inf) -> None:
    """How often the goal itself is reached at the end. Nearly all of the return is paid on the way."""
    print("| task | settings | success, last ten evaluations | seeds below 90 % |\n|---|---|---|---|")
    for task, runs in tasks.items():
        for name, folder in runs.items():
            success = read(folder, "eval/success")
            each = success.values[:, success.steps <= until][:, -10:].mean(axis=1)
            low = ", ".join(f"{value:.1%}" for value in sorted(each[each < 0.9]))
            print(f"| {TITLES[task]} | {name} | {each.mean():.1%} | {low} |")


def points(runs: Mapping[str, Path]) -> None:
    """Success every 20,000 steps."""
    by_step(runs, wanted=lambda step: step % 20_000 == 0)


PULLED = {
    "Point Maze, plain, eta 20": CHOICES / "point-maze-pulls",
    "Point Maze Sparse, plain, eta 20": CHOICES / "point-maze-sparse-pulls",
    "Ant Maze, eta 2, 1 update": RESULTS / "plus/ant-maze-1-update",
    "Ant Maze Sparse, eta 2, 1 update": RESULTS / "plus/ant-maze-sparse-1-update",
    "Ant Gather, eta 2, 1 update": RESULTS / "plus/ant-gather-1-update",
    "Maze, slope, eta 2, discount 0.95": CHOICES / "maze-slope2-d95",
    "Key-Chest, slope, eta 2, discount 0.95": CHOICES / "key-chest-slope2-d95",
}


def pulls() -> None:
    """How much stronger the adjacency loss would pull than the value with the paper's loss and eta, by the logged slopes."""
    print("| run | at a fifth of its steps | in the middle | at the end |\n|---|---|---|---|")
    for name, folder in PULLED.items():
        value, distance = read(folder, "manager/value_slope"), read(folder, "manager/distance_slope")
        pull = PAPERS_ETA * distance.values / value.values
        columns = (pull[:, int(share * (len(value.steps) - 1))] for share in (0.2, 0.5, 1.0))
        print(
            f"| {name} | "
            + " | ".join(f"{np.median(each):,.0f} ({each.min():,.0f} to {each.max():,.0f})" for each in columns)
            + " |"
        )


def each_return(row: np.ndarray) -> str:
    """The mean, and each seed."""
    return f"{row.mean():.2f} ({', '.join(f'{value:.2f}' for value in row)})"


def ants(runs: Mapping[str, Path], metric: str, until: int = 1_000_000) -> None:
    """A score by step, then how the last evaluation of each run went."""
    show = percent if metric == "eval/success" else each_return
    by_step(runs, metric, lambda step: step <= until and step != 50_000, show)
    print()
    how_it_went({name: (folder, int(read(folder, metric).steps[-1])) for name, folder in list(runs.items())[1:]}, HOW)


if __name__ == "__main__":
    falls()
    print()
    grids(PLUS_GRIDS)
    print()
    ends(PLUS_GRIDS)
    print()
    ends(SEARCHES, SEARCHED)
    print()
    grids(GRIDS)
    print()
    falls_by_seed()
    print()
    far_subgoals()
    print()
    pulls()
    print()
    each_ant()
    print()
    by_step(TRAININGS, wanted=lambda step: step % 250_000 == 0 and step > 0)
    for task, runs in (*POINTS.items(), *PLUS_POINTS.items()):
        print(f"\n{task}\n")
        points(runs)
    for tables, until in ((PLUS, 2_000_000), (ANTS, 1_000_000), (VARIANTS, 1_000_000)):
        for task, runs in tables.items():
            print(f"\n{task}\n")
            ants(runs, "eval/return" if task == "ant-gather" else "eval/success", until)
