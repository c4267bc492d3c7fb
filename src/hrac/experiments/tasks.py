"""The tasks: one row per task, with its environment and the paper's settings for it."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from hrac.config import Config, ConfigError, replace
from hrac.envs import point
from hrac.envs.base import Environment, HostTask
from hrac.envs.grid import KeyChest, Maze
from hrac.envs.layout import LayoutError
from hrac.experiments import methods
from hrac.spaces import Box


@dataclasses.dataclass(frozen=True)
class Task:
    """What an agent is trained on: a function that makes its environment, and the settings for it."""

    name: str
    summary: str
    make: Callable[[dict[str, Any]], Environment | HostTask]
    """Makes the environment from the fields of `EnvConfig` that are set."""
    fields: tuple[str, ...]
    """The fields of `EnvConfig` that it accepts."""
    settings: dict[str, Any]
    """Settings in which the task differs from the defaults of `Config`."""
    presets: Mapping[str, dict[str, Any]] = dataclasses.field(default_factory=lambda: {"paper": {}})
    """Names after `--preset`, and the settings that each changes."""


def _ant_maze(**changes: Any) -> HostTask:
    from hrac.envs.ant.maze import AntMaze  # MuJoCo is imported only where it is needed

    return AntMaze(**changes)


def _ant_maze_sparse(**changes: Any) -> HostTask:
    from hrac.envs.ant.maze import SPARSE

    return dataclasses.replace(SPARSE, **changes)


def _ant_gather(**changes: Any) -> HostTask:
    from hrac.envs.ant.gather import AntGather

    return AntGather(**changes)


GRID_FIELDS = ("layout", "time_limit", "random_action_prob", "random_start")
TWO_TD3 = {
    "manager.subgoals": "relative",
    "manager.subgoal_range": 10.0,
    "manager.candidates": 1,
    "manager.noise_sigma": 1.0,
    "manager.buffer_windows": 200_000,
    "manager.start_fraction": 0.001,
    "manager.batch_size": 128,
    "manager.soft_update_rate": 0.005,
    "manager.value_every_gradient_steps": 1,
    "manager.critic_loss": "huber",
    "manager.critic_weight_decay": 1e-4,
    "manager.target_noise_sigma": 0.2,
    "manager.correction_candidates": 10,
    "controller.learner": "td3",
    "controller.sees_position": False,
    "controller.discount": 0.95,
    "controller.intrinsic_reward": "distance",
    "controller.reach_radius": math.sqrt(2.0),
    "controller.reach_measure": "euclidean",
    "training.total_env_steps": 5_000_000,
    "training.round_env_steps": 400,
    "training.eval_every_env_steps": 100_000,
    "training.checkpoint_every_env_steps": 250_000,
    "training.eval_episodes": 50,
}
"""Tables 2 and 3 and the published code, for the ants."""

FAST = {
    "training.envs_per_run": 100,
    "training.round_env_steps": 500,
    "training.overlap": True,
    "controller.updates_per_env_step": 0.4,
    "controller.batch_size": 512,
    "controller.learning_rate": 2e-4,
    "controller.critic_learning_rate": 2e-3,
    "controller.soft_update_rate": 0.01,
    "manager.batch_size": 512,
    "manager.actor_learning_rate": 2e-4,
    "manager.critic_learning_rate": 2e-3,
    "manager.soft_update_rate": 0.01,
    "manager.start_fraction": 0.003,
}
"""The preset "fast" of the ants, for one GPU: ours, chosen on point-maze. benchmarks/README.md has its results on Ant Maze."""

POINT_MAZE = TWO_TD3 | {
    "manager.subgoal_range": 4.0,
    "manager.reward_scale": 0.1,
    "manager.buffer_windows": 20_000,
    "manager.start_fraction": 0.01,
    "manager.batch_size": 64,
    "manager.hidden": (64, 64),
    "controller.hidden": (64, 64),
    "controller.batch_size": 64,
    "controller.noise_sigma": 0.2,
    "controller.reach_radius": 0.5,
    "controller.target_noise_sigma": 0.1,
    "controller.target_noise_clip": 0.2,
    "adjacency.pretrain_env_steps": 20_000,
    "adjacency.update_every_env_steps": 20_000,
    "training.total_env_steps": 150_000,
    "training.eval_every_env_steps": 10_000,
    "training.checkpoint_every_env_steps": 50_000,
}
"""Small networks and short runs: ours, not the paper's."""

