"""Looks at an environment of one's own: its spaces, and what random actions do in it. Every mistake is one sentence."""

import time
from typing import Any, NamedTuple, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from hrac.envs.copies import MakeEnv, naming
from hrac.envs.view import GOAL_KEYS, View
from hrac.errors import HracError
from hrac.spaces import Actions, Discrete

LOOK_STEPS = 4_000
LOOK_SECONDS = 20.0
LOOK_RESETS = 50
"""Goals are drawn this often, where an environment has them."""


class TaskError(HracError, ValueError):
    """An environment or a task that cannot be trained on; the message says what to change."""


class Form(NamedTuple):
    """The sizes of an environment's observations, and its actions."""

    has_goals: bool
    """Whether observations are dictionaries with an achieved and a desired goal."""
    size: int
    """Numbers in an observation, goals aside."""
    goals: int
    """Numbers in a goal; 0 without goals."""
    low: NDArray[np.float64]
    """Lowest goal, or observation without goals; may be infinite."""
    high: NDArray[np.float64]
    actions: Actions
    action_low: tuple[float, ...] | None
    action_high: tuple[float, ...] | None
    action_type: str
    first_choice: int
    time_limit: int | None
    states: int = 0
    """How many numbered states observations tell apart; 0: observations are vectors."""
    first_state: int = 0


def made(make: MakeEnv) -> gymnasium.Env[Any, Any]:
    """A new environment; raises `TaskError` if it is none."""
    with naming("the maker", "its call"):
        env = make()
    if isinstance(env, type):
        raise TaskError(f"make must return an environment, got the class {env.__name__}; call it")
    for name in ("reset", "step", "observation_space", "action_space"):
        if not hasattr(env, name):
            raise TaskError(f"make must return a Gymnasium environment, got {type(env).__name__}, which has no {name!r}")
    return env


def form_of(env: gymnasium.Env[Any, Any]) -> Form:
    """The form of an environment; raises `TaskError`."""
    space = env.observation_space
    if isinstance(space, spaces.Dict):
        size, goals, bounds = _goal_sizes(space)
    else:
        size, goals, bounds = _flat_size(space), 0, space
    low, high = (
        np.ravel(np.asarray(getattr(bounds, name, side), np.float64)) for name, side in (("low", 0.0), ("high", np.inf))
    )
    states = (int(space.n), int(space.start)) if isinstance(space, spaces.Discrete) else (0, 0)
    return Form(goals > 0, size, goals, low, high, *_actions_of(env.action_space), _time_limit_of(env), *states)


def _goal_sizes(space: Any) -> tuple[int, int, Any]:
    if missing := [key for key in GOAL_KEYS if key not in space.spaces]:
        raise TaskError(
            f"observation_space is a dictionary without {missing[0]!r}: a goal environment has {', '.join(GOAL_KEYS)}; "
            "flatten others with gymnasium.wrappers.FlattenObservation"
        )
    sizes = {key: _flat_size(space[key], f"observation_space[{key!r}]") for key in GOAL_KEYS}
    if sizes["achieved_goal"] != sizes["desired_goal"]:
        both = f"{sizes['achieved_goal']} and {sizes['desired_goal']}"
        raise TaskError(f"achieved_goal and desired_goal must have the same size, got {both} numbers")
    return sizes["observation"], sizes["achieved_goal"], space["achieved_goal"]


def _flat_size(space: Any, name: str = "observation_space") -> int:
    if isinstance(space, spaces.Discrete):
        return 1
    if not isinstance(space, spaces.Box) or len(space.shape) != 1 or not space.shape[0]:
        advice = "wrap the environment in gymnasium.wrappers.FlattenObservation"
        raise TaskError(f"{name} must be a Box of one axis (a vector), got {space}; {advice}")
    return space.shape[0]


