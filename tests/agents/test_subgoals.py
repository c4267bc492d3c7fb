import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrac.agents.subgoals import SubgoalSpace, reached
from hrac.settings import A2C, TD3

ABSOLUTE = SubgoalSpace(False, (0.0, 0.0), (12.0, 16.0))
RELATIVE = SubgoalSpace(True, (0.0, 0.0), (12.0, 16.0))


def test_transition_of_relative_subgoals_is_that_of_the_published_code(golden):
    data = {name: jnp.asarray(golden("losses")[name], jnp.float32) for name in ("gt_g", "gt_s", "gt_next", "gt_out")}
    ours = jax.vmap(RELATIVE.transition)(data["gt_g"], data["gt_s"], data["gt_next"])
    np.testing.assert_allclose(ours, data["gt_out"], atol=1e-5)


def test_a_relative_subgoal_keeps_asking_for_the_same_point():
    subgoal, here, there = jnp.array([2.0, -3.0]), jnp.array([5.0, 5.0]), jnp.array([6.0, 5.0])
    moved = RELATIVE.transition(subgoal, here, there)
    np.testing.assert_allclose(moved, [1.0, -3.0])
    np.testing.assert_allclose(RELATIVE.target(moved, there), RELATIVE.target(subgoal, here))


def test_an_absolute_subgoal_does_not_change():
    subgoal = jnp.array([2.0, 3.0])
    np.testing.assert_array_equal(ABSOLUTE.transition(subgoal, jnp.zeros(2), jnp.ones(2)), subgoal)
    np.testing.assert_array_equal(ABSOLUTE.target(subgoal, jnp.ones(2)), subgoal)


@pytest.mark.parametrize(
    ("space", "lowest", "middle", "highest"),
    [(ABSOLUTE, [0, 0], [6, 8], [12, 16]), (RELATIVE, [-12, -16], [0, 0], [12, 16])],
)
def test_squash_covers_the_range(space, lowest, middle, highest):
    for raw, expected in ((-50.0, lowest), (0.0, middle), (50.0, highest)):
        np.testing.assert_allclose(space.squash(jnp.full(2, raw)), expected, atol=1e-5)


@pytest.mark.parametrize("space", [ABSOLUTE, RELATIVE])
def test_uniform_subgoals_ask_for_points_all_over_the_map(space):
    position = jnp.array([3.0, 4.0])
    everywhere = jnp.broadcast_to(position, (4000, 2))
    subgoals = space.uniform(jax.random.uniform(jax.random.key(0), (4000, 2)), everywhere)
    targets = np.asarray(space.target(subgoals, everywhere))
    assert targets.min() >= 0.0
    assert (targets.max(axis=0) <= [12.0, 16.0]).all()
    np.testing.assert_allclose(targets.mean(axis=0), [6.0, 8.0], atol=0.3)
    np.testing.assert_allclose(targets.std(axis=0), np.array([12.0, 16.0]) / np.sqrt(12), rtol=0.05)


def test_noise_is_clipped_to_the_range():
    noise = 3.0 * jax.random.normal(jax.random.key(0), (500, 2))
    noisy = np.asarray(ABSOLUTE.explore(jnp.broadcast_to(jnp.array([11.0, 8.0]), noise.shape), noise))
    assert noisy[:, 0].max() == 12.0
    np.testing.assert_allclose(noisy[:, 1].std(), 3.0, rtol=0.1)


def test_the_controller_may_be_shown_where_an_absolute_subgoal_lies():
    subgoal, position = jnp.array([5.0, 5.0]), jnp.array([3.0, 7.0])
    np.testing.assert_array_equal(ABSOLUTE.shown(subgoal, position), [5.0, 5.0])
    np.testing.assert_array_equal(ABSOLUTE._replace(shown_relative=True).shown(subgoal, position), [2.0, -2.0])
    np.testing.assert_array_equal(RELATIVE._replace(shown_relative=True).shown(subgoal, position), [5.0, 5.0])


@pytest.mark.parametrize(("target", "expected"), [([3.5, 4.5], True), ([3.51, 4.0], False), ([3.0, 4.0], True)])
def test_reached_within_half_a_cell_in_both_coordinates(target, expected):
    assert bool(reached(jnp.array(target), jnp.array([3.0, 4.0]), A2C(reach_radius=0.5))) is expected


@pytest.mark.parametrize(("target", "expected"), [([6.0, 8.0], True), ([6.0, 8.01], False), ([8.0, 4.0], True)])
def test_reached_within_a_circle(target, expected):
    cfg = TD3(reach_radius=5.0, reach_measure="euclidean")
    assert bool(reached(jnp.array(target), jnp.array([3.0, 4.0]), cfg)) is expected


def test_a_point_as_a_subgoal_stands_for_that_point():
    point, position = jnp.array([5.0, 5.0]), jnp.array([3.0, 7.0])
    for space, subgoal in ((ABSOLUTE, [5.0, 5.0]), (RELATIVE, [2.0, -2.0])):
        np.testing.assert_array_equal(space.towards(point, position), subgoal)
        np.testing.assert_array_equal(space.target(space.towards(point, position), position), point)
