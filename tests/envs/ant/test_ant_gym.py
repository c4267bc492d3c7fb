"""The ant tasks for Gymnasium. What a task does is tested at its batch (test_ant_batch, test_ant_maze_and_gather,
test_ant_parity); here, that an environment gives what its batch gives, and what Gymnasium adds."""

import copy
import pickle
import re
import subprocess
import sys
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict
from gymnasium.utils.env_checker import check_env

import hrac  # noqa: F401  registers the environments
from hrac.envs.ant.gym import AntGatherEnv, AntMazeEnv, AntMazeSparseEnv

TASKS = ["AntMaze", "AntMazeSparse", "AntGather"]
CLASSES = [AntMazeEnv, AntMazeSparseEnv, AntGatherEnv]
MAZE, SPARSE, GATHER = (f"hrac/{task}-v0" for task in TASKS)
CORRIDOR = "#####\n#A..#\n#####"
REST = np.zeros(8, np.float32)
POSE = np.array([0.0, 0.0, 0.75, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, -1.0, 0.0, -1.0, 0.0, 1.0])
"""An ant that stands at the origin."""


def some_actions(count, seed=0):
    return np.random.default_rng(seed).uniform(-30, 30, (count, 8)).astype(np.float32)


def numbers(obs):
    """The observation proper."""
    return obs["observation"] if isinstance(obs, dict) else obs


def same(first, second):
    """Whether nested results are the same, bit for bit and type for type."""
    if isinstance(first, np.ndarray):
        return isinstance(second, np.ndarray) and (first.dtype, first.shape, first.tobytes()) == (
            second.dtype,
            second.shape,
            second.tobytes(),
        )
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(map(same, first, second))
    return type(first) is type(second) and first == second


def steps(env, actions):
    return [env.step(action) for action in actions]


def trajectory(env, seed, count=10):
    return [env.reset(seed=seed), *steps(env, some_actions(count))]


def standing_at(x, y):
    return np.array([x, y, *POSE[2:]])


@pytest.fixture
def maze():
    env = AntMazeEnv()
    env.reset(seed=0)
    return env


@pytest.fixture
def gather():
    env = AntGatherEnv()
    env.reset(seed=0)
    return env


# What Gymnasium knows


# Positions and velocities have no bounds, and actions are torques in their own unit: both are meant so.
@pytest.mark.filterwarnings("ignore:.*A Box observation space minimum value is -infinity. This is probably too low.")
@pytest.mark.filterwarnings("ignore:.*A Box observation space maximum value is infinity. This is probably too high.")
@pytest.mark.filterwarnings("ignore:.*For Box action spaces, we recommend using a symmetric and normalized space")
@pytest.mark.parametrize("name", [MAZE, SPARSE, GATHER, "hrac/AntMazeSigma0.1-v0"])
def test_gymnasium_finds_no_fault(name):
    env = gymnasium.make(name, camera="map", render_mode="rgb_array", width=60, height=40)
    check_env(env.unwrapped)
    assert env.unwrapped.render().shape == (40, 60, 3)


def test_every_task_and_stochastic_variant_is_registered():
    torques = Box(np.full(8, -30, np.float32), np.full(8, 30, np.float32))
    for task, env in zip(TASKS, CLASSES, strict=True):
        for name, sigma in ((task, 0.0), *((f"{task}Sigma{sigma}", sigma) for sigma in (0.01, 0.05, 0.1))):
            made = gymnasium.make(f"hrac/{name}-v0")
            assert made.unwrapped.definition == replace(env.definition, sigma=sigma)
            assert made.action_space == torques


def test_ant_maze_tells_the_target_and_where_the_ant_is():
    place = Box(-np.inf, np.inf, (2,), np.float64)
    spaces = {"observation": Box(-np.inf, np.inf, (30,), np.float64), "achieved_goal": place, "desired_goal": place}
    env = gymnasium.make(MAZE)
    assert env.observation_space == Dict(spaces)
    obs, _ = env.reset(seed=0)
    assert obs.keys() == spaces.keys()
    np.testing.assert_array_equal(obs["achieved_goal"], obs["observation"][:2])
    assert obs in env.observation_space


