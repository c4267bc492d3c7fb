"""Tasks of one's own: a Gymnasium environment, how it is seen, and settings that follow from it."""

import dataclasses
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hrac.envs.adapter import GymTask, Success
from hrac.envs.copies import MakeEnv, MakeVector, answering
from hrac.envs.look import LOOK_SECONDS, Form, Probe, Seen, TaskError, first_step, form_of, look, made
from hrac.envs.view import GoalFunction, View
from hrac.experiments.task import TWO_TD3, Task
from hrac.spaces import Actions, Box

FIELDS = ("goal", "goal_low", "goal_high", "cell", "success", "time_limit", "stepping", "step_seconds")
SUCCESS_KEYS = ("is_success", "success")
"""Names in `info` that say whether a goal is reached."""
UNLIMITED = 200
"""Steps of an episode where neither the environment nor the task sets a limit."""
MARGIN = 0.1
"""Measured bounds are wider than what was visited by this share of its extent, on each side."""
MOST_TIMES = 20.0
"""An environment's own bounds count if they are at most this many times as wide as what was visited."""
MOST_GOAL_CELLS = 1_000_000
FINEST, COARSEST = 60.0, 8.0
"""Most and fewest cells along a coordinate, where cell sizes are measured."""
ALIKE = 3.0
"""Coordinates whose cell sizes differ by less than this have the same one: they are probably in the same unit."""
LOOK_K = 10
UNNAMED = "own"
TARGET_CHANCE = 0.2
"""Of subgoals to explore with, where an environment has goals."""

DISCRETE = {
    "controller.learner": "a2c",
    "controller.learning_rate": 5e-4,
    "controller.entropy_weight": 0.05,
    "manager.actor_learning_rate": 3e-4,
    "manager.buffer_windows": 50_000,
    "manager.start_fraction": 0.05,
    "manager.output_penalty": 0.005,
    "manager.target_noise_sigma": 0.5,
    "manager.target_noise_clip": 1.0,
    "adjacency.pretrain_env_steps": 10_000,
    "adjacency.update_every_env_steps": 10_000,
    "training.total_env_steps": 200_000,
    "training.round_env_steps": 40,
    "training.eval_every_env_steps": 10_000,
    "training.eval_episodes": 50,
    "training.envs_per_run": 4,
}
"""Settings of a task with discrete actions, if it says nothing else."""

CONTINUOUS = TWO_TD3 | {
    "manager.subgoal_range": 5.0,
    "manager.buffer_windows": 50_000,
    "manager.start_fraction": 0.01,
    "manager.hidden": (128, 128),
    "controller.hidden": (128, 128),
    "controller.sees_position": True,
    "controller.noise_sigma": 0.2,
    "controller.target_noise_sigma": 0.1,
    "controller.target_noise_clip": 0.2,
    "controller.reach_radius": 1.0,
    "adjacency.pretrain_env_steps": 10_000,
    "adjacency.update_every_env_steps": 10_000,
    "training.total_env_steps": 200_000,
    "training.round_env_steps": 200,
    "training.eval_every_env_steps": 10_000,
    "training.checkpoint_every_env_steps": 50_000,
    "training.envs_per_run": 4,
}
"""Those of a task with continuous actions. Goal space is in cells, actions are between -1 and 1."""


def settings_for(actions: Actions) -> dict[str, Any]:
    """Settings that suit an environment's actions."""
    return CONTINUOUS if isinstance(actions, Box) else DISCRETE


