"""A point that glides through a maze of blocks: Ant Maze without the ant, for tests and quick looks. Plain NumPy."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hrac.envs import blocks
from hrac.envs.base import BatchStep, checked_seeds, rows_of
from hrac.envs.blocks import BlockMaze, Numbers
from hrac.spaces import Actions, Box


@dataclass(frozen=True, kw_only=True)
class PointMaze(BlockMaze):
    """The U of Ant Maze in blocks of 4, 200 steps, and a point in it that is pushed about."""

    block_size: float = 4.0
    success_radius: float = 2.0
    time_limit: int = 200

    max_speed: float = 0.4
    """What the speed tends to, in each coordinate, under a constant full push."""

    inertia: float = 0.7
    """Share of the velocity that is left after a step."""

    def batch(self, num_envs: int, threads: int | None = None) -> "PointBatch":
        """This many copies of it; threads are not used."""
        return PointBatch(self, num_envs)


SPARSE = PointMaze(**blocks.SPARSE)
"""The same in the maze of Ant Maze Sparse."""


class PointBatch:
    """Many points, each in a maze of its own. Observation: x, y, their velocities, and the time * 0.01.

    A wall stops the motion across it and lets that along it go on. Actions within +-1 push in x and in y; beyond, they count
    as +-1, and one that is not finite raises `ValueError`.
    """

    obs_dim = 5
    actions: Actions = Box((-1.0, -1.0), (1.0, 1.0))
    position_low: tuple[float, ...]
    position_high: tuple[float, ...]
    _state_names = ("seeds", "episodes", "steps", "positions", "velocities", "targets")

    def __init__(self, definition: PointMaze, num_envs: int) -> None:
        self.definition, self.num_envs, self.time_limit = definition, num_envs, definition.time_limit
        self.position_low, self.position_high = definition.bounds
        self.context_dim = 2 if definition.shows_target else 0
        self.seeds, self.episodes, self.steps = np.arange(num_envs), np.full(num_envs, -1), np.zeros(num_envs, np.int64)
        self.positions, self.velocities, self.targets = (np.zeros((num_envs, 2)) for _ in range(3))

    @property
    def context(self) -> Numbers:
        """The targets, where the definition shows them (copies, 2 or 0)."""
        return self.targets[:, : self.context_dim].copy()

    def reset(self, ids: ArrayLike | None = None, seeds: ArrayLike | None = None) -> Numbers:
        """Begin an episode in some copies (default: all), with new seeds if given; their first observations."""
        rows = self._rows(ids)
        if seeds is not None:
            self.seeds[rows], self.episodes[rows] = checked_seeds(seeds, len(rows)), -1
        self.episodes[rows] += 1
        for i in rows:
            rng = np.random.default_rng((self.seeds[i], self.episodes[i]))
            self.positions[i] = rng.choice(self.definition.starts) + rng.uniform(-0.1, 0.1, 2)
            self.targets[i] = self.definition.draw_target(rng)
        self.velocities[rows], self.steps[rows] = 0.0, 0
        return self._observe(rows)

    def step(self, actions: ArrayLike, ids: ArrayLike | None = None) -> BatchStep:
        """Move some copies (default: all) on by one step."""
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

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """The complete state as named arrays."""
        return {name: getattr(self, name).copy() for name in self._state_names}

    def restore(self, snapshot: dict[str, NDArray[Any]]) -> None:
        """Go on exactly from a snapshot."""
        for name in self._state_names:
            setattr(self, name, snapshot[name].copy())

    def _rows(self, ids: ArrayLike | None) -> NDArray[np.int64]:
        return rows_of(ids, self.num_envs)

    def _observe(self, rows: NDArray[np.int64]) -> Numbers:
        return np.column_stack([self.positions[rows], self.velocities[rows], 0.01 * self.steps[rows]])