def test_the_others_give_plain_arrays():
    for env, size in ((AntMazeSparseEnv(), 30), (AntGatherEnv(), 50), (AntMazeEnv(shows_target=False), 30)):
        assert env.observation_space == Box(-np.inf, np.inf, (size,), np.float64)
        assert env.reset(seed=0)[0] in env.observation_space


def test_importing_hrac_does_not_import_mujoco():
    code = "import hrac, sys, gymnasium; assert 'hrac/AntMaze-v0' in gymnasium.registry; assert 'mujoco' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# The batch behind it


@pytest.mark.parametrize("env", CLASSES)
def test_it_gives_what_a_batch_of_one_gives(env):
    """From its seed on, over several episodes."""
    env = env(sigma=0.1, time_limit=7)
    batch = env.definition.batch(1, 1)
    obs, info = env.reset(seed=2**63 - 1)
    expected = batch.reset(seeds=[2**63 - 1])
    for action in some_actions(20):
        np.testing.assert_array_equal(numbers(obs), expected[0])
        if isinstance(obs, dict):
            np.testing.assert_array_equal(obs["desired_goal"], batch.context[0])
        assert info == {name: values[0] for name, values in batch.info(np.array([0])).items()}
        after = batch.step(action[None])
        obs, reward, terminated, truncated, info = env.step(action)
        assert (reward, terminated, truncated) == (after.reward[0], after.terminated[0], after.truncated[0])
        expected = after.obs
        if terminated or truncated:
            (obs, info), expected = env.reset(), batch.reset()
    assert batch.episodes[0] >= 2


def test_without_a_seed_environments_differ_from_one_another():
    env, other = AntMazeEnv(), AntMazeEnv()
    assert not same(env.reset(), other.reset())
    assert not same(env.reset(), other.reset())


def test_seeds_that_are_none_are_refused_and_change_nothing(maze):
    before = maze.observe()
    for seed in (-1, 2**63):
        with pytest.raises((ValueError, gymnasium.error.Error), match=str(seed)):
            maze.reset(seed=seed)
    assert same(maze.observe(), before)


def test_actions_that_are_none_are_told_and_move_nothing(maze):
    before = maze.observe()
    for action in (np.zeros(7), np.zeros((1, 8)), np.zeros(())):
        with pytest.raises(ValueError, match=r"actions must have shape \(1, 8\)"):
            maze.step(action)
    with pytest.raises(ValueError, match=r"actions must be finite numbers \(torques within \+-30\)"):
        maze.step([0, 0, np.nan, 0, 0, 0, 0, 0])
    assert same(maze.observe(), before)


def test_actions_are_not_changed_and_may_be_any_list(maze):
    action = np.full(8, 50.0)
    maze.step(action)
    np.testing.assert_array_equal(action, 50)
    assert np.isfinite(numbers(maze.step([1] * 8)[0])).all()


def test_a_step_before_reset_asks_for_a_reset():
    env = gymnasium.make(MAZE)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(REST)
    with pytest.raises((RuntimeError, gymnasium.error.ResetNeeded), match="reset"):
        env.unwrapped.step(REST)


def test_a_state_that_was_set_is_observed_and_the_episode_goes_on(maze):
    before, _ = maze.reset(seed=0)
    assert same(maze.observe(), before)
    maze.step(REST)
    maze.set_state(standing_at(2, 1), np.arange(14) / 10)
    obs = maze.observe()
    np.testing.assert_array_equal(numbers(obs)[:29], [*standing_at(2, 1), *np.arange(14) / 10])
    np.testing.assert_array_equal(obs["desired_goal"], before["desired_goal"])
    assert numbers(obs)[-1] == pytest.approx(0.001)
    assert same(maze.observe(), obs)


def test_objects_that_were_set_are_seen(gather):
    gather.set_state(POSE, np.zeros(14))
    gather.set_objects([(3.0, 0.0, 0), (-1.0, 2.9, 1), (0.0, 7.0, 1)])
    apples, bombs = gather.observe()[29:39], gather.observe()[39:49]
    # Bins begin behind the ant: straight on is at 180 of 360 degrees, in bin 5; the bomb at 109 + 180 is in bin 8.
    np.testing.assert_allclose(apples, np.eye(10)[5] * 0.5)
    np.testing.assert_allclose(bombs, np.eye(10)[8] * (1 - np.hypot(1, 2.9) / 6))


# Options and keywords


