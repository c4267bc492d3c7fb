"""Distances through free space: what the oracle of mazes and rooms knows."""

import numpy as np
import pytest

from hrac.envs import geodesic
from hrac.envs.ant.gather import AntGather
from hrac.envs.ant.maze import SPARSE, AntMaze
from hrac.envs.base import HostTask, KnownCells, known_distances
from hrac.envs.point import PointMaze


def _from_to(task, start, end):
    cells = task.cells.tolist()
    return task.cell_distances[cells.index(list(start)), cells.index(list(end))]


@pytest.mark.parametrize("task", [AntMaze(), SPARSE, AntGather(), PointMaze()], ids=["maze", "sparse", "gather", "point"])
def test_a_task_with_walls_knows_its_cells_but_not_exact_distances(task):
    assert isinstance(task, HostTask)
    assert known_distances(task) is None
    assert not {"cells", "cell_distances"} & set(vars(task))  # asking computes nothing
    assert isinstance(task, KnownCells)
    steps = task.cell_distances
    assert steps.shape == (len(task.cells), len(task.cells))
    np.testing.assert_array_equal(steps, steps.T)
    np.testing.assert_array_equal(np.diag(steps), 0)
    assert (steps < 10_000).all()  # every cell can be reached
    assert (steps[~np.eye(len(steps), dtype=bool)] > 0).all()


def test_in_the_open_the_way_is_straight():
    """At 0.2 per step: 5 units in 25 steps (3, 4), 10 in 50; a way of straight pieces is at most 1.3 % longer."""
    room = AntGather()
    assert len(room.cells) == 21 * 21
    assert _from_to(room, (0, 0), (3, 4)) in (25, 26)
    assert _from_to(room, (0, 0), (10, 0)) == 50
    straight = np.linalg.norm(room.cells[:, None] - room.cells[None], axis=-1)
    exact = geodesic.distances(room.cells, room.in_wall)
    assert (exact >= straight - 1e-9).all()
    off = ~np.eye(len(straight), dtype=bool)
    assert (exact[off] / straight[off]).max() < 1.014


def test_around_a_wall_the_way_is_longer_than_it_looks():
    """In Ant Maze a wall from (-4, 4) to (12, 12) lies between (0, 3) and (0, 12). Its upper edges are free.

    The way: 9 to (9, 3), sqrt(10) to the corner (12, 4), 8 along the wall to (12, 12), and 12 back. That is 32.16, 161 steps.
    """
    maze = AntMaze()
    assert _from_to(maze, (0, 3), (0, 12)) == 161
    assert _from_to(maze, (0, 0), (0, 3)) == 15
    assert maze.in_wall(np.array([[0.0, 8.0]]))[0]
    assert [0, 8] not in maze.cells.tolist()


def test_a_point_on_the_device_knows_the_same():
    on_host = PointMaze()
    np.testing.assert_array_equal(on_host.on_device().cells, on_host.cells)
    np.testing.assert_array_equal(on_host.on_device().cell_distances, on_host.cell_distances)
    assert _from_to(on_host, (0, 0), (2, 0)) == 5  # at 0.4 per step
