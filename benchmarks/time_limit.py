"""What the time limit of an episode teaches the manager of Ant Maze: `python benchmarks/time_limit.py` prints the tables.

The reward is minus the distance to the target, at every step. Behind the wall, at (0, 4), the agent is 12 away from it. The
way around the wall is paid for at once, and pays off later, if there is a later. Here a point without a body goes at a
constant speed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from report import CHOICES, RESULTS, at, percent, read

WAY = np.array([(0.0, 4.0), (12.0, 4.0), (12.0, 12.0), (0.0, 16.0)])
"""From behind the wall around its end to the target."""
STAY = float(np.linalg.norm(WAY[0] - WAY[-1]))
"""How far the target is from behind the wall."""
K, LIMIT, DISCOUNT = 10, 500, 0.99
SPEEDS = (1.2, 1.0, 0.8, 0.6)
"""The way in a window."""
TITLES = {"ends": "`hrac-plus`", "goes-on": "beyond the limit", "goes-on-0.98": "beyond, discount 0.98"}
"""Of the settings, by the ends of their folders' names."""
SLOW_POINT = {
    title: [CHOICES / f"time-limit-slow-point-{seeds}-{name}" for seeds in ("100-104", "105-109")]
    for name, title in (TITLES | {"soft-0.02": "faster slow copies"}).items()
}
WALKING_ANT = {
    title + added: [CHOICES / f"time-limit-walking-ant-{name}" / actors]
    for name, title in TITLES.items()
    for added, actors in (("", "newest"), (", averaged", "20000"))
}
EVERY = 25_000
"""Evaluations within this many steps are one row."""
ANTS = {"first run": RESULTS / "plus" / "ant-maze", "second run": RESULTS / "plus-ablations" / "ant-maze-hrac-plus"}
"""`hrac-plus` on Ant Maze, twice."""


def distances(per_window: float) -> NDArray[np.float64]:
    """How far the target is after each step on the way, at a constant speed."""
    legs = np.linalg.norm(np.diff(WAY, axis=0), axis=1)
    walked = np.minimum(np.arange(1, np.ceil(legs.sum() / per_window * K) + 1) * per_window / K, legs.sum())
    after = np.concatenate([[0.0], np.cumsum(legs)])
    places = np.stack([np.interp(walked, after, WAY[:, axis]) for axis in (0, 1)], axis=1)
    return np.linalg.norm(places - WAY[-1], axis=1)


def cost(each_step: NDArray[np.float64], windows: int) -> float:
    """The discounted cost of some windows. After the given steps nothing is paid."""
    padded = np.zeros(windows * K)
    paid = each_step[: len(padded)]
    padded[: len(paid)] = paid
    return float(padded.reshape(windows, K).sum(axis=1) @ DISCOUNT ** np.arange(windows))


def first_to_stay(per_window: float) -> int:
    """The first step of an episode from which staying behind the wall costs less than the way, because the episode ends."""
    go, stay = distances(per_window), np.full(LIMIT, STAY)
    windows = {step: (LIMIT - step) // K for step in range(0, LIMIT, K)}
    return next(step for step, left in windows.items() if cost(stay, left) < cost(go, left))


def stay_or_go() -> None:
    """What standing behind the wall and the way around it cost, within the time limit and without one."""
    forever = STAY * K / (1 - DISCOUNT)
    titles = ("way in a window", "steps of the way", "staying is better from step", "cost of the way, no limit", "of staying")
    print("| " + " | ".join(titles) + " |\n|" + "---|" * len(titles))
    for speed in SPEEDS:
        go = distances(speed)
        whole = cost(go, -(-len(go) // K))
        print(f"| {speed} | {len(go)} | {first_to_stay(speed)} | {whole:,.0f} | {forever:,.0f} |")


def where_ants_stand() -> None:
    """How evaluations of each seed go. Where none succeeds, minus the return / 500 is the mean distance to the target."""
    columns = {
        "success, %": ("eval/success", 100, 0),
        "minus return / 500": ("eval/return", -1 / LIMIT, 1),
        "stuck, %": ("eval/failed_stuck", 100, 0),
        "subgoals in walls, %": ("eval/subgoal_in_wall", 100, 0),
    }
    print("| ants | step | " + " | ".join(columns) + " |\n|" + "---|" * (len(columns) + 2))
    for name, folder in ANTS.items():
        for step in (250_000, 500_000, 750_000):
            cells = (
                ", ".join(f"{factor * value:.{digits}f}" for value in at(folder, metric, step))
                for metric, factor, digits in columns.values()
            )
            print(f"| {name} | {step:,} | " + " | ".join(cells) + " |")


def seeds_within(folders: Sequence[Path], first: int, last: int, metric: str = "eval/success") -> NDArray[np.float64]:
    """The mean of each seed of some folders in the evaluations after a step, up to another."""
    means = []
    for series in (read(folder, metric) for folder in folders):
        means.append(series.values[:, (series.steps > first) & (series.steps <= last)].mean(axis=1))
    return np.concatenate(means)


def last_step(folders: Sequence[Path]) -> int:
    """The last step of the shortest of some runs, in whole stretches."""
    return min(int(read(folder, "eval/success").steps[-1]) for folder in folders) // EVERY * EVERY


def by_time(runs: Mapping[str, Sequence[Path]]) -> None:
    """Success: a column per setting, a row for each stretch of time. Then, of the time that all have, success and stuck."""
    print("| steps | " + " | ".join(runs) + " |\n|" + "---|" * (len(runs) + 1))
    ends = {title: last_step(folders) for title, folders in runs.items()}
    stretches = [(first, first + EVERY) for first in range(EVERY, max(ends.values()), EVERY)]
    for first, end in stretches:
        row = (percent(seeds_within(runs[title], first, end)) if end <= ends[title] else "" for title in runs)
        print(f"| {first:,} to {end:,} | " + " | ".join(row) + " |")
    common = min(ends.values())
    for name, metric in (("success", "eval/success"), ("stuck", "eval/failed_stuck")):
        row = (percent(seeds_within(folders, EVERY, common, metric)) for folders in runs.values())
        print(f"| {EVERY:,} to {common:,}, {name} | " + " | ".join(row) + " |")


def table() -> None:
    """All of it."""
    stay_or_go()
    print()
    where_ants_stand()
    for runs in (SLOW_POINT, WALKING_ANT):
        print()
        by_time(runs)


if __name__ == "__main__":
    table()
