"""Many ants as one Gymnasium environment: the same as Gymnasium's loop over single ones, which test_ant_gym looks at."""

import pickle
import re

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import hrac  # noqa: F401  registers the environments
from hrac.envs.ant.gym import AntGatherEnv, AntMazeEnv, AntMazeSparseEnv
from hrac.envs.ant.vector import AntGatherVectorEnv, AntMazeSparseVectorEnv, AntMazeVectorEnv, AntVectorEnv

MAZE, SPARSE, GATHER = (f"hrac/Ant{task}-v0" for task in ("Maze", "MazeSparse", "Gather"))
CLASSES = {
    MAZE: (AntMazeEnv, AntMazeVectorEnv),
    SPARSE: (AntMazeSparseEnv, AntMazeSparseVectorEnv),
    GATHER: (AntGatherEnv, AntGatherVectorEnv),
}
MODES = ["NextStep", "SameStep", "Disabled"]
N = 4

# Some copies succeed at different times, so that they do not all end together after the 7 steps.
EARLY_ENDS = [
    (MAZE, {"ends_on_success": True, "success_radius": 9.0}),
    (SPARSE, {"success_radius": 5.0, "sigma": 0.5}),
    (GATHER, {"apples": 1, "bombs": 1, "reach": 8.0}),
    (GATHER, {"apples": 2, "bombs": 0, "reach": 7.0, "sigma": 0.5}),
]


def assert_same(first, second, where="result"):
    """Nested results are the same, bit for bit and type for type."""
    assert type(first) is type(second), where
    if isinstance(first, dict):
        assert first.keys() == second.keys(), where
        for key in first:
            assert_same(first[key], second[key], f"{where}[{key!r}]")
    elif isinstance(first, (list, tuple)) or (isinstance(first, np.ndarray) and first.dtype == object):
        assert len(first) == len(second), where
        for i, (one, other) in enumerate(zip(first, second, strict=True)):
            assert_same(one, other, f"{where}[{i}]")
    elif isinstance(first, np.ndarray):
        np.testing.assert_array_equal(first, second, strict=True, err_msg=where)
        assert first.tobytes() == second.tobytes(), where
    else:
        assert first == second, where


def differ(first, second):
    """Which copies have other numbers."""
    first, second = (obs["observation"] if isinstance(obs, dict) else obs for obs in (first, second))
    return (first != second).any(axis=1).tolist()


def row(batched, i):
    """What copy i got."""
    return {key: row(part, i) for key, part in batched.items()} if isinstance(batched, dict) else batched[i]


def both(name, mode="NextStep", **keywords):
    """The vector environment, and Gymnasium's loop over single ones."""
    single, _ = CLASSES[name]
    one_by_one = SyncVectorEnv([lambda: single(**keywords)] * N, autoreset_mode=mode)
    return gymnasium.make_vec(name, num_envs=N, autoreset_mode=mode, **keywords), one_by_one


def some_actions(count, seed=0):
    return np.random.default_rng(seed).uniform(-30, 30, (count, N, 8)).astype(np.float32)


def steps(env, actions):
    return [env.step(action) for action in actions]


@pytest.fixture
def maze():
    env = gymnasium.make_vec(MAZE, num_envs=N)
    env.reset(seed=0)
    return env


# What Gymnasium knows


@pytest.mark.parametrize("name", CLASSES)
def test_make_vec_gives_one_simulation_of_many_ants(name):
    for variant, sigma in (("", 0.0), ("Sigma0.01", 0.01), ("Sigma0.05", 0.05), ("Sigma0.1", 0.1)):
        env = gymnasium.make_vec(name.replace("-v0", f"{variant}-v0"), num_envs=N, threads=2)
        assert isinstance(env, AntVectorEnv)
        assert type(env) is CLASSES[name][1]
        batch = env.unwrapped.batch
        assert (env.num_envs, batch.num_envs, batch.threads, batch.sigma) == (N, N, 2, sigma)


@pytest.mark.parametrize("name", CLASSES)
def test_spaces_are_those_of_so_many_single_ones(name):
    env, one_by_one = both(name)
    assert env.single_action_space == one_by_one.single_action_space
    assert env.single_observation_space == one_by_one.single_observation_space
    assert env.observation_space == one_by_one.observation_space
    assert env.action_space == one_by_one.action_space == Box(np.full((N, 8), -30, np.float32), np.full((N, 8), 30, np.float32))
    obs, _ = env.reset(seed=0)
    assert obs in env.observation_space
    assert env.step(env.action_space.sample())[0] in env.observation_space


