"""The tasks: one row per task, with its environment and the paper's settings for it."""

import contextlib
import dataclasses
import functools
import itertools
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp

from hrac.adjacency.ways import MOST_CELLS, Grid
from hrac.config import Config, ConfigError, replace
from hrac.envs import point
from hrac.envs.base import BatchEnvironment, Environment, HostTask
from hrac.envs.grid import KeyChest, Maze
from hrac.envs.layout import LayoutError
from hrac.envs.look import TaskError
from hrac.envs.mazes import MAZES
from hrac.experiments import check, methods, references
from hrac.experiments.own import UNNAMED
from hrac.experiments.task import POINT_MAZE, TWO_TD3, Task
from hrac.spaces import Box
from hrac.worlds.host import closing


def _ant_maze(**changes: Any) -> HostTask:
    from hrac.envs.ant.maze import AntMaze  # MuJoCo is imported only where it is needed

    return AntMaze(**changes)


def _ant_maze_sparse(**changes: Any) -> HostTask:
    from hrac.envs.ant.maze import SPARSE

    return dataclasses.replace(SPARSE, **changes)


def _ant_gather(**changes: Any) -> HostTask:
    from hrac.envs.ant.gather import AntGather

    return AntGather(**changes)


def _mazes() -> Iterator[Task]:
    """The agents in each of `MAZES`. The settings are those for Ant Maze, and for the point in it."""
    for agent, maker, fields, settings in (
        ("ant", _ant_maze, ("time_limit", "sigma"), TWO_TD3),
        ("point", point.PointMaze, ("time_limit",), POINT_MAZE),
    ):
        for name, row in ((name, row) for name, row in MAZES.items() if agent in row.agents):
            yield Task(
                f"{agent}-{name}",
                f"{WHO[agent]} in {row.summary}",
                functools.partial(_made, maker, row.fields),
                fields,
                settings | {"manager.reward_scale": 0.1 if row.dense else 1.0} | row.settings,
                can_fall=agent == "ant",
                sees_target=True,
            )


def _made(maker: Callable[..., HostTask], fields: dict[str, Any], changes: dict[str, Any]) -> HostTask:
    return maker(**fields | changes)


WHO = {"ant": "MuJoCo ant", "point": "a point"}
GRID_FIELDS = ("layout", "time_limit", "random_action_prob", "random_start")
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
        sees_target=True,
    ),
    Task(
        "point-maze-jax",
        "the same point in JAX: whole rounds run on the device",
        lambda changes: point.PointMaze(**changes).on_device(),
        ("layout", "block_size", "success_radius", "time_limit"),
        POINT_MAZE,
        sees_target=True,
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
        can_fall=True,
        sees_target=True,
    ),
    Task(
        "ant-maze-sparse",
        "MuJoCo ant in a winding corridor, random starts, sparse reward; success at (2, 9)",
        lambda changes: _ant_maze_sparse(**changes),
        ("time_limit", "sigma"),
        TWO_TD3,
        can_fall=True,
    ),
    Task(
        "ant-gather",
        "MuJoCo ant that collects apples (+1) and avoids bombs (-1) by sight",
        lambda changes: _ant_gather(**changes),
        ("time_limit", "sigma"),
        TWO_TD3 | {"controller.ends_with_window": True},
        can_fall=True,
    ),
    *_mazes(),
)

BUILT_IN_NAMES = frozenset(task.name for task in BUILT_IN)
TASKS = {task.name: task for task in BUILT_IN}
"""By name: the built-in tasks, and those that `register` added."""
GIVEN: dict[str, Task] = {}
"""Tasks of environments that were given to `hrac.train` as they are, by their references."""


def register(task: Task) -> None:
    """Make a task known by its name in this process; raises `ConfigError` if another task has that name."""
    if TASKS.setdefault(task.name, task) != task:
        raise ConfigError(f"task: there is another {task.name!r} already")


def find(name: str) -> Task:
    """The task of a name; raises `ConfigError`."""
    if name in TASKS or name in GIVEN:
        return TASKS.get(name) or GIVEN[name]
    if references.is_reference(name):
        return references.find(name)
    own = "one of your own is named gym:ID (Gymnasium's) or module:name, or registered in this process (hrac.register)"
    raise ConfigError(f"task: there is no {name!r}. Tasks are: {', '.join(TASKS)}; {own}")


def name_of(thing: Any) -> str:
    """The name of a task, an environment or what makes one. It is known by it in this process, and in others if it can be."""
    reference = references.reference_of(thing)
    unnamed = isinstance(thing, Task) and thing.name == UNNAMED
    if isinstance(thing, Task) and not unnamed and (reference is None or TASKS.get(thing.name) is thing):
        register(thing)
        return thing.name
    if isinstance(thing, gymnasium.Env):
        if reference is None:
            raise TaskError("task: this environment cannot be made again by its id; give a function that makes it")
        return reference
    name = reference or _free_name(thing)
    GIVEN[name] = references.as_task(thing, name)
    return name


def _free_name(thing: Any) -> str:
    """A name that no other task has, for what no other process can find."""
    plain = re.sub(r"\W+", "", getattr(thing, "__name__", type(thing).__name__)) or UNNAMED
    return next(name for number in itertools.count(1) if (name := f"{plain}-{number}") not in TASKS | GIVEN)


