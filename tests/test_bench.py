import jax
import jax.numpy as jnp
import pytest

from hrac.experiments.bench import flops
from hrac.nets import MLP

NETWORK = MLP.init(jax.random.key(0), (3, 5, 2))
INPUTS = jnp.zeros((7, 3))
FORWARD = 2 * 7 * (3 * 5 + 5 * 2)


def _loss(network):
    return jnp.sum(jax.vmap(network)(INPUTS))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda: jax.vmap(NETWORK)(INPUTS), FORWARD),
        # forward, gradients of both weights, and the gradient passed back through the second layer
        (lambda: jax.grad(_loss)(NETWORK), FORWARD + FORWARD + 2 * 7 * 5 * 2),
        (jax.jit(lambda: jax.lax.scan(lambda c, _: (c @ c, None), jnp.ones((3, 3)), None, length=4)[0]), 4 * 2 * 27),
    ],
    ids=["forward", "gradient", "loop"],
)
def test_operations_of_matrix_products_are_counted(function, expected):
    assert flops(function) == expected
