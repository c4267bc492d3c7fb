"""Any JAX environment as a task on the host: its copies are stepped together on the CPU and return NumPy arrays."""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Num, PRNGKeyArray, UInt32
from numpy.typing import ArrayLike, NDArray

from hrac.envs.base import BatchStep, Environment, Outcome, State, Step, checked_seeds, rows_of
from hrac.spaces import Discrete


@dataclass(frozen=True)
class Hosted:
    """A JAX environment as a `HostTask`. It must be hashable, so that equal ones share compiled programs."""

    env: Environment

    @property
    def ends_on_success(self) -> bool:
        """Whether an episode that terminates has succeeded."""
        return self.env.ends_on_success

    def batch(self, num_envs: int, threads: int | None = None) -> "HostedBatch":
        """This many copies of it; XLA decides about threads."""
        return HostedBatch(self.env, num_envs)

    def evaluation(self) -> "Hosted":
        """The environment for evaluation."""
        return Hosted(self.env.evaluation())


def episode_key(seed: UInt32[Array, "2"], episode: Int[Array, ""], step: Int[Array, ""]) -> PRNGKeyArray:
    """The key of a reset (step 0) or of a step (from 1). `seed` has the low and the high half of a copy's seed."""
    key = jax.random.key(seed[0])
    for part in (seed[1], episode, step):
        key = jax.random.fold_in(key, part)
    return key