def resolve(config: Config) -> Config:
    """The configuration with what is measured of its environment filled in; raises `ConfigError` or `TaskError`."""
    task = find(config.task)
    if task.resolve is None:
        return config
    found = task.resolve(_env_changes(task, config))
    return replace(config, {f"env.{name}": value for name, value in found.items()})


def make_env(config: Config) -> Environment | HostTask:
    """The environment of a configuration; raises `ConfigError`."""
    task = find(config.task)
    config_for(config.task, config.method)  # checks that all names exist
    try:
        world = task.make(_env_changes(task, config))
    except LayoutError as error:
        raise ConfigError(f"env.layout: {error}") from None
    check.require_protocol(world, config.task)
    _check_fit(config, world)
    return world


def _env_changes(task: Task, config: Config) -> dict[str, Any]:
    """The fields of `EnvConfig` that are set; raises `ConfigError` if the task has no use for one."""
    changes = {name: value for name, value in dataclasses.asdict(config.env).items() if value is not None}
    for name in changes:
        if name not in task.fields:
            raise ConfigError(f"env.{name}: {config.task} has no use for it. It has for: {', '.join(task.fields)}")
    return changes


def _check_fit(config: Config, world: Environment | HostTask) -> None:
    """Check that the settings fit the environment; raises `ConfigError`."""
    with contextlib.ExitStack() as stack:
        env = stack.enter_context(closing(check.copies_of(world, 1))) if isinstance(world, HostTask) else world
        _check_settings(config, world, env)


def _check_settings(config: Config, world: Environment | HostTask, env: Environment | BatchEnvironment) -> None:
    wanted, kind = ("td3", "continuous") if isinstance(env.actions, Box) else ("a2c", "discrete")
    given = config.controller.learner
    if given != wanted:
        raise ConfigError(f"controller.learner must be {wanted!r} on {config.task}, whose actions are {kind}, got {given!r}")
    threads = config.training.env_threads
    if threads is not None and not isinstance(world, HostTask):
        raise ConfigError(f"training.env_threads must be None on {config.task}, which is stepped on the device, got {threads}")
    view = getattr(world, "view", None)
    targets = env.context_dim == len(env.position_low) if view is None else view.shows_target
    if (chance := config.manager.target_chance) > 0 and not targets:
        raise ConfigError(f"manager.target_chance must be 0 on {config.task}, which shows no target, got {chance:g}")
    if config.manager.hindsight > 0:
        _check_outcome(config, env, targets)
    if config.manager.way_pull > 0:
        _check_ways(config, env, targets)
    if config.manager.subgoals == "task" and not targets:
        raise ConfigError(
            f"manager.subgoals must be 'absolute', 'relative' or 'none' on {config.task}, which shows no target, got 'task'"
        )
    for name in ("subgoal_range", "noise_sigma"):
        given, coordinates = getattr(config.manager, name), len(env.position_low)
        if isinstance(given, tuple) and len(given) != coordinates:
            raise ConfigError(
                f"manager.{name} must be one number or {coordinates}, one per coordinate of goal space, got {given}"
            )


def _check_ways(config: Config, env: Environment | BatchEnvironment, targets: bool) -> None:
    """Check that ways to a target can be kept for all cells; raises `ConfigError`."""
    zero = f"manager.way_pull must be 0 on {config.task}"
    if not targets:
        raise ConfigError(f"{zero}, which shows no target, got {config.manager.way_pull:g}")
    cells = Grid.over(env.position_low, env.position_high, config.adjacency.cell_size).size
    if cells > MOST_CELLS:
        raise ConfigError(
            f"{zero}, whose goal space has {cells:,} cells: ways are kept for at most {MOST_CELLS:,}. Larger cells are fewer"
        )


def _check_outcome(config: Config, env: Environment | BatchEnvironment, targets: bool) -> None:
    """Check that an environment tells what other targets would pay, in the form that hindsight needs; raises `ConfigError`."""
    zero = f"manager.hindsight must be 0 on {config.task}"
    outcome = getattr(env, "outcome", None) if targets else None
    if outcome is None:
        what = "which does not tell what other targets would pay" if targets else "which shows no target"
        raise ConfigError(f"{zero}, {what}, got {config.manager.hindsight:g}")
    points = [jax.ShapeDtypeStruct((2, width, len(env.position_low)), jnp.float32) for width in (3, 1)]
    try:
        hash(outcome)
        told = jax.eval_shape(lambda *pair: tuple(map(jnp.asarray, outcome(*pair))), *points)
        forms = [(part.shape, part.dtype.kind) for part in told]
    except Exception as error:
        raise ConfigError(
            f"{zero}, whose outcome does not work with JAX's arrays (..., goal): {type(error).__name__}: "
            f"{str(error).splitlines()[0][:200] if str(error) else ''}"
        ) from error
    if forms != [((2, 3), "f"), ((2, 3), "b")]:
        raise ConfigError(f"{zero}, whose outcome must return rewards (...) and booleans (...) for positions (..., goal)")


def config_for(task: str, method: str = "hrac") -> Config:
    """The settings of a method on a task; raises `ConfigError`."""
    row = find(task)
    learner = row.settings.get("controller.learner", Config().controller.learner)
    differences = methods.find(method).settings_for(learner, row.can_fall, row.sees_target)
    plain = replace(Config(), {"task": task, "method": method} | row.settings)
    for name, value in differences.items():
        if isinstance(value, methods.AtMost | methods.AtLeast):
            differences[name] = value.of(operator.attrgetter(name)(plain))
    return replace(plain, differences)