def test_the_autoreset_mode_can_be_seen_and_belongs_to_one_object():
    other = gymnasium.make_vec(MAZE, num_envs=2)
    for mode in MODES:
        env = gymnasium.make_vec(MAZE, num_envs=2, autoreset_mode=mode)
        assert env.metadata["autoreset_mode"] is AutoresetMode(mode)
        assert other.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
        assert type(env).metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP


# Copies are single environments


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "keywords"), EARLY_ENDS)
def test_it_is_the_same_as_a_loop_over_single_environments(name, keywords, mode):
    env, one_by_one = both(name, mode, time_limit=7, **keywords)
    assert_same(env.reset(seed=20), one_by_one.reset(seed=20))
    terminated_once = truncated_once = apart = False
    for action in some_actions(40):
        result = env.step(action)
        assert_same(result, one_by_one.step(action))
        _, _, terminated, truncated, infos = result
        ended = terminated | truncated
        assert ("final_obs" in infos) == (mode == "SameStep" and ended.any())
        terminated_once, truncated_once = terminated_once or terminated.any(), truncated_once or truncated.any()
        apart = apart or 0 < ended.sum() < N
        if mode == "Disabled" and ended.any():
            again = env.reset(options={"reset_mask": ended})
            assert_same(again, one_by_one.reset(options={"reset_mask": ended.copy()}))
    assert terminated_once
    assert truncated_once
    assert apart


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_it_is_the_same_where_all_copies_end_together(mode):
    env, one_by_one = both(MAZE, mode, time_limit=7)
    assert_same(env.reset(seed=0), one_by_one.reset(seed=0))
    ends = 0
    for action in some_actions(20):
        result = env.step(action)
        assert_same(result, one_by_one.step(action))
        ends += result[3].all()
    assert ends == 2


def test_next_step_resets_on_the_next_step_whatever_the_action():
    env = gymnasium.make_vec(MAZE, num_envs=N, time_limit=2)
    env.reset(seed=0)
    _, last = steps(env, some_actions(2))
    assert last[3].all()
    obs, reward, terminated, truncated, _ = env.step(np.full((N, 8), np.nan))
    assert obs["observation"][:, -1].tolist() == [0] * N
    assert reward.tolist() == [0] * N
    assert not (terminated | truncated).any()


def test_an_ended_copy_that_was_not_reset_asks_for_it():
    env = gymnasium.make_vec(MAZE, num_envs=N, time_limit=2, autoreset_mode="Disabled")
    env.reset(seed=0)
    env.step(np.zeros((N, 8)))
    env.reset(options={"reset_mask": np.array([True, False, True, False])})
    assert env.step(np.zeros((N, 8)))[3].tolist() == [False, True, False, True]
    with pytest.raises(
        gymnasium.error.ResetNeeded, match=re.escape('copies [1, 3] have ended: reset them with options={"reset_mask"')
    ):
        env.step(np.zeros((N, 8)))
    env.reset(options={"reset_mask": np.array([False, True, False, True])})
    assert env.step(np.zeros((N, 8)))[3].tolist() == [True, False, True, False]


# Seeds


def test_copies_without_a_seed_of_their_own_go_on_in_their_sequences():
    env, one_by_one = both(GATHER)
    for seed in (0, None, [None, 5, None, 6], [7, None, None, None], None):
        assert_same(env.reset(seed=seed), one_by_one.reset(seed=seed))
        assert_same(steps(env, some_actions(2)), steps(one_by_one, some_actions(2)))


def test_unseeded_environments_differ_from_one_another():
    env, other = (gymnasium.make_vec(MAZE, num_envs=N) for _ in range(2))
    first, second = env.reset()[0], other.reset()[0]
    assert differ(first, second) == [True] * N
    assert len(np.unique(first["observation"], axis=0)) == N


def test_copies_that_never_had_a_seed_differ_between_environments():
    env, other = (gymnasium.make_vec(MAZE, num_envs=N) for _ in range(2))
    first, second = (each.reset(seed=[1, None, 2, None])[0] for each in (env, other))
    assert differ(first, second) == [False, True, False, True]


def test_copies_left_out_of_the_first_reset_differ_between_environments():
    env, other = (gymnasium.make_vec(MAZE, num_envs=N) for _ in range(2))
    for each in (env, other):
        each.reset(options={"reset_mask": np.array([True, False, False, False])})
    assert differ(env.reset()[0], other.reset()[0]) == [True] * N


def test_environments_differ_also_after_seeds_that_were_refused():
    env, other = (gymnasium.make_vec(MAZE, num_envs=N) for _ in range(2))
    for each in (env, other):
        with pytest.raises(ValueError, match="seed must be"):
            each.reset(seed=[1, 2])
    assert differ(env.reset()[0], other.reset()[0]) == [True] * N