class HostedBatch:
    """Many copies of a JAX environment.

    Every key follows from a copy's seed, the number of its episode and that of its step: a snapshot is arrays only, without
    random state. The end of the environment's observation is the `context` here.
    """

    def __init__(self, env: Environment, num_envs: int) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, got {num_envs}")
        self.env, self.num_envs = env, num_envs
        self.actions, self.time_limit = env.actions, env.time_limit
        self.context_dim, self.obs_dim = env.context_dim, env.obs_dim - env.context_dim
        self.position_low, self.position_high = env.position_low, env.position_high
        self.outcome: Outcome | None = getattr(env, "outcome", None)
        self.seeds, self.episodes, self.steps = np.arange(num_envs), np.full(num_envs, -1), np.zeros(num_envs, np.int64)
        self._context = np.zeros((num_envs, self.context_dim))
        shapes, _ = jax.eval_shape(env.reset, jax.random.key(0))
        self._state: State = jax.tree.map(lambda leaf: np.zeros((num_envs, *leaf.shape), leaf.dtype), shapes)

    @property
    def context(self) -> NDArray[np.float64]:
        """The numbers that set the tasks of the present episodes (copies, context_dim)."""
        return self._context.copy()

    def reset(self, ids: ArrayLike | None = None, seeds: ArrayLike | None = None) -> NDArray[np.float64]:
        """Start an episode in some copies (default: all), with new seeds if given. Returns their first observations."""
        rows = rows_of(ids, self.num_envs)
        if seeds is not None:
            self.seeds[rows], self.episodes[rows] = checked_seeds(seeds, len(rows)), -1
        self.episodes[rows] += 1
        self.steps[rows] = 0
        with jax.default_device(_cpu()):
            self._state, seen = _reset(self.env, *self._clock(), self._mask(rows), self._state)
        obs, context = np.split(np.asarray(seen, np.float64)[rows], [self.obs_dim], axis=1)
        self._context[rows] = context
        return obs

    def step(self, actions: ArrayLike, ids: ArrayLike | None = None) -> BatchStep:
        """Step some copies (default: all) once."""
        rows = rows_of(ids, self.num_envs)
        chosen = self._checked(actions, len(rows))
        if (self.episodes[rows] < 0).any():
            raise RuntimeError("reset the copies before stepping them")
        # All copies go through one compiled program, however many of them move.
        everyones = np.zeros((self.num_envs, *chosen.shape[1:]), chosen.dtype)
        everyones[rows] = chosen
        self.steps[rows] += 1
        with jax.default_device(_cpu()):
            after = _step(self.env, *self._clock(), self._mask(rows), self._state, everyones)
        self._state = after.state
        obs, reward = (np.asarray(part, np.float64)[rows] for part in (after.obs, after.reward))
        return BatchStep(obs[:, : self.obs_dim], reward, np.asarray(after.terminated)[rows], np.asarray(after.truncated)[rows])

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """The complete state as named arrays."""
        counters = {"seeds": self.seeds, "episodes": self.episodes, "steps": self.steps, "context": self._context}
        state = {f"state/{number}": leaf for number, leaf in enumerate(jax.tree.leaves(self._state))}
        return {name: np.array(array) for name, array in (counters | state).items()}

    def restore(self, snapshot: dict[str, NDArray[Any]]) -> None:
        """Continue exactly from a snapshot."""
        present = self.snapshot()
        for name, array in present.items():
            if name not in snapshot or snapshot[name].shape != array.shape:
                raise ValueError(f"the snapshot is not of {self.num_envs} copies of this environment: {name!r} does not fit")
        self.seeds, self.episodes, self.steps, self._context = (
            snapshot[name].copy() for name in ("seeds", "episodes", "steps", "context")
        )
        leaves, form = jax.tree.flatten(self._state)
        self._state = jax.tree.unflatten(form, [snapshot[f"state/{number}"].copy() for number in range(len(leaves))])

    def _clock(self) -> tuple[NDArray[np.uint32], NDArray[np.int32], NDArray[np.int32]]:
        halves = np.stack([self.seeds & 0xFFFFFFFF, self.seeds >> 32], axis=1).astype(np.uint32)
        return halves, self.episodes.astype(np.int32), self.steps.astype(np.int32)

    def _mask(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        mask = np.zeros(self.num_envs, bool)
        mask[rows] = True
        return mask

    def _checked(self, actions: ArrayLike, count: int) -> NDArray[Any]:
        array = np.asarray(actions)
        if isinstance(self.actions, Discrete):
            choices = self.actions.choices
            if array.shape != (count,) or array.dtype.kind not in "iu" or (array < 0).any() or (array >= choices).any():
                raise ValueError(f"actions must be {count} integers from 0 to {choices - 1}, got {actions!r}")
            return array.astype(np.int32)
        size = self.actions.outputs
        if array.shape != (count, size) or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
            raise ValueError(f"actions must be {count} rows of {size} finite numbers, got {actions!r}")
        return array.astype(np.float32)


def _cpu() -> jax.Device:
    return jax.devices("cpu")[0]


def _chosen(mine: Bool[Array, ""], new: State, old: State) -> State:
    return jax.tree.map(lambda a, b: jnp.where(mine, a, b), new, old)


@functools.partial(jax.jit, static_argnames="env")
def _reset(
    env: Environment,
    seeds: UInt32[Array, "copies 2"],
    episodes: Int[Array, " copies"],
    steps: Int[Array, " copies"],
    mask: Bool[Array, " copies"],
    states: State,
) -> tuple[State, Array]:
    """Start an episode where the mask is true; the other copies do not change."""

    def one_copy(seed: Array, episode: Array, step: Array, mine: Array, state: State) -> tuple[State, Array]:
        fresh, obs = env.reset(episode_key(seed, episode, step))
        return _chosen(mine, fresh, state), obs

    return jax.vmap(one_copy)(seeds, episodes, steps, mask, states)


@functools.partial(jax.jit, static_argnames="env")
def _step(
    env: Environment,
    seeds: UInt32[Array, "copies 2"],
    episodes: Int[Array, " copies"],
    steps: Int[Array, " copies"],
    mask: Bool[Array, " copies"],
    states: State,
    actions: Num[Array, "copies *action"],
) -> Step:
    """Step the copies where the mask is true; the others do not change."""

    def one_copy(seed: Array, episode: Array, step: Array, mine: Array, state: State, action: Array) -> Step:
        after = env.step(episode_key(seed, episode, step), state, action)
        return after._replace(state=_chosen(mine, after.state, state))

    return jax.vmap(one_copy)(seeds, episodes, steps, mask, states, actions)
