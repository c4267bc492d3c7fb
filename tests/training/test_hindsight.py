"""Targets of the task in hindsight: the manager learns from windows as if a point that was reached had been the target."""

import jax
import numpy as np
import pytest

import hrac
from hrac.config import replace
from hrac.envs.point import PointMaze
from hrac.experiments import tasks
from hrac.training import learn
from hrac.training.state import Training
from hrac.worlds.make import make_setup
from tiny import TWO_TD3

CORNER = PointMaze(layout="####\n#A.#\n##.#\n####", time_limit=22)
SETTINGS = {name.replace("__", "."): value for name, value in TWO_TD3.items()} | {"adjacency.source": "none"}
COPIES = 2


def _stored(share):
    """Some episodes of two points, and what does not change in their training."""
    config = replace(tasks.config_for("point-maze"), SETTINGS | {"manager.hindsight": share})
    training = Training(config, CORNER)
    for _ in range(4):
        training.round()
    return jax.tree.map(lambda leaf: leaf[0], training.runs[0].replay), training.setup


def _drawn(share):
    stored, setup = _stored(share)
    return stored, *jax.jit(learn._drawn_windows, static_argnums=2)(jax.random.key(0), stored, setup)


def _episode(stored, start):
    """Positions after each step from a place to the end of its episode, of one copy."""
    done = np.asarray(stored.steps.terminated | stored.steps.truncated)
    after, place = [], start
    while place < int(stored.step_count):
        after.append(np.asarray(stored.steps.next_obs[place, :2]).tolist())
        if done[place]:
            break
        place += COPIES
    return after


def test_a_target_in_hindsight_was_reached_later_in_the_episode_and_pays_what_it_would_have_paid():
    stored, windows, _ = _drawn(share=1.0)
    targets = np.asarray(windows.obs[..., -2:])
    np.testing.assert_array_equal(targets, np.asarray(windows.next_obs[..., -2:]))
    np.testing.assert_array_equal(targets, np.broadcast_to(targets[..., :1, :], targets.shape))
    positions = np.asarray(stored.steps.obs[:, :5])  # with velocity and time, which tell places apart
    beyond = 0
    for window in np.ndindex(targets.shape[:2]):
        (start,) = np.flatnonzero((positions == np.asarray(windows.obs[(*window, 0)][:5])).all(axis=1))[:1]
        later = _episode(stored, int(start))
        assert targets[(*window, 0)].tolist() in later
        beyond += later.index(targets[(*window, 0)].tolist()) >= 4
        after = np.asarray(windows.next_obs[window][:, :2])
        expected = -np.linalg.norm(after - targets[window], axis=-1)
        np.testing.assert_allclose(np.asarray(windows.reward[window]), expected, rtol=1e-5, atol=1e-6)
    assert beyond > 0.3 * targets.shape[0] * targets.shape[1]  # later than the window itself


@pytest.mark.parametrize("task", ["point-maze", "point-maze-jax"])
def test_equal_trainings_share_their_programs(task):
    config = replace(tasks.config_for(task), SETTINGS | {"manager.hindsight": 0.5})
    first, second = (make_setup(tasks.make_env(config), config) for _ in range(2))
    assert first.outcome is not None
    assert first == second
    assert hash(first) == hash(second)
    flat = replace(tasks.config_for(task, "flat"), {"manager.hindsight": 0.5})
    assert make_setup(tasks.make_env(flat), flat).outcome is None  # nobody asks


WRONG = {
    "one value": (lambda points, targets: points[..., 0], "must return rewards|does not work"),
    "ends as numbers": (lambda points, targets: (points[..., 0], points[..., 0]), "must return rewards .* and booleans"),
    "another shape": (lambda points, targets: (points[:, 0, 0], points[:, 0, 0] > 0), "must return rewards"),
    "NumPy only": (lambda points, targets: (np.asarray(points)[..., 0], points[..., 0] > 0), "does not work with JAX's arrays"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_outcome_that_cannot_be_used_is_one_sentence(name, monkeypatch):
    outcome, message = WRONG[name]
    monkeypatch.setattr(PointMaze, "outcome", staticmethod(outcome))
    config = replace(tasks.config_for("point-maze"), SETTINGS | {"manager.hindsight": 0.5})
    with pytest.raises(hrac.HracError, match=f"manager.hindsight must be 0 on point-maze, whose outcome .*({message})"):
        tasks.make_env(config)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_the_other_windows_are_as_they_happened(share):
    stored, windows, _ = _drawn(share)
    true = {tuple(row) for row in np.asarray(stored.steps.obs[:, -2:]).tolist()}
    kept = [tuple(target) in true for target in np.asarray(windows.obs[..., 0, -2:]).reshape(-1, 2).tolist()]
    assert np.mean(kept) == pytest.approx(1.0 - share, abs=0.12)


def test_rewards_that_the_environment_never_paid_are_learned_from(tmp_path):
    """Only hindsight shows the manager a reward, 1 for each step near the target."""
    values = {}
    for share in (0.0, 0.9):
        settings = TWO_TD3 | {"manager__hindsight": share}
        outcome = hrac.train("own_worlds:OutOfReach", steps=1600, out=tmp_path / f"{share}", display=hrac.Silent(), **settings)
        values[share] = np.asarray(outcome.metrics()["manager/value"])[-1]
    assert values[0.9] > 0.5
    assert abs(values[0.0]) < 0.2