def _actions_of(space: Any) -> tuple[Actions, tuple[float, ...] | None, tuple[float, ...] | None, str, int]:
    if isinstance(space, spaces.Discrete):
        if space.n < 2:
            raise TaskError(f"action_space must have at least 2 choices, got {space}")
        return Discrete(int(space.n)), None, None, "float32", int(space.start)
    if not isinstance(space, spaces.Box) or len(space.shape) != 1 or not space.shape[0]:
        raise TaskError(f"action_space must be a Box of one axis or Discrete, got {space}")
    if space.dtype is None or space.dtype.kind != "f":
        raise TaskError(f"action_space must be a Box of floating-point numbers or Discrete, got {space}")
    low, high = np.asarray(space.low, np.float64), np.asarray(space.high, np.float64)
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        advice = "gymnasium.wrappers.RescaleAction sets them"
        raise TaskError(
            f"action_space must have finite bounds, low below high, got {low.tolist()} to {high.tolist()}; {advice}"
        )
    bounds = tuple(low.tolist()), tuple(high.tolist())
    return View(None, (), (), (), *bounds).actions, *bounds, str(space.dtype), 0


def _time_limit_of(env: gymnasium.Env[Any, Any]) -> int | None:
    """The limit that the environment's registration or a wrapper names."""
    spec = getattr(env, "spec", None)
    limit = None if spec is None else spec.max_episode_steps
    while limit is None and isinstance(env, gymnasium.Wrapper):
        limit = getattr(env, "_max_episode_steps", None)
        env = env.env
    return limit


class Seen(NamedTuple):
    """What random actions did, in the environment's units."""

    episodes: list[NDArray[np.float64]]
    """The points of goal space of each episode (time, goal)."""
    desired: NDArray[np.float64]
    """Goals of episodes (count, goal); empty without goals."""
    rewards: NDArray[np.float64]
    infos: frozenset[str]
    """Names in `info`."""
    lengths: list[int]
    """Of the episodes that ended."""
    truncated: list[int]
    """Of those that the environment cut off."""
    seconds: float

    @property
    def own_limit(self) -> int | None:
        """The environment's own time limit: the length of all episodes that it cut off, if they are equally long."""
        return self.truncated[0] if len(self.truncated) > 1 and len(set(self.truncated)) == 1 else None

    @property
    def points(self) -> NDArray[np.float64]:
        """All visited points."""
        return np.concatenate(self.episodes)

    def moves(self, k: int) -> NDArray[np.float64]:
        """How far the agent moved in k steps, in each coordinate (count, goal)."""
        return np.concatenate(
            [np.abs(points[k:] - points[:-k]) for points in self.episodes if len(points) > k] or [self.points[:0]]
        )


class Probe(NamedTuple):
    """What one step of an environment tells."""

    goal_dim: int
    infos: frozenset[str]


def first_step(env: gymnasium.Env[Any, Any], form: Form, view: View) -> Probe:
    """One step with a random action; raises `TaskError` for whatever is not as Gymnasium wants it."""
    first = _point(view, _first(env, form, 0))
    observation, *_, info = _next(env, form, view.act(_random(form, np.random.default_rng(0)), form.actions))
    if len(after := _point(view, observation)) != len(first):
        raise TaskError(f"goal: the function must return vectors of one size, got {len(first)} and {len(after)} numbers")
    if view.target is not None and len(target := _point(view._replace(goal=view.target), observation)) != len(first):
        raise TaskError(f"target must be a point of goal space, {len(first)} numbers, got {len(target)}")
    return Probe(len(first), frozenset(info))


def look(env: gymnasium.Env[Any, Any], form: Form, view: View, limit: int, steps: int = LOOK_STEPS) -> Seen:
    """Random actions for some thousand steps; raises `TaskError` for whatever is not as Gymnasium wants it."""
    began, infos, lengths, truncated, made_steps = time.monotonic(), set[str](), list[int](), list[int](), 0
    rewards, episodes, desired = [], [], []
    rng, number = np.random.default_rng(0), 0
    while made_steps < steps and time.monotonic() - began < LOOK_SECONDS:
        observation = _first(env, form, number)
        number += 1
        desired += _desired(observation, form)
        points = [_point(view, observation)]
        for _ in range(limit):
            observation, reward, ended, cut, info = _next(env, form, view.act(_random(form, rng), form.actions))
            points.append(_point(view, observation))
            rewards.append(reward)
            infos |= set(info)
            made_steps += 1
            if ended or cut or made_steps >= steps:
                break
        truncated += [len(points) - 1] * cut
        lengths += [len(points) - 1] * bool(ended or cut)
        episodes.append(np.array(points))
    while form.has_goals and len(desired) < LOOK_RESETS and time.monotonic() - began < LOOK_SECONDS:
        desired += _desired(_first(env, form, None), form)
    goals = np.array(desired, np.float64).reshape(len(desired), form.goals)
    return Seen(episodes, goals, np.array(rewards), frozenset(infos), lengths, truncated, time.monotonic() - began)


