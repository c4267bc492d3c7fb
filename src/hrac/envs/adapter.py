"""Any Gymnasium environment as a task on the host: what goal space is and when it is a success is said by the task."""

import dataclasses
import os
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hrac.envs.base import BatchStep, Outcome, checked_seeds, rows_of
from hrac.envs.copies import Copies, EnvironmentFailedError, MakeEnv, MakeVector, Moved, OneByOne, Vectorised, naming, processes
from hrac.envs.look import made
from hrac.envs.outcomes import by_distance
from hrac.envs.sketch import Disc, Sketch
from hrac.envs.view import View
from hrac.spaces import Actions

Success: TypeAlias = str | Callable[[Any, dict[str, Any]], bool]
"""The name of an entry of `info`, or a function of an observation and `info`."""

Stepping: TypeAlias = Literal["sync", "async", "vector"]


@dataclasses.dataclass(frozen=True, eq=False)
class GymTask:
    """A Gymnasium environment and how it is seen, as a `HostTask`."""

    make: MakeEnv
    make_vector: MakeVector | None
    """The environment's own vector form, if it has one."""
    view: View
    actions: Actions
    obs_dim: int
    context_dim: int
    goal_low: tuple[float, ...]
    """Lowest point of goal space, in the environment's units."""
    goal_high: tuple[float, ...]
    """Highest."""
    time_limit: int
    success: Success | None
    """When an episode has succeeded; None: there is no such thing."""
    stepping: Stepping = "sync"
    step_seconds: float | None = None
    """How long a copy in a process may take for a step; None: for ever."""
    ends_on_success: bool = False
    """Set for evaluation: success, and nothing else, terminates an episode."""
    pool: list[gymnasium.Env[Any, Any]] = dataclasses.field(default_factory=list, repr=False)
    """Environments that are not in use."""

    outcomes: list[Outcome] = dataclasses.field(default_factory=list, repr=False)
    """What other goals pay, once it was asked."""

    vectors: dict[int, list[Vectorised]] = dataclasses.field(default_factory=dict, repr=False)
    """Vector environments that are not in use, by their number of copies."""

    copy_bytes = 5_000_000
    """A guess: the memory of one copy."""

    @property
    def may_end_before(self) -> int:
        """The time limit, before which an episode may end without success."""
        return self.time_limit

    @property
    def most_copies(self) -> int:
        """How many copies there may be at one time in evaluations."""
        return 32 if self.stepping == "sync" else max(os.cpu_count() or 1, 4)

    def batch(self, num_envs: int, threads: int | None = None) -> "GymBatch":
        """This many copies of it; threads are not used."""
        return GymBatch(self, num_envs)

    def evaluation(self) -> "GymTask":
        """The task for evaluation, with the same environments."""
        return self if self.success is None else dataclasses.replace(self, ends_on_success=True)

    def copies(self, count: int) -> Copies:
        """Environments to step."""
        if self.stepping == "sync":
            return OneByOne(self.make, self.pool, count)
        make = self.make_vector if self.stepping == "vector" else processes(self.make)
        if make is None:
            raise EnvironmentFailedError('env.stepping: the environment has no vector form of its own; use "async" or "sync"')
        kept = self.vectors.setdefault(count, [])
        return kept.pop() if kept else Vectorised(make, count, self.step_seconds, kept)

    def close(self) -> None:
        """Close the environments that are not in use."""
        while self.pool:
            self.pool.pop().close()
        for vector in [vector for kept in self.vectors.values() for vector in kept]:
            vector.end()
        self.vectors.clear()


