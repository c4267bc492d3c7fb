"""The one network everything is made of: a multilayer perceptron with array leaves only.

Array-only leaves let plain `jax.vmap`, `lax.scan` and `jax.grad` take it as any other pytree.
"""

import math
from collections.abc import Sequence
from typing import TypeVar

import equinox as eqx
import jax
import optax
from jaxtyping import Array, Float, PRNGKeyArray

Params = TypeVar("Params")


class MLP(eqx.Module):
    """Linear layers with ReLU between them; the last one is linear."""

    weights: tuple[Float[Array, "_ _"], ...]  # each (inputs, outputs)
    biases: tuple[Float[Array, " _"], ...]

    @classmethod
    def init(cls, key: PRNGKeyArray, sizes: Sequence[int]) -> "MLP":
        """Weights and biases uniform in +-1/sqrt(inputs), as in the published code."""
        weights, biases = [], []
        for key_layer, fan_in, fan_out in zip(jax.random.split(key, len(sizes) - 1), sizes[:-1], sizes[1:], strict=True):
            key_weight, key_bias = jax.random.split(key_layer)
            bound = 1.0 / math.sqrt(fan_in)
            weights.append(jax.random.uniform(key_weight, (fan_in, fan_out), minval=-bound, maxval=bound))
            biases.append(jax.random.uniform(key_bias, (fan_out,), minval=-bound, maxval=bound))
        return cls(tuple(weights), tuple(biases))

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        """The output for one input."""
        return self.after_first(self.first(x))

    def first(self, x: Float[Array, " in"]) -> Float[Array, " sums"]:
        """The first layer's sums."""
        return x @ self.weights[0] + self.biases[0]

    def after_first(self, sums: Float[Array, " sums"]) -> Float[Array, " out"]:
        """The output, from the first layer's sums."""
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            sums = jax.nn.relu(sums) @ weight + bias
        return sums


def soft_update(target: Params, source: Params, rate: float) -> Params:
    """Move the target's weights a fraction `rate` towards the source's."""
    return jax.tree.map(lambda t, s: (1.0 - rate) * t + rate * s, target, source)


def descend(
    optimiser: optax.GradientTransformation, grads: Params, opt_state: optax.OptState, params: Params
) -> tuple[Params, optax.OptState]:
    """One optimiser step."""
    with jax.numpy_dtype_promotion("standard"):  # optax raises a float to its integer step count
        updates, opt_state = optimiser.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state