def test_an_option_sets_the_target_of_one_episode_only():
    env, other = gymnasium.make(MAZE), gymnasium.make(MAZE)
    obs, _ = env.reset(seed=2, options={"target": (3, 16.5)})
    assert obs["desired_goal"].tolist() == [3, 16.5]
    for result in steps(env, some_actions(3)):
        assert result[0]["desired_goal"].tolist() == [3, 16.5]
        assert result[1] == pytest.approx(-np.hypot(*(result[0]["achieved_goal"] - [3, 16.5])), rel=1e-12)
    plain, _ = other.reset(seed=2)
    np.testing.assert_array_equal(obs["observation"], plain["observation"])
    assert same(env.reset(), other.reset())


def test_the_target_of_the_sparse_maze_can_be_set_too():
    env = AntMazeSparseEnv()
    env.reset(seed=0, options={"target": (14.0, 0.0)})
    env.set_state(standing_at(14, 0), np.zeros(14))
    *_, reward, terminated, truncated, info = env.step(REST)
    assert (reward, terminated, truncated, info) == (1.0, True, False, {"success": True})
    env.reset()
    env.set_state(standing_at(14, 0), np.zeros(14))
    *_, reward, terminated, truncated, info = env.step(REST)
    assert (reward, terminated, truncated, info) == (0.0, False, False, {"success": False})


def test_options_that_are_none_are_told_and_change_nothing(maze):
    before = maze.observe()
    for target in ((1,), (1, 2, 3), [[1, 2]], (np.nan, 0), (np.inf, 0), 5):
        with pytest.raises(ValueError, match=r"options\[\"target\"\] must be finite numbers of shape \(2,\), got "):
            maze.reset(options={"target": target})
    for env, allowed in ((maze, "target"), (AntMazeSparseEnv(), "target"), (AntGatherEnv(), "none")):
        with pytest.raises(ValueError, match=f"options: there is no 'goal'. Allowed are: {allowed}$"):
            env.reset(options={"goal": (0, 0)})
    assert same(maze.observe(), before)


