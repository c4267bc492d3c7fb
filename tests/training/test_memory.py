import numpy as np

from hrac.training.memory import TrajectoryMemory
from hrac.worlds.base import Visited


def _visited(positions, after, done):
    column = lambda x: np.asarray(x, np.float32)[None, :, None, None]  # noqa: E731  (runs, time, copies, goal)
    return Visited(column(positions), column(after), np.asarray(done)[None, :, None])


def test_the_trajectory_memory_keeps_episodes_apart_and_their_last_states():
    memory = TrajectoryMemory()
    memory.append([_visited([0, 1, 9], [1, 2, 8], [False, True, False])])
    memory.append([_visited([8, 7], [7, 6], [False, False])])
    positions, episodes = memory.sequences(0)
    np.testing.assert_array_equal(positions[:, 0], [0, 1, 2, 9, 8, 7, 6])
    np.testing.assert_array_equal(episodes, [0, 0, 0, 1, 1, 1, 1])
    memory.clear()
    assert memory.to_arrays() == {}


def test_a_runs_trajectories_are_those_of_its_part():
    memory = TrajectoryMemory()
    memory.append([_visited([0, 1], [1, 2], [False, False]), _visited([5, 6], [6, 7], [True, True])])
    positions, episodes = memory.sequences(1)
    np.testing.assert_array_equal(positions[:, 0], [5, 6, 6, 7])
    np.testing.assert_array_equal(episodes, [0, 0, 1, 1])