@dataclasses.dataclass(frozen=True, eq=False)
class Own:
    """A Gymnasium environment and what its task says about it. What is None is measured."""

    make: MakeEnv
    make_vector: MakeVector | None = None
    goal: tuple[int, ...] | GoalFunction | None = None
    goal_low: tuple[float, ...] | None = None
    goal_high: tuple[float, ...] | None = None
    cell: tuple[float, ...] | None = None
    manager_only: tuple[int, ...] = ()
    target: tuple[int, ...] | GoalFunction | None = None
    success: Success | None = None
    time_limit: int | None = None
    pool: list[Any] = dataclasses.field(default_factory=list)
    """Environments that are not in use."""
    probes: dict[Any, Probe] = dataclasses.field(default_factory=dict)
    """What one step told, by the goal."""
    looks: dict[Any, Seen] = dataclasses.field(default_factory=dict)
    """What was measured, by the goal and the time limit."""

    def form(self) -> Form:
        """The form of the environment."""
        if not self.pool:
            self.pool.append(made(self.make))
        return form_of(self.pool[0])

    def probe(self) -> tuple[Form, Probe]:
        """The form of the environment and of goal space, from one step of it."""
        form, key = self.form(), (self.goal, self.manager_only, self.target)
        self._check_goal(form)
        if key not in self.probes:
            self.probes[key] = first_step(self.pool[0], form, self._view(form))
        return form, self.probes[key]

    def seen(self, form: Form, limit: int) -> Seen:
        """What random actions do."""
        key = (self.goal, self.manager_only, limit)
        if key not in self.looks:
            self.looks[key] = look(self.pool[0], form, self._view(form), limit)
        return self.looks[key]

    def resolve(self, changes: dict[str, Any]) -> dict[str, Any]:
        """The fields of `EnvConfig` that are set, and those that were measured."""
        seconds, stepping = changes.get("step_seconds"), changes.get("stepping", "sync")
        if seconds is not None and stepping != "async":
            raise TaskError(f"env.step_seconds must be None unless env.stepping is 'async', got {seconds:g} and {stepping!r}")
        with answering(seconds, LOOK_SECONDS):
            return self._resolved(changes)

    def _resolved(self, changes: dict[str, Any]) -> dict[str, Any]:
        own = self._changed(changes)
        form, probe = own.probe()
        _check_sizes(own, probe.goal_dim)
        limit = own.time_limit or form.time_limit
        found: dict[str, Any] = {}
        infos = probe.infos
        if None in (own.goal_low, own.goal_high, own.cell, limit):
            seen = own.seen(form, limit or UNLIMITED)
            infos |= seen.infos
            limit = limit or seen.own_limit or UNLIMITED
            low, high = bounds(own, form, seen)
            found = {"goal_low": low, "goal_high": high, "cell": own.cell or cells(seen, low, high), "time_limit": limit}
        if own.success is None:
            found["success"] = next((key for key in SUCCESS_KEYS if key in infos), None)
        resolved = {name: value for name, value in found.items() if value is not None} | changes
        _check_space(self._changed(resolved))
        return resolved

    def gym_task(self, changes: dict[str, Any]) -> GymTask:
        """The environment, as the library sees it."""
        changes = self.resolve(changes)
        own = self._changed(changes)
        form, probe = own.probe()
        assert own.goal_low is not None
        assert own.goal_high is not None
        assert own.cell is not None
        centre = tuple(((np.array(own.goal_low) + own.goal_high) / 2).tolist())
        view = own._view(form, own.cell, centre)
        obs_dim = probe.goal_dim + view.rest_dim(form.size)
        context_dim = form.goals or len(own.manager_only) + (0 if own.target is None else probe.goal_dim)
        limit = own.time_limit or form.time_limit
        assert limit is not None
        stepped = {name: changes[name] for name in ("stepping", "step_seconds") if name in changes}
        sizes = (obs_dim, context_dim, own.goal_low, own.goal_high, limit)
        return GymTask(own.make, own.make_vector, view, form.actions, *sizes, own.success, **stepped, pool=own.pool)

    def _changed(self, changes: Mapping[str, Any]) -> "Own":
        names = {field.name for field in dataclasses.fields(self)}
        return dataclasses.replace(self, **{name: value for name, value in changes.items() if name in names})

    def _view(self, form: Form, cell: tuple[float, ...] = (), centre: tuple[float, ...] = ()) -> View:
        actions = (form.action_low, form.action_high, form.action_type, form.first_choice)
        return View(self.goal, cell, centre, self.manager_only, *actions, form.states, form.first_state, self.target)

    def _check_goal(self, form: Form) -> None:
        """Goal space is named, and all indices exist."""
        if self.goal is None and not form.has_goals:
            raise TaskError(
                f"goal: name the numbers of the observation that are goal space, by indices from 0 to {form.size - 1} "
                "(--env.goal 0 1, or goal=(0, 1)), or give a function of the observation"
            )
        given = {"goal": self.goal is not None, "manager_only": bool(self.manager_only), "target": self.target is not None}
        if form.has_goals and any(given.values()):
            name = next(name for name, is_given in given.items() if is_given)
            raise TaskError(f"{name}: leave it out: the environment has an achieved_goal and a desired_goal of its own")
        points = [index for part in (self.goal, self.target) if isinstance(part, tuple) for index in part]
        named = [*points, *self.manager_only]
        if isinstance(self.goal, tuple) and not self.goal:
            raise TaskError("goal: name at least one number of the observation")
        if any(type(index) is not int or not 0 <= index < form.size for index in named) or len(set(named)) < len(named):
            allowed = f"different indices of the observation, from 0 to {form.size - 1}"
            raise TaskError(f"goal, target and manager_only must be {allowed}, got {named}")