BUILT_IN = (
    Task(
        "maze",
        "grid world, dense reward, 58 moves to the goal; best return 5.8",
        lambda changes: Maze(**changes),
        GRID_FIELDS,
        {},
    ),
    Task(
        "key-chest",
        "grid world, sparse reward: fetch the key (+1), open the chest (+5); best return 6.0",
        lambda changes: KeyChest(**changes),
        GRID_FIELDS,
        {
            "manager.noise_sigma": 5.0,
            "manager.buffer_windows": 20_000,
            "training.total_env_steps": 2_000_000,
            "training.envs_per_run": 10,
        },
    ),
    Task(
        "point-maze",
        "a point in the U of Ant Maze with small networks: learns in minutes",
        lambda changes: point.PointMaze(**changes),
        ("layout", "block_size", "success_radius", "time_limit"),
        POINT_MAZE,
    ),
    Task(
        "point-maze-jax",
        "the same point in JAX: whole rounds run on the device",
        lambda changes: point.PointMaze(**changes).on_device(),
        ("layout", "block_size", "success_radius", "time_limit"),
        POINT_MAZE,
    ),
    Task(
        "point-maze-sparse",
        "a point in the maze of Ant Maze Sparse, random starts, sparse reward; success at (2, 9)",
        lambda changes: dataclasses.replace(point.SPARSE, **changes),
        ("time_limit",),
        POINT_MAZE | {"manager.reward_scale": 1.0, "training.total_env_steps": 300_000},
    ),
    Task(
        "ant-maze",
        "MuJoCo ant in a U-shaped corridor, dense reward; success at (0, 16) in evaluation",
        lambda changes: _ant_maze(**changes),
        ("layout", "block_size", "success_radius", "time_limit", "sigma"),
        TWO_TD3 | {"manager.reward_scale": 0.1},
        {"paper": {}, "fast": FAST},
    ),
    Task(
        "ant-maze-sparse",
        "MuJoCo ant in a winding corridor, random starts, sparse reward; success at (2, 9)",
        lambda changes: _ant_maze_sparse(**changes),
        ("time_limit", "sigma"),
        TWO_TD3,
        {"paper": {}, "fast": FAST},
    ),
    Task(
        "ant-gather",
        "MuJoCo ant that collects apples (+1) and avoids bombs (-1) by sight",
        lambda changes: _ant_gather(**changes),
        ("time_limit", "sigma"),
        TWO_TD3 | {"controller.ends_with_window": True},
        {"paper": {}, "fast": FAST},
    ),
)

TASKS = {task.name: task for task in BUILT_IN}
"""By name: the built-in tasks, and those that `register` added."""


def register(task: Task) -> None:
    """Make a task known by its name in this process; raises `ConfigError` if another task has that name."""
    if TASKS.setdefault(task.name, task) != task:
        raise ConfigError(f"task: there is another {task.name!r} already")


def find(name: str) -> Task:
    """The task of a name; raises `ConfigError`."""
    if name not in TASKS:
        raise ConfigError(f"task: there is no {name!r}. Tasks are: {', '.join(TASKS)}")
    return TASKS[name]


def make_env(config: Config) -> Environment | HostTask:
    """The environment of a configuration; raises `ConfigError`."""
    task = find(config.task)
    config_for(config.task, config.method, config.preset)  # checks that all names exist
    changes = {name: value for name, value in dataclasses.asdict(config.env).items() if value is not None}
    for name in changes:
        if name not in task.fields:
            raise ConfigError(f"env.{name}: {config.task} has no use for it. It has for: {', '.join(task.fields)}")
    try:
        world = task.make(changes)
    except LayoutError as error:
        raise ConfigError(f"env.layout: {error}") from None
    _check_fit(config, world)
    return world


def _check_fit(config: Config, world: Environment | HostTask) -> None:
    """Check that the settings fit the environment; raises `ConfigError`."""
    env = world.batch(1, 1) if isinstance(world, HostTask) else world
    wanted, kind = ("td3", "continuous") if isinstance(env.actions, Box) else ("a2c", "discrete")
    given = config.controller.learner
    if given != wanted:
        raise ConfigError(f"controller.learner must be {wanted!r} on {config.task}, whose actions are {kind}, got {given!r}")
    threads = config.training.env_threads
    if threads is not None and not isinstance(world, HostTask):
        raise ConfigError(f"training.env_threads must be None on {config.task}, which is stepped on the device, got {threads}")
    targets = env.context_dim == len(env.position_low)
    if config.manager.subgoals == "task" and not targets:
        raise ConfigError(
            f"manager.subgoals must be 'absolute', 'relative' or 'none' on {config.task}, which shows no target, got 'task'"
        )
    if (penalty := config.controller.fallen_penalty) > 0 and not hasattr(env, "fallen"):
        raise ConfigError(
            f"controller.fallen_penalty must be 0 on {config.task}, which cannot tell who has fallen, got {penalty:g}"
        )


def config_for(task: str, method: str = "hrac", preset: str = "paper") -> Config:
    """The settings of a method on a task, from the paper or another preset; raises `ConfigError`."""
    row = find(task)
    if preset not in row.presets:
        raise ConfigError(f"preset: {task} has no {preset!r}. It has: {', '.join(row.presets)}")
    names = {"task": task, "method": method, "preset": preset}
    settings = row.settings | row.presets[preset]
    differences = methods.find(method).settings_for(settings.get("controller.learner", Config().controller.learner))
    return replace(Config(), names | settings | differences)
