import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrac.adjacency import network
from hrac.adjacency.network import PairBatch, accuracy, contrastive_loss, distance
from hrac.nets import MLP
from hrac.settings import AdjacencyConfig

SMALL = AdjacencyConfig(hidden=(16,), embedding_dim=4)


@pytest.fixture(scope="module")
def embedding():
    return jax.jit(network.init, static_argnums=(1, 2))(jax.random.key(0), 2, SMALL).embedding


def identity(dimensions):
    """An embedding that leaves points where they are, so that learned distance is Euclidean."""
    return MLP((jnp.eye(dimensions),), (jnp.zeros(dimensions),))


def loss_at(apart, adjacent):
    return contrastive_loss(apart, jnp.asarray(adjacent), 1.0, 0.2)


@pytest.mark.parametrize(
    ("adjacent", "apart", "loss", "slope"),
    [
        (True, 0.4, 0.0, 0.0),
        (True, 1.7, 0.7, 1.0),  # beyond epsilon = 1: drawn in
        (False, 0.5, 0.7, -1.0),  # within epsilon + delta = 1.2: pushed out
        (False, 1.1, 0.1, -1.0),  # the margin itself is not enough
        (False, 1.5, 0.0, 0.0),
    ],
)
def test_contrastive_loss_on_both_sides_of_both_hinges(adjacent, apart, loss, slope):
    value, gradient = jax.value_and_grad(loss_at)(jnp.asarray(apart), adjacent)
    assert float(value) == pytest.approx(loss, abs=1e-6)
    assert float(gradient) == slope


def test_contrastive_loss_is_the_published_one(golden):
    data = golden("losses")
    apart = jax.vmap(distance, (None, 0, 0))(identity(32), jnp.asarray(data["x"]), jnp.asarray(data["y"]))
    losses = jax.vmap(loss_at)(apart, jnp.asarray(data["label"] == 1.0))
    assert float(jnp.mean(losses)) == pytest.approx(float(data["loss"]), rel=1e-5)


def test_distance_is_euclidean_between_embeddings():
    double = MLP((2.0 * jnp.eye(2),), (jnp.array([5.0, -5.0]),))
    assert float(distance(double, jnp.array([1.0, 1.0]), jnp.array([4.0, 5.0]))) == pytest.approx(10.0)


def test_distance_is_symmetric_and_zero_to_itself(embedding):
    a, b = jnp.array([1.0, 2.0]), jnp.array([-3.0, 0.5])
    assert float(distance(embedding, a, b)) == float(distance(embedding, b, a)) > 0.0
    assert float(distance(embedding, a, a)) == pytest.approx(0.0, abs=1e-5)


def test_the_gradient_is_finite_where_a_pair_coincides(embedding):
    point = jnp.array([1.0, 2.0])
    gradients = jax.grad(distance, argnums=(0, 1))(embedding, point, point)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))


def test_the_network_has_the_papers_layers():
    made = jax.eval_shape(lambda key: network.init(key, 2, AdjacencyConfig()), jax.random.key(0))
    assert [weight.shape for weight in made.embedding.weights] == [(2, 128), (128, 128), (128, 128), (128, 32)]


def test_update_reports_the_weighted_mean_loss_and_lowers_it():
    state = network.AdjacencyState(identity(1), network.optimiser(SMALL).init(identity(1)))
    batch = PairBatch(
        first=jnp.array([[0.0], [0.0]]),
        second=jnp.array([[3.0], [0.5]]),
        adjacent=jnp.array([True, False]),
        weight=jnp.array([0.5, 1.5]),
    )
    update = jax.jit(network.update, static_argnames="cfg")
    state, before = update(state, batch, cfg=SMALL)
    _, after = update(state, batch, cfg=SMALL)
    assert float(before) == pytest.approx((0.5 * (3.0 - 1.0) + 1.5 * (1.2 - 0.5)) / 2)
    assert float(after) < float(before)


@pytest.mark.parametrize(
    ("near", "share"),
    [
        ([(0, 1), (1, 2)], 1.0),  # what distances 1, 1 and 2 say under a threshold of 1.1
        ([(0, 1)], 4 / 6),
        ([(0, 2)], 0.0),
        ([(0, 1), (1, 2), (0, 2)], 4 / 6),
    ],
)
@pytest.mark.parametrize("to_itself", [True, False])
def test_accuracy_is_the_share_of_pairs_of_different_cells_judged_right(near, share, to_itself):
    truth = np.eye(3, dtype=bool) & to_itself
    for i, j in near:
        truth[i, j] = truth[j, i] = True
    cells = jnp.array([[0.0], [1.0], [2.0]])
    assert float(accuracy(identity(1), cells, jnp.asarray(truth), 1.1)) == pytest.approx(share)
