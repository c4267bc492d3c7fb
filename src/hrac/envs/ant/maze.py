"""Ant Maze and Ant Maze Sparse, and any other maze for an ant, with blocks to push and chasms too.

>>> AntMaze(layout="#####\\n#A..#\\n#####", block_size=4.0, target=(8.0, 0.0)).starts.tolist()
[[0.0, 0.0]]
"""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import starmap
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hrac.envs import blocks
from hrac.envs.ant import body
from hrac.envs.ant.batch import AntBatch, Ids, Numbers
from hrac.envs.ant.body import Block, Wall
from hrac.envs.blocks import BlockMaze, Point
from hrac.envs.sketch import Rectangle, Sketch
from hrac.errors import HracError

MASS, FALLING_MASS = 0.0002, 0.001
"""Of blocks that slide on the floor, and of those that can fall."""
FALLING_SIZE = 0.99
"""Blocks that can fall are narrower than a chasm by this factor."""


class UnknownDistancesError(HracError):
    """A maze whose ways can change; the message says why."""


@dataclass(frozen=True, kw_only=True)
class AntMaze(BlockMaze):
    """A maze of blocks for an ant; the defaults are Ant Maze.

    In the layout `M` is a block that the ant can push, and `~` a chasm. Where there is a chasm, everything else stands on a
    platform as high as a wall.
    """

    speed: ClassVar[float] = body.SPEED
    symbols: ClassVar[str] = "AM~"

    sigma: float = 0.0
    """Standard deviation of the noise added to the torso's (x, y) after each step."""

    slides: str = "xy"
    """The axes along which the blocks `M` slide. With "z" they fall into a chasm, up to whose edge they fill it."""

    target_height: float | None = None
    """The height of targets. Goal space is then (x, y, z), and distances are measured in it. None: goal space is (x, y)."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.sigma) and self.sigma >= 0):
            raise ValueError(f"sigma must be a number from 0, got {self.sigma!r}")
        if not isinstance(self.slides, str) or not self.slides or sorted(self.slides) != sorted({*self.slides} & {*"xyz"}):
            raise ValueError(f'slides must be some of the axes, such as "xy", got {self.slides!r}')
        height = self.target_height
        if height is not None and not (type(height) in (int, float) and math.isfinite(height) and height > 0):
            raise ValueError(f"target_height must be a positive number or None, got {height!r}")
        super().__post_init__()
        if "z" in self.slides and not self.floor:
            raise ValueError(f"slides must be without 'z' where no chasm ('~') is in the layout, got {self.slides!r}")

    @cached_property
    def floor(self) -> float:
        """The height at which the ant walks: 0, or that of the platform around a chasm."""
        return self.block_size / 2 if (self.grid == "~").any() else 0.0

    @cached_property
    def walls(self) -> tuple[Wall, ...]:
        """A box for every wall block, every thin wall and every piece of a platform."""
        edge, height = self.block_size / 2, self.floor / 2 + self.block_size / 4
        walls = [Wall((x, y, height), (edge, edge, height)) for x, y in self.centres(self.grid == "#").tolist()]
        walls += [
            Wall(((left + right) / 2, (bottom + top) / 2, height), ((right - left) / 2, (top - bottom) / 2, height))
            for (left, bottom), (right, top) in self.thin_walls
        ]
        if middle := self.floor / 2:
            platform = (self.grid != "#") & (self.grid != "~")
            walls += [Wall((x, y, middle), (edge, edge, middle), is_floor=True) for x, y in self.centres(platform).tolist()]
        return tuple(walls)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks that the ant can push."""
        edge, height, falls = self.block_size / 2, self.block_size / 4, "z" in self.slides
        half_size = (FALLING_SIZE * edge, FALLING_SIZE * edge, height) if falls else (edge, edge, height)
        limits = {"x": self.block_size, "y": self.block_size, "z": 0.0}
        travel = {axis: (-(limit or self.floor), limit) if falls else None for axis, limit in limits.items()}
        return tuple(
            Block(
                (x, y, self.floor + height),
                half_size,
                FALLING_MASS if falls else MASS,
                {axis: travel[axis] for axis in self.slides},
            )
            for x, y in self.centres(self.grid == "M").tolist()
        )

    @property
    def cell_distances(self) -> NDArray[np.int64]:
        """Steps between free cells on the shortest way (cells, cells); raises `UnknownDistancesError` if ways can change."""
        if self.blocks or self.floor:
            raise UnknownDistancesError(
                "there is no oracle for this maze: true distances depend on where the blocks are and who is in the chasm. Take "
                "another method than hrac-o, or another adjacency.source, such as table"
            )
        return super().cell_distances

    def sketch(self, target: Point | None = None) -> Sketch:
        """The map with its chasms, and with the blocks where they are at the start."""
        edge = self.block_size
        chasms = [Rectangle(x - edge / 2, y - edge / 2, edge, edge) for x, y in self.centres(self.grid == "~").tolist()]
        sketch = super().sketch(target)._replace(chasms=tuple(chasms), floor=self.floor)
        return sketch._replace(blocks=tuple(outline(block) for block in self.blocks))

    def batch(self, num_envs: int, threads: int | None = None) -> "MazeBatch":
        """This many copies of it, on this many threads (None: one per core)."""
        return MazeBatch(self, num_envs, threads)


