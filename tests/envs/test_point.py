"""The point in the maze of Ant Maze Sparse, and its form in JAX; in the U it is looked at in tests/worlds/test_host.py."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrac.envs.ant import maze
from hrac.envs.base import Environment
from hrac.envs.point import SPARSE, PointMaze, PointState
from hrac.spaces import Box

U = PointMaze()
MAZES = {
    "u": U,
    "sparse": SPARSE,
    "ending": dataclasses.replace(U, ends_on_success=True, success_radius=8.0),
    "own": PointMaze(layout="#######\n#A...A#\n#.###.#\n#..A..#\n#######", block_size=3.0, shows_target=False, time_limit=50),
    "own reward": PointMaze(reward=lambda position, target: position[:, 0] - 2 * target[:, 1]),
}
STEPS = 200


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


def _pushes(rng, points):
    """Random pushes, some beyond the range; half of the points are pushed one way, into walls and along them."""
    pushes = rng.uniform(-1.5, 1.5, (STEPS, points, 2))
    pushes[:, ::2] += rng.choice([-1.0, 1.0], (points + 1) // 2)[:, None] * np.array([1.0, 0.7])
    return pushes.astype(np.float32)


@pytest.mark.parametrize("name", MAZES)
def test_both_forms_move_alike(name):
    """From the same starts, among them places beside walls, with the same actions."""
    definition, rng, points = MAZES[name], np.random.default_rng(0), 24
    device, batch = definition.on_device(), definition.batch(points)
    batch.reset(seeds=np.arange(points))
    edge = definition.block_size / 2
    beside = rng.choice(definition.free, points // 2) + rng.choice([-1, 1], (points // 2, 2)) * (edge - 0.01)
    batch.positions[: points // 2] = beside
    batch.positions[:], batch.targets[:] = batch.positions.astype(np.float32), batch.targets.astype(np.float32)
    single = [jnp.asarray(array, jnp.float32) for array in (batch.positions, batch.velocities, batch.targets)]
    state = PointState(*single, jnp.zeros(points, jnp.int32))
    pushes, key = _pushes(rng, points), jax.random.key(0)

    def one(state, push):
        after = jax.vmap(device.step, (None, 0, 0))(key, state, push)
        return after.state, after._replace(state=None)

    _, played = jax.jit(lambda: jax.lax.scan(one, state, jnp.asarray(pushes)))()
    walls_met = 0
    for time, push in enumerate(pushes):
        expected = batch.step(push)
        walls_met += int((batch.velocities == 0.0).sum())
        seen = np.concatenate([expected.obs, batch.context], axis=1)
        np.testing.assert_allclose(played.obs[time], seen, atol=2e-5, rtol=1e-6)
        np.testing.assert_allclose(played.reward[time], expected.reward, atol=5e-5)
        np.testing.assert_array_equal(played.terminated[time], expected.terminated)
        np.testing.assert_array_equal(played.truncated[time], expected.truncated)
    assert walls_met > 100
    assert played.terminated.any() == definition.ends_on_success
    assert played.truncated.any()


def test_the_form_in_jax_says_what_any_environment_says():
    shown, hidden = U.on_device(), SPARSE.on_device()
    assert isinstance(shown, Environment)
    assert shown.actions == Box((-1.0, -1.0), (1.0, 1.0))
    assert [(world.obs_dim, world.context_dim, world.ends_on_success) for world in (shown, hidden)] == [
        (7, 2, False),
        (5, 0, True),
    ]
    assert (shown.position_low, shown.position_high, shown.time_limit) == ((-2.0, -2.0), (10.0, 10.0), 200)
    assert (shown, hash(shown)) == (PointMaze().on_device(), hash(PointMaze().on_device()))
    assert shown != hidden


def _first(world, count):
    return jax.jit(jax.vmap(world.reset))(jax.random.split(jax.random.key(0), count))


@pytest.mark.parametrize("world", [SPARSE.on_device(), SPARSE.on_device().exploring()])
def test_in_jax_it_starts_at_rest_in_every_start_block(world):
    state, obs = _first(world, 2000)
    np.testing.assert_array_equal(np.unique(obs[:, :2].round(), axis=0), np.unique(SPARSE.starts, axis=0))
    assert np.abs(obs[:, :2] - obs[:, :2].round()).max() < 0.1
    assert not obs[:, 2:].any()
    np.testing.assert_array_equal(state.target, np.tile(np.float32([2.0, 9.0]), (2000, 1)))


def test_in_jax_targets_are_drawn_by_the_rule_of_the_definition():
    _, obs = _first(U.on_device(), 2000)
    low, high = obs[:, 5:].min(axis=0), obs[:, 5:].max(axis=0)
    np.testing.assert_allclose([low, high], [(-2.0, -2.0), (10.0, 10.0)], atol=0.1)
    state, obs = _first(MAZES["own"].on_device(), 2000)
    assert obs.shape == (2000, 5)
    assert not MAZES["own"].in_wall(np.asarray(state.target)).any()
    assert len(np.unique((state.target / 3).round(), axis=0)) == len(MAZES["own"].free)


def test_in_jax_it_is_evaluated_as_on_the_host_and_explored_without_ends():
    world = U.on_device()
    assert world.evaluation() == U.evaluation().on_device()
    assert world.evaluation().ends_on_success
    assert SPARSE.on_device().exploring() == dataclasses.replace(SPARSE, ends_on_success=False).on_device()


@pytest.mark.parametrize("ids", [[-1], [0, 0], [1, 0], [3]])
def test_a_point_batch_refuses_copies_that_there_are_not(ids):
    env = U.batch(3)
    env.reset()
    with pytest.raises(ValueError, match="ids must be different copies from 0 to 2"):
        env.reset(ids)
    np.testing.assert_array_equal(env.episodes, [0, 0, 0])


def test_a_point_batch_takes_masks_and_wants_a_seed_a_copy():
    env = U.batch(3)
    with pytest.raises(RuntimeError, match="reset the copies"):
        env.step(np.zeros((3, 2)))
    env.reset()
    env.reset([False, False, True])
    np.testing.assert_array_equal(env.episodes, [0, 0, 1])
    with pytest.raises(ValueError, match="seeds must be 2 integers"):
        env.reset([0, 1], seeds=[5])
