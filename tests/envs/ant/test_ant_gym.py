import copy
import pickle
import re
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict
from gymnasium.utils.env_checker import check_env

import hrac  # noqa: F401  registers the environments
from hrac.envs.ant.gym import AntGatherEnv, AntMazeEnv, AntMazeSparseEnv
from hrac.envs.layout import LayoutError

TASKS = ["AntMaze", "AntMazeSparse", "AntGather"]
SIGMAS = [0.01, 0.05, 0.1]
NAMES = [f"hrac/{task}{variant}-v0" for task in TASKS for variant in ("", *(f"Sigma{sigma}" for sigma in SIGMAS))]
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
@pytest.mark.parametrize("name", NAMES)
def test_gymnasium_finds_no_fault(name):
    env = gymnasium.make(name, camera="map", render_mode="rgb_array", width=60, height=40)
    check_env(env.unwrapped)
    assert env.unwrapped.render().shape == (40, 60, 3)


@pytest.mark.parametrize("name", NAMES)
def test_actions_are_eight_torques(name):
    assert gymnasium.make(name).action_space == Box(np.full(8, -30, np.float32), np.full(8, 30, np.float32))


def test_ant_maze_tells_the_target_and_where_the_ant_is():
    place = Box(-np.inf, np.inf, (2,), np.float64)
    spaces = {"observation": Box(-np.inf, np.inf, (30,), np.float64), "achieved_goal": place, "desired_goal": place}
    env = gymnasium.make(MAZE)
    assert env.observation_space == Dict(spaces)
    obs, _ = env.reset(seed=0)
    assert obs.keys() == spaces.keys()
    np.testing.assert_array_equal(obs["achieved_goal"], obs["observation"][:2])
    assert obs in env.observation_space


@pytest.mark.parametrize(("name", "size"), [(SPARSE, 30), (GATHER, 50)])
def test_the_others_give_plain_arrays(name, size):
    env = gymnasium.make(name)
    assert env.observation_space == Box(-np.inf, np.inf, (size,), np.float64)
    assert env.reset(seed=0)[0] in env.observation_space


@pytest.mark.parametrize(("name", "scale"), [(MAZE, 0.001), (SPARSE, 0.001), (GATHER, 0.01)])
def test_observations_end_with_the_time(name, scale):
    env = gymnasium.make(name)
    first, *rest = trajectory(env, 0, count=3)
    times = [numbers(result[0])[-1] for result in (first, *rest)]
    np.testing.assert_allclose(times, scale * np.arange(4), rtol=1e-12)


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("task", TASKS)
def test_a_stochastic_variant_is_the_task_with_that_sigma(task, sigma):
    variant, plain = gymnasium.make(f"hrac/{task}Sigma{sigma}-v0"), gymnasium.make(f"hrac/{task}-v0", sigma=sigma)
    assert variant.unwrapped.definition.sigma == plain.unwrapped.definition.sigma == sigma
    assert same(trajectory(variant, 5), trajectory(plain, 5))


@pytest.mark.parametrize("name", [MAZE, SPARSE, GATHER])
def test_without_sigma_there_is_no_noise(name):
    quiet, noisy = gymnasium.make(name).unwrapped, gymnasium.make(name, sigma=0.1).unwrapped
    assert quiet.definition.sigma == 0
    (quiet_before, _), (quiet_after, *_) = trajectory(quiet, 0, count=1)
    (noisy_before, _), (noisy_after, *_) = trajectory(noisy, 0, count=1)
    assert same(quiet_before, noisy_before)
    moved = numbers(noisy_after) - numbers(quiet_after)
    assert 0 < np.abs(moved[:2]).max() < 1  # 10 sigma
    np.testing.assert_array_equal(moved[2:29], 0)


def test_importing_hrac_does_not_import_mujoco():
    code = "import hrac, sys, gymnasium; assert 'hrac/AntMaze-v0' in gymnasium.registry; assert 'mujoco' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# Parity with the published environments, through the Gymnasium API


@pytest.mark.parametrize("kind", ["train", "eval"])
@pytest.mark.parametrize(("name", "file"), [(MAZE, "ant_maze"), (SPARSE, "ant_maze_sparse")])
def test_steps_are_those_of_the_published_mazes(golden, name, file, kind):
    data = golden(file)
    env = gymnasium.make(name)
    env.reset(seed=0, options={"target": data[f"{kind}_target"]})
    env.unwrapped.set_state(data[f"{kind}_qpos"], data[f"{kind}_qvel"])
    first = env.unwrapped.observe()
    obs, rewards, terminated, truncated, _ = zip(*steps(env, data[f"{kind}_actions"][:20]), strict=True)
    np.testing.assert_allclose([numbers(x) for x in (first, *obs)], data[f"{kind}_obs"][:21], rtol=0, atol=1e-10)
    np.testing.assert_allclose(rewards, data[f"{kind}_rewards"][:20], rtol=0, atol=1e-10)
    assert not any(terminated + truncated)


