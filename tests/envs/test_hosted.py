"""JAX environments as tasks on the host."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrac.envs.base import BatchEnvironment, HostTask
from hrac.envs.grid import KeyChest, Maze
from hrac.envs.hosted import Hosted, episode_key
from hrac.envs.point import SPARSE, PointMaze
from hrac.spaces import Discrete

WORLDS = {
    "maze": Maze(random_start=True, time_limit=30),
    "key-chest": KeyChest(time_limit=30),
    "point": PointMaze(ends_on_success=True, time_limit=30).on_device(),
    "hidden target": dataclasses.replace(SPARSE, time_limit=30).on_device(),
}
SEEDS = [0, 7, 2**40 + 7, 2**63 - 1]


def _actions(world, rng, count):
    if isinstance(world.actions, Discrete):
        return rng.integers(world.actions.choices, size=count)
    return rng.uniform(*world.actions.limits, (count, world.actions.outputs)).astype(np.float32)


def _key(seed, episode, step):
    return jax.jit(episode_key)(jnp.asarray([seed % 2**32, seed // 2**32], jnp.uint32), jnp.asarray(episode), jnp.asarray(step))


@pytest.mark.parametrize("name", WORLDS)
def test_copies_move_as_the_environment_does_with_the_same_keys(name):
    """Over several episodes; a copy is reset when its own ends."""
    world = WORLDS[name]
    batch, rng, rows = Hosted(world).batch(len(SEEDS)), np.random.default_rng(0), range(len(SEEDS))
    reset, step, size = jax.jit(world.reset), jax.jit(world.step), world.obs_dim - world.context_dim
    states, seen = zip(*[reset(_key(seed, 0, 0)) for seed in SEEDS], strict=True)
    states, episodes, steps = list(states), [0] * len(SEEDS), [0] * len(SEEDS)
    np.testing.assert_allclose(np.hstack([batch.reset(seeds=SEEDS), batch.context]), seen, atol=1e-6)
    for _ in range(70):
        actions = _actions(world, rng, len(SEEDS))
        after = batch.step(actions)
        assert (after.obs.dtype, after.reward.dtype) == (np.float64, np.float64)
        for i in rows:
            steps[i] += 1
            expected = step(_key(SEEDS[i], episodes[i], steps[i]), states[i], jnp.asarray(actions[i]))
            states[i] = expected.state
            np.testing.assert_allclose(after.obs[i], expected.obs[:size], atol=1e-6)
            np.testing.assert_allclose(after.reward[i], expected.reward, atol=1e-6)
            assert (after.terminated[i], after.truncated[i]) == (expected.terminated, expected.truncated)
        ended = np.flatnonzero(after.terminated | after.truncated)
        fresh = batch.reset(ended)
        for place, i in enumerate(ended):
            episodes[i], steps[i] = episodes[i] + 1, 0
            states[i], obs = reset(_key(SEEDS[i], episodes[i], 0))
            np.testing.assert_allclose(np.append(fresh[place], batch.context[i]), obs, atol=1e-6)
    assert min(episodes) >= 2


@pytest.mark.parametrize("name", WORLDS)
def test_a_snapshot_goes_on_exactly(name):
    world = WORLDS[name]
    batch, rng = Hosted(world).batch(3), np.random.default_rng(1)
    batch.reset(seeds=[4, 5, 6])
    actions = [_actions(world, rng, 3) for _ in range(20)]
    for action in actions[:10]:
        batch.step(action)
    saved = batch.snapshot()
    expected = [batch.step(action) for action in actions[10:]]
    later = batch.reset()
    other = Hosted(world).batch(3)
    other.restore(saved)
    np.testing.assert_array_equal(other.context.shape, (3, world.context_dim))
    for action, step in zip(actions[10:], expected, strict=True):
        for mine, theirs in zip(other.step(action), step, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(other.reset(), later)


def test_copies_that_are_not_named_stand_still():
    """The third copy is stepped three times, the first twice, the second not at all."""
    some, everyone = (Hosted(WORLDS["point"]).batch(3) for _ in range(2))
    first = some.reset(seeds=[1, 2, 3])
    everyone.reset(seeds=[1, 2, 3])
    push = np.ones((3, 2), np.float32)
    moved = [some.step(push[: len(rows)], rows).obs for rows in ([0, 2], [2], [0, 2])]
    expected = [everyone.step(push).obs for _ in range(3)]
    np.testing.assert_array_equal(moved[-1], [expected[1][0], expected[2][2]])
    np.testing.assert_array_equal(some.snapshot()["state/0"][1], first[1, :2])
    np.testing.assert_array_equal(some.step(push[:1], [False, True, False]).obs[0], expected[0][1])


def test_it_is_a_task_on_the_host_equal_by_its_environment():
    task = Hosted(PointMaze().on_device())
    assert isinstance(task, HostTask)
    assert isinstance(task.batch(1), BatchEnvironment)
    assert (task, hash(task)) == (Hosted(PointMaze().on_device()), hash(Hosted(PointMaze().on_device())))
    assert task.evaluation() == Hosted(PointMaze().on_device().evaluation())
    assert (task.ends_on_success, task.evaluation().ends_on_success) == (False, True)
    assert (task.batch(2).obs_dim, task.batch(2).context_dim, task.batch(2).context.shape) == (5, 2, (2, 2))


@pytest.mark.parametrize(
    ("name", "actions", "message"),
    [
        ("maze", [0, 4], "actions must be 2 integers from 0 to 3"),
        ("maze", [0, -1], "actions must be 2 integers"),
        ("maze", [0.0, 1.0], "actions must be 2 integers"),
        ("maze", [0], "actions must be 2 integers"),
        ("point", [[0.0, np.nan], [0.0, 0.0]], "actions must be 2 rows of 2 finite numbers"),
        ("point", [[0.0, 0.0]], "actions must be 2 rows"),
    ],
)
def test_actions_that_are_none_are_refused_and_nothing_moves(name, actions, message):
    batch = Hosted(WORLDS[name]).batch(2)
    batch.reset()
    with pytest.raises(ValueError, match=message):
        batch.step(actions)
    assert batch.steps.tolist() == [0, 0]


def test_copies_must_be_reset_before_they_are_stepped_and_snapshots_must_fit():
    batch = Hosted(WORLDS["maze"]).batch(2)
    with pytest.raises(RuntimeError, match="reset the copies"):
        batch.step([0, 0])
    with pytest.raises(ValueError, match="not of 3 copies of this environment: 'seeds' does not fit"):
        Hosted(WORLDS["maze"]).batch(3).restore(batch.snapshot())
    with pytest.raises(ValueError, match="num_envs must be at least 1"):
        Hosted(WORLDS["maze"]).batch(0)


def test_copies_tell_what_other_targets_would_pay_if_the_environment_does():
    batch = Hosted(WORLDS["point"]).batch(3)
    batch.reset(seeds=np.arange(3))
    step = batch.step(np.ones((3, 2), np.float32))
    reward, ended = batch.outcome(step.obs[:, :2], batch.context)
    np.testing.assert_allclose(reward, step.reward, rtol=1e-5)
    np.testing.assert_array_equal(ended, step.terminated)
    assert Hosted(WORLDS["hidden target"]).batch(1).outcome is None
    assert Hosted(WORLDS["maze"]).batch(1).outcome is None
