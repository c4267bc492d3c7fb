"""The manager's inputs on one scale: statistics by hand, the folded network, and a training that uses them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hrac
from hrac.agents import agent as agents
from hrac.agents import inputs, manager
from hrac.experiments import tasks
from hrac.folder.progress import Silent
from hrac.nets import MLP
from hrac.worlds.make import make_setup
from tiny import TWO_TD3

MOST = 1_000


def test_before_anything_is_seen_inputs_stay_as_they_are():
    np.testing.assert_array_equal(inputs.scale(inputs.init(2), jnp.array([3.0, -4.0])), [3.0, -4.0])


def test_the_statistics_are_those_of_all_that_was_seen():
    seen = np.random.default_rng(0).normal([5.0, -1.0], [2.0, 0.1], (60, 2)).astype(np.float32)
    found = inputs.init(2)
    for first, last in ((0, 10), (10, 11), (11, 60)):
        found = inputs.see(found, jnp.asarray(seen[first:last]), MOST)
    assert found.number == 60
    np.testing.assert_allclose(found.mean, seen.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(found.variance, seen.var(axis=0), rtol=1e-4)
    scaled = inputs.scale(found, jnp.asarray(seen))
    np.testing.assert_allclose(scaled.mean(axis=0), [0.0, 0.0], atol=1e-4)
    np.testing.assert_allclose(scaled.std(axis=0), [1.0, 1.0], rtol=1e-4)
    np.testing.assert_allclose(inputs.unscale(found, scaled), seen, rtol=1e-4, atol=1e-5)


def test_they_stay_once_they_are_of_enough():
    found = inputs.see(inputs.init(1), jnp.array([[1.0], [3.0]]), 2)
    later = inputs.see(found, jnp.array([[100.0]]), 2)
    assert (found.mean.tolist(), found.variance.tolist()) == ([2.0], [1.0])
    jax.tree.map(np.testing.assert_array_equal, later, found)
    assert inputs.see(found, jnp.array([[100.0]]), 10_000_000_000).number == 3  # more than a 32-bit number holds


def test_an_input_that_never_varies_is_moved_to_zero():
    found = inputs.see(inputs.init(1), jnp.full((5, 1), 7.0), MOST)
    assert inputs.scale(found, jnp.array([7.0])).tolist() == [0.0]
    np.testing.assert_allclose(inputs.scale(found, jnp.array([7.1])), [0.1], rtol=1e-5)


@pytest.mark.parametrize("runs", [(), (3,)])
def test_a_folded_network_does_the_same_without_scaling(runs):
    keys = jax.random.split(jax.random.key(0), runs or 1)
    network = jax.vmap(lambda key: MLP.init(key, (4, 8, 2)))(keys)
    seen = 10.0 + 3.0 * jax.random.normal(jax.random.key(1), (len(keys), 50, 4))
    found = jax.vmap(lambda each: inputs.see(inputs.init(4), each, MOST))(seen)
    if not runs:
        network, found, seen = jax.tree.map(lambda leaf: leaf[0], (network, found, seen))
    folded = inputs.fold(found, network)
    scaled = inputs.scale(found, seen) if not runs else jax.vmap(inputs.scale)(found, seen)
    np.testing.assert_allclose(folded(seen), network(scaled), rtol=1e-3, atol=1e-4)


OURS = {
    "manager__scale_env_steps": 600,
    "manager__critic_layer_norm": True,
    "manager__value_scale": "mean",
    "controller__critic_layer_norm": True,
    "controller__action_share": 0.5,
}


def test_a_training_with_all_of_ours_is_resumed_exactly_and_its_policy_acts(tmp_path):
    whole = hrac.train("point-maze", steps=1200, seeds=2, out=tmp_path / "whole", display=Silent(), **TWO_TD3, **OURS)
    hrac.train("point-maze", steps=800, seeds=2, out=tmp_path / "parts", display=Silent(), **TWO_TD3, **OURS)
    hrac.resume(tmp_path / "parts", steps=1200, display=Silent())
    texts = [(tmp_path / name / "metrics.csv").read_text() for name in ("whole", "parts")]
    assert texts[0] == texts[1]
    assert whole.finished
    policy = hrac.load(tmp_path / "whole", 1)
    assert policy.setup.actions.squash(np.full(2, 100.0, np.float32)).tolist() == [0.5, 0.5]  # of -1 to 1
    evaluations = hrac.evaluate(tmp_path / "whole", episodes=3)
    assert len({row.means["eval/return"] for row in evaluations}) == 2  # the seeds have their own networks


def test_each_of_ours_arrives_where_it_belongs():
    config = hrac.config.replace(
        tasks.config_for("point-maze"), {name.replace("__", "."): value for name, value in OURS.items()}
    )
    setup = make_setup(tasks.make_env(config), config)
    agent = jax.eval_shape(lambda: agents.init(jax.random.key(0), setup))
    assert agent.seen.mean.shape == (setup.obs_dim,)
    assert [len(level.critics[0].gains) for level in (agent.manager, agent.controller)] == [2, 2]
    assert setup.actions.share == 0.5
    assert manager.settings(config).value_scale == "mean"
    plain = make_setup(tasks.make_env(tasks.config_for("point-maze")), tasks.config_for("point-maze"))
    assert jax.eval_shape(lambda: agents.init(jax.random.key(0), plain)).seen is None