SPARSE = AntMaze(**blocks.SPARSE)
"""Ant Maze Sparse."""


def outline(block: Block, moved: Numbers | tuple[float, float] = (0.0, 0.0)) -> Rectangle:
    """A block seen from above."""
    (x, y, _), (width, height, _) = block.centre, block.half_size
    return Rectangle(float(x - width + moved[0]), float(y - height + moved[1]), 2 * width, 2 * height)


class MazeBatch(AntBatch):
    """Many ants, each in its own maze with its own target."""

    definition: AntMaze
    time_scale = 0.001
    _state_names = ("targets",)

    def __init__(self, definition: AntMaze, num_envs: int, threads: int | None = None) -> None:
        self.definition = definition
        super().__init__(definition, num_envs, threads)
        self.position_low, self.position_high = definition.bounds
        if definition.target_height is not None:
            highest = max(definition.floor + 1.0, definition.target_height)
            self.position_low, self.position_high = (*self.position_low, 0.0), (*self.position_high, highest)
        self.context_dim = self.goal_dim if definition.shows_target else 0
        self.outcome = definition.outcome if definition.shows_target else None
        self.targets = np.zeros((num_envs, self.goal_dim))
        """The target of each copy's episode; may be written to."""

    @property
    def context(self) -> Numbers:
        """The targets, if the definition shows them (copies, coordinates or 0)."""
        return self.targets[:, : self.context_dim].copy()

    def sketch(self, copy: int) -> Sketch:
        """The map of a copy with its target, also if the agent does not see it, and its blocks where they are now."""
        sketch = self.definition.sketch(tuple(self.targets[copy, :2].tolist()))
        return sketch._replace(blocks=tuple(starmap(outline, zip(self.definition.blocks, self.pushed(copy), strict=True))))

    def pushed(self, copy: int) -> Numbers:
        """How far each block of a copy was pushed (blocks, 3)."""
        axes = ["xyz".index(axis) for axis in self.definition.slides]
        moved = np.zeros((len(self.definition.blocks), 3))
        moved[:, axes] = self.slid[copy].reshape(-1, len(axes))
        return moved

    def info(self, rows: Ids) -> dict[str, NDArray[Any]]:
        """`success`: whether the ant is near enough to its target now."""
        return {"success": self.definition.success(self.qpos[rows, : self.goal_dim], self.targets[rows])}

    def _begin(self, copy: int, rng: np.random.Generator) -> None:
        self.qpos[copy, 2] += self.definition.floor
        self.targets[copy] = self.definition.target_height or 0.0
        if self.definition.pairs:
            self.qpos[copy, :2], self.targets[copy, :2] = self.definition.draw_pair(rng)
            return
        if len(self.definition.starts) > 1:
            self.qpos[copy, :2] = rng.choice(self.definition.starts)
        self.targets[copy, :2] = self.definition.draw_target(rng)

    def _outcome(self, rows: Ids) -> tuple[Numbers, NDArray[np.bool_]]:
        positions, targets = self.qpos[rows, : self.goal_dim], self.targets[rows]
        terminated = self.definition.success(positions, targets) & self.definition.ends_on_success
        return self.definition.rewards(positions, targets), terminated