def bounds(own: Own, form: Form, seen: Seen) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The bounds of goal space: as given, as the environment's space says, or measured."""
    points = np.concatenate([seen.points, seen.desired]) if len(seen.desired) else seen.points
    low, high = points.min(axis=0), points.max(axis=0)
    wider = MARGIN * (high - low)
    low, high = low - wider, high + wider
    if form.has_goals or isinstance(own.goal, tuple):
        chosen = list(own.goal) if isinstance(own.goal, tuple) else slice(None)
        said_low, said_high = form.low[chosen], form.high[chosen]
        sensible = np.isfinite(said_low) & np.isfinite(said_high) & (said_high - said_low < MOST_TIMES * (high - low))
        low, high = np.where(sensible, said_low, low), np.where(sensible, said_high, high)
    unit = 10.0 ** np.floor(np.log10(np.maximum(high - low, 1e-9)) - 2)  # three digits of the extent
    low, high = (tuple(float(f"{value:.9g}") for value in np.round(bound / unit) * unit) for bound in (low, high))
    return own.goal_low or low, own.goal_high or high


def cells(seen: Seen, low: tuple[float, ...], high: tuple[float, ...]) -> tuple[float, ...]:
    """Cell sizes that k random steps cross about once; whole numbers have cells of 1."""
    extent = np.array(high) - low
    if (extent <= 0).any():
        return (1.0,) * len(extent)  # `_check_space` says what is wrong
    moved = seen.moves(LOOK_K)
    typical = np.quantile(moved, 0.9, axis=0) if len(moved) else extent / 10
    whole = (seen.points == np.round(seen.points)).all(axis=0)
    typical = np.clip(typical, extent / FINEST, extent / COARSEST)
    if typical.max() < ALIKE * typical.min():
        typical = np.full(len(extent), typical.mean())
    sizes = np.where(whole, 1.0, typical)
    while np.ceil(extent / sizes).prod() > MOST_GOAL_CELLS / 2:
        sizes *= 1.25
    return tuple(float(f"{size:.2g}") for size in sizes)


def _check_sizes(own: Own, goal_dim: int) -> None:
    """Bounds and cells that are given have one number per coordinate; raises `TaskError`."""
    for name in ("goal_low", "goal_high", "cell"):
        values = getattr(own, name)
        if values is not None and (len(values) != goal_dim or not np.isfinite(values).all()):
            raise TaskError(f"{name} must be {goal_dim} finite numbers, one per coordinate of goal space, got {list(values)}")


