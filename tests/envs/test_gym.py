import copy
import pickle
import subprocess
import sys

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import hrac  # noqa: F401  registers the environments
from hrac.envs.grid import KeyChest, Maze, checked_time_limit
from hrac.envs.gym import MazeEnv
from hrac.envs.layout import LayoutError

MAZE, KEY_CHEST = "hrac/Maze-v0", "hrac/KeyChest-v0"
UP, DOWN, LEFT, RIGHT = range(4)
CORRIDOR = "#####\n#A.G#\n#####"
CHEST_ROOM = "#####\n#AKC#\n#####"


def trajectory(env, seed, actions):
    """Observation of the reset, then all that the steps give."""
    return [env.reset(seed=seed)[0], *(env.step(action)[:4] for action in actions)]


def same(first, second):
    return str(first) == str(second)


@pytest.mark.parametrize("render_mode", [None, "ansi", "rgb_array"])
@pytest.mark.parametrize("name", [MAZE, KEY_CHEST])
def test_gymnasium_finds_no_fault(name, render_mode):
    env = gymnasium.make(name, render_mode=render_mode)
    assert env.unwrapped.render_mode == render_mode
    check_env(env.unwrapped)


@pytest.mark.parametrize(("name", "high"), [(MAZE, [12, 16]), (KEY_CHEST, [12, 16, 1])])
def test_spaces_are_those_of_the_map(name, high):
    env = gymnasium.make(name)
    assert env.action_space == gymnasium.spaces.Discrete(4)
    assert env.observation_space == gymnasium.spaces.Box(np.zeros(len(high), np.float32), np.array(high, np.float32))


@pytest.mark.parametrize("kind", ["random", "optimal"])
def test_steps_are_those_of_the_published_maze(golden, kind):
    data = golden("maze")
    env = gymnasium.make(MAZE, random_action_prob=0.0)
    first, *steps = trajectory(env, 0, data[f"{kind}_actions"])
    obs, rewards, terminated, truncated = zip(*steps, strict=True)
    np.testing.assert_array_equal([first, *obs], data[f"{kind}_states"])
    np.testing.assert_allclose(rewards, data[f"{kind}_rewards"], atol=1e-6)
    np.testing.assert_array_equal(np.logical_or(terminated, truncated), data[f"{kind}_done"])
    assert (terminated[-1], truncated[-1]) == ((True, False) if kind == "optimal" else (False, True))


def test_the_same_seed_gives_the_same_trajectory_and_another_seed_another():
    env, other = gymnasium.make(KEY_CHEST), gymnasium.make(KEY_CHEST)
    actions = [RIGHT, UP, LEFT, DOWN] * 10
    first = trajectory(env, 3, actions)
    assert same(first, trajectory(env, 3, actions))
    assert same(first, trajectory(other, 3, actions))
    assert not same(first, trajectory(env, 4, actions))


def test_without_a_new_seed_the_next_episode_is_another_one():
    env = gymnasium.make(KEY_CHEST)
    starts = [tuple(env.reset(seed=seed)[0]) for seed in (0, None, None, None)]
    assert len(set(starts)) > 1


def test_random_start_can_be_switched_on_and_off():
    maze, chest = gymnasium.make(MAZE, random_start=True), gymnasium.make(KEY_CHEST, random_start=False)
    assert len({tuple(maze.reset(seed=seed)[0]) for seed in range(5)}) > 1
    assert {tuple(chest.reset(seed=seed)[0]) for seed in range(5)} == {(11, 7, 0)}


def test_random_action_prob_one_ignores_the_action():
    env = gymnasium.make(MAZE, random_action_prob=1.0)
    actions = [UP, RIGHT] * 10
    assert same(trajectory(env, 0, actions), trajectory(env, 0, [DOWN] * 20))


def test_chance_is_new_at_every_step():
    env = gymnasium.make(MAZE, random_action_prob=1.0)
    first, *steps = trajectory(env, 0, [UP] * 40)
    path = np.array([first, *(step[0] for step in steps)])
    assert len(np.unique(np.diff(path, axis=0), axis=0)) == 5  # all four moves, and some into a wall


def test_ones_own_layout_is_played_and_success_is_told():
    env = gymnasium.make(KEY_CHEST, layout=CHEST_ROOM, random_start=False, random_action_prob=0.0)
    obs, info = env.reset(seed=0)
    assert obs.tolist() == [1, 1, 0]
    assert info == {"success": False}
    obs, *rest = env.step(RIGHT)
    assert (obs.tolist(), rest) == ([1, 2, 1], [1.0, False, False, {"success": False}])
    obs, *rest = env.step(RIGHT)
    assert (obs.tolist(), rest) == ([1, 3, 1], [5.0, True, False, {"success": True}])


def test_the_time_limit_truncates_without_success():
    env = gymnasium.make(MAZE, layout=CORRIDOR, random_action_prob=0.0)
    _, *steps = trajectory(env, 0, [LEFT] * 199)
    assert not any(step[2] or step[3] for step in steps)
    *_, terminated, truncated, info = env.step(LEFT)
    assert (terminated, truncated, info) == (False, True, {"success": False})


def test_the_goal_on_the_very_last_step_terminates_only():
    env = gymnasium.make(MAZE, layout=CORRIDOR, random_action_prob=0.0)
    trajectory(env, 0, [LEFT] * 198)
    env.step(RIGHT)
    *_, terminated, truncated, info = env.step(RIGHT)
    assert (terminated, truncated, info) == (True, False, {"success": True})


