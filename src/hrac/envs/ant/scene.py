"""What there is to see of one copy, whoever draws it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hrac.envs.ant.batch import AntBatch
from hrac.envs.ant.body import Wall
from hrac.envs.ant.gather import APPLE, GatherBatch
from hrac.envs.ant.maze import MazeBatch

Points = NDArray[np.float64]


class Scene(NamedTuple):
    """Walls, and things lying on the floor, as (x, y)."""

    walls: tuple[Wall, ...]
    target: Points | None
    target_radius: float
    apples: Points
    bombs: Points
    subgoal: Points | None

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """(left, right, bottom, top) of the walls; without the outer half of wide ones, which shows nothing."""
        centres = np.array([wall.centre[:2] for wall in self.walls])
        return centres[:, 0].min(), centres[:, 0].max(), centres[:, 1].min(), centres[:, 1].max()


def scene(batch: AntBatch, copy: int, subgoal: Points | None = None) -> Scene:
    """The surroundings of one ant of a batch."""
    nothing = np.zeros((0, 2))
    walls = tuple(batch.definition.walls)
    if isinstance(batch, MazeBatch):
        return Scene(walls, batch.targets[copy], batch.definition.success_radius, nothing, nothing, subgoal)
    assert isinstance(batch, GatherBatch)
    objects = batch.objects[copy][batch.present[copy]]
    apples = objects[:, 2] == APPLE
    return Scene(walls, None, 0.0, objects[apples, :2], objects[~apples, :2], subgoal)
