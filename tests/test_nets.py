import jax
import jax.numpy as jnp
import numpy as np

from hrac.nets import MLP


def test_the_networks_of_several_runs_are_on_the_host_what_they_are_on_the_device():
    networks = jax.vmap(lambda key: MLP.init(key, (5, 16, 16, 3)))(jax.random.split(jax.random.key(0), 2))
    inputs = jax.random.normal(jax.random.key(1), (2, 7, 5))
    one_by_one = jax.vmap(jax.vmap(lambda network, x: network(x), (None, 0)))(networks, inputs)
    on_host = jax.device_get(networks)(np.asarray(inputs))
    assert isinstance(on_host, np.ndarray)
    np.testing.assert_allclose(on_host, one_by_one, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(networks(inputs), one_by_one, rtol=1e-4, atol=1e-5)


def test_inputs_may_have_any_number_of_axes_behind_that_of_the_runs():
    networks = jax.device_get(jax.vmap(lambda key: MLP.init(key, (2, 8, 3)))(jax.random.split(jax.random.key(0), 2)))
    inputs = np.random.default_rng(0).normal(size=(2, 4, 5, 2)).astype(np.float32)
    whole = networks(inputs)
    assert whole.shape == (2, 4, 5, 3)
    for run in range(2):
        one = jax.tree.map(lambda leaf, r=run: leaf[r], networks)
        np.testing.assert_allclose(whole[run], one(inputs[run]), rtol=1e-5, atol=1e-6)


def test_a_layer_norm_by_hand():
    """Sums 1, 3, 5 less their mean are -2, 0, 2, with variance 8 / 3; the gains are 1, 1, 2, the shifts 0, 1, 0."""
    network = MLP(
        (np.array([[1.0, 3.0, 5.0]]), np.ones((3, 1))),
        (np.zeros(3), np.zeros(1)),
        (np.array([1.0, 1.0, 2.0]),),
        (np.array([0.0, 1.0, 0.0]),),
    )
    expected = 0.0 + 1.0 + 2.0 * 2.0 / np.sqrt(8 / 3)
    np.testing.assert_allclose(network(np.array([[1.0]])), [[expected]], rtol=1e-4)
    np.testing.assert_allclose(network(np.array([[7.0]])), [[expected]], rtol=1e-4)  # the size of the input does not count
    np.testing.assert_allclose(jax.tree.map(jnp.asarray, network)(jnp.array([1.0])), [expected], rtol=1e-4)


def test_networks_of_several_runs_have_their_own_layer_norms():
    networks = jax.vmap(lambda key: MLP.init(key, (5, 16, 16, 3), layer_norm=True))(jax.random.split(jax.random.key(0), 2))
    networks = networks._replace(gains=jax.tree.map(lambda gain: gain + jnp.array([[0.0], [1.0]]), networks.gains))
    inputs = jax.random.normal(jax.random.key(1), (2, 7, 5))
    one_by_one = jax.vmap(jax.vmap(lambda network, x: network(x), (None, 0)))(networks, inputs)
    np.testing.assert_allclose(jax.device_get(networks)(np.asarray(inputs)), one_by_one, rtol=1e-4, atol=1e-5)
