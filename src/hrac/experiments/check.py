"""Checks a task: whether its environment keeps the rules, and what random actions do in it. Every mistake is one sentence.

The same checks run at the start of a training on an environment that is not in the package.
"""

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hrac.config import Config
from hrac.envs.base import BatchEnvironment, Environment, HostTask
from hrac.envs.hosted import Hosted
from hrac.envs.look import TaskError, cells_of
from hrac.envs.view import View
from hrac.errors import HracError
from hrac.spaces import Box, Discrete
from hrac.worlds.host import closing

STEPS = 2_000
"""Of random behaviour, in all copies together."""
MOST_SECONDS = 20.0
COPIES = 4
SOME_OUTSIDE, MOST_OUTSIDE = 0.1, 0.5
"""Shares of the visited points outside goal space that are worth a note, and that are a mistake."""
MOST_CELLS = 1_000_000
SIZES = ("actions", "obs_dim", "context_dim", "time_limit", "position_low", "position_high")
IN_JAX = (*SIZES, "ends_on_success", "reset", "step", "exploring", "evaluation")
ON_HOST = ("ends_on_success", "batch", "evaluation")
OF_COPIES = (*SIZES, "num_envs", "context", "reset", "step", "snapshot", "restore")


class Report(NamedTuple):
    """What the library sees of a task."""

    task: str
    obs_dim: int
    context_dim: int
    actions: Box | Discrete
    time_limit: int
    low: NDArray[np.float64]
    """Goal space, in the environment's units."""
    high: NDArray[np.float64]
    cell: NDArray[np.float64]
    visited_low: NDArray[np.float64]
    """What random actions visit."""
    visited_high: NDArray[np.float64]
    cells: int
    """Cells that they visit."""
    steps: int
    moved: NDArray[np.float64]
    """How far k of them go, in cells: nine of ten times at most this, in each coordinate."""
    k: int
    reach: NDArray[np.float64] | None
    """The range of subgoals in cells; None: the whole map."""
    rewards: tuple[float, float, float]
    """Lowest, mean, highest."""
    ended: int
    """Episodes that ended before the time limit."""
    success: bool
    """Whether evaluations tell success."""
    exact: bool
    """Whether a resumed training continues exactly."""
    steps_per_second: float
    measured: bool
    """Whether bounds and cells can be chosen by options: on environments that are not the package's."""
    warnings: tuple[str, ...]

    @property
    def options(self) -> str:
        """The bounds and cells as options of `hrac train`, to start from."""
        chosen = (("goal-low", self.low), ("goal-high", self.high), ("cell", self.cell))
        return " ".join(f"--env.{name} {' '.join(f'{value:.3g}' for value in values)}" for name, values in chosen)

    def __str__(self) -> str:
        kind = f"{self.actions.outputs} {'numbers' if isinstance(self.actions, Box) else 'choices'}"
        lowest, mean, highest = self.rewards
        reach = "the whole map" if self.reach is None else f"{_shown(self.reach)} cells"
        visited = f"{_shown(self.visited_low)} to {_shown(self.visited_high)}"
        success = "ends an evaluation episode" if self.success else "is not known: evaluations tell the return only"
        lines = [
            f"task           {self.task}",
            f"observation    {self.obs_dim} numbers, and {self.context_dim} that only the manager sees",
            f"action         {kind}",
            f"episode        at most {self.time_limit:,} steps; {self.ended} ended sooner in {self.steps:,} random steps",
            f"goal space     {_shown(self.low)} to {_shown(self.high)}, in cells of {_shown(self.cell)}",
            f"random actions {visited}: {self.cells} cells in {self.steps:,} steps",
            f"k = {self.k:<10} random steps move up to {_shown(self.moved)} cells; subgoals lie within {reach}",
            f"reward         {lowest:g} to {highest:g}, {mean:.3g} on average",
            f"success        {success}",
            f"resuming       {'continues exactly' if self.exact else 'begins new episodes: the state cannot be saved'}",
            f"speed          {self.steps_per_second:,.0f} steps/s in one process",
            *([f"to change      {self.options}"] if self.measured else []),
        ]
        return "\n".join([*lines, *(f"note: {warning}" for warning in self.warnings)])


def require_protocol(world: Any, name: str) -> None:
    """Raise `TaskError` if what a task made is no environment."""
    if isinstance(world, HostTask | Environment):
        return
    wanted, kind = (ON_HOST, "HostTask") if hasattr(world, "batch") else (IN_JAX, "Environment")
    missing = [attribute for attribute in wanted if not hasattr(world, attribute)]
    raise TaskError(
        f"{name}: {type(world).__name__} has no {', '.join(missing)}, which an hrac.envs.base.{kind} must have "
        "(for a Gymnasium environment use hrac.own_task)"
    )


