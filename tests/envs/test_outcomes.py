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


POINTS = gym.spaces.Box(LOW, HIGH, dtype=np.float64)


class Near(gym.Env):
    """0 within 0.3 of the goal, else -1; reaching it ends an episode."""

    observation_space = gym.spaces.Dict(observation=POINTS, achieved_goal=POINTS, desired_goal=POINTS)
    action_space = gym.spaces.Box(-1.0, 1.0, (2,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.goal = self.np_random.uniform(LOW, HIGH), self.np_random.uniform(LOW, HIGH)
        return self._seen(), {}

    def step(self, action):
        self.at = np.clip(self.at + 0.5 * action, LOW, HIGH)
        pair = self.at, self.goal
        return self._seen(), self.compute_reward(*pair, {}), bool(self.compute_terminated(*pair, {})), False, {}

    def _seen(self):
        return {"observation": self.at, "achieved_goal": self.at, "desired_goal": self.goal}

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


class Square(Near):
    """Near in each coordinate, which shows at small distances only."""

    half = 0.02

    def compute_reward(self, achieved_goal, desired_goal, info):
        return float(np.all(np.abs(achieved_goal - desired_goal) < self.half))


class Flat(Near):
    """The second coordinate does not count."""

    def _apart(self, achieved_goal, desired_goal):
        return abs(achieved_goal[0] - desired_goal[0])


class Endless(Near):
    """Infinitely good at the goal."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        apart = self._apart(achieved_goal, desired_goal)
        return -np.log(apart) if apart else np.inf


class Inside(Near):
    """It knows nothing of goals outside of its map."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        assert all((goal >= LOW - 1e-9).all() and (goal <= HIGH + 1e-9).all() for goal in (achieved_goal, desired_goal))
        return super().compute_reward(achieved_goal, desired_goal, info)


class Silent(gym.Env):
    """It says nothing of other goals."""


class NeedsInfo(Near):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return info["reward"]


@pytest.mark.parametrize("make", [Near, Dense, Inside])
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


@pytest.mark.parametrize("make", [Upwards, Square, Flat])
def test_rewards_that_depend_on_more_than_the_distance_are_refused(make):
    message = f"manager.hindsight must be 0 on {make.__name__}, whose rewards or ends for other goals depend on more"
    with pytest.raises(TaskError, match=message):
        by_distance(make(), LOW, HIGH, CELL)


def test_rewards_that_are_not_finite_are_refused():
    with pytest.raises(TaskError, match=r"manager.hindsight must be 0 on Endless, whose compute_reward is not finite"):
        by_distance(Endless(), LOW, HIGH, CELL)


def test_steps_that_are_paid_otherwise_are_refused():
    wrapped = gym.wrappers.TransformReward(Near(), lambda reward: 100 * reward + 7)
    with pytest.raises(TaskError, match=r"on Near, which pays (7|-93) for a step for which its compute_reward says something"):
        by_distance(wrapped, LOW, HIGH, CELL)


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