def test_steps_are_those_of_the_published_gather(golden):
    data = golden("ant_gather")
    env = gymnasium.make(GATHER)
    env.reset(seed=0)
    env.unwrapped.set_state(data["qpos"], data["qvel"])
    env.unwrapped.set_objects(data["objects"])
    first = env.unwrapped.observe()
    obs, rewards, terminated, truncated, _ = zip(*steps(env, data["actions"][:20]), strict=True)
    np.testing.assert_allclose([first, *obs], data["obs"][:21], rtol=0, atol=1e-10)
    np.testing.assert_allclose(rewards, data["rewards"][:20], rtol=0, atol=1e-10)
    assert not any(terminated + truncated)


# Seeds


@pytest.mark.parametrize("name", [MAZE, SPARSE, GATHER, "hrac/AntMazeSigma0.1-v0", "hrac/AntGatherSigma0.1-v0"])
def test_the_same_seed_gives_the_same_trajectory_and_another_seed_another(name):
    env, other = gymnasium.make(name), gymnasium.make(name)
    first = trajectory(env, 3)
    assert same(first, trajectory(env, 3))
    assert same(first, trajectory(other, 3))
    assert not same(first[0], env.reset(seed=4))


@pytest.mark.parametrize("name", [MAZE, SPARSE, GATHER])
def test_resets_without_a_seed_go_on_in_the_seeded_sequence(name):
    env, other = gymnasium.make(name), gymnasium.make(name)
    first = [env.reset(seed=7), env.reset(), env.reset()]
    second = [other.reset(seed=7)]
    for _ in range(2):  # whatever was done in the episodes
        steps(other, some_actions(3))
        second.append(other.reset())
    assert same(first, second)
    assert not same(first[0], first[1])
    assert not same(first[1], first[2])


def test_a_seed_begins_its_sequence_anew():
    env = gymnasium.make(MAZE)
    first = [env.reset(seed=7), env.reset()]
    env.reset(seed=8)
    assert same(first, [env.reset(seed=7), env.reset()])


@pytest.mark.parametrize("name", [MAZE, SPARSE, GATHER])
def test_unseeded_environments_differ_from_one_another(name):
    env, other = gymnasium.make(name), gymnasium.make(name)
    assert not same(env.reset(), other.reset())
    assert not same(env.reset(), other.reset())


@pytest.mark.parametrize("seed", [0, 1, 2**32, 2**63 - 1])
def test_all_seeds_up_to_63_bits_can_be_used(seed):
    env = gymnasium.make(MAZE)
    assert same(env.reset(seed=seed), env.reset(seed=seed))


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_other_seeds_are_refused(maze, seed):
    before = maze.observe()
    with pytest.raises((ValueError, gymnasium.error.Error), match=str(seed)):
        maze.reset(seed=seed)
    assert same(maze.observe(), before)


# Targets


def test_targets_are_drawn_from_the_rectangle_of_training():
    env = gymnasium.make(MAZE)
    targets = np.array([env.reset(seed=seed)[0]["desired_goal"] for seed in range(200)])
    assert (targets >= -4).all()
    assert (targets <= 20).all()
    np.testing.assert_allclose(targets.min(axis=0), -4, atol=1)
    np.testing.assert_allclose(targets.max(axis=0), 20, atol=1)


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


@pytest.mark.parametrize("target", [(1,), (1, 2, 3), [[1, 2]], (np.nan, 0), (np.inf, 0), 5])
def test_a_bad_target_is_told_with_what_is_allowed(maze, target):
    with pytest.raises(ValueError, match=r"options\[\"target\"\] must be finite numbers of shape \(2,\), got "):
        maze.reset(options={"target": target})


@pytest.mark.parametrize("options", [{"target": (np.nan, 0)}, {"goal": (0, 0)}])
def test_a_reset_that_is_refused_changes_nothing(maze, options):
    before = maze.observe()
    with pytest.raises(ValueError, match="options"):
        maze.reset(options=options)
    assert same(maze.observe(), before)


# Keywords and options


