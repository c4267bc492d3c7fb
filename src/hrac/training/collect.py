"""Experience from an environment on the host: a round of all runs together, and random behaviour."""

from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from hrac.agents.windows import Trajectory, empty_tail
from hrac.config import Config
from hrac.envs.base import BatchEnvironment, HostTask
from hrac.spaces import Box
from hrac.training.acting import Actors, Hierarchy, Numbers, undivided
from hrac.training.streams import Stream


def observed(env: BatchEnvironment, obs: NDArray[np.float64], ids: NDArray[np.int64] | slice = slice(None)) -> Numbers:
    """Observations of some copies with what only the manager sees behind them."""
    return np.concatenate([obs, env.context[ids]], axis=1).astype(np.float32)


def copy_seeds(seeds: tuple[int, ...], copies: int, *stream: int) -> NDArray[np.int64]:
    """A seed for each copy of each run (runs * copies,), from the run's seed and a random stream."""
    return np.array(
        [
            np.random.SeedSequence([seed, *stream, copy]).generate_state(1, np.uint64)[0] >> np.uint64(1)
            for seed in seeds
            for copy in range(copies)
        ]
    ).astype(np.int64)


class Collector:
    """The copies of all runs between and during rounds. Arrays here are (runs * copies, ...), a run's copies together."""

    def __init__(self, task: HostTask, hierarchy: Hierarchy, config: Config) -> None:
        self.config, self.hierarchy = config, hierarchy
        self.runs, self.copies = len(config.seeds), config.training.envs_per_run
        self.env = task.batch(self.runs * self.copies, config.training.env_threads)
        first = self.env.reset(seeds=copy_seeds(config.seeds, self.copies, Stream.ACT_COPIES))
        self.obs = observed(self.env, first)
        goal = hierarchy.space.dimensions
        self.subgoal = np.zeros((self.runs * self.copies, goal), np.float32)
        self.clock = np.zeros(self.runs * self.copies, np.int32)
        self.total = np.zeros(self.runs * self.copies)
        tail = jax.device_get(empty_tail(config.k, self.obs.shape[1], goal))
        tail = tail._replace(action=np.zeros((config.k, self.env.actions.outputs), np.float32))
        self.tail: Trajectory = jax.tree.map(lambda leaf: np.repeat(leaf[:, None], self.runs * self.copies, axis=1), tail)
        """The last k steps (k, runs * copies, ...)."""

    @undivided
    def round(self, actors: Actors, ready: NDArray[np.bool_], index: int) -> tuple[Trajectory, NDArray[np.float32]]:
        """Let the two levels act for one round, exploring: the trajectory (runs, k + T, copies, ...) with the tail before it,
        and at the T new steps the reward of the episode so far."""
        length = self.config.training.round_env_steps // self.copies
        noise = self._noise(index, length)
        steps, totals = [], np.zeros((length, self.runs * self.copies), np.float32)
        for time in range(length):
            self._propose(actors, np.repeat(ready, self.copies), *(part[time] for part in noise[:2]))
            action = self._spread(self.hierarchy.act(actors, self._runs(self.obs), self._runs(self.subgoal)))
            action = np.clip(action + noise[2][time], self.hierarchy.low, self.hierarchy.high)
            step, totals[time] = self._step(action)
            steps.append(step)
        new = jax.tree.map(lambda *leaves: np.stack(leaves), *steps)
        whole = jax.tree.map(lambda tail, leaf: np.concatenate([tail, leaf]), self.tail, new)
        self.tail = jax.tree.map(lambda leaf: leaf[-self.config.k :].copy(), whole)
        by_run = jax.tree.map(
            lambda leaf: leaf.reshape(len(leaf), self.runs, self.copies, *leaf.shape[2:]).swapaxes(0, 1), whole
        )
        return by_run, totals.reshape(length, self.runs, self.copies).swapaxes(0, 1)

    def _noise(self, index: int, length: int) -> tuple[Numbers, Numbers, Numbers]:
        """A round's random numbers (time, runs * copies, ...): uniform subgoals, noise on subgoals, noise on actions."""
        goal, action = self.hierarchy.space.dimensions, self.env.actions.outputs
        cfg, shape = self.config, (length, self.copies)
        drawn = []
        for seed in self.config.seeds:
            rng = np.random.default_rng([seed, Stream.ACT, index])
            uniform = rng.uniform(-1, 1, (*shape, goal)) * self.hierarchy.reach
            on_subgoal = cfg.manager.noise_sigma * rng.standard_normal((*shape, goal))
            drawn.append((uniform, on_subgoal, cfg.controller.noise_sigma * rng.standard_normal((*shape, action))))
        first, second, third = (np.concatenate(parts, axis=1).astype(np.float32) for parts in zip(*drawn, strict=True))
        return first, second, third

    def _propose(self, actors: Actors, ready: NDArray[np.bool_], uniform: Numbers, noise: Numbers) -> None:
        """New subgoals where the clock is at 0."""
        due = self.clock == 0
        if due.any():
            plain = self._spread(self.hierarchy.propose(actors, self._runs(self.obs)))
            noisy = self.hierarchy.perturb(plain, noise)
            self.subgoal = np.where(due[:, None], np.where(ready[:, None], noisy, uniform), self.subgoal)

    def _step(self, action: Numbers) -> tuple[Trajectory, Numbers]:
        """One step of all copies; those whose episode ended begin a new one."""
        after = self.env.step(action)
        next_obs = observed(self.env, after.obs)
        done = after.terminated | after.truncated
        last = done | (self.clock == self.config.k - 1)
        reward = after.reward.astype(np.float32)
        step = Trajectory(self.obs, self.subgoal, action, reward, next_obs, after.terminated, after.truncated, self.clock, last)  # type: ignore[arg-type]
        self.subgoal = self.hierarchy.carry_on(self.subgoal, self.obs, next_obs)
        self.clock = np.where(last, 0, self.clock + 1).astype(np.int32)
        total = self.total + after.reward
        self.total = np.where(done, 0.0, total)
        self.obs = next_obs
        if done.any():
            ids = np.flatnonzero(done)
            fresh = self.env.reset(ids)
            self.obs = next_obs.copy()
            self.obs[ids] = observed(self.env, fresh, ids)
        return step, total.astype(np.float32)

    def _runs(self, array: Numbers) -> Numbers:
        return array.reshape(self.runs, self.copies, *array.shape[1:])

    def _spread(self, array: Numbers) -> Numbers:
        return array.reshape(self.runs * self.copies, *array.shape[2:])

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """The complete state as named arrays."""
        own: dict[str, NDArray[Any]] = {"obs": self.obs, "subgoal": self.subgoal, "clock": self.clock, "total": self.total}
        tail = {f"tail/{name}": np.asarray(leaf) for name, leaf in self.tail._asdict().items()}
        return own | tail | {f"env/{name}": array for name, array in self.env.snapshot().items()}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from a snapshot."""
        self.obs, self.subgoal, self.clock, self.total = (arrays[name] for name in ("obs", "subgoal", "clock", "total"))
        self.tail = Trajectory(*(arrays[f"tail/{name}"] for name in Trajectory._fields))  # type: ignore[arg-type]
        self.env.restore({name.removeprefix("env/"): array for name, array in arrays.items() if name.startswith("env/")})


def wander(task: HostTask, config: Config, episodes: int, dimensions: int) -> NDArray[np.float32]:
    """Positions (runs, episodes, time limit + 1, goal) of uniformly random actions; what the task ends goes on."""
    runs = len(config.seeds)
    env = task.batch(runs * episodes, config.training.env_threads)
    assert isinstance(env.actions, Box)
    obs = env.reset(seeds=copy_seeds(config.seeds, episodes, Stream.WANDER_COPIES))
    rngs = [np.random.default_rng([seed, Stream.WANDER]) for seed in config.seeds]
    positions = [obs[:, :dimensions]]
    for _ in range(env.time_limit):
        drawn = [rng.uniform(*env.actions, (episodes, env.actions.outputs)) for rng in rngs]
        positions.append(env.step(np.concatenate(drawn)).obs[:, :dimensions])
    walks = np.stack(positions, axis=1).astype(np.float32)
    return walks.reshape(runs, episodes, *walks.shape[1:])