# Options


def test_a_mask_resets_some_copies_and_leaves_the_others():
    env, one_by_one = both(MAZE)
    mask = np.array([False, True, True, False])
    for each in (env, one_by_one):
        each.reset(seed=0)
    before = steps(env, some_actions(3))[-1][0]
    steps(one_by_one, some_actions(3))
    result = env.reset(options={"reset_mask": mask})
    assert_same(result, one_by_one.reset(options={"reset_mask": mask.copy()}))
    assert differ(result[0], before) == mask.tolist()
    assert result[1]["_success"].tolist() == mask.tolist()
    assert_same(steps(env, some_actions(3, 1)), steps(one_by_one, some_actions(3, 1)))


def test_a_mask_and_seeds_go_together():
    env, one_by_one = both(MAZE)
    for each in (env, one_by_one):
        each.reset(seed=0)
    for seed in (40, [1, 2, None, 3]):
        given = [{"reset_mask": np.array([False, True, True, False])} for _ in range(2)]
        assert_same(env.reset(seed=seed, options=given[0]), one_by_one.reset(seed=seed, options=given[1]))
    assert_same(env.reset(), one_by_one.reset())


def test_the_options_of_a_reset_are_not_changed(maze):
    options = {"reset_mask": np.array([True, True, False, False]), "target": (1.0, 2.0)}
    maze.reset(options=options)
    assert options.keys() == {"reset_mask", "target"}
    assert options["reset_mask"].tolist() == [True, True, False, False]


def test_one_target_is_for_all_copies_and_one_episode():
    env, one_by_one = both(MAZE)
    result = env.reset(seed=0, options={"target": (3.0, 16.0)})
    assert result[0]["desired_goal"].tolist() == [[3, 16]] * N
    assert_same(result, one_by_one.reset(seed=0, options={"target": (3.0, 16.0)}))
    assert_same(steps(env, some_actions(3)), steps(one_by_one, some_actions(3)))
    assert_same(env.reset(), one_by_one.reset())


def test_targets_can_be_given_one_by_one():
    env, targets = gymnasium.make_vec(MAZE, num_envs=N), np.arange(2.0 * N).reshape(N, 2)
    obs, info = env.reset(seed=0, options={"target": targets})
    np.testing.assert_array_equal(obs["desired_goal"], targets)
    distance = np.hypot(*(obs["achieved_goal"] - targets).T)
    assert info["success"].tolist() == (distance < 5).tolist() == [True, True, False, False]
    obs, reward, *_ = env.step(np.zeros((N, 8)))
    np.testing.assert_allclose(reward, -np.hypot(*(obs["achieved_goal"] - targets).T))


def test_targets_are_for_the_copies_of_the_mask():
    env = gymnasium.make_vec(MAZE, num_envs=N)
    before = env.reset(seed=0)[0]["desired_goal"]
    mask = np.array([True, False, False, True])
    obs, _ = env.reset(options={"reset_mask": mask, "target": np.arange(2.0 * N).reshape(N, 2)})
    np.testing.assert_array_equal(obs["desired_goal"], [[0, 1], before[1], before[2], [6, 7]])


# Errors


def test_actions_of_another_shape_are_told(maze):
    for shape in ((3, 8), (N, 7), (8,), (N, 8, 1)):
        with pytest.raises(ValueError, match=re.escape(f"actions must have shape (4, 8), got {shape}")):
            maze.step(np.zeros(shape))


def test_another_number_of_seeds_is_told(maze):
    for seed in ([1], [1, 2, 3, 4, 5], []):
        message = f"seed must be a number, or 4 of them (one for each copy), got {len(seed)}"
        with pytest.raises(ValueError, match=re.escape(message)):
            maze.reset(seed=seed)


def test_a_bad_mask_is_told_with_what_is_allowed(maze):
    message = 'options["reset_mask"] must be 4 booleans, at least one of them true, got '
    for mask in ([True] * 3, [1, 0, 1, 0], [False] * N, [[True] * N], True):
        with pytest.raises(ValueError, match=re.escape(message)):
            maze.reset(options={"reset_mask": np.array(mask)})


def test_a_bad_target_is_told_and_changes_nothing(maze):
    before = maze.unwrapped.batch.observe()
    message = 'options["target"] must be finite numbers of shape (2,) or (4, 2), got '
    for target in ((1.0,), np.zeros((3, 2)), (np.nan, 0.0)):
        with pytest.raises(ValueError, match=re.escape(message)):
            maze.reset(options={"target": target})
    np.testing.assert_array_equal(maze.unwrapped.batch.observe(), before)


