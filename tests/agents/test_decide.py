"""What is proposed, with networks whose answers are known."""

import jax
import jax.numpy as jnp
import numpy as np

from hrac import config as configs
from hrac.agents.decide import Actors, Noise, Setup, propose
from hrac.agents.subgoals import SubgoalSpace
from hrac.config import Config
from hrac.nets import MLP
from hrac.spaces import Discrete

MAP = SubgoalSpace(False, (0.0, 0.0), (2.0, 6.0))
PROPOSE = jax.jit(propose, static_argnames="setup")


def _setup(**changes):
    return Setup(MAP, Discrete(4), 2, configs.replace(Config(), changes))


def _actors(embedding=None):
    manager, controller = (MLP.init(jax.random.key(seed), sizes) for seed, sizes in enumerate([(2, 8, 2), (4, 8, 4)]))
    return Actors(manager, controller, embedding)


def _identity():
    """An embedding that is the position itself, so that adjacent means nearer than 1.1."""
    return MLP((jnp.eye(2),), (jnp.zeros(2),))


def _noise(count, setup, sigma):
    first, second, third = jax.random.split(jax.random.key(0), 3)
    candidates = setup.cfg.manager.candidates
    return Noise(
        first_subgoal=jax.random.uniform(first, (count, 2)),
        subgoals=sigma * jax.random.normal(second, (count, candidates, 2)),
        lottery=jax.random.uniform(third, (count, candidates)),
    )


def _proposed(actors, obs, count, sigma, ready=True):
    setup = _setup()
    seen = jnp.broadcast_to(jnp.asarray(obs), (count, 2))
    return np.asarray(PROPOSE(actors, seen, setup, _noise(count, setup, sigma), jnp.full(count, ready)))


def _plain(actors, obs):
    return np.asarray(MAP.squash(actors.manager(jnp.asarray(obs))))


def test_before_learning_starts_subgoals_are_uniform_and_afterwards_the_managers():
    actors = _actors(_identity())
    early, late = (_proposed(actors, [1.0, 3.0], 400, 0.0, ready) for ready in (False, True))
    np.testing.assert_allclose(early.mean(axis=0), [1.0, 3.0], atol=0.2)
    assert early.std(axis=0).min() > 0.5
    np.testing.assert_allclose(late, np.broadcast_to(_plain(actors, [1.0, 3.0]), late.shape), rtol=1e-5)


def test_candidates_are_adjacent_where_any_is_and_plain_where_none_is():
    actors = _actors(_identity())
    near = _proposed(actors, [1.0, 3.0], 300, 2.0)
    adjacent = np.linalg.norm(near - [1.0, 3.0], axis=1) < 1.1
    assert adjacent.mean() > 0.95
    assert (np.abs(near[~adjacent] - _plain(actors, [1.0, 3.0])) < 1e-5).all()
    far = _proposed(actors, [1.0, 100.0], 300, 2.0)  # no candidate can be adjacent to a place off the map
    np.testing.assert_allclose(far, np.broadcast_to(_plain(actors, [1.0, 100.0]), far.shape), rtol=1e-5)