def test_text_shows_the_agent_and_drops_the_key_it_took():
    env = gymnasium.make(KEY_CHEST, layout=CHEST_ROOM, random_start=False, random_action_prob=0.0, render_mode="ansi")
    env.reset(seed=0)
    assert env.render() == "#####\n#oKC#\n#####"
    env.step(RIGHT)
    assert env.render() == "#####\n#AoC#\n#####"
    env.step(LEFT)
    assert env.render() == "#####\n#o.C#\n#####"


def test_the_image_shows_the_map_and_the_agent():
    env = gymnasium.make(MAZE, layout=CORRIDOR, random_action_prob=0.0, render_mode="rgb_array")
    env.reset(seed=0)
    image = env.render()
    assert image.dtype == np.uint8
    assert image.shape == (3 * 24, 5 * 24, 3)
    wall, agent, goal = image[12, 12], image[36, 36], image[36, 3 * 24 + 12]
    assert agent[2] == agent.max() > goal[2]  # blue; the goal is green
    assert goal[1] == goal.max()
    env.step(RIGHT)
    moved = env.render()
    np.testing.assert_array_equal(moved[36, 24 + 36], agent)
    np.testing.assert_array_equal(moved[12, 12], wall)
    assert not np.array_equal(moved[36, 36], agent)


@pytest.mark.parametrize("action", [4, -1, 1.5])
def test_a_bad_action_is_told_with_what_is_allowed(action):
    env = gymnasium.make(MAZE).unwrapped
    env.reset(seed=0)
    with pytest.raises(
        ValueError, match=r"action must be 0 \(up\), 1 \(down\), 2 \(left\) or 3 \(right\), got " + repr(action)
    ):
        env.step(action)


def test_a_numpy_action_is_an_action():
    env = gymnasium.make(MAZE, layout=CORRIDOR, random_action_prob=0.0)
    env.reset(seed=0)
    assert env.step(np.int64(RIGHT))[0].tolist() == [1, 2]


def test_a_bad_render_mode_is_told_with_what_is_allowed():
    with pytest.raises(ValueError, match=r"render_mode must be one of \['ansi', 'rgb_array'\] or None, got 'human'"):
        MazeEnv(render_mode="human")


def test_a_bad_layout_is_told():
    with pytest.raises(LayoutError, match=r"row 1, column 2: 'X' is none of"):
        gymnasium.make(MAZE, layout="####\n#AX#\n####")


def test_a_time_limit_that_is_no_number_of_steps_is_told():
    for time_limit in (0, -1, 2.5, np.nan, True, "10"):
        with pytest.raises(ValueError, match="time_limit must be a whole number from 1, got"):
            checked_time_limit(time_limit)
    with pytest.raises(ValueError, match="time_limit must be a whole number from 1, got -1"):
        MazeEnv(time_limit=-1)
    assert MazeEnv(time_limit=7).grid.time_limit == 7


def test_an_option_that_there_is_not_is_told():
    with pytest.raises(ValueError, match=r"options: there is no 'target'. Allowed are: none"):
        MazeEnv().reset(options={"target": (1, 1)})


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_goes_on_as_the_original_does(copied):
    env = gymnasium.make(KEY_CHEST, render_mode="ansi")
    trajectory(env, 0, [RIGHT, UP] * 5)
    other = copied(env)
    assert env.render() == other.render()
    assert same([env.step(UP) for _ in range(20)], [other.step(UP) for _ in range(20)])
    assert same(env.reset(), other.reset())


@pytest.mark.parametrize("world", [Maze(random_start=True), KeyChest()])
def test_it_moves_as_the_world_in_jax_does(world):
    """With the same chance."""
    rng, move = np.random.default_rng(0), jax.jit(world.move)
    for cell in rng.choice(world.cells, 10):
        state, obs = world.start(cell)
        other, theirs = world.start(jnp.asarray(cell))
        np.testing.assert_array_equal(obs, theirs)
        for action in rng.integers(4, size=30):
            chance = np.float32(rng.random(dtype=np.float32))
            after = world.move(state, np.int32(action), chance)
            expected = move(other, jnp.asarray(action, jnp.int32), jnp.asarray(chance))
            state, other = after.state, expected.state
            assert same(*(jax.tree.map(np.asarray, tuple(step)) for step in (after, expected)))
            assert after.obs.dtype == np.float32


FORKED = """
import gymnasium, jax, jax.numpy as jnp, hrac
jax.jit(lambda x: x @ x)(jnp.ones((300, 300))).block_until_ready()
if __name__ == "__main__":
    envs = gymnasium.make_vec("hrac/KeyChest-v0", num_envs=2, vectorization_mode="async", vector_kwargs={"context": "fork"})
    envs.reset(seed=0)
    for _ in range(5):
        envs.step([0, 1])
    envs.close()
    print("done")
"""


def test_processes_that_are_forked_after_jax_has_run_do_not_hang():
    run = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=120)
    assert run.stdout.strip() == "done", run.stderr


def test_step_and_render_before_reset_ask_for_a_reset():
    env = gymnasium.make(MAZE, render_mode="ansi").unwrapped
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"reset\(\) before step\(\)"):
        env.step(UP)
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"reset\(\) before render\(\)"):
        env.render()


def test_rendering_without_a_mode_warns_how_to_get_one():
    env = gymnasium.make(MAZE).unwrapped
    env.reset(seed=0)
    with pytest.warns(UserWarning, match='render_mode="ansi"'):
        assert env.render() is None