def _check_space(own: Own) -> None:
    """Goal space has an extent, and neither one cell nor too many; raises `TaskError`."""
    low, high, cell = map(np.array, (own.goal_low, own.goal_high, own.cell))
    if (low >= high).any():
        where = int(np.flatnonzero(low >= high)[0])
        what = f"goal_low = {low[where]:g} and goal_high = {high[where]:g} in coordinate {where}"
        same = "; if the goal does not move under random actions, give both" if low[where] == high[where] else ""
        raise TaskError(f"goal_low must be below goal_high, got {what}{same}")
    if (cell <= 0).any():
        raise TaskError(f"cell must be positive, got {list(cell)}")
    counts = np.ceil((high - low) / cell)
    along = min(20, int((MOST_GOAL_CELLS / 2) ** (1 / len(low))))
    advice = f"try {tuple(float(f'{size:.2g}') for size in (high - low) / along)}"
    if (counts <= 1).all():
        raise TaskError(f"cell = {own.cell} puts all of goal space into one cell, which tells nothing apart; {advice}")
    if counts.prod() > MOST_GOAL_CELLS:
        raise TaskError(f"cell = {own.cell} makes {counts.prod():,.0f} cells of goal space, too many to visit; {advice}")


def task(
    make: MakeEnv,
    *,
    name: str = UNNAMED,
    summary: str = "an environment of your own",
    goal: Sequence[int] | GoalFunction | None = None,
    goal_low: Sequence[float] | None = None,
    goal_high: Sequence[float] | None = None,
    cell: Sequence[float] | None = None,
    manager_only: Sequence[int] = (),
    target: Sequence[int] | GoalFunction | None = None,
    success: Success | None = None,
    time_limit: int | None = None,
    settings: Mapping[str, Any] | None = None,
    make_vector: MakeVector | None = None,
) -> Task:
    """The task of a Gymnasium environment that `make()` makes. A goal environment needs nothing else.

    `goal`: which numbers of the observation are goal space, by indices, or a function of the observation. `goal_low`,
    `goal_high`: its bounds; `cell`: the size of a cell; each in every coordinate. What is not given is measured with random
    actions. `target`: where the target of an episode is, named as `goal`; only the manager sees it. `manager_only`: indices of
    other numbers that the controller may not see. `success`: the name of an entry of `info`, or a function of an observation
    and `info`; it ends an evaluation episode. `settings`: further settings, by their dotted names.
    """
    if not callable(make):
        raise TaskError(f"make must be a function that makes the environment, or its class, got {type(make).__name__}")
    if not (success is None or callable(success) or isinstance(success, str)):
        raise TaskError(f"success must be the name of an entry of info, or a function, got {type(success).__name__}")
    if time_limit is not None and (type(time_limit) is not int or time_limit < 1):
        raise TaskError(f"time_limit must be a whole number of steps from 1 up, got {time_limit!r}")
    space = {"goal_low": goal_low, "goal_high": goal_high, "cell": cell}
    numbers: dict[str, Any] = {name: _numbers(name, values) for name, values in space.items() if values is not None}
    own = Own(
        make,
        make_vector,
        goal if goal is None or callable(goal) else _indices("goal", goal),
        manager_only=_indices("manager_only", manager_only),
        target=target if target is None or callable(target) else _indices("target", target),
        success=success,
        time_limit=time_limit,
        **numbers,
    )
    form = own.form()
    suited, given = settings_for(form.actions), dict(settings or {})
    if form.has_goals or target is not None:
        suited = suited | {"manager.target_chance": TARGET_CHANCE}
    if (learner := given.get("controller.learner")) not in (None, suited["controller.learner"]):
        kind = "continuous" if isinstance(form.actions, Box) else "discrete"
        raise TaskError(
            f"controller.learner must be {suited['controller.learner']!r}, because actions are {kind}, got {learner!r}"
        )
    fields = tuple(field for field in FIELDS if field != "goal" or not form.has_goals)
    return Task(name, summary, own.gym_task, fields, suited | given, resolve=own.resolve)


def _indices(name: str, values: Any) -> tuple[int, ...]:
    try:
        return tuple(operator.index(value) for value in values)
    except TypeError:
        raise TaskError(f"{name} must be indices of the observation, such as (0, 1), or a function, got {values!r}") from None


def _numbers(name: str, values: Any) -> tuple[float, ...]:
    try:
        return tuple(float(value) for value in values)
    except (TypeError, ValueError):
        raise TaskError(f"{name} must be numbers, one per coordinate of goal space, got {values!r}") from None
