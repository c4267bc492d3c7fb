"""A point that glides through a maze of blocks: Ant Maze without the ant, for tests and first trials.

One definition (`PointMaze`) in two forms with the same motion. `PointBatch` is plain NumPy on the host: an example of a
`BatchEnvironment`. `DevicePoint` is pure JAX: an example of an `Environment` with continuous actions and a context.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray
from numpy.typing import ArrayLike, NDArray

from hrac.envs import blocks
from hrac.envs.base import BatchStep, Outcome, Step, checked_seeds, rows_of
from hrac.envs.blocks import BlockMaze, Numbers
from hrac.envs.sketch import Sketch
from hrac.spaces import Actions, AnyArray, Box

PUSHES = Box((-1.0, -1.0), (1.0, 1.0))
START_NOISE = 0.1
"""Largest distance of a start from the centre of its block, in each coordinate."""
TIME_SCALE = 0.01


@dataclass(frozen=True, kw_only=True)
class PointMaze(BlockMaze):
    """The U of Ant Maze in blocks of 4, with 200 steps, and a point that actions push."""

    block_size: float = 4.0
    success_radius: float = 2.0
    time_limit: int = 200

    speed: ClassVar[float] = 0.4

    max_speed: float = 0.4
    """The limit of the speed, in each coordinate, under a constant full push."""

    inertia: float = 0.7
    """Share of the velocity that remains after a step."""

    def batch(self, num_envs: int, threads: int | None = None) -> "PointBatch":
        """This many copies of it; threads are not used."""
        return PointBatch(self, num_envs)

    def on_device(self) -> "DevicePoint":
        """The same in JAX."""
        return DevicePoint(self)


SPARSE = PointMaze(**blocks.SPARSE)
"""The same in the maze of Ant Maze Sparse."""


class PointBatch:
    """Many points, each in its own maze. Observation: x, y, their velocities, and the time * 0.01.

    A wall stops the motion across it, not the motion along it. Actions within +-1 push in x and in y. Larger ones count as +-1,
    and one that is not finite raises `ValueError`.
    """

    obs_dim = 5
    actions: Actions = PUSHES
    position_low: tuple[float, ...]
    position_high: tuple[float, ...]
    _state_names = ("seeds", "episodes", "steps", "positions", "velocities", "targets")

    def __init__(self, definition: PointMaze, num_envs: int) -> None:
        self.definition, self.num_envs, self.time_limit = definition, num_envs, definition.time_limit
        self.position_low, self.position_high = definition.bounds
        self.context_dim = 2 if definition.shows_target else 0
        self.outcome = definition.outcome if definition.shows_target else None
        self.seeds, self.episodes, self.steps = np.arange(num_envs), np.full(num_envs, -1), np.zeros(num_envs, np.int64)
        self.positions, self.velocities, self.targets = (np.zeros((num_envs, 2)) for _ in range(3))

    @property
    def context(self) -> Numbers:
        """The targets, if the definition shows them (copies, 2 or 0)."""
        return self.targets[:, : self.context_dim].copy()

    def reset(self, ids: ArrayLike | None = None, seeds: ArrayLike | None = None) -> Numbers:
        """Start an episode in some copies (default: all), with new seeds if given. Returns their first observations."""
        rows = self._rows(ids)
        if seeds is not None:
            self.seeds[rows], self.episodes[rows] = checked_seeds(seeds, len(rows)), -1
        self.episodes[rows] += 1
        for i in rows:
            rng = np.random.default_rng((self.seeds[i], self.episodes[i]))
            if self.definition.pairs:
                self.positions[i], self.targets[i] = self.definition.draw_pair(rng)
                continue
            self.positions[i] = rng.choice(self.definition.starts) + rng.uniform(-START_NOISE, START_NOISE, 2)
            self.targets[i] = self.definition.draw_target(rng)
        self.velocities[rows], self.steps[rows] = 0.0, 0
        return self._observe(rows)

    def step(self, actions: ArrayLike, ids: ArrayLike | None = None) -> BatchStep:
        """Step some copies (default: all) once."""
        rows, push = self._rows(ids), np.asarray(actions, np.float64)
        if push.shape != (len(rows), 2) or not np.isfinite(push).all():
            raise ValueError(f"actions must be {len(rows)} rows of two finite numbers, got {actions!r}")
        if (self.episodes[rows] < 0).any():
            raise RuntimeError("reset the copies before stepping them")
        definition = self.definition
        drive = (1 - definition.inertia) * definition.max_speed * np.clip(push, -1.0, 1.0)
        velocity = definition.inertia * self.velocities[rows] + drive
        position = self.positions[rows].copy()
        for axis in range(2):
            moved = position.copy()
            moved[:, axis] += velocity[:, axis]
            free = ~definition.in_wall(moved)
            position[free] = moved[free]
            velocity[~free, axis] = 0.0
        self.positions[rows], self.velocities[rows] = position, velocity
        self.steps[rows] += 1
        terminated = definition.success(position, self.targets[rows]) & definition.ends_on_success
        truncated = (self.steps[rows] >= self.time_limit) & ~terminated
        return BatchStep(self._observe(rows), definition.rewards(position, self.targets[rows]), terminated, truncated)

    def sketch(self, copy: int) -> Sketch:
        """The map of a copy with its target, also if the agent does not see it."""
        return self.definition.sketch(tuple(self.targets[copy].tolist()))

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """The complete state as named arrays."""
        return {name: getattr(self, name).copy() for name in self._state_names}

    def restore(self, snapshot: dict[str, NDArray[Any]]) -> None:
        """Continue exactly from a snapshot."""
        for name in self._state_names:
            setattr(self, name, snapshot[name].copy())

    def _rows(self, ids: ArrayLike | None) -> NDArray[np.int64]:
        return rows_of(ids, self.num_envs)

    def _observe(self, rows: NDArray[np.int64]) -> Numbers:
        return np.column_stack([self.positions[rows], self.velocities[rows], TIME_SCALE * self.steps[rows]])


class PointState(NamedTuple):
    """Position, velocity and target of a point, and the number of its steps."""

    position: Float[Array, "2"]
    velocity: Float[Array, "2"]
    target: Float[Array, "2"]
    time: Int[Array, ""]


@dataclass(frozen=True)
class DevicePoint:
    """One point in JAX. Observation: that of `PointBatch`, then the target if the definition shows it.

    Actions beyond +-1 count as +-1. Points of equal definitions are equal, so that they share compiled programs.
    """

    actions: ClassVar[Actions] = PUSHES
    definition: PointMaze

    @property
    def context_dim(self) -> int:
        """The two numbers of the target, if the definition shows it."""
        return 2 if self.definition.shows_target else 0

    @property
    def obs_dim(self) -> int:
        """Position, velocity, time and context."""
        return PointBatch.obs_dim + self.context_dim

    @property
    def time_limit(self) -> int:
        """Steps after which an episode is truncated."""
        return self.definition.time_limit

    @property
    def ends_on_success(self) -> bool:
        """Whether success terminates an episode."""
        return self.definition.ends_on_success

    @property
    def position_low(self) -> tuple[float, ...]:
        """Lowest position in a free block."""
        return self.definition.bounds[0]

    @property
    def position_high(self) -> tuple[float, ...]:
        """Highest position."""
        return self.definition.bounds[1]

    @property
    def cells(self) -> NDArray[np.int64]:
        """Centres of the free cells (cells, 2)."""
        return self.definition.cells

    @property
    def cell_distances(self) -> NDArray[np.int64]:
        """Steps between them (cells, cells)."""
        return self.definition.cell_distances

    @property
    def outcome(self) -> Outcome | None:
        """What other targets would pay; None if the definition shows none."""
        return self.definition.outcome if self.definition.shows_target else None

    def in_wall(self, positions: AnyArray) -> AnyArray:
        """Whether positions (n, 2) are in a wall."""
        return self.definition.in_wall(positions)

    def exploring(self) -> "DevicePoint":
        """The same maze with the same starts. Success does not end the episode."""
        return DevicePoint(replace(self.definition, ends_on_success=False))

    def evaluation(self) -> "DevicePoint":
        """The maze for evaluation: success ends an episode."""
        return DevicePoint(self.definition.evaluation())

    def sketch(self) -> Sketch:
        """The map."""
        return self.definition.sketch()

    def sketch_at(self, obs: Float[AnyArray, " obs"]) -> Sketch:
        """The map at an observation: with the target of the episode, if it is in it."""
        return self.definition.sketch(tuple(obs[-2:].tolist()) if self.context_dim else None)

    def reset(self, key: PRNGKeyArray) -> tuple[PointState, Float[Array, " obs"]]:
        """At rest in a random start block, with a target drawn by the definition's rule, or by one of its pairs."""
        key_block, key_within, key_target = jax.random.split(key, 3)
        if self.definition.pairs:
            position, target = self._draw_pair(key_block, key_within)
        else:
            block = jax.random.choice(key_block, jnp.asarray(self.definition.starts, jnp.float32))
            position = block + jax.random.uniform(key_within, (2,), minval=-START_NOISE, maxval=START_NOISE)
            target = self._draw_target(key_target)
        state = PointState(position, jnp.zeros(2), target, jnp.asarray(0, jnp.int32))
        return state, self._observe(state)

    def step(self, key: PRNGKeyArray, state: PointState, action: Float[Array, "2"]) -> Step:
        """Push the point, x first. Nothing is random here."""
        definition, position = self.definition, state.position
        drive = (1 - definition.inertia) * definition.max_speed * jnp.clip(action, -1.0, 1.0)
        velocity = definition.inertia * state.velocity + drive
        for axis in range(2):
            moved = position.at[axis].add(velocity[axis])
            blocked = definition.in_wall(moved[None])[0]
            position = jnp.where(blocked, position, moved)
            velocity = jnp.where(blocked, velocity.at[axis].set(0.0), velocity)
        after = PointState(position, velocity, state.target, state.time + 1)
        reached = definition.success(position[None], state.target[None])[0]
        terminated = reached & definition.ends_on_success
        truncated = (after.time >= self.time_limit) & ~terminated
        reward = definition.rewards(position[None], state.target[None])[0]
        return Step(after, self._observe(after), reward, terminated, truncated)

    def _draw_target(self, key: PRNGKeyArray) -> Float[Array, "2"]:
        rule, edge = self.definition.rule, self.definition.block_size / 2
        if isinstance(rule, str):
            key_block, key_within = jax.random.split(key)
            block = jax.random.choice(key_block, jnp.asarray(self.definition.free, jnp.float32))
            return block + jax.random.uniform(key_within, (2,), minval=-edge, maxval=edge)
        boxes = jnp.asarray(self.definition.boxes, jnp.float32)
        if len(boxes) == 1:
            return jax.random.uniform(key, (2,), minval=boxes[0, 0], maxval=boxes[0, 1])
        key_box, key_within = jax.random.split(key)
        low, high = jax.random.choice(key_box, boxes)
        return jax.random.uniform(key_within, (2,), minval=low, maxval=high)

    def _draw_pair(self, key_pair: PRNGKeyArray, key_within: PRNGKeyArray) -> Float[Array, "2 2"]:
        noise = self.definition.pair_noise
        pair = jax.random.choice(key_pair, jnp.asarray(self.definition.pairs, jnp.float32))
        return pair + jax.random.uniform(key_within, (2, 2), minval=-noise, maxval=noise)

    def _observe(self, state: PointState) -> Float[Array, " obs"]:
        time = TIME_SCALE * state.time.astype(jnp.float32)[None]
        return jnp.concatenate([state.position, state.velocity, time, state.target[: self.context_dim]])
