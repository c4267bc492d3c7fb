"""Levels to compare curves with: the best that a task allows, or what the paper reports."""

from typing import NamedTuple

from hrac.config import Config


class Level(NamedTuple):
    """A value of a metric, and what it is."""

    value: float
    meaning: str


BEST = "best possible"
PAPER = "the paper, at 5,000,000 steps"
LEVELS = {
    ("maze", "eval/return"): Level(5.8, BEST),
    ("key-chest", "eval/return"): Level(6.0, BEST),
    ("ant-maze", "eval/success"): Level(0.96, PAPER),
    ("ant-maze-sparse", "eval/success"): Level(0.89, PAPER),
    ("ant-gather", "eval/return"): Level(3.0, PAPER),
}
"""By task and metric."""


def level_for(config: Config, metric: str) -> Level | None:
    """The level for a run, if its map is that of the paper and its actions have no noise of their own."""
    changed = config.env.layout is not None or bool(config.env.sigma)
    return None if changed else LEVELS.get((config.task, metric))
