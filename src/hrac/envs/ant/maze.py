"""Ant Maze and Ant Maze Sparse, and any other maze of blocks with a target in it.

>>> AntMaze(layout="#####\\n#A..#\\n#####", block_size=4.0, target=(8.0, 0.0)).starts.tolist()
[[0.0, 0.0]]
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hrac.envs import layout as layouts
from hrac.envs.ant.batch import AntBatch, Ids, Numbers
from hrac.envs.ant.body import Wall

Point: TypeAlias = tuple[float, float]
RewardRule: TypeAlias = Callable[[Numbers, Numbers], Numbers]
"""From positions (n, 2) and targets (n, 2) to rewards (n,)."""


@dataclass(frozen=True, kw_only=True)
class AntMaze:
    """A maze of blocks; the defaults are Ant Maze. The origin is the centre of the first start block."""

    layout: str = "#####\n#A..#\n###.#\n#...#\n#####"
    """The map, one line a row: `#` wall, `.` free, `A` free and a possible start. x grows along a row, y from row to row."""

    block_size: float = 8.0
    """Edge of a block. Walls are half as high."""

    target: Point | tuple[Point, Point] | Literal["free"] = ((-4.0, -4.0), (20.0, 20.0))
    """Where the target is: a point (x, y), a rectangle ((x, y), (x, y)) to draw it from, or "free", anywhere but in walls."""

    reward: Literal["distance", "sparse"] | RewardRule = "distance"
    """Minus the distance to the target; or 1 within `success_radius` of it, else 0; or a function of your own."""

    success_radius: float = 5.0
    """Success is to be nearer to the target than this."""

    ends_on_success: bool = False
    """Whether success terminates an episode (on Ant Maze in evaluation, not in training)."""

    shows_target: bool = True
    """Whether an agent is told the target."""

    time_limit: int = 500
    """Steps after which an episode is truncated."""

    sigma: float = 0.0
    """Standard deviation of the noise added to the torso's (x, y) after each step."""

    def __post_init__(self) -> None:
        for name, low in (("block_size", 0.0), ("success_radius", 0.0), ("time_limit", 0.0)):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > low):
                raise ValueError(f"{name} must be a positive number, got {value!r}")
        if not (math.isfinite(self.sigma) and self.sigma >= 0):
            raise ValueError(f"sigma must be a number from 0, got {self.sigma!r}")
        if self.reward not in ("distance", "sparse") and not callable(self.reward):
            raise ValueError(f'reward must be "distance", "sparse" or a function, got {self.reward!r}')
        if self.target != "free":
            object.__setattr__(self, "target", _checked_target(self.target))
        if not len(self.starts):
            raise layouts.LayoutError("'A' stands nowhere: the ant needs at least one block to start in")
        layouts.distances(self.grid, "A")

    @cached_property
    def grid(self) -> np.ndarray:
        """The map's characters (rows, columns)."""
        return layouts.read(self.layout, "A")

    @cached_property
    def starts(self) -> Numbers:
        """Centres of the blocks to start in (starts, 2)."""
        return self._centres(self.grid == "A")

    @cached_property
    def free(self) -> Numbers:
        """Centres of all blocks that are no wall (blocks, 2)."""
        return self._centres(self.grid != "#")

    @cached_property
    def walls(self) -> tuple[Wall, ...]:
        """A box for every wall block."""
        edge, height = self.block_size / 2, self.block_size / 4
        centres = self._centres(self.grid == "#").tolist()
        return tuple(Wall((x, y, height), (edge, edge, height)) for x, y in centres)

    def _centres(self, blocks: NDArray[np.bool_]) -> Numbers:
        if not (self.grid == "A").any():
            return np.zeros((0, 2))
        origin = np.argwhere(self.grid == "A")[0]
        return (np.argwhere(blocks) - origin)[:, ::-1] * float(self.block_size)

    def batch(self, num_envs: int, threads: int | None = None) -> "MazeBatch":
        """So many copies of it, on so many threads (None: one a core)."""
        return MazeBatch(self, num_envs, threads)


class MazeBatch(AntBatch):
    """Many ants, each in a maze of its own with a target of its own."""

    definition: AntMaze
    time_scale = 0.001
    _state_names = ("targets",)

    def __init__(self, definition: AntMaze, num_envs: int, threads: int | None = None) -> None:
        self.definition = definition
        super().__init__(definition, num_envs, threads)
        edge = definition.block_size / 2
        self.position_low = tuple((definition.free.min(axis=0) - edge).tolist())
        self.position_high = tuple((definition.free.max(axis=0) + edge).tolist())
        self.context_dim = 2 if definition.shows_target else 0
        self.targets = np.zeros((num_envs, 2))
        """The target of each copy's episode; may be written to."""

    @property
    def context(self) -> Numbers:
        """The targets, where the definition shows them (copies, 2 or 0)."""
        return self.targets[:, : self.context_dim].copy()

    def reward(self, positions: Numbers, targets: Numbers) -> Numbers:
        """What being at positions (n, 2) is worth when the targets are (n, 2)."""
        rule = self.definition.reward
        if callable(rule):
            return np.asarray(rule(positions, targets), np.float64)
        distance = _distance(positions, targets)
        return -distance if rule == "distance" else (distance < self.definition.success_radius).astype(np.float64)

    def success(self, positions: Numbers, targets: Numbers) -> NDArray[np.bool_]:
        """Whether positions (n, 2) are near enough to targets (n, 2)."""
        return _distance(positions, targets) < self.definition.success_radius

    def info(self, rows: Ids) -> dict[str, NDArray[Any]]:
        """`success`: whether the ant is near enough to its target now."""
        return {"success": self.success(self.qpos[rows, :2], self.targets[rows])}

    def _begin(self, copy: int, rng: np.random.Generator) -> None:
        definition = self.definition
        if len(definition.starts) > 1:
            self.qpos[copy, :2] = rng.choice(definition.starts)
        if definition.target == "free":
            edge = definition.block_size / 2
            self.targets[copy] = rng.choice(definition.free) + rng.uniform(-edge, edge, 2)
        else:
            low, high = np.broadcast_to(definition.target, (2, 2))
            self.targets[copy] = rng.uniform(low, high)

    def _outcome(self, rows: Ids) -> tuple[Numbers, NDArray[np.bool_]]:
        positions, targets = self.qpos[rows, :2], self.targets[rows]
        terminated = self.success(positions, targets) & self.definition.ends_on_success
        return self.reward(positions, targets), terminated


def _distance(positions: Numbers, targets: Numbers) -> Numbers:
    return np.sqrt(np.square(positions - targets).sum(axis=-1))


def _checked_target(target: Any) -> Any:
    """The same as nested tuples of floats."""
    try:
        array = np.asarray(target, np.float64)
    except (TypeError, ValueError):
        array = np.zeros(0)
    if array.shape not in ((2,), (2, 2)) or not np.isfinite(array).all() or (np.diff(np.atleast_2d(array), axis=0) < 0).any():
        raise ValueError(f'target must be (x, y), ((x low, y low), (x high, y high)) or "free", got {target!r}')
    return tuple(array.tolist()) if array.ndim == 1 else tuple(map(tuple, array.tolist()))


SPARSE = AntMaze(
    layout="""\
##########
#AAAAAAAA#
#AAAAAAAA#
#######AA#
#.AAAAAAA#
#.AAAAAAA#
#######AA#
#AAAAAAAA#
#AAAAAAAA#
##########
""",
    block_size=2.0,
    target=(2.0, 9.0),
    reward="sparse",
    success_radius=1.0,
    ends_on_success=True,
    shows_target=False,
)
"""Ant Maze Sparse."""