def _random(form: Form, rng: np.random.Generator) -> Any:
    if isinstance(form.actions, Discrete):
        return rng.integers(form.actions.choices)
    return rng.uniform(-1.0, 1.0, form.actions.outputs)


def _first(env: gymnasium.Env[Any, Any], form: Form, seed: int | None) -> Any:
    with naming("the first copy", "reset"):
        result = env.reset(seed=seed)
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)):
        raise TaskError(f"reset must return (observation, info), got {_shown(result)}")
    _check_observation(result[0], form, "reset")
    return result[0]


def _next(env: gymnasium.Env[Any, Any], form: Form, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
    with naming("the first copy", "step"):
        result = env.step(action)
    if not (isinstance(result, tuple) and len(result) == 5 and isinstance(result[4], dict)):
        raise TaskError(f"step must return (observation, reward, terminated, truncated, info), got {_shown(result)}")
    observation, reward, terminated, truncated, info = cast(tuple[Any, ...], result)
    _check_observation(observation, form, "step")
    number = np.asarray(reward)
    if number.shape != () or number.dtype.kind not in "iufb" or not np.isfinite(float(number)):
        raise TaskError(f"step must return one finite number as the reward, got {_shown(reward)}")
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(flag, bool | np.bool_):
            raise TaskError(f"step must return True or False as {name}, got {_shown(flag)}")
    return observation, float(number), bool(terminated), bool(truncated), info


def _check_observation(observation: Any, form: Form, where: str) -> None:
    """An observation has the form that its space promises."""
    sizes = dict(zip(GOAL_KEYS, (form.size, form.goals, form.goals), strict=True)) if form.has_goals else {None: form.size}
    for key, size in sizes.items():
        name = "observation" if key is None else f"observation[{key!r}]"
        if key is not None and (not isinstance(observation, dict) or key not in observation):
            raise TaskError(f"{where} must return a dictionary with {', '.join(GOAL_KEYS)}, got {_shown(observation)}")
        part = np.asarray(observation if key is None else observation[key])
        if part.dtype.kind not in "iufb" or part.shape not in ((size,), *[()] * (size == 1)):
            raise TaskError(f"{name} of {where} must be {size} numbers, as its space says, got {_shown(part)}")
        if not np.isfinite(part.astype(np.float64)).all():
            raise TaskError(f"{name} of {where} must be finite, got {_shown(part)}")


def _point(view: View, observation: Any) -> NDArray[np.float64]:
    try:
        point = view.position(observation)
    except HracError:
        raise
    except Exception as error:
        raise TaskError(f"goal: the function failed: {type(error).__name__}: {error}") from error
    if point.ndim != 1 or not np.isfinite(point).all() or (view.cell and len(point) != len(view.cell)):
        wanted = f"{len(view.cell)} finite numbers" if view.cell else "a vector of finite numbers"
        raise TaskError(f"goal: the function must return {wanted}, got {_shown(point)}")
    return point


def _desired(observation: Any, form: Form) -> list[NDArray[np.float64]]:
    return [np.asarray(observation["desired_goal"], np.float64)] if form.has_goals else []


def _shown(value: Any) -> str:
    text = f"shape {value.shape}: {value}" if isinstance(value, np.ndarray) else repr(value)
    return " ".join(text.split())[:120]


def cells_of(points: NDArray[np.float64], cell: NDArray[np.float64]) -> int:
    """How many cells some points are in."""
    return len(np.unique(np.floor(points / cell).astype(np.int64), axis=0))
