import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrac.adjacency.table import AdjacencyTable
from hrac.adjacency.ways import next_cells
from hrac.agents import manager
from hrac.agents.decide import Setup
from hrac.agents.subgoals import SubgoalSpace
from hrac.agents.td3 import Settings
from hrac.config import replace
from hrac.experiments import tasks
from hrac.nets import MLP
from hrac.spaces import Discrete

ANTS = tasks.config_for("ant-maze")


def test_the_manager_has_the_settings_of_the_configuration():
    cfg = replace(
        ANTS,
        {
            "manager.reward_scale": 0.3,
            "manager.critic_weight_decay": 2e-4,
            "manager.target_noise_sigma": 0.4,
            "manager.target_noise_clip": 0.6,
            "manager.output_penalty": 0.01,
            "manager.search_candidates": 7,
            "manager.noise_sigma": (0.5, 2.0),
        },
    )
    searching = {"search_candidates": 7, "search_sigma": (0.5, 2.0)}
    assert manager.settings(cfg) == Settings(
        (300, 300), 1e-4, 1e-3, 0.005, 0.99, 0.3, 20.0, True, 2e-4, 0.4, 0.6, 0.01, **searching
    )


def _too_far(relative, subgoal):
    """From (3, 4), in an embedding that doubles distances, with a hinge of 1."""
    setup = Setup(SubgoalSpace(relative, (0.0, 0.0), (20.0, 20.0)), Discrete(4), 3, replace(ANTS, {"manager.hinge": 1.0}))
    double = MLP((2.0 * jnp.eye(2),), (jnp.array([5.0, -5.0]),))
    excess = manager.too_far(double, setup)
    return jax.value_and_grad(excess, argnums=1)(jnp.array([3.0, 4.0, 99.0]), jnp.asarray(subgoal))


@pytest.mark.parametrize(
    ("relative", "subgoal", "expected", "slope"),
    [
        (False, [6.0, 8.0], 9.0, [1.2, 1.6]),  # (3, 4) away: 10 in the embedding, 9 beyond the hinge
        (True, [3.0, 4.0], 9.0, [1.2, 1.6]),
        (False, [3.0, 4.0], -1.0, [0.0, 0.0]),  # where it stands
        (True, [6.0, 8.0], 19.0, [1.2, 1.6]),
        (False, [3.3, 4.4], 0.0, [1.2, 1.6]),  # half a unit away: at the hinge
        (True, [0.24, 0.32], -0.2, [1.2, 1.6]),
        (True, [-0.6, 0.8], 1.0, [-1.2, 1.6]),
    ],
)
def test_a_subgoal_is_too_far_by_what_its_point_lies_beyond_the_hinge(relative, subgoal, expected, slope):
    value, gradient = _too_far(relative, subgoal)
    assert float(value) == pytest.approx(expected, abs=1e-5)
    assert gradient.tolist() == pytest.approx(slope, abs=1e-5)


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize(
    ("position", "target", "point", "expected", "slope"),
    [
        ([0.0, 0.0], [3.0, 0.0], [1.0, 2.0], 4.0, [0.0, 2.0]),  # the next cell is (1, 0), 2 from the subgoal, twice that here
        ([0.2, -0.4], [3.0, 0.0], [4.0, 4.0], 10.0, [1.2, 1.6]),  # from anywhere in the cell
        ([3.0, 0.0], [3.3, 0.2], [3.3, 0.7], 1.0, [0.0, 2.0]),  # in its cell: the target itself
        ([1.0, 0.0], [3.3, 0.2], [3.3, 0.7], 1.0, [0.0, 2.0]),  # so it is from the cell before
        ([1.0, 0.0], [9.0, 0.0], [3.0, 0.5], 1.0, [0.0, 2.0]),  # nobody was at this target; (3, 0) is the nearest cell
        ([3.0, 0.0], [9.0, 0.0], [3.0, 0.5], 0.0, [0.0, 0.0]),  # and from there nothing pulls
        ([0.0, 1.0], [3.0, 0.0], [9.0, 9.0], 0.0, [0.0, 0.0]),  # nobody was there, so there is no way
    ],
)
def test_a_subgoal_is_off_the_way_by_its_distance_from_the_next_cell(relative, position, target, point, expected, slope):
    """On the way (0, 0), (1, 0), (3, 0), in an embedding that doubles distances."""
    cfg = replace(ANTS, {"manager.way_pull": 1.0, "manager.eta": 1.0})
    setup = Setup(SubgoalSpace(relative, (0.0, 0.0), (9.0, 9.0), reach=9.0 if relative else None), Discrete(4), 4, cfg)
    table = AdjacencyTable(1, 1.0, 2)
    table.update(np.array([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0]]), np.zeros(3, int))
    ways = jnp.asarray(next_cells(table, setup.grid))
    away = manager.off_the_way(MLP((2.0 * jnp.eye(2),), (jnp.zeros(2),)), ways, setup)
    subgoal = np.subtract(point, position) if relative else np.array(point)
    value, gradient = jax.value_and_grad(away, argnums=1)(jnp.array(position + target), jnp.asarray(subgoal, jnp.float32))
    assert float(value) == pytest.approx(expected, abs=1e-5)
    assert gradient.tolist() == pytest.approx(slope, abs=1e-5)
