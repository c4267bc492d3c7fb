"""A point as slow as an ant, in Ant Maze: `python benchmarks/slow_point.py` prints the tables, with a name it trains that run.

An ant must learn to walk before its manager can learn anything, which takes a GPU. This point can move from the start, and a
window takes it as far as an ant. So its manager meets the same corridor, and the wall between it and its target, in the same
number of decisions. There is no off-policy correction, which takes most of the time on a CPU: the controller is soon the same.
"""

import argparse
from pathlib import Path
from typing import Any

from report import CHOICES, by_step, percent, read

import hrac
from hrac.envs.base import HostTask
from hrac.envs.point import PointMaze
from hrac.experiments.task import POINT_MAZE, Task

ANT_MAZE = {"block_size": 8.0, "success_radius": 5.0, "time_limit": 500}
SLOW = 0.1
"""The limit of the speed: ten steps take the point 1 along an axis, as they take an ant that has learned to walk."""
STEPS = 300_000
SEEDS = tuple(range(100, 105))


def make(changes: dict[str, Any]) -> HostTask:
    """The environment."""
    return PointMaze(**ANT_MAZE | {"max_speed": SLOW} | changes)


TASK = Task(
    "slow-point",
    "a point as slow as an ant, in Ant Maze",
    make,
    ("time_limit",),
    POINT_MAZE
    | {
        "manager.subgoal_range": 10.0,
        "manager.correction_candidates": 0,
        "manager.hidden": (128, 128),
        "controller.reach_radius": 2**0.5,
        "adjacency.pretrain_env_steps": 25_000,
        "adjacency.update_every_env_steps": 25_000,
        "adjacency.max_gradient_steps": 4_000,
        "training.envs_per_run": 20,
        "training.eval_every_env_steps": 25_000,
        "training.eval_episodes": 30,
    },
    sees_target=True,
)
RUNS: dict[str, dict[str, Any]] = {
    "eta-2": {"manager__eta": 2.0, "manager__hindsight": 0.0},
    "eta-2-hindsight": {"manager__eta": 2.0, "manager__hindsight": 0.5},
    "eta-2-pull": {"manager__eta": 2.0, "manager__hindsight": 0.0, "manager__way_pull": 2.0},
    "eta-2-hindsight-pull": {"manager__eta": 2.0, "manager__hindsight": 0.5, "manager__way_pull": 2.0},
    "eta-1-hindsight": {"manager__eta": 1.0, "manager__hindsight": 0.5},
}
"""Settings beside those of `hrac-plus`, which has the last ones itself."""
PARTS: dict[str, dict[str, Any]] = {
    "no-hindsight": {"manager__hindsight": 0.0},
    "1-update": {"manager__updates_per_window": 1},
    "more-decay": {"manager__critic_weight_decay": 1e-4},
    "plain-values": {"manager__value_scale": "plain", "manager__eta": 20.0},
}
"""`hrac-plus` with one of its parts as `hrac` has it."""


def table() -> None:
    """Success of all runs, at each evaluation; then of `hrac-plus` and the runs that have all but one of its parts."""
    by_step({name: CHOICES / f"slow-point-{name}" for name in RUNS})
    print()
    whole = {"`hrac-plus`": "eta-1-hindsight", "eta-2": "eta-2-hindsight"}
    folders = {title: CHOICES / f"slow-point-{name}" for title, name in (whole | {name: name for name in PARTS}).items()}
    by_step(folders)
    means = (percent(read(folder, "eval/success").values.mean(axis=1)) for folder in folders.values())
    print("| mean of all | " + " | ".join(means) + " |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", choices=RUNS | PARTS)
    parser.add_argument("--out", type=Path, help="folder for the results")
    options = parser.parse_args()
    if options.name is None:
        table()
    else:
        out = options.out or Path("runs") / f"slow-point-{options.name}"
        hrac.train(TASK, "hrac-plus", seeds=SEEDS, steps=STEPS, out=out, **(RUNS | PARTS)[options.name])