@pytest.mark.parametrize(("env", "allowed"), [(AntMazeEnv, "target"), (AntMazeSparseEnv, "target"), (AntGatherEnv, "none")])
def test_an_unknown_option_is_told_with_what_is_allowed(env, allowed):
    with pytest.raises(ValueError, match=f"options: there is no 'goal'. Allowed are: {allowed}$"):
        env().reset(options={"goal": (0, 0)})


@pytest.mark.parametrize(
    ("env", "keyword"), [(AntMazeEnv, "ends_on_success"), (AntMazeSparseEnv, "layout"), (AntGatherEnv, "bombs")]
)
def test_an_unknown_keyword_is_told_with_what_is_allowed(env, keyword):
    with pytest.raises(TypeError, match=rf"there is no keyword 'speed'\. Those of the task are: .*\b{keyword}\b"):
        env(speed=2)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"render_mode": "human"}, "render_mode must be None or one of ['rgb_array'], got 'human'"),
        ({"camera": "side"}, "camera must be one of top, follow, map, got 'side'"),
        ({"width": 0}, "width and height must be from 1 to 2048, got 0 and 480"),
        ({"height": 2049}, "width and height must be from 1 to 2048, got 480 and 2049"),
        ({"sigma": -0.1}, "sigma must be a number from 0, got -0.1"),
        ({"time_limit": 0}, "time_limit must be a positive number, got 0"),
    ],
)
@pytest.mark.parametrize("env", CLASSES)
def test_a_bad_keyword_is_told_with_what_is_allowed(env, keywords, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        env(**keywords)


def test_a_bad_layout_is_told():
    with pytest.raises(LayoutError, match="'A' stands nowhere"):
        gymnasium.make(MAZE, layout="###\n#.#\n###")


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


def test_ones_own_reward_is_given():
    env = gymnasium.make(MAZE, reward=lambda positions, targets: 10 * positions[:, 0] + targets[:, 1], target=(0.0, 16.0))
    env.reset(seed=0)
    for obs, reward, *_ in steps(env, some_actions(3)):
        assert reward == 10 * obs["achieved_goal"][0] + 16


def test_a_maze_that_hides_its_target_gives_plain_arrays():
    env = gymnasium.make(MAZE, shows_target=False)
    assert env.observation_space == Box(-np.inf, np.inf, (30,), np.float64)
    assert env.reset(seed=0)[0].shape == (30,)


def test_a_room_of_ones_own_is_made_by_keywords():
    env = gymnasium.make(GATHER, apples=3, bombs=1, bins=4)
    assert env.observation_space.shape == (38,)
    env.reset(seed=0)
    assert sorted(env.unwrapped.batch.objects[0, :, 2]) == [0, 0, 0, 1]


# States


@pytest.mark.parametrize("env", CLASSES)
def test_a_state_that_was_set_is_observed(env):
    env = env()
    env.reset(seed=0)
    qpos, qvel = standing_at(2, 1), np.arange(14) / 10
    env.set_state(qpos, qvel)
    obs = numbers(env.observe())
    np.testing.assert_array_equal(obs[:15], qpos)
    np.testing.assert_array_equal(obs[15:29], qvel)


def test_observe_gives_what_reset_and_step_gave_and_changes_nothing(maze):
    obs, _ = maze.reset(seed=1)
    assert same(maze.observe(), obs)
    after = maze.step(REST)
    assert same(maze.observe(), after[0])
    assert same(maze.observe(), after[0])


def test_the_episode_goes_on_after_a_state_was_set():
    env = AntMazeEnv(time_limit=3)
    before, _ = env.reset(seed=0)
    steps(env, some_actions(2))
    env.set_state(POSE, np.zeros(14))
    obs, _, terminated, truncated, _ = env.step(REST)
    assert (terminated, truncated) == (False, True)
    np.testing.assert_array_equal(obs["desired_goal"], before["desired_goal"])
    assert numbers(obs)[-1] == pytest.approx(0.003)


def test_from_the_same_state_the_same_steps_follow():
    env, other = AntMazeEnv(), AntMazeEnv()
    for seed, each in enumerate((env, other)):
        each.reset(seed=seed, options={"target": (0, 16)})
        each.set_state(POSE, np.zeros(14))
    assert same(steps(env, some_actions(5)), steps(other, some_actions(5)))


@pytest.mark.parametrize(
    ("qpos", "qvel", "named"),
    [
        (np.zeros(14), np.zeros(14), "qpos must be 15 finite numbers"),
        (np.full(15, np.nan), np.zeros(14), "qpos must be 15 finite numbers"),
        (POSE + 1, np.zeros(15), "qvel must be 14 finite numbers"),
        (POSE + 1, np.full(14, np.inf), "qvel must be 14 finite numbers"),
    ],
)
def test_a_bad_state_is_told_and_not_taken(maze, qpos, qvel, named):
    before = maze.observe()
    with pytest.raises(ValueError, match=named):
        maze.set_state(qpos, qvel)
    assert same(maze.observe(), before)


def test_objects_that_were_set_are_seen(gather):
    gather.set_state(POSE, np.zeros(14))
    gather.set_objects([(3.0, 0.0, 0), (-1.0, 2.9, 1), (0.0, 7.0, 1)])
    apples, bombs = gather.observe()[29:39], gather.observe()[39:49]
    # Bins begin behind the ant: straight on is at 180 of 360 degrees, in bin 5; the bomb at 109 + 180 is in bin 8.
    np.testing.assert_allclose(apples, np.eye(10)[5] * 0.5)
    np.testing.assert_allclose(bombs, np.eye(10)[8] * (1 - np.hypot(1, 2.9) / 6))


@pytest.mark.parametrize("objects", [[(0, 0)], [(0, 0, 2)], [(np.nan, 0, 1)], [0, 0, 1]])
def test_bad_objects_are_told_with_what_is_allowed(gather, objects):
    with pytest.raises(ValueError, match=r"rows of \(x, y, kind\), kind 0 for an apple or 1 for a bomb"):
        gather.set_objects(objects)


# Actions


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", [MAZE, "hrac/AntGatherSigma0.1-v0"])
def test_an_action_that_is_not_finite_is_told_and_moves_nothing(name, bad):
    env, other = gymnasium.make(name).unwrapped, gymnasium.make(name).unwrapped
    for each in (env, other):
        trajectory(each, 0, count=3)
    before = env.observe()
    with pytest.raises(ValueError, match=r"actions must be finite numbers \(torques within \+-30\)"):
        env.step(np.array([0, 0, bad, 0, 0, 0, 0, 0]))
    assert same(env.observe(), before)
    assert same(steps(env, some_actions(5, seed=1)), steps(other, some_actions(5, seed=1)))


def test_torques_beyond_the_limit_count_as_the_limit():
    env, other = AntMazeEnv(), AntMazeEnv()
    env.reset(seed=0)
    other.reset(seed=0)
    wild = 100 * np.random.default_rng(0).standard_normal((10, 8))
    assert np.abs(wild).max() > 200
    assert same(steps(env, wild), steps(other, np.clip(wild, -30, 30)))


@pytest.mark.parametrize("action", [np.zeros(7), np.zeros((1, 8)), np.zeros(())])
def test_an_action_of_another_shape_is_told(maze, action):
    with pytest.raises(ValueError, match=r"actions must have shape \(1, 8\)"):
        maze.step(action)


def test_actions_are_not_changed_and_may_be_any_list(maze):
    action = np.full(8, 50.0)
    maze.step(action)
    np.testing.assert_array_equal(action, 50)
    assert np.isfinite(numbers(maze.step([1] * 8)[0])).all()


@pytest.mark.parametrize("name", [MAZE, SPARSE, GATHER])
def test_a_step_before_reset_asks_for_a_reset(name):
    env = gymnasium.make(name)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(REST)
    with pytest.raises((RuntimeError, gymnasium.error.ResetNeeded), match="reset"):
        env.unwrapped.step(REST)


# Rewards, ends, infos


def test_the_reward_is_minus_the_distance():
    env = AntMazeEnv()
    env.reset(seed=0, options={"target": (0, 16)})
    env.set_state(standing_at(12, 0), np.zeros(14))
    obs, reward, *_ = env.step(REST)
    np.testing.assert_allclose(obs["achieved_goal"], [12, 0], atol=0.2)
    assert reward == pytest.approx(-20, abs=0.3)  # 12, 16, 20
    assert reward == -np.sqrt(np.square(obs["achieved_goal"] - [0, 16]).sum())


def test_success_is_told_as_long_as_the_ant_is_near():
    env = AntMazeEnv()
    _, info = env.reset(seed=0, options={"target": (0, 16)})
    assert info == {"success": False}
    for y, success in ((16, True), (12, True), (9, False), (20, True)):
        env.set_state(standing_at(0, y), np.zeros(14))
        *_, terminated, truncated, info = env.step(REST)
        assert (terminated, truncated, info) == (False, False, {"success": success})
    assert env.reset(options={"target": (0, 0)})[1] == {"success": True}


def test_success_ends_an_episode_where_that_is_asked():
    env = gymnasium.make(MAZE, target=(0.0, 16.0), ends_on_success=True)
    obs, _ = env.reset(seed=0)
    assert obs["desired_goal"].tolist() == [0, 16]
    assert env.step(REST)[2:] == (False, False, {"success": False})
    env.unwrapped.set_state(standing_at(0, 14), np.zeros(14))
    assert env.step(REST)[2:] == (True, False, {"success": True})


def test_success_on_the_very_last_step_terminates_only():
    env = AntMazeEnv(target=(0.0, 16.0), ends_on_success=True, time_limit=2)
    env.reset(seed=0)
    env.step(REST)
    env.set_state(standing_at(0, 14), np.zeros(14))
    assert env.step(REST)[2:] == (True, False, {"success": True})


@pytest.mark.parametrize("env", CLASSES)
def test_the_time_limit_truncates_after_500_steps(env):
    env = env()
    env.reset(seed=0)
    *going, last = steps(env, [REST] * 500)
    assert not any(result[2] or result[3] for result in going)
    assert last[2:4] == (False, True)


def test_apples_and_bombs_are_counted_over_the_episode(gather):
    assert gather.reset(seed=0)[1] == {"apples": 0, "bombs": 0}
    gather.set_state(POSE, np.zeros(14))
    far = [(8, 8, 1)]
    for objects, reward, info in (
        ([(0, 0, 0), (0.3, 0, 0), (0, 0.3, 1), *far], 1.0, {"apples": 2, "bombs": 1}),
        (far, 0.0, {"apples": 2, "bombs": 1}),
        ([(0, 0, 1), *far], -1.0, {"apples": 2, "bombs": 2}),
        ([(0, 0, 0), *far], 1.0, {"apples": 3, "bombs": 2}),
    ):
        gather.set_objects(objects)
        assert gather.step(REST)[1:] == (reward, False, False, info)
    assert gather.reset()[1] == {"apples": 0, "bombs": 0}


def test_nothing_left_to_gather_terminates(gather):
    gather.set_state(POSE, np.zeros(14))
    gather.set_objects([(0, 0, 0), (0, 0.3, 0)])
    assert gather.step(REST)[1:] == (2.0, True, False, {"apples": 2, "bombs": 0})


def test_a_touched_object_is_gone(gather):
    gather.set_state(POSE, np.zeros(14))
    gather.set_objects([(0, 0, 0), (0, 3, 1)])
    obs, reward, *_ = gather.step(REST)
    assert reward == 1.0
    assert obs[29:39].tolist() == [0] * 10
    assert (obs[39:49] > 0).sum() == 1
    assert gather.step(REST)[1] == 0.0


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
@pytest.mark.parametrize("name", [MAZE, "hrac/AntMazeSparseSigma0.1-v0", GATHER])
def test_a_copy_made_in_mid_episode_goes_on_the_same(name, wrapped, copied):
    env = gymnasium.make(name, time_limit=8)
    env = env if wrapped else env.unwrapped
    env.reset(seed=0)
    trajectory(env, None, count=5)
    other = copied(env)
    assert type(other) is type(env)
    mine, theirs = ([steps(each, some_actions(3, 1)), trajectory(each, None), each.reset(seed=9)] for each in (env, other))
    assert mine[0][-1][3]
    assert same(mine, theirs)


def test_a_copy_keeps_the_target_and_the_objects_that_were_set():
    maze, gather = AntMazeEnv(), AntGatherEnv()
    maze.reset(seed=0, options={"target": (1, 2)})
    assert pickle.loads(pickle.dumps(maze)).observe()["desired_goal"].tolist() == [1, 2]
    gather.reset(seed=0)
    gather.set_objects([(2 * (i % 5), 2 * (i // 5), i % 2) for i in range(20)])  # more than it began with
    other = pickle.loads(pickle.dumps(gather))
    assert same(gather.observe(), other.observe())
    assert same(steps(gather, some_actions(10)), steps(other, some_actions(10)))


def test_a_copy_is_on_its_own(maze):
    before, other = maze.observe(), pickle.loads(pickle.dumps(maze))
    steps(other, some_actions(3))
    other.reset()
    assert same(maze.observe(), before)


def test_an_unseeded_environment_can_be_copied_before_its_first_reset():
    env, other = AntMazeEnv(), pickle.loads(pickle.dumps(AntMazeEnv()))
    assert same(env.reset(seed=0), other.reset(seed=0))
