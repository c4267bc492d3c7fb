"""Rounds, random behaviour and evaluations with an environment on the host."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrac.config import replace
from hrac.experiments import tasks
from hrac.training import replay
from hrac.training.state import Training
from hrac.worlds import host

LAYOUT = "####\n#A.#\n##.#\n####"
TINY = {
    "k": 4,
    "env.layout": LAYOUT,
    "env.time_limit": 30,
    "manager.hidden": (16,),
    "manager.buffer_windows": 400,
    "manager.start_fraction": 0.1,
    "manager.batch_size": 16,
    "manager.correction_candidates": 3,
    "controller.hidden": (16,),
    "controller.batch_size": 16,
    "controller.buffer_steps": 1000,
    "adjacency.hidden": (16,),
    "adjacency.pretrain_env_steps": 400,
    "training.round_env_steps": 40,
    "training.envs_per_run": 2,
    "training.eval_episodes": 3,
}


def _training(**changes):
    settings = {name.replace("__", "."): value for name, value in changes.items()}
    config = replace(tasks.config_for("point-maze"), TINY | settings)
    return Training(config, tasks.make_env(config))


def _collected(rounds=3, **changes):
    training = _training(**changes)
    collected = [training.world.collect(training.actors(), np.array([True]), index)[0] for index in range(rounds)]
    return training, [each.trajectory for each in collected]


def _blas_threads():
    return [pool["num_threads"] for pool in host._BLAS.info()]


@pytest.mark.parametrize("evaluating", [False, True])
def test_matrix_products_leave_the_cores_to_the_copies(evaluating, monkeypatch):
    training, seen = _training(), []
    batch = type(training.world.env)
    step = batch.step
    monkeypatch.setattr(batch, "step", lambda *arguments: seen.append(_blas_threads()) or step(*arguments))
    with host._BLAS.limit(limits=2, user_api="blas"):
        before = _blas_threads()
        training.evaluate() if evaluating else training.round()
        assert _blas_threads() == before
    assert seen
    assert all(threads == [1] * len(before) for threads in seen)


def test_experience_hangs_together():
    """Within an episode, each step begins where the last one ended, for the same point of goal space."""
    _, rounds = _collected(controller__noise_sigma=0.0)
    steps = jax.tree.map(lambda *leaves: np.concatenate([leaf[0] for leaf in leaves]), *rounds)  # (time, copies, ...)
    done = steps.terminated | steps.truncated
    np.testing.assert_array_equal(done, (np.arange(1, 61) % 30 == 0)[:, None].repeat(2, axis=1))  # the limit is 30 steps
    np.testing.assert_array_equal(steps.clock[:, 0], (np.arange(60) % 30) % 4)
    np.testing.assert_array_equal(steps.last, done | (steps.clock == 3))
    np.testing.assert_array_equal(steps.obs[1:][~done[:-1]], steps.next_obs[:-1][~done[:-1]])
    np.testing.assert_allclose(steps.obs[30, :, 2:5], 0.0)  # at rest, at time 0
    same = ~steps.last[:-1]
    points = steps.obs[..., :2] + steps.subgoal
    np.testing.assert_allclose(points[1:][same], points[:-1][same], atol=1e-5)
    assert (np.abs(steps.subgoal[steps.clock == 0]) <= 4.0).all()
    target = steps.obs[..., 5:7]
    assert (target[:30] == target[0]).all()
    assert not (target[30] == target[0]).any()


def test_rounds_may_be_shorter_than_a_window():
    """20 copies make two steps each in a round of 40, and k is 4."""
    training, rounds = _collected(40, training__envs_per_run=20, manager__buffer_windows=2000, controller__buffer_steps=2000)
    extend, stored = jax.jit(replay.extend), jax.tree.map(lambda leaf: leaf[0], training.runs[0].replay)
    for trajectory in rounds:
        stored = extend(stored, jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), trajectory))
    steps = jax.tree.map(lambda *leaves: np.concatenate([leaf[0] for leaf in leaves]), *rounds)
    assert steps.reward.shape == (80, 20)
    assert int(stored.window_count) == 20 * (8 + 8 + 5)  # episodes of 30 steps have 8 windows, the 20 steps of the third have 5
    ends = np.asarray(stored.window_ends)[: int(stored.window_count)]
    np.testing.assert_array_equal(np.sort(ends), np.flatnonzero(steps.last))
    place, inside = replay.sample_windows(jax.random.key(0), stored, (500,), 4, 20)
    first = steps.obs[steps.clock == 0]
    assert all((row == first).all(axis=1).any() for row in np.asarray(replay.steps_at(stored, place).obs[:, 0]))
    assert set(np.asarray(inside).sum(axis=1).tolist()) == {2, 4}  # 30 = 7 * 4 + 2


def test_what_was_done_is_what_the_controller_does():
    training, rounds = _collected(1, controller__noise_sigma=0.0)
    steps = jax.tree.map(lambda leaf: leaf[0].reshape(-1, *leaf.shape[3:]), rounds[0])
    actors, space = jax.tree.map(lambda leaf: leaf[0], training.actors()[0]), training.setup.space
    expected = jnp.tanh(actors.controller(space.controller_input(jnp.asarray(steps.obs), jnp.asarray(steps.subgoal))))
    np.testing.assert_allclose(steps.action, expected, rtol=1e-4, atol=1e-5)
    proposed = steps.clock == 0
    moved = (steps.subgoal - space.squash(actors.manager(jnp.asarray(steps.obs))))[proposed]
    assert 0.5 < np.abs(moved).mean() < 1.5  # noise of 1, whose mean absolute value is 0.8, clipped at 4


def test_actions_have_the_exploration_noise_of_the_configuration():
    training, rounds = _collected(5, controller__noise_sigma=0.1, training__round_env_steps=80)
    steps = jax.tree.map(lambda *leaves: np.concatenate([leaf[0].reshape(-1, *leaf.shape[3:]) for leaf in leaves]), *rounds)
    controller = jax.device_get(jax.tree.map(lambda leaf: leaf[0], training.actors()[0].controller))
    plain = np.tanh(controller(training.setup.space.controller_input(steps.obs, steps.subgoal)))
    np.testing.assert_allclose((steps.action - plain).std(), 0.1, rtol=0.1)


def test_until_enough_is_stored_subgoals_are_uniform():
    training = _training(training__round_env_steps=400)
    (collected,) = training.world.collect(training.actors(), np.array([False]), 0)
    trajectory = collected.trajectory
    subgoals = trajectory.subgoal[0][trajectory.clock[0] == 0]
    assert np.abs(subgoals).max() <= 4.0
    np.testing.assert_allclose(subgoals.std(axis=0), 4.0 / np.sqrt(3), rtol=0.2)


def test_random_behaviour_stays_in_the_maze_and_differs_between_runs():
    training = _training(seeds=[0, 1])
    walks = training.world.random_walk(150)  # five episodes of 30 steps
    for walk in walks:
        assert walk.position.shape == walk.after.shape == (1, 30, 5, 2)
        np.testing.assert_array_equal(walk.position[:, 1:], walk.after[:, :-1])
        assert not training.world.task.in_wall(walk.after.reshape(-1, 2).astype(np.float64)).any()
        np.testing.assert_array_equal(walk.done[0], np.arange(30)[:, None].repeat(5, axis=1) == 29)
    assert not np.array_equal(walks[0].after, walks[1].after)


def test_random_behaviour_asks_often_whether_to_stop():
    calls = []
    _training().world.random_walk(150, lambda: calls.append(None))
    assert len(calls) == 30


def test_each_round_has_chance_of_its_own():
    training = _training()
    kept, rounds = training.world.snapshot(), []
    for index in (0, 0, 1):
        training.world.restore(kept)
        rounds.append(training.world.collect(training.actors(), np.array([True]), index)[0].trajectory)
    np.testing.assert_array_equal(rounds[0].action, rounds[1].action)
    assert not np.array_equal(rounds[0].action, rounds[2].action)
    assert not np.array_equal(rounds[0].subgoal, rounds[2].subgoal)


def test_a_restored_world_goes_on_as_if_nothing_had_happened():
    training, again = _training(seeds=[3, 5]), _training(seeds=[3, 5])
    actors, ready = training.actors(), np.array([True, True])
    training.world.collect(actors, ready, 0)
    again.world.restore(training.world.snapshot())
    whole, resumed = (one.world.collect(actors, ready, 1) for one in (training, again))
    jax.tree.map(np.testing.assert_array_equal, whole, resumed)
