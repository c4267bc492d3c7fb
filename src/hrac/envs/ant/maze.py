"""Ant Maze and Ant Maze Sparse, and any other maze of blocks for an ant.

>>> AntMaze(layout="#####\\n#A..#\\n#####", block_size=4.0, target=(8.0, 0.0)).starts.tolist()
[[0.0, 0.0]]
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hrac.envs import blocks
from hrac.envs.ant import body
from hrac.envs.ant.batch import AntBatch, Ids, Numbers
from hrac.envs.ant.body import Wall
from hrac.envs.blocks import BlockMaze
from hrac.envs.sketch import Sketch


@dataclass(frozen=True, kw_only=True)
class AntMaze(BlockMaze):
    """A maze of blocks for an ant; the defaults are Ant Maze."""

    speed: ClassVar[float] = body.SPEED

    sigma: float = 0.0
    """Standard deviation of the noise added to the torso's (x, y) after each step."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.sigma) and self.sigma >= 0):
            raise ValueError(f"sigma must be a number from 0, got {self.sigma!r}")
        super().__post_init__()

    @cached_property
    def walls(self) -> tuple[Wall, ...]:
        """A box for every wall block and every thin wall."""
        edge, height = self.block_size / 2, self.block_size / 4
        centres = self.centres(self.grid == "#").tolist()
        blocks = tuple(Wall((x, y, height), (edge, edge, height)) for x, y in centres)
        return blocks + tuple(
            Wall(((left + right) / 2, (bottom + top) / 2, height), ((right - left) / 2, (top - bottom) / 2, height))
            for (left, bottom), (right, top) in self.thin_walls
        )

    def batch(self, num_envs: int, threads: int | None = None) -> "MazeBatch":
        """This many copies of it, on this many threads (None: one per core)."""
        return MazeBatch(self, num_envs, threads)


SPARSE = AntMaze(**blocks.SPARSE)
"""Ant Maze Sparse."""


class MazeBatch(AntBatch):
    """Many ants, each in its own maze with its own target."""

    definition: AntMaze
    time_scale = 0.001
    _state_names = ("targets",)

    def __init__(self, definition: AntMaze, num_envs: int, threads: int | None = None) -> None:
        self.definition = definition
        super().__init__(definition, num_envs, threads)
        self.position_low, self.position_high = definition.bounds
        self.context_dim = 2 if definition.shows_target else 0
        self.targets = np.zeros((num_envs, 2))
        """The target of each copy's episode; may be written to."""

    @property
    def context(self) -> Numbers:
        """The targets, if the definition shows them (copies, 2 or 0)."""
        return self.targets[:, : self.context_dim].copy()

    def sketch(self, copy: int) -> Sketch:
        """The map of a copy with its target, also if the agent does not see it."""
        return self.definition.sketch(tuple(self.targets[copy].tolist()))

    def info(self, rows: Ids) -> dict[str, NDArray[Any]]:
        """`success`: whether the ant is near enough to its target now."""
        return {"success": self.definition.success(self.qpos[rows, :2], self.targets[rows])}

    def _begin(self, copy: int, rng: np.random.Generator) -> None:
        if self.definition.pairs:
            self.qpos[copy, :2], self.targets[copy] = self.definition.draw_pair(rng)
            return
        if len(self.definition.starts) > 1:
            self.qpos[copy, :2] = rng.choice(self.definition.starts)
        self.targets[copy] = self.definition.draw_target(rng)

    def _outcome(self, rows: Ids) -> tuple[Numbers, NDArray[np.bool_]]:
        positions, targets = self.qpos[rows, :2], self.targets[rows]
        terminated = self.definition.success(positions, targets) & self.definition.ends_on_success
        return self.definition.rewards(positions, targets), terminated
