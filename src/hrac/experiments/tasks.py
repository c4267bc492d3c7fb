"""The tasks: a row for each, with its environment and the settings the paper uses for it."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from hrac.config import Config, ConfigError, GridConfig, replace
from hrac.envs.base import Environment
from hrac.envs.grid import KeyChest, Maze
from hrac.envs.layout import LayoutError
from hrac.experiments import methods


class Task(NamedTuple):
    """What a name on the command line stands for."""

    summary: str
    make: Callable[[GridConfig], Environment]
    settings: dict[str, Any]
    """Where the task departs from the defaults of `Config`."""


def _keywords(env: GridConfig) -> dict[str, Any]:
    return {name: value for name, value in dataclasses.asdict(env).items() if value is not None}


TASKS = {
    "maze": Task(
        "grid world, dense reward, 58 moves to the goal; best return 5.8",
        lambda env: Maze(**_keywords(env)),
        {},
    ),
    "key-chest": Task(
        "grid world, sparse reward: fetch the key (+1), open the chest (+5); best return 6.0",
        lambda env: KeyChest(**_keywords(env)),
        {
            "manager.noise_sigma": 5.0,
            "manager.buffer_windows": 20_000,
            "training.total_env_steps": 2_000_000,
            "training.envs_per_run": 10,
        },
    ),
}


def find(name: str) -> Task:
    """The task of a name; raises `ConfigError`."""
    if name not in TASKS:
        raise ConfigError(f"task: there is no {name!r}. Tasks are: {', '.join(TASKS)}")
    return TASKS[name]


def make_env(config: Config) -> Environment:
    """The environment of a configuration; raises `ConfigError`."""
    try:
        return find(config.task).make(config.env)
    except LayoutError as error:
        raise ConfigError(f"env.layout: {error}") from None


def config_for(task: str, method: str) -> Config:
    """The paper's settings for a method on a task; raises `ConfigError`."""
    changes = {"task": task, "method": method} | find(task).settings | methods.find(method).settings
    return replace(Config(), changes)
