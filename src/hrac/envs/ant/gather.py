"""Ant Gather: collect apples and avoid bombs in a square room, with a sensor for both."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hrac.envs import geodesic
from hrac.envs.ant import body
from hrac.envs.ant.batch import AntBatch, Ids, Numbers
from hrac.envs.ant.body import Block, Wall
from hrac.envs.sketch import Rectangle, Sketch, Thing

APPLE, BOMB = 0, 1
KINDS: tuple[Literal["apple", "bomb"], ...] = ("apple", "bomb")
WALL_THICKNESS = 1.0


@dataclass(frozen=True, kw_only=True)
class AntGather:
    """A room with apples (+1 when touched) and bombs (-1); the defaults are the paper's. The ant starts in the middle."""

    ends_on_success: ClassVar[bool] = False
    """An episode terminates when everything is collected, bombs too, which is not a success."""

    blocks: ClassVar[tuple[Block, ...]] = ()
    """None can be pushed."""

    apples: int = 8
    """Apples at the start of an episode."""

    bombs: int = 8
    """Bombs at the start of an episode."""

    room: int = 10
    """Half the edge of the room. Objects lie at distinct points with even coordinates from -room to room - 2."""

    reach: float = 1.0
    """An object nearer to the torso than this is touched, and disappears."""

    bins: int = 10
    """Directions that the sensor distinguishes: equal parts of the full turn. The first one begins behind the ant."""

    sensor_range: float = 6.0
    """Range of the sensor. A reading is 1 - distance / range of the nearest object in its direction, 0 if none."""

    time_limit: int = 500
    """Steps after which an episode is truncated."""

    sigma: float = 0.0
    """Standard deviation of the noise added to the torso's (x, y) after each step."""

    def __post_init__(self) -> None:
        for name in ("room", "bins", "apples", "bombs", "time_limit"):
            if not isinstance(getattr(self, name), int):
                raise ValueError(f"{name} must be a whole number, got {getattr(self, name)!r}")
        if self.room < 2:
            raise ValueError(f"room must be at least 2, got {self.room}")
        for name in ("room", "reach", "bins", "sensor_range", "time_limit"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise ValueError(f"{name} must be a positive number, got {getattr(self, name)!r}")
        for name in ("apples", "bombs", "sigma"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise ValueError(f"{name} must be a number from 0, got {getattr(self, name)!r}")
        if not 1 <= self.apples + self.bombs <= len(self.points):
            raise ValueError(
                f"apples + bombs must be from 1 to {len(self.points)}, the places in a room of {self.room}, "
                f"got {self.apples} + {self.bombs}"
            )

    @cached_property
    def points(self) -> NDArray[np.int64]:
        """Points where objects may be: all but the start (points, 2)."""
        axis = 2 * np.arange(-(self.room // 2), self.room // 2)
        points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
        return points[np.square(points).sum(axis=1) >= 4]

    @cached_property
    def walls(self) -> tuple[Wall, ...]:
        """The four sides."""
        middle, thin = float(self.room + 1), WALL_THICKNESS / 2
        along, across = (middle + thin, thin, 1.0), (thin, middle + thin, 1.0)
        return (
            Wall((0.0, -middle, 0.0), along),
            Wall((0.0, middle, 0.0), along),
            Wall((-middle, 0.0, 0.0), across),
            Wall((middle, 0.0, 0.0), across),
        )

    @cached_property
    def cells(self) -> NDArray[np.int64]:
        """Centres of the free cells of size 1 (cells, 2)."""
        edge = float(self.room)
        return geodesic.free_cells((-edge, -edge), (edge, edge), self.in_wall)

    @cached_property
    def cell_distances(self) -> NDArray[np.int64]:
        """Steps between them in a straight line (cells, cells)."""
        return geodesic.steps(self.cells, self.in_wall, body.SPEED)

    def in_wall(self, positions: NDArray[np.floating[Any]]) -> NDArray[np.bool_]:
        """Whether positions (n, 2) are in the walls of the room, or outside."""
        return np.any(np.abs(positions) > self.room + 1 - WALL_THICKNESS / 2, axis=1)

    def sketch(self) -> Sketch:
        """The room up to the middle of its walls, without objects."""
        middle, corner = float(self.room + 1), self.room + 1 - WALL_THICKNESS / 2
        long, thick = 2 * corner, WALL_THICKNESS
        upper = [Rectangle(-corner - thick, y, long + 2 * thick, thick) for y in (-corner - thick, corner)]
        sides = [Rectangle(x, -corner, thick, long) for x in (-corner - thick, corner)]
        return Sketch((-middle, -middle), (middle, middle), (*upper, *sides))

    def evaluation(self) -> "AntGather":
        """The same task."""
        return self

    def batch(self, num_envs: int, threads: int | None = None) -> "GatherBatch":
        """This many copies of it, on this many threads (None: one per core)."""
        return GatherBatch(self, num_envs, threads)


class GatherBatch(AntBatch):
    """Many ants, each in its own room with its own objects."""

    definition: AntGather
    time_scale = 0.01
    _state_names = ("objects", "present", "collected", "_sensed")

    def __init__(self, definition: AntGather, num_envs: int, threads: int | None = None) -> None:
        self.definition = definition
        super().__init__(definition, num_envs, threads, extras=2 * definition.bins)
        inside = definition.room + 1 - WALL_THICKNESS / 2
        self.position_low, self.position_high = (-inside, -inside), (inside, inside)
        count = definition.apples + definition.bombs
        self.objects = np.zeros((num_envs, count, 3))
        """(x, y, kind) of each copy's objects; kind 0 is an apple, 1 a bomb."""
        self.present = np.zeros((num_envs, count), bool)
        """Which of them have not been touched yet."""
        self.collected = np.zeros((num_envs, 2), np.int64)
        """Apples and bombs touched in the present episode."""
        self._sensed = np.zeros((num_envs, 2))
        self._torsos = self.physics.bind("xpos")[:, self.model.body(body.TORSO).id, :2]

    def put_objects(self, copy: int, objects: ArrayLike) -> None:
        """Replace a copy's objects by others: rows of (x, y, kind), kind 0 an apple, 1 a bomb."""
        array = np.asarray(objects, np.float64)
        if (
            array.ndim != 2
            or array.shape[1] != 3
            or not np.isfinite(array).all()
            or not np.isin(array[:, 2], (APPLE, BOMB)).all()
        ):
            raise ValueError(f"objects must be rows of (x, y, kind), kind 0 for an apple or 1 for a bomb, got {objects!r}")
        missing = max(len(array) - self.present.shape[1], 0)
        self.objects = np.pad(self.objects, ((0, 0), (0, missing), (0, 0)))
        self.present = np.pad(self.present, ((0, 0), (0, missing)))
        self.objects[copy, : len(array)] = array
        self.present[copy] = np.arange(self.present.shape[1]) < len(array)

    def sketch(self, copy: int) -> Sketch:
        """The room of a copy with the objects that are left."""
        rows = self.objects[copy][self.present[copy]].tolist()
        return self.definition.sketch()._replace(things=tuple(Thing(x, y, KINDS[int(kind)]) for x, y, kind in rows))

    def info(self, rows: Ids) -> dict[str, NDArray[Any]]:
        """`apples`, `bombs`: how many were touched in the episode so far."""
        return {"apples": self.collected[rows, APPLE], "bombs": self.collected[rows, BOMB]}

    def _begin(self, copy: int, rng: np.random.Generator) -> None:
        kinds = np.repeat([APPLE, BOMB], [self.definition.apples, self.definition.bombs])
        points = rng.choice(self.definition.points, len(kinds), replace=False)
        self.put_objects(copy, np.column_stack([points, kinds]))
        self.collected[copy] = 0

    def _placed(self, rows: Ids) -> None:
        self._sensed[rows] = self.qpos[rows, :2]

    def _outcome(self, rows: Ids) -> tuple[Numbers, NDArray[np.bool_]]:
        # As in the published code, sensor and touch are one physics step (0.02 s) late; with noise they are not.
        self._sensed[rows] = self._torsos[rows] if self.sigma == 0 else self.qpos[rows, :2]
        offset = self.objects[rows, :, :2] - self._sensed[rows, None]
        touched = self.present[rows] & (np.square(offset).sum(axis=-1) < self.definition.reach**2)
        bombs = self.objects[rows, :, 2] == BOMB
        counts = np.stack([(touched & ~bombs).sum(axis=1), (touched & bombs).sum(axis=1)], axis=1)
        self.collected[rows] += counts
        self.present[rows] &= ~touched
        nothing_left = np.logical_not(self.present[rows].any(axis=1))
        return (counts[:, APPLE] - counts[:, BOMB]).astype(np.float64), nothing_left

    def _extras(self, rows: Ids) -> Numbers:
        offset = self.objects[rows, :, :2] - self._sensed[rows, None]
        kinds = self.objects[rows, :, 2].astype(np.int64)
        definition, yaw = self.definition, heading(self.qpos[rows, 3:7])
        return readings(offset, kinds, self.present[rows], yaw, definition.bins, definition.sensor_range)


def heading(quaternion: Numbers) -> Numbers:
    """Yaw: the direction, seen from above, of the x axis of bodies with orientations (n, 4), quaternions of any length."""
    w, x, y, z = np.moveaxis(quaternion, -1, 0)
    return np.arctan2(2 * (x * y + w * z), w * w + x * x - y * y - z * z)


def readings(
    offset: Numbers, kinds: NDArray[np.int64], present: NDArray[np.bool_], yaw: Numbers, bins: int, sensor_range: float
) -> Numbers:
    """Sensor readings (n, 2 * bins): apples by direction, then bombs. `offset` (n, objects, 2) is from ant to object."""
    distance = np.sqrt(np.square(offset).sum(axis=-1))
    angle = np.arctan2(offset[..., 1], offset[..., 0]) - yaw[:, None]
    bin_ = ((angle + np.pi) % (2 * np.pi) / (2 * np.pi / bins)).astype(np.int64) % bins  # rounding can give bins itself
    ant, seen = np.nonzero(present & (distance <= sensor_range))
    result = np.zeros((len(offset), 2, bins))
    where = (ant, kinds[ant, seen], bin_[ant, seen])
    np.maximum.at(result, where, 1 - distance[ant, seen] / sensor_range)
    return result.reshape(len(offset), 2 * bins)