class GymBatch:
    """Many copies of a Gymnasium environment.

    A copy's state can be saved only if the environment says how, by methods `snapshot()`, which returns named arrays, and
    `restore(arrays)`. Without these, `exact` is false, and a training that is resumed begins new episodes.
    """

    steps_past_end = False
    """Gymnasium's environments must be reset when an episode has ended."""

    def __init__(self, task: GymTask, num_envs: int) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, got {num_envs}")
        self.task, self.num_envs = task, num_envs
        self.obs_dim, self.context_dim, self.actions = task.obs_dim, task.context_dim, task.actions
        self.time_limit, self.view = task.time_limit, task.view
        self.position_low, self.position_high = (
            tuple(task.view.inside(np.array(bound)).tolist()) for bound in (task.goal_low, task.goal_high)
        )
        self._copies = task.copies(num_envs)
        self._context, self._steps = np.zeros((num_envs, self.context_dim)), np.zeros(num_envs, np.int64)
        self.succeeded = np.zeros(num_envs, bool)
        """Whether the last step of each copy was a success, also where that does not end an episode."""
        self.infos: set[str] = set()
        """Names that were in `info` so far."""
        sources = [getattr(env, "unwrapped", env) for env in self._copies.sources()]
        self.exact = bool(sources) and all(hasattr(env, "snapshot") and hasattr(env, "restore") for env in sources)

    @property
    def context(self) -> NDArray[np.float64]:
        """What only the manager sees (copies, context_dim)."""
        return self._context.copy()

    def reset(self, ids: ArrayLike | None = None, seeds: ArrayLike | None = None) -> NDArray[np.float64]:
        """Start an episode in some copies (default: all), with new seeds if given. Returns their first observations."""
        rows = rows_of(ids, self.num_envs)
        given = None if seeds is None else (checked_seeds(seeds, len(rows)) % 2**31).tolist()
        self._steps[rows] = 0
        return self._read(rows, self._copies.reset(rows, given))

    def step(self, actions: ArrayLike, ids: ArrayLike | None = None) -> BatchStep:
        """Step some copies (default: all) once."""
        rows = rows_of(ids, self.num_envs)
        moved = self._copies.step(rows, [self.view.act(action, self.actions) for action in np.asarray(actions)])
        obs = self._read(rows, [each.observation for each in moved])
        self._steps[rows] += 1
        self.infos.update(*(each.info for each in moved))
        reward = np.array([each.reward for each in moved], np.float64)
        if not np.isfinite(reward).all():
            copy = rows[~np.isfinite(reward)][0]
            raise EnvironmentFailedError(f"the reward of copy {copy} is {reward[rows == copy][0]}: it must be finite")
        terminated, truncated = (
            np.array([getattr(each, name) for each in moved], bool) for name in ("terminated", "truncated")
        )
        self.succeeded[rows] = [succeeded(self.task.success, each) for each in moved]
        if self.task.ends_on_success:
            terminated, truncated = self.succeeded[rows], truncated | terminated
        return BatchStep(obs, reward, terminated, (truncated | (self._steps[rows] >= self.time_limit)) & ~terminated)

    def _read(self, rows: NDArray[np.int64], observations: list[Any]) -> NDArray[np.float64]:
        obs = np.empty((len(rows), self.obs_dim))
        for place, (row, observation) in enumerate(zip(rows, observations, strict=True)):
            with naming(f"copy {row}", "the reading of its observation"):
                obs[place], self._context[row] = self.view.read(observation)
        if not (np.isfinite(obs).all() and np.isfinite(self._context[rows]).all()):
            bad = ~(np.isfinite(obs).all(axis=1) & np.isfinite(self._context[rows]).all(axis=1))
            raise EnvironmentFailedError(f"the observation of copy {rows[bad][0]} is not finite")
        return obs

    @property
    def outcome(self) -> Outcome | None:
        """What other goals would pay; None if the environment has no goals of its own; raises `TaskError` if it cannot tell."""
        if self.view.goal is not None:
            return None
        task = self.task
        if not task.outcomes:
            if not task.pool:
                task.pool.append(made(task.make))
            low, high = np.array(task.goal_low), np.array(task.goal_high)
            task.outcomes.append(by_distance(task.pool[0], low, high, self.view.cell))
        return task.outcomes[0]

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """The complete state as named arrays, as far as the environment can tell its own."""
        arrays: dict[str, NDArray[Any]] = {"steps": self._steps.copy(), "context": self._context.copy()}
        if self.exact:
            for number, env in enumerate(self._copies.sources()):
                arrays |= {f"copy-{number}/{name}": np.array(value) for name, value in env.unwrapped.snapshot().items()}
        return arrays

    def restore(self, snapshot: dict[str, NDArray[Any]]) -> None:
        """Continue exactly from a snapshot, if `exact`."""
        self._steps, self._context = snapshot["steps"].copy(), snapshot["context"].copy()
        for number, env in enumerate(self._copies.sources() if self.exact else ()):
            start = f"copy-{number}/"
            env.reset(seed=0)  # wrappers want one before the first step
            env.unwrapped.restore({name.removeprefix(start): part for name, part in snapshot.items() if name.startswith(start)})

    def sketch(self, copy: int) -> Sketch:
        """The first two coordinates of goal space, without walls, and the goal of an episode where there is one."""
        goal = self._context[copy][-len(self.view.cell) :][:2] if self.view.shows_target else None
        discs = () if goal is None else (Disc(float(goal[0]), float(goal[1]), 0.5),)
        low, high = (np.array(bound[:2]) for bound in (self.position_low, self.position_high))
        margin = 0.05 * (high - low)
        return Sketch(tuple((low - margin).tolist()), tuple((high + margin).tolist()), discs=discs)

    def close(self) -> None:
        """The copies are not needed any more."""
        self._copies.close()


def succeeded(success: Success | None, moved: Moved) -> bool:
    """Whether an episode has succeeded at this step."""
    if success is None:
        return False
    if isinstance(success, str):
        return bool(np.asarray(moved.info.get(success, False)).any())
    with naming("the first copy", "its function of success"):
        return bool(success(moved.observation, moved.info))
