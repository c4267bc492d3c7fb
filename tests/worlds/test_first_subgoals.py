"""What is proposed before the manager has begun to learn, on the host and on the device."""

import jax.numpy as jnp
import numpy as np
import pytest

from hrac.agents.subgoals import SubgoalSpace

MAP = {"low": (-4.0, -4.0), "high": (12.0, 20.0)}


@pytest.mark.parametrize("xp", [np, jnp], ids=["host", "device"])
def test_without_a_range_first_subgoals_ask_for_points_of_the_map(xp):
    space = SubgoalSpace(relative=True, **MAP)
    unit = np.random.default_rng(0).random((1000, 2)).astype(np.float32)
    position = np.random.default_rng(1).uniform(-4, 12, (1000, 2)).astype(np.float32)
    subgoal = space.uniform(xp.asarray(unit), xp.asarray(position))
    target = np.asarray(space.target(subgoal, xp.asarray(position)))
    assert ((target >= -4.0001) & (target <= [12.0001, 20.0001])).all()
    np.testing.assert_allclose(target, [-4.0, -4.0] + unit * np.array([16.0, 24.0]), atol=1e-5)


@pytest.mark.parametrize("xp", [np, jnp], ids=["host", "device"])
def test_with_a_range_they_are_within_it(xp):
    space = SubgoalSpace(relative=True, reach=10.0, **MAP)
    unit = xp.asarray([[0.0, 0.5], [0.25, 1.0]], dtype=xp.float32)
    assert np.asarray(space.uniform(unit, xp.zeros((2, 2), dtype=xp.float32))).tolist() == [[-10.0, 0.0], [-5.0, 10.0]]


def test_absolute_ones_are_points_of_the_map():
    space = SubgoalSpace(relative=False, **MAP)
    unit = np.array([[0.0, 0.5], [0.25, 1.0]], np.float32)
    assert space.uniform(unit, np.ones((2, 2), np.float32)).tolist() == [[-4.0, 8.0], [0.0, 20.0]]
