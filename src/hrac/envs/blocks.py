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
Box: TypeAlias = tuple[Point, Point]
"""A rectangle: its lowest and its highest (x, y)."""
RewardRule: TypeAlias = Callable[[AnyArray, AnyArray], AnyArray]
"""From positions (n, goal) and targets (n, goal) to rewards (n,). For use on a device, and for `manager.hindsight`, it must
take JAX arrays too."""

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

    target: Point | Box | tuple[Box, ...] | Literal["free"] | None = None
    """Where the target is: a point (x, y), a rectangle ((x, y), (x, y)) to draw it from, several rectangles, one of which is
    drawn first, or "free", anywhere but in wall blocks.
    None: in the U anywhere in the square around the free blocks, as in the paper, walls or not; in other layouts "free"."""

    reward: Literal["distance", "sparse", "steps"] | RewardRule = "distance"
    """Minus the distance to the target; or 1 within `success_radius` of it, else 0; or ("steps") 0 within it, else -1; or a
    function of your own."""

    success_radius: float = 5.0
    """Success means nearer to the target than this."""

    ends_on_success: bool = False
    """Whether success terminates an episode (on Ant Maze in evaluation, not in training)."""

    shows_target: bool = True
    """Whether an agent sees the target."""

    evaluation_target: Point | tuple[Point, ...] | None = None
    """Where the target is when an agent is evaluated: a point, or several, one of which is drawn for an episode. None: in the U
    at its other end, (0, 16) in Ant Maze; in other layouts as in training."""

    pairs: tuple[tuple[Point, Point], ...] = ()
    """Starts and their targets, one pair of which is drawn for an episode, in evaluation too. Empty: starts and targets are
    drawn independently, by `layout` and `target`."""

    pair_noise: float = 0.0
    """How far the start and the target of a pair are moved at most, in each coordinate."""

    thin_walls: tuple[Box, ...] = ()
    """Rectangles in free blocks that are walls, as high as the others."""

    time_limit: int = 500
    """Steps after which an episode is truncated."""

    symbols: ClassVar[str] = "A"
    """Symbols of the layout beside `#` and `.`."""

    speed: ClassVar[float]
    """Distance that an agent can cover per step, on average over ten steps: for oracles."""

    def __post_init__(self) -> None:
        for name in ("block_size", "success_radius", "time_limit"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be a positive number, got {value!r}")
        if self.time_limit != int(self.time_limit):
            raise ValueError(f"time_limit must be a whole number, got {self.time_limit!r}")
        if not (isinstance(self.pair_noise, int | float) and math.isfinite(self.pair_noise) and self.pair_noise >= 0):
            raise ValueError(f"pair_noise must be a number from 0, got {self.pair_noise!r}")
        if not isinstance(self.layout, str):
            raise ValueError(f"layout must be a text, got {self.layout!r}")
        if not callable(self.reward) and self.reward not in ("distance", "sparse", "steps"):
            raise ValueError(f'reward must be "distance", "sparse", "steps" or a function, got {self.reward!r}')
        if not (self.grid == "A").any():
            raise layouts.LayoutError("'A' stands nowhere: at least one block to start in is needed")
        layouts.check_reachable(self.grid, "A")
        self._check_places()

    def _check_places(self) -> None:
        """Check what is given in coordinates, and keep it as nested tuples of floats."""
        if self.target is not None and not (isinstance(self.target, str) and self.target == "free"):
            object.__setattr__(self, "target", _checked("target", self.target, POINT, BOX, BOXES))
        if self.evaluation_target is not None:
            checked = _checked("evaluation_target", self.evaluation_target, POINT, POINTS)
            object.__setattr__(self, "evaluation_target", checked)
        if self.thin_walls != ():
            object.__setattr__(self, "thin_walls", _checked("thin_walls", self.thin_walls, BOXES))
        if self.pairs != ():
            object.__setattr__(self, "pairs", _checked("pairs", self.pairs, PAIRS))
            if self.target is not None or self.evaluation_target is not None:
                raise ValueError("pairs say where targets are: target and evaluation_target must be None")
            places = np.reshape(self.pairs, (-1, 2))
            if (blocked := self.in_wall(places)).any():
                raise ValueError(f"pairs: {tuple(places[blocked][0].tolist())} is in a wall")

    @cached_property
    def grid(self) -> np.ndarray:
        """The map's characters (rows, columns)."""
        return layouts.read(self.layout, self.symbols)

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
    def rule(self) -> Point | Box | tuple[Box, ...] | Literal["free"]:
        """Where targets are drawn from: `target`, or its default if it is None."""
        if self.target is not None:
            return self.target
        return self.bounds if self._is_the_u else "free"

    @property
    def boxes(self) -> Numbers:
        """The rectangles of a `rule` that is not "free" (rectangles, 2, 2)."""
        boxes = np.asarray(self.rule, np.float64)
        return boxes if boxes.ndim == 3 else np.broadcast_to(boxes, (1, 2, 2))

    @property
    def _is_the_u(self) -> bool:
        return self.layout.strip("\n") == U

    def centres(self, blocks: NDArray[np.bool_]) -> Numbers:
        """Centres of the blocks of a mask (rows, columns)."""
        return (np.argwhere(blocks) - np.argwhere(self.grid == "A")[0])[:, ::-1] * float(self.block_size)

    def in_wall(self, positions: AnyArray) -> AnyArray:
        """Whether positions (n, 2) are in a wall block or a thin wall, or outside of the map."""
        xp, (rows, columns) = positions.__array_namespace__(), self.grid.shape
        first_row, first_column = np.argwhere(self.grid == "A")[0].tolist()
        column, row = (xp.floor(positions[:, axis] / self.block_size + 0.5).astype(int) for axis in (0, 1))
        row, column = row + first_row, column + first_column
        outside = (row < 0) | (row >= rows) | (column < 0) | (column >= columns)
        blocked = outside | xp.asarray(self.grid == "#")[xp.clip(row, 0, rows - 1), xp.clip(column, 0, columns - 1)]
        for low, high in self.thin_walls:
            for_axes = [(positions[:, axis] >= low[axis]) & (positions[:, axis] < high[axis]) for axis in (0, 1)]
            blocked = blocked | (for_axes[0] & for_axes[1])
        return blocked

    def draw_target(self, rng: np.random.Generator) -> Numbers:
        """An episode's target."""
        if isinstance(self.rule, str):
            edge = self.block_size / 2
            return rng.choice(self.free) + rng.uniform(-edge, edge, 2)
        low, high = self.boxes[0] if len(self.boxes) == 1 else rng.choice(self.boxes)
        return rng.uniform(low, high)

    def draw_pair(self, rng: np.random.Generator) -> Numbers:
        """An episode's start and target (2, 2), of a maze with `pairs`."""
        return rng.choice(np.array(self.pairs)) + rng.uniform(-self.pair_noise, self.pair_noise, (2, 2))

    def rewards(self, positions: AnyArray, targets: AnyArray) -> AnyArray:
        """The rewards at positions (n, goal) with targets (n, goal)."""
        if callable(self.reward):
            return positions.__array_namespace__().asarray(self.reward(positions, targets), dtype=positions.dtype)
        distance = _distance(positions, targets)
        if self.reward == "distance":
            return -distance
        near = (distance < self.success_radius).astype(positions.dtype)
        return near if self.reward == "sparse" else near - 1

    def success(self, positions: AnyArray, targets: AnyArray) -> AnyArray:
        """Whether positions (n, goal) are near enough to targets (n, goal)."""
        return _distance(positions, targets) < self.success_radius

    def outcome(self, positions: AnyArray, targets: AnyArray) -> tuple[AnyArray, AnyArray]:
        """What steps to positions (..., goal) are paid with targets (..., goal), and whether they end an episode."""
        xp, shape = positions.__array_namespace__(), positions.shape
        rows = [xp.broadcast_to(points, shape).reshape(-1, shape[-1]) for points in (positions, targets)]
        ended = self.success(*rows) & self.ends_on_success
        return self.rewards(*rows).reshape(shape[:-1]), ended.reshape(shape[:-1])

    def sketch(self, target: Point | None = None) -> Sketch:
        """The map up to the middle of the outer walls, with the given target, or with the fixed ones if there are such.

        y grows downward, so that the map is the same way up as the text of its layout.
        """
        edge, everywhere = self.block_size, self.centres(np.ones(self.grid.shape, bool))
        corner = everywhere[0] - edge / 2
        walls = [
            (corner[0] + c * edge, corner[1] + r * edge, w * edge, h * edge) for r, c, h, w in rectangles(self.grid == "#")
        ]
        walls += [(x, y, right - x, top - y) for (x, y), (right, top) in self.thin_walls]
        discs = [Disc(*place, self.success_radius) for place in (self._fixed_targets() if target is None else [target])]
        low, high = tuple(everywhere.min(axis=0).tolist()), tuple(everywhere.max(axis=0).tolist())
        boxes = tuple(Rectangle(*map(float, wall)) for wall in walls)
        return Sketch(low, high, boxes, discs=tuple(discs), downward=True)

    def _fixed_targets(self) -> list[Point]:
        """The places of all targets, where they are not drawn from a region."""
        if self.pairs:
            return list(dict.fromkeys(target for _, target in self.pairs))
        if isinstance(self.rule, str) or (self.boxes[:, 0] != self.boxes[:, 1]).any():
            return []
        return [(x, y) for x, y in self.boxes[:, 0].tolist()]

    def evaluation(self: Maze) -> Maze:
        """The maze for evaluation: success ends an episode."""
        target: Any = self.evaluation_target
        if target is None:
            target = (0.0, 2.0 * self.block_size) if self._is_the_u and not self.pairs else self.target
        elif isinstance(target[0], tuple):
            target = tuple((place, place) for place in target)
        return dataclasses.replace(self, target=target, ends_on_success=True)


def _distance(positions: AnyArray, targets: AnyArray) -> AnyArray:
    xp = positions.__array_namespace__()
    return xp.sqrt(xp.square(positions - targets).sum(axis=-1))


_SHAPES = {
    "(x, y)": (2,),
    "((x low, y low), (x high, y high))": (2, 2),
    "several (x, y)": (0, 2),
    "several ((x low, y low), (x high, y high))": (0, 2, 2),
    "several ((x, y), (x, y))": (0, 2, 2),
}
"""Forms of what is given in coordinates, and their shapes; 0 stands for any number."""
POINT, BOX, POINTS, BOXES, PAIRS = _SHAPES


def _checked(name: str, value: Any, *forms: str) -> Any:
    """A value that must have one of these forms, as nested tuples of floats."""
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        array = np.zeros(0)
    for form in forms if np.isfinite(array).all() else ():
        shape = _SHAPES[form]
        fits = array.size > 0 and len(shape) == array.ndim and all(n in (0, m) for n, m in zip(shape, array.shape, strict=True))
        if fits and (form not in (BOX, BOXES) or (array[..., 0, :] <= array[..., 1, :]).all()):
            return _as_tuples(array.tolist())
    or_free = ' or "free"' if name == "target" else ""
    raise ValueError(f"{name} must be {' or '.join(forms)}{or_free}, got {value!r}")


def _as_tuples(values: Any) -> Any:
    return tuple(map(_as_tuples, values)) if isinstance(values, list) else values
