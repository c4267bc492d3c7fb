"""A group: the copies of some runs, stepped together on the host. While one group is stepped, actors decide for another."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from numpy.typing import NDArray

from hrac.agents.decide import Actors, Noise, Setup, SubgoalState, carry_on, decide, draw_quiet, first_state, remember
from hrac.agents.windows import Trajectory
from hrac.envs.base import BatchEnvironment, BatchStep

Numbers = NDArray[np.float32]
Start: TypeAlias = Callable[..., "Future[BatchStep]"]
"""Calls a function, now or in another thread."""


def now(function: Callable[..., BatchStep], *arguments: Any) -> "Future[BatchStep]":
    """Call a function in this thread."""
    done: Future[BatchStep] = Future()
    done.set_result(function(*arguments))
    return done


def observed(env: BatchEnvironment, obs: NDArray[np.float64], ids: NDArray[np.int64] | slice = slice(None)) -> Numbers:
    """Observations of some copies, followed by the context, which only the manager sees."""
    return np.concatenate([obs, env.context[ids]], axis=1).astype(np.float32)


class Draws(NamedTuple):
    """The random numbers of a round, for each step (time, runs, copies, ...)."""

    noise: Noise
    action: Numbers

    def at(self, time: int) -> tuple[Numbers, Noise]:
        """Those of one step."""
        return self.action[time], jax.tree.map(lambda part: part[time], self.noise)

    def of(self, runs: slice) -> "Draws":
        """Those of some runs."""
        return jax.tree.map(lambda part: part[:, runs], self)


class Group:
    """Copies of an environment for some runs. Arrays here are (runs, copies, ...)."""

    def __init__(self, env: BatchEnvironment, runs: slice, copies: int, setup: Setup, ends_on_success: bool) -> None:
        self.env, self.runs, self.setup, self._ends_on_success = env, runs, setup, ends_on_success
        self._shape = (runs.stop - runs.start, copies)
        self.stepping: Future[BatchStep] | None = None
        """The last step that was begun."""

    def begin(self, seeds: NDArray[np.int64]) -> None:
        """Start new episodes in all copies, each with its seed."""
        self.obs: Numbers = observed(self.env, self.env.reset(seeds=seeds)).reshape(*self._shape, -1)
        self.hierarchy = first_state(self.obs, self.setup)
        self.total = np.zeros(self._shape)
        """Reward of the present episodes so far."""

    def round(
        self, actors: Actors, draws: Draws, ready: NDArray[np.bool_], start: Start, steps: list[tuple[Trajectory, Numbers]]
    ) -> Iterator[None]:
        """One round with exploration, whose steps and returns are appended to `steps`. Yields while the copies are stepped."""
        ready = np.broadcast_to(ready[:, None], self._shape)
        for time in range(len(draws.action)):
            action_noise, noise = draws.at(time)
            subgoal, action = decide(actors, self.hierarchy, self.obs, self.setup, action_noise, noise, ready)
            self.stepping = start(self.env.step, action.reshape(-1, *action.shape[2:]))
            yield
            steps.append(self._arrive(subgoal, action, self.stepping.result(), noise, ready))

    def _arrive(
        self, subgoal: Numbers, action: NDArray[Any], after: BatchStep, noise: Noise, ready: NDArray[np.bool_]
    ) -> tuple[Trajectory, Numbers]:
        """After a step of all copies. Where an episode ended, a new one begins."""
        shape, obs, clock = self._shape, self.obs, self.hierarchy.clock
        next_obs = observed(self.env, after.obs)
        reward, terminated, truncated = (
            after.reward.reshape(shape),
            after.terminated.reshape(shape),
            after.truncated.reshape(shape),
        )
        done = terminated | truncated
        last = done | (clock == self.setup.cfg.k - 1)
        self.obs = next_obs.reshape(*shape, -1)
        step = Trajectory(obs, subgoal, action, reward.astype(np.float32), self.obs, terminated, truncated, clock, last)
        hierarchy = carry_on(self.hierarchy._replace(subgoal=subgoal), obs, self.obs, last, self.setup.space)
        hierarchy = remember(hierarchy, obs, done, noise.hindsight, self.setup.space)
        success = getattr(self.env, "succeeded", after.terminated & self._ends_on_success).reshape(shape)
        self.hierarchy = draw_quiet(hierarchy, done, success, ready, noise.quiet, self.setup)
        total = self.total + reward
        self.total = np.where(done, 0.0, total)
        if done.any():
            ids = np.flatnonzero(done)
            fresh = next_obs.copy()
            fresh[ids] = observed(self.env, self.env.reset(ids), ids)
            self.obs = fresh.reshape(*shape, -1)
        return step, total.astype(np.float32)

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """The complete state as named arrays, whose rows are runs, or copies of runs in turn."""
        arrays: dict[str, NDArray[Any]] = {"obs": self.obs, "total": self.total}
        arrays |= {name: array for name, array in self.hierarchy._asdict().items() if array is not None}
        return arrays | {f"env/{name}": array for name, array in self.env.snapshot().items()}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Continue exactly from a snapshot."""
        self.obs, self.total = arrays["obs"], arrays["total"]
        self.hierarchy = SubgoalState(**{name: arrays[name] for name in SubgoalState._fields if name in arrays})
        self.env.restore({name.removeprefix("env/"): array for name, array in arrays.items() if name.startswith("env/")})

    def part_of(self, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The rows of a snapshot of all runs that are this group's."""
        first, last, copies = self.runs.start, self.runs.stop, self._shape[1]
        rows = {True: slice(first * copies, last * copies), False: self.runs}
        return {name: array[rows[name.startswith("env/")]] for name, array in arrays.items()}
