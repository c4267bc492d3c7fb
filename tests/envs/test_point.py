"""The point in the maze of Ant Maze Sparse; in the U it is looked at in tests/training/test_host.py."""

import numpy as np

from hrac.envs.ant import maze
from hrac.envs.point import SPARSE


def test_a_point_in_the_sparse_maze_starts_where_the_ant_does_and_is_not_told_the_target():
    batch = SPARSE.batch(2000)
    obs = batch.reset(seeds=np.arange(2000))
    np.testing.assert_array_equal(np.unique(obs[:, :2].round(), axis=0), np.unique(maze.SPARSE.starts, axis=0))
    assert batch.context.shape == (2000, 0)
    assert SPARSE.evaluation().target == (2.0, 9.0)


def test_it_is_rewarded_once_within_one_of_the_target():
    """Pushed left from (4, 8.5) it moves by 0.12, 0.204, 0.2628, 0.30396 and 0.332772: then it is at 2.776468, 0.92 away."""
    batch = SPARSE.batch(1)
    batch.reset(seeds=[0])
    batch.positions[0], batch.velocities[0] = (4.0, 8.5), (0.0, 0.0)
    steps = [batch.step(np.array([[-1.0, 0.0]])) for _ in range(5)]
    np.testing.assert_allclose(steps[-1].obs[0, :2], (2.776468, 8.5), atol=1e-6)
    assert [float(step.reward[0]) for step in steps] == [0.0, 0.0, 0.0, 0.0, 1.0]
    assert [bool(step.terminated[0]) for step in steps] == [False, False, False, False, True]