def check(world: Environment | HostTask, config: Config) -> Report:
    """Random behaviour in some copies of an environment; raises `TaskError`."""
    task = world if isinstance(world, HostTask) else Hosted(world)
    try:
        with closing(copies_of(task, COPIES)) as env:
            space = _check_space(env, config)
            walk = _walk(env, config.k)
            exact = getattr(env, "exact", True)
            if exact:
                _check_snapshot(env)
        with closing(copies_of(task.evaluation(), 1)) as one:
            one.reset(seeds=np.zeros(1, np.int64))
            one.step(_random(one, np.random.default_rng(0)))
    except (HracError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise TaskError(f"{config.task}: the environment failed: {type(error).__name__}: {error}") from error
    plain = View(None, (1.0,) * len(space.low), (0.0,) * len(space.low))
    view: View = getattr(task, "view", plain)
    _check_visits(walk, space, view)
    reach = config.manager.subgoal_range
    return Report(
        task=config.task,
        obs_dim=env.obs_dim,
        context_dim=env.context_dim,
        actions=env.actions,
        time_limit=env.time_limit,
        low=view.outside(space.low),
        high=view.outside(space.high),
        cell=space.cell * view.cell,
        visited_low=view.outside(walk.points.min(axis=0)),
        visited_high=view.outside(walk.points.max(axis=0)),
        cells=cells_of(walk.points, space.cell),
        steps=len(walk.points),
        moved=np.quantile(walk.moved, 0.9, axis=0) / space.cell if len(walk.moved) else np.zeros(len(space.low)),
        k=config.k,
        reach=None if reach is None else np.broadcast_to(reach, len(space.low)),
        rewards=(float(walk.rewards.min()), float(walk.rewards.mean()), float(walk.rewards.max())),
        ended=walk.ended,
        success=task.evaluation().ends_on_success,
        exact=exact,
        steps_per_second=len(walk.points) / max(walk.seconds, 1e-9),
        measured=hasattr(task, "view"),
        warnings=(*_warnings(walk, space, config), *_success_warning(task, env)),
    )


class _Space(NamedTuple):
    """Goal space, in the library's units."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    cell: NDArray[np.float64]


class _Walk(NamedTuple):
    """What random actions did, in the library's units."""

    points: NDArray[np.float64]
    moved: NDArray[np.float64]
    """Absolute differences after k steps of one episode."""
    rewards: NDArray[np.float64]
    ended: int
    seconds: float


def copies_of(task: HostTask, count: int) -> BatchEnvironment:
    """Copies of a task on the host; raises `TaskError` if they are none."""
    env = task.batch(count, 1)
    if missing := [name for name in OF_COPIES if not hasattr(env, name)]:
        raise TaskError(f"batch must return an hrac.envs.base.BatchEnvironment, got {type(env).__name__} without {missing[0]}")
    return env


def _check_space(env: BatchEnvironment, config: Config) -> _Space:
    for name in ("position_low", "position_high"):
        bound = getattr(env, name)
        if not isinstance(bound, tuple) or not bound or not all(isinstance(value, int | float) for value in bound):
            raise TaskError(f"{name} must be a tuple of numbers, one per coordinate of goal space, got {bound!r}")
        if not np.isfinite(bound).all():
            raise TaskError(f"{name} must be finite, got {bound}: bounds tell where subgoals may lie")
    low, high = np.array(env.position_low, np.float64), np.array(env.position_high, np.float64)
    if low.shape != high.shape or (low >= high).any():
        raise TaskError(
            f"position_low must be below position_high in every coordinate, got {env.position_low}, {env.position_high}"
        )
    if not isinstance(env.actions, Box | Discrete):
        raise TaskError(f"actions must be an hrac.spaces.Box or Discrete, got {type(env.actions).__name__}")
    for name, least in (("obs_dim", len(low)), ("context_dim", 0), ("time_limit", 1)):
        value = getattr(env, name)
        if not isinstance(value, int) or value < least:
            raise TaskError(f"{name} must be a whole number from {least} up, got {value!r}")
    cell = np.full(len(low), config.adjacency.cell_size)
    counts, advice = np.ceil((high - low) / cell), f"try {np.max(high - low) / 20:.2g}"
    if (counts <= 1).all():
        raise TaskError(f"adjacency.cell_size = {cell[0]:g} puts all of goal space into one cell; {advice}")
    if counts.prod() > MOST_CELLS:
        raise TaskError(f"adjacency.cell_size = {cell[0]:g} makes {counts.prod():,.0f} cells, too many to visit; {advice}")
    return _Space(low, high, cell)


def _walk(env: BatchEnvironment, k: int) -> _Walk:
    """Random actions, reset where an episode ends."""
    goal, count = len(env.position_low), env.num_envs
    obs = _checked("reset", env.reset(seeds=np.arange(count)), (count, env.obs_dim))
    _checked("context", env.context, (count, env.context_dim))
    rng, began, ended = np.random.default_rng(0), time.monotonic(), 0
    recent = [[row] for row in obs[:, :goal]]
    points, moved, rewards = [obs[:, :goal]], [], []
    for _ in range(STEPS // count):
        if time.monotonic() - began > MOST_SECONDS:
            break
        after = env.step(_random(env, rng))
        obs = _checked("observation of step", after.obs, (count, env.obs_dim))
        rewards.append(_checked("reward of step", after.reward, (count,)))
        over = _flags(after.terminated, "terminated", count) | _flags(after.truncated, "truncated", count)
        for copy, path in enumerate(recent):
            path.append(obs[copy, :goal])
            if len(path) > k:
                moved.append(np.abs(path[-1] - path[-1 - k]))
            if over[copy]:
                ended += int(len(path) <= env.time_limit)
        points.append(obs[:, :goal])
        if over.any():
            ids = np.flatnonzero(over)
            for place, first in zip(ids.tolist(), _checked("reset", env.reset(ids), (len(ids), env.obs_dim)), strict=True):
                recent[place] = [first[:goal]]
    every = np.concatenate(points)
    return _Walk(every, np.array(moved).reshape(-1, goal), np.concatenate(rewards), ended, time.monotonic() - began)


def _random(env: BatchEnvironment, rng: np.random.Generator) -> NDArray[Any]:
    if isinstance(env.actions, Box):
        return rng.uniform(env.actions.low, env.actions.high, (env.num_envs, env.actions.outputs))
    return rng.integers(env.actions.choices, size=env.num_envs)


def _checked(name: str, values: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.float64]:
    array = np.asarray(values, np.float64)
    if array.shape != shape:
        raise TaskError(f"{name}: the array must have shape {shape}, got {array.shape}")
    if not np.isfinite(array).all():
        raise TaskError(f"{name}: all numbers must be finite, got {array[~np.isfinite(array)][0]}")
    return array


def _flags(values: ArrayLike, name: str, count: int) -> NDArray[np.bool_]:
    array = np.asarray(values)
    if array.shape != (count,) or array.dtype != np.bool_:
        raise TaskError(f"{name} of step must be {count} booleans, got {array.dtype} of shape {array.shape}")
    return array


def _check_snapshot(env: BatchEnvironment) -> None:
    """What follows a snapshot is what follows its restoration."""
    rng = np.random.default_rng(1)
    env.reset(seeds=np.arange(env.num_envs))
    saved, actions = env.snapshot(), _random(env, rng)
    if not isinstance(saved, dict) or not all(isinstance(array, np.ndarray) for array in saved.values()):
        raise TaskError(f"snapshot must return a dictionary of arrays, got {type(saved).__name__}")
    first = env.step(actions)
    env.restore(saved)
    again = env.step(actions)
    if not np.array_equal(first.obs, again.obs):
        raise TaskError("restore must continue exactly from a snapshot, but the next step gives another observation")


def _check_visits(walk: _Walk, space: _Space, view: View) -> None:
    """What random actions visit lies in goal space, and they move there."""
    if (outside := _outside(walk, space)) > MOST_OUTSIDE:
        reached = f"{_shown(view.outside(walk.points.min(axis=0)))} to {_shown(view.outside(walk.points.max(axis=0)))}"
        bounds = f"{_shown(view.outside(space.low))} to {_shown(view.outside(space.high))}"
        raise TaskError(
            f"the bounds of goal space, {bounds}, leave out {outside:.0%} of the points that random actions visit, from "
            f"{reached}; widen them"
        )
    if cells_of(walk.points, space.cell) == 1:
        raise TaskError(
            f"the goal does not move under random actions: all points are in one cell of {_shown(space.cell * view.cell)}. "
            "Choose smaller cells, other coordinates as goal space, or an environment in which actions have effects"
        )


def _success_warning(task: Any, env: Any) -> list[str]:
    key = getattr(task, "success", None)
    if not isinstance(key, str) or key in env.infos:
        return []
    return [f"env.success: random steps had no {key!r} in info, which has: {', '.join(sorted(env.infos)) or 'nothing'}"]


def _outside(walk: _Walk, space: _Space) -> float:
    return float(((walk.points < space.low) | (walk.points > space.high)).any(axis=1).mean())


def _warnings(walk: _Walk, space: _Space, config: Config) -> list[str]:
    """What is allowed but unlikely to be meant."""
    found = []
    if (still := np.flatnonzero(np.ptp(walk.points, axis=0) == 0)).size:
        found.append(f"coordinate {still[0]} of goal space does not change under random actions")
    if (outside := _outside(walk, space)) > SOME_OUTSIDE:
        found.append(f"{outside:.0%} of the points that random actions visit are outside the bounds of goal space")
    if np.ptp(walk.rewards) == 0:
        found.append(f"random actions always get the same reward, {walk.rewards[0]:g}: it must be found by exploration")
    if len(walk.moved) and (np.quantile(walk.moved, 0.9, axis=0) < 0.3 * space.cell).all():
        found.append(f"{config.k} random steps cross less than a third of a cell: try smaller cells or a larger k")
    return found


def _shown(values: NDArray[np.float64]) -> str:
    return "(" + ", ".join(f"{value:.3g}" for value in values) + ")"
