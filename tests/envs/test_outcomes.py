"""What a goal environment would have paid for another goal, against what it says itself."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrac.envs.look import TaskError
from hrac.envs.outcomes import by_distance
from hrac.envs.point import PointMaze

LOW, HIGH, CELL = np.array([-2.0, 0.0]), np.array([2.0, 1.0]), (0.5, 0.25)


class Near(gym.Env):
    """0 within 0.3 of the goal, else -1; reaching it ends an episode."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        return 0.0 if self._apart(achieved_goal, desired_goal) <= 0.3 else -1.0

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return self._apart(achieved_goal, desired_goal) <= 0.3

    def _apart(self, achieved_goal, desired_goal):
        return np.linalg.norm(achieved_goal - desired_goal)


class Dense(Near):
    """Minus the distance; nothing ends an episode."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -self._apart(achieved_goal, desired_goal)

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return False


class Upwards(Near):
    """It matters in which direction the goal is."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        return float(achieved_goal[1] > desired_goal[1])


class Silent(gym.Env):
    """It says nothing of other goals."""


class NeedsInfo(Near):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return info["reward"]


@pytest.mark.parametrize("make", [Near, Dense])
def test_the_table_says_what_the_environment_says(make):
    env, rng = make(), np.random.default_rng(1)
    outcome = by_distance(env, LOW, HIGH, CELL)
    points, targets = rng.uniform(LOW, HIGH, (2, 50, 4, 2)) / CELL  # in cells
    points[0] = targets[0]
    reward, ended = outcome(points, targets)
    assert reward.shape == ended.shape == (50, 4)
    for index in np.ndindex(50, 4):
        pair = points[index] * CELL, targets[index] * CELL
        apart = np.linalg.norm(pair[0] - pair[1])
        if abs(apart - 0.3) > 0.002:  # within an entry of the edge either answer is right
            assert reward[index] == pytest.approx(env.compute_reward(*pair, {}), abs=0.002)
            assert ended[index] == env.compute_terminated(*pair, {})
    on_device = jax.jit(lambda *pair: outcome(*pair))(jnp.asarray(points, jnp.float32), jnp.asarray(targets, jnp.float32))
    np.testing.assert_allclose(on_device[0], reward, atol=0.002)
    np.testing.assert_array_equal(on_device[1], ended)


def test_equal_environments_have_equal_tables():
    """So that they share compiled programs."""
    tables = [by_distance(Near(), LOW, HIGH, CELL) for _ in range(2)]
    assert tables[0] == tables[1]
    assert hash(tables[0]) == hash(tables[1])


def test_beyond_the_corners_the_last_entry_holds():
    reward, ended = by_distance(Near(), LOW, HIGH, CELL)(np.full((1, 2), 1e6), np.zeros((1, 2)))
    assert (reward.tolist(), ended.tolist()) == ([-1.0], [False])


def test_rewards_that_depend_on_more_than_the_distance_are_refused():
    with pytest.raises(TaskError, match=r"manager.hindsight must be 0 on Upwards, whose rewards or ends for other goals"):
        by_distance(Upwards(), LOW, HIGH, CELL)


def test_an_environment_that_says_nothing_of_other_goals_is_told_what_to_add():
    with pytest.raises(TaskError, match=r"manager.hindsight must be 0 on Silent, or give it a method compute_reward\(achieved"):
        by_distance(Silent(), LOW, HIGH, CELL)


def test_an_environment_that_fails_is_named():
    with pytest.raises(RuntimeError, match="failed in compute_reward: KeyError: 'reward'"):
        by_distance(NeedsInfo(), LOW, HIGH, CELL)


def test_the_outcome_of_a_maze_is_what_its_steps_are_paid():
    maze = PointMaze(reward="steps", ends_on_success=True)
    batch = maze.batch(6)
    batch.reset(seeds=np.arange(6))
    for _ in range(5):
        batch.targets[:2] = batch.positions[:2]
        step = batch.step(np.random.default_rng(0).uniform(-1, 1, (6, 2)))
        reward, ended = batch.outcome(step.obs[:, None, :2], batch.context[:, None])
        np.testing.assert_array_equal(reward[:, 0], step.reward)
        np.testing.assert_array_equal(ended[:, 0], step.terminated)
    assert step.terminated[:2].all()