def test_keywords_that_there_are_not_are_told_with_what_is_allowed():
    for env, keyword in ((AntMazeEnv, "ends_on_success"), (AntMazeSparseEnv, "layout"), (AntGatherEnv, "bombs")):
        with pytest.raises(TypeError, match=rf"there is no keyword 'speed'\. Those of the task are: .*\b{keyword}\b"):
            env(speed=2)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"render_mode": "human"}, "render_mode must be None or one of ['rgb_array'], got 'human'"),
        ({"camera": "side"}, "camera must be one of top, follow, map, got 'side'"),
        ({"width": 0}, "width and height must be from 1 to 2048, got 0 and 480"),
        ({"height": 2049}, "width and height must be from 1 to 2048, got 480 and 2049"),
        ({"sigma": -0.1}, "sigma must be a number from 0, got -0.1"),  # as the task says it
    ],
)
def test_a_bad_keyword_is_told_with_what_is_allowed(keywords, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        AntMazeEnv(**keywords)


def test_a_maze_of_ones_own_is_made_by_keywords():
    env = gymnasium.make(MAZE, layout=CORRIDOR, block_size=4.0, target=(8.0, 0.0), reward="sparse", success_radius=2.0)
    obs, info = env.reset(seed=0)
    assert obs["desired_goal"].tolist() == [8, 0]
    assert info == {"success": False}
    assert env.step(REST)[1] == 0.0
    env.unwrapped.set_state(standing_at(7, 0), np.zeros(14))
    *_, reward, terminated, truncated, info = env.step(REST)
    assert (reward, terminated, truncated, info) == (1.0, False, False, {"success": True})


def test_the_walls_of_ones_own_maze_hold():
    open_, closed = (AntMazeEnv(layout=layout, block_size=4.0) for layout in ("####\n#A.#\n####", "###\n#A#\n###"))
    ends = []
    for env in (open_, closed):
        env.reset(seed=0)
        env.set_state(standing_at(0, 0), np.array([20.0, *np.zeros(13)]))  # thrown along x
        ends.append(steps(env, [REST] * 10)[-1][0]["achieved_goal"][0])
    assert ends[0] > 2 > ends[1]  # the closed block ends at 2


def test_a_room_of_ones_own_is_made_by_keywords():
    env = gymnasium.make(GATHER, apples=3, bombs=1, bins=4)
    assert env.observation_space.shape == (38,)
    env.reset(seed=0)
    assert sorted(env.unwrapped.batch.objects[0, :, 2]) == [0, 0, 0, 1]


# The GoalEnv convention

KEYWORDS = [{}, {"ends_on_success": True, "success_radius": 14.0}, {"reward": "sparse", "success_radius": 14.0}]


@pytest.mark.parametrize("keywords", KEYWORDS)
def test_what_a_step_gives_can_be_computed_from_its_goals(keywords):
    env, rewards = AntMazeEnv(**keywords), set()
    for seed in range(10):
        env.reset(seed=seed)
        obs, reward, terminated, truncated, info = env.step(REST)
        goals = obs["achieved_goal"], obs["desired_goal"], info
        given = reward, terminated, truncated
        assert same((env.compute_reward(*goals), env.compute_terminated(*goals), env.compute_truncated(*goals)), given)
        rewards.add((reward, terminated))
    assert len(rewards) > 1


@pytest.mark.parametrize("keywords", KEYWORDS)
def test_goals_can_be_many_or_of_another_episode(keywords):
    env = AntMazeEnv(**keywords)
    achieved, desired = np.random.default_rng(0).uniform(-4, 20, (2, 50, 2))
    rewards, terminated = env.compute_reward(achieved, desired, {}), env.compute_terminated(achieved, desired, {})
    assert rewards.shape == terminated.shape == (50,)
    assert (rewards.dtype, terminated.dtype) == (np.float64, np.bool_)
    pairs = list(zip(achieved, desired, strict=True))
    assert rewards.tolist() == [env.compute_reward(*pair, {}) for pair in pairs]
    assert terminated.tolist() == [env.compute_terminated(*pair, {}) for pair in pairs]
    assert not np.any(env.compute_truncated(achieved, desired, {}))


def test_rewards_of_positions_and_targets_are_the_worked_ones():
    env = AntMazeEnv(ends_on_success=True)
    achieved, desired = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 12.0]]), np.array([0.0, 16.0])
    np.testing.assert_allclose(env.compute_reward(achieved, desired, {}), [-16, -np.hypot(3, 12), -4])
    assert env.compute_terminated(achieved, desired, {}).tolist() == [False, False, True]
    assert env.compute_reward(np.array([0, 0]), np.array([3, 4]), {}) == -5.0
    assert env.compute_terminated(np.array([0, 0]), np.array([3, 4]), {}) is False  # 5 is not nearer than 5
    assert not AntMazeEnv().compute_terminated(achieved, desired, {}).any()


def test_rewards_of_a_grid_of_goals_have_the_shape_of_the_grid():
    env, achieved = AntMazeEnv(), np.random.default_rng(0).uniform(0, 16, (3, 4, 2))
    rewards = env.compute_reward(achieved, np.array([0, 16]), {})
    np.testing.assert_allclose(rewards, -np.hypot(achieved[..., 0], achieved[..., 1] - 16))
    assert env.compute_terminated(achieved, np.array([0, 16]), {}).shape == (3, 4)


# Copies


@pytest.mark.parametrize("copied", [lambda env: pickle.loads(pickle.dumps(env)), copy.deepcopy], ids=["pickle", "deepcopy"])
@pytest.mark.parametrize("wrapped", [True, False])
def test_a_copy_made_in_mid_episode_goes_on_the_same_and_on_its_own(wrapped, copied):
    env = gymnasium.make(MAZE, time_limit=8, sigma=0.1)
    env = env if wrapped else env.unwrapped
    env.reset(seed=0, options={"target": (1, 2)})
    steps(env, some_actions(5))
    other = copied(env)
    assert type(other) is type(env)
    theirs = [steps(other, some_actions(3, 1)), trajectory(other, None), other.reset(seed=9)]
    mine = [steps(env, some_actions(3, 1)), trajectory(env, None), env.reset(seed=9)]
    assert mine[0][-1][0]["desired_goal"].tolist() == [1, 2]
    assert mine[0][-1][3]
    assert same(mine, theirs)


def test_an_unseeded_environment_can_be_copied_before_its_first_reset():
    env, other = AntMazeEnv(), pickle.loads(pickle.dumps(AntMazeEnv()))
    assert same(env.reset(seed=0), other.reset(seed=0))