def test_an_unknown_option_is_told_with_what_is_allowed():
    for name, allowed in ((MAZE, "target, reset_mask"), (SPARSE, "target, reset_mask"), (GATHER, "reset_mask")):
        with pytest.raises(ValueError, match=f"options: there is no 'goal'. Allowed are: {allowed}$"):
            gymnasium.make_vec(name, num_envs=N).reset(options={"goal": (0, 0)})


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"threads": 0}, ValueError, "threads must be at least 1, or None for one per core, got 0"),
        ({"autoreset_mode": "Later"}, ValueError, "'Later'"),
        ({"camera": "side"}, ValueError, "camera must be one of top, follow, map, got 'side'"),
        ({"speed": 2}, TypeError, "there is no keyword 'speed'. Those of the task are: layout, block_size, target"),
    ],
)
def test_a_bad_keyword_is_told_with_what_is_allowed(keywords, error, message):
    with pytest.raises(error, match=re.escape(message)):
        AntMazeVectorEnv(**keywords)


def test_a_step_before_reset_asks_for_a_reset():
    env = gymnasium.make_vec(MAZE, num_envs=N)
    with pytest.raises((RuntimeError, gymnasium.error.ResetNeeded), match="reset"):
        env.step(np.zeros((N, 8)))


# Copies


@pytest.mark.parametrize("mode", MODES)
def test_a_pickled_one_goes_on_the_same(mode):
    name, keywords = EARLY_ENDS[0]
    env = gymnasium.make_vec(name, num_envs=N, autoreset_mode=mode, time_limit=7, **keywords)
    env.reset(seed=20)
    for action in some_actions(40):
        *_, terminated, truncated, _ = env.step(action)
        ended = terminated | truncated
        if 0 < ended.sum() < N:
            break
        if mode == "Disabled" and ended.all():
            env.reset()
    assert 0 < ended.sum() < N
    other = pickle.loads(pickle.dumps(env))
    assert type(other) is type(env)
    assert other.metadata == env.metadata
    if mode == "Disabled":
        with pytest.raises(gymnasium.error.ResetNeeded):
            other.step(action)
        assert_same(*(each.reset(options={"reset_mask": ended}) for each in (env, other)))
    else:
        assert_same(*(steps(each, some_actions(20, 1)) for each in (env, other)))
    assert_same(*(each.reset() for each in (env, other)))


def test_what_was_given_back_is_ones_own():
    env, other = (gymnasium.make_vec(MAZE, num_envs=N, time_limit=3) for _ in range(2))
    result, untouched = [env.reset(seed=0)], [other.reset(seed=0)]
    for action in some_actions(8):
        assert_same(result[-1], untouched[-1])
        obs, *rest = result[-1]
        for array in (*obs.values(), *rest[:-1], *rest[-1].values()):
            array[...] = 1
        result.append(env.step(action))
        untouched.append(other.step(action))
    assert_same(result[-1], untouched[-1])


# Pictures


def test_render_gives_a_picture_of_every_copy():
    picture = {"render_mode": "rgb_array", "camera": "map", "width": 60, "height": 50}
    env, singles = gymnasium.make_vec(MAZE, num_envs=N, **picture), [AntMazeEnv(**picture) for _ in range(N)]
    env.reset(seed=0)
    for i, single in enumerate(singles):
        single.reset(seed=i)
    frames = env.render()
    assert isinstance(frames, tuple)
    assert [(frame.shape, frame.dtype) for frame in frames] == [((50, 60, 3), np.uint8)] * N
    assert_same(frames, tuple(single.render() for single in singles))
    env.unwrapped.subgoals = np.array([[0.0, 4.0 * i] for i in range(N)])
    for i, single in enumerate(singles):
        single.subgoal = [0.0, 4.0 * i]
    with_subgoals = env.render()
    assert_same(with_subgoals, tuple(single.render() for single in singles))
    assert all((frame != before).any() for frame, before in zip(with_subgoals, frames, strict=True))
    env.unwrapped.subgoals = None
    assert_same(env.render(), frames)


def test_rendering_without_a_mode_warns_how_to_get_one(maze):
    with pytest.warns(UserWarning, match='render_mode="rgb_array"'):
        assert maze.render() is None


def test_closing_twice_is_fine():
    env = gymnasium.make_vec(MAZE, num_envs=N, render_mode="rgb_array", camera="map", width=20, height=20)
    env.reset(seed=0)
    env.render()
    env.close()
    env.close()
    assert env.closed
