"""Mazes of blocks with a target, for any agent: the map, the starts and the rewards.

The functions that are called at every step (`in_wall`, `rewards`, `success`) take NumPy and JAX arrays alike.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hrac.envs import geodesic
from hrac.envs import layout as layouts
from hrac.envs.sketch import Disc, Rectangle, Sketch, rectangles
from hrac.spaces import AnyArray

Numbers: TypeAlias = NDArray[np.float64]
Point: TypeAlias = tuple[float, float]
RewardRule: TypeAlias = Callable[[AnyArray, AnyArray], AnyArray]
"""From positions (n, 2) and targets (n, 2) to rewards (n,). For use on a device it must take JAX arrays too."""

Maze = TypeVar("Maze", bound="BlockMaze")

U = "#####\n#A..#\n###.#\n#...#\n#####"
"""The layout of Ant Maze."""

SPARSE: dict[str, Any] = {
    "layout": """\
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
    "block_size": 2.0,
    "target": (2.0, 9.0),
    "reward": "sparse",
    "success_radius": 1.0,
    "ends_on_success": True,
    "shows_target": False,
}
"""The fields of Ant Maze Sparse."""


@dataclass(frozen=True, kw_only=True)
class BlockMaze:
    """A maze of blocks; the defaults are those of Ant Maze. The origin is the centre of the first start block."""

    layout: str = U
    """The map: `#` wall, `.` free, `A` free and a possible start. x grows along a row, y from row to row."""

    block_size: float = 8.0
    """Edge length of a block. Walls are half as high."""

    target: Point | tuple[Point, Point] | Literal["free"] | None = None
    """Where the target is: a point (x, y), a rectangle ((x, y), (x, y)) to draw it from, or "free", anywhere but in walls.
    None: in the U anywhere in the square around the free blocks, as in the paper, walls or not; in other layouts "free"."""

    reward: Literal["distance", "sparse"] | RewardRule = "distance"
    """Minus the distance to the target; or 1 within `success_radius` of it, else 0; or a function of your own."""

    success_radius: float = 5.0
    """Success means nearer to the target than this."""

    ends_on_success: bool = False
    """Whether success terminates an episode (on Ant Maze in evaluation, not in training)."""

    shows_target: bool = True
    """Whether an agent sees the target."""

    evaluation_target: Point | None = None
    """Where the target is when an agent is evaluated. None: in the U at its other end, (0, 16) in Ant Maze; in other layouts
    as in training."""

    time_limit: int = 500
    """Steps after which an episode is truncated."""

    speed: ClassVar[float]
    """Distance that an agent can cover per step, on average over ten steps: for oracles."""

    def __post_init__(self) -> None:
        for name in ("block_size", "success_radius", "time_limit"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be a positive number, got {value!r}")
        if self.time_limit != int(self.time_limit):
            raise ValueError(f"time_limit must be a whole number, got {self.time_limit!r}")
        if not isinstance(self.layout, str):
            raise ValueError(f"layout must be a text, got {self.layout!r}")
        if not callable(self.reward) and self.reward not in ("distance", "sparse"):
            raise ValueError(f'reward must be "distance", "sparse" or a function, got {self.reward!r}')
        if not (self.grid == "A").any():
            raise layouts.LayoutError("'A' stands nowhere: at least one block to start in is needed")
        layouts.check_reachable(self.grid, "A")
        if self.target is not None and not (isinstance(self.target, str) and self.target == "free"):
            object.__setattr__(self, "target", _checked_target("target", self.target, ((2,), (2, 2))))
        if self.evaluation_target is not None:
            checked = _checked_target("evaluation_target", self.evaluation_target, ((2,),))
            object.__setattr__(self, "evaluation_target", checked)

    @cached_property
    def grid(self) -> np.ndarray:
        """The map's characters (rows, columns)."""
        return layouts.read(self.layout, "A")

    @cached_property
    def starts(self) -> Numbers:
        """Centres of the blocks to start in (starts, 2)."""
        return self.centres(self.grid == "A")

    @cached_property
    def free(self) -> Numbers:
        """Centres of all blocks that are not walls (blocks, 2)."""
        return self.centres(self.grid != "#")

    @property
    def bounds(self) -> tuple[Point, Point]:
        """Lowest and highest position in a free block."""
        edge = self.block_size / 2
        return tuple((self.free.min(axis=0) - edge).tolist()), tuple((self.free.max(axis=0) + edge).tolist())

    @cached_property
    def cells(self) -> NDArray[np.int64]:
        """Centres of the free cells of size 1 (cells, 2)."""
        return geodesic.free_cells(*self.bounds, self.in_wall)

    @cached_property
    def cell_distances(self) -> NDArray[np.int64]:
        """Steps between them on the shortest way through free space (cells, cells)."""
        return geodesic.steps(self.cells, self.in_wall, self.speed)

    @property
    def rule(self) -> Point | tuple[Point, Point] | Literal["free"]:
        """Where targets are drawn from: `target`, or its default if it is None."""
        if self.target is not None:
            return self.target
        return self.bounds if self._is_the_u else "free"

    @property
    def _is_the_u(self) -> bool:
        return self.layout.strip("\n") == U

    def centres(self, blocks: NDArray[np.bool_]) -> Numbers:
        """Centres of the blocks of a mask (rows, columns)."""
        return (np.argwhere(blocks) - np.argwhere(self.grid == "A")[0])[:, ::-1] * float(self.block_size)

    def in_wall(self, positions: AnyArray) -> AnyArray:
        """Whether positions (n, 2) are in a wall block, or outside of the map."""
        xp, (rows, columns) = positions.__array_namespace__(), self.grid.shape
        first_row, first_column = np.argwhere(self.grid == "A")[0].tolist()
        column, row = (xp.floor(positions[:, axis] / self.block_size + 0.5).astype(int) for axis in (0, 1))
        row, column = row + first_row, column + first_column
        outside = (row < 0) | (row >= rows) | (column < 0) | (column >= columns)
        return outside | xp.asarray(self.grid == "#")[xp.clip(row, 0, rows - 1), xp.clip(column, 0, columns - 1)]

    def draw_target(self, rng: np.random.Generator) -> Numbers:
        """An episode's target."""
        if isinstance(self.rule, str):
            edge = self.block_size / 2
            return rng.choice(self.free) + rng.uniform(-edge, edge, 2)
        low, high = np.broadcast_to(self.rule, (2, 2))
        return rng.uniform(low, high)

    def rewards(self, positions: AnyArray, targets: AnyArray) -> AnyArray:
        """The rewards at positions (n, 2) with targets (n, 2)."""
        if callable(self.reward):
            return positions.__array_namespace__().asarray(self.reward(positions, targets), dtype=positions.dtype)
        distance = _distance(positions, targets)
        return -distance if self.reward == "distance" else (distance < self.success_radius).astype(positions.dtype)

    def success(self, positions: AnyArray, targets: AnyArray) -> AnyArray:
        """Whether positions (n, 2) are near enough to targets (n, 2)."""
        return _distance(positions, targets) < self.success_radius

    def sketch(self, target: Point | None = None) -> Sketch:
        """The map up to the middle of the outer walls, with the given target, or with the fixed one if there is one."""
        edge, everywhere = self.block_size, self.centres(np.ones(self.grid.shape, bool))
        corner = everywhere[0] - edge / 2
        walls = [
            (corner[0] + c * edge, corner[1] + r * edge, w * edge, h * edge) for r, c, h, w in rectangles(self.grid == "#")
        ]
        if target is None and isinstance(self.rule, tuple) and not isinstance(self.rule[0], tuple):
            target = self.rule
        discs = () if target is None else (Disc(*target, self.success_radius),)
        low, high = tuple(everywhere.min(axis=0).tolist()), tuple(everywhere.max(axis=0).tolist())
        return Sketch(low, high, tuple(Rectangle(*map(float, wall)) for wall in walls), discs=discs)

    def evaluation(self: Maze) -> Maze:
        """The maze for evaluation: success ends an episode."""
        target: Any = self.evaluation_target
        if target is None:
            target = (0.0, 2.0 * self.block_size) if self._is_the_u else self.target
        return dataclasses.replace(self, target=target, ends_on_success=True)


def _distance(positions: AnyArray, targets: AnyArray) -> AnyArray:
    xp = positions.__array_namespace__()
    return xp.sqrt(xp.square(positions - targets).sum(axis=-1))


def _checked_target(name: str, target: Any, shapes: tuple[tuple[int, ...], ...]) -> Any:
    """The same as nested tuples of floats."""
    try:
        array = np.asarray(target, np.float64)
    except (TypeError, ValueError):
        array = np.zeros(0)
    if array.shape not in shapes or not np.isfinite(array).all() or (np.diff(np.atleast_2d(array), axis=0) < 0).any():
        or_else = ' or ((x low, y low), (x high, y high)) or "free"' if (2, 2) in shapes else ""
        raise ValueError(f"{name} must be (x, y){or_else}, got {target!r}")
    return tuple(array.tolist()) if array.ndim == 1 else tuple(map(tuple, array.tolist()))
