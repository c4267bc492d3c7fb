"""What belongs to both levels: who corrects by whom, and the average of the actors over time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrac.agents import agent as agents
from hrac.agents import controller, manager
from hrac.agents.agent import Averaged
from hrac.agents.decide import Actors
from hrac.agents.td3 import Transition
from hrac.agents.windows import Window
from hrac.config import replace
from hrac.experiments import tasks
from hrac.nets import MLP
from hrac.worlds.make import make_setup


def _actors(number):
    net = MLP((jnp.full((1, 1), number),), (jnp.full(1, 10.0 * number),))
    return Actors(net, net, None)


NOTHING = Transition(jnp.zeros((1, 1)), jnp.zeros((1, 1)), jnp.zeros(1), jnp.zeros((1, 1)), jnp.zeros(1, bool))
NO_WINDOW = Window(NOTHING, jnp.zeros((1, 1, 1)), jnp.zeros((1, 1, 1)), jnp.zeros((1, 1), bool))
"""Batches that nobody looks at."""


def _numbers(averaged):
    return float(averaged.actors.manager.weights[0][0, 0]), float(averaged.actors.controller.biases[0][0])


@pytest.mark.parametrize(
    ("rounds", "share", "rate"),
    [
        (0, 0.02, 1.0),  # the untrained actors are forgotten at once
        (10, 0.02, 0.5),
        (90, 0.02, 0.1),  # a tenth of the rounds so far
        (990, 0.02, 0.02),
        (90, 0.5, 0.5),
    ],
)
def test_the_average_moves_by_the_share_or_by_one_that_spans_a_tenth_of_all_rounds(rounds, share, rate):
    averaged = Averaged(_actors(2.0), jnp.asarray(rounds)).including(_actors(4.0), share)
    np.testing.assert_allclose(_numbers(averaged), (2.0 + 2.0 * rate, 20.0 + 20.0 * rate), rtol=1e-6)
    assert averaged.rounds == rounds + 1


def _setup(averaging=0):
    small = {"manager.hidden": (4,), "controller.hidden": (4,), "adjacency.hidden": (4,)}
    config = replace(tasks.config_for("point-maze"), small | {"training.averaging_env_steps": averaging})
    return make_setup(tasks.make_env(config), config)


def test_the_policy_is_the_average_with_the_newest_adjacency_network():
    agent = agents.init(jax.random.key(0), _setup(averaging=1000))
    other = agents.init(jax.random.key(1), _setup(averaging=1000))
    agent = agent._replace(averaged=other.averaged)
    expected = other.actors._replace(embedding=agent.actors.embedding)
    assert all(map(np.array_equal, jax.tree.leaves(agent.policy), jax.tree.leaves(expected)))


def test_without_an_average_the_policy_is_the_actors():
    agent = agents.init(jax.random.key(0), _setup())
    assert agent.averaged is None
    assert agent.policy == agent.actors


@pytest.mark.parametrize("steps", [1, 20])
def test_an_average_over_less_than_a_round_is_the_newest_actors(steps, monkeypatch):
    setup = _setup(averaging=steps)
    agent = agents.init(jax.random.key(0), setup)
    learned = agents.init(jax.random.key(1), setup)
    late = agent.averaged._replace(rounds=jnp.asarray(1000))
    monkeypatch.setattr(agents, "_learn", lambda *_: (learned._replace(averaged=late), {}))
    result, _ = agents.learn(jax.random.key(2), agent, NOTHING, None, setup)
    for new, mean in zip(jax.tree.leaves(learned.actors), jax.tree.leaves(result.policy), strict=True):
        np.testing.assert_allclose(mean, new, rtol=1e-5, atol=1e-7)


def test_windows_are_corrected_by_the_updated_controller(monkeypatch):
    setup = _setup()
    agent = agents.init(jax.random.key(0), setup)
    updated = agents.init(jax.random.key(1), setup).controller
    given = []
    monkeypatch.setattr(controller, "learn", lambda *_: (updated, {"controller/x": jnp.ones(())}))
    monkeypatch.setattr(
        manager, "learn", lambda _key, level, actor, *_: (given.append(actor) or level, {"manager/y": jnp.ones(())})
    )
    result, metrics = agents.learn(jax.random.key(2), agent, NOTHING, NO_WINDOW, setup)
    (actor,) = given
    assert actor is updated.actor
    assert result.controller is updated
    assert metrics.keys() == {"controller/x", "manager/y"}
