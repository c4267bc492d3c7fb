"""The multilayer perceptron that all networks are, for NumPy and JAX alike.

It is a pytree of arrays only, so `jax.vmap`, `lax.scan` and `jax.grad` accept it like any other pytree.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float, PRNGKeyArray

from hrac.spaces import AnyArray

Params = TypeVar("Params")


class MLP(NamedTuple):
    """Linear layers with ReLU between them; the last one is linear.

    Inputs are (..., in). The networks of several runs, stacked along a leading axis, take inputs (runs, ..., in).
    """

    weights: tuple[Float[AnyArray, "*runs _ _"], ...]
    """Each (inputs, outputs)."""
    biases: tuple[Float[AnyArray, "*runs _"], ...]
    gains: tuple[Float[AnyArray, "*runs _"], ...] = ()
    """Of a layer norm before each ReLU; empty if there is none."""
    shifts: tuple[Float[AnyArray, "*runs _"], ...] = ()
    """Likewise."""

    @classmethod
    def init(cls, key: PRNGKeyArray, sizes: Sequence[int], layer_norm: bool = False) -> "MLP":
        """Weights and biases uniform in +-1/sqrt(inputs), as in the published code."""
        weights, biases = [], []
        for key_layer, fan_in, fan_out in zip(jax.random.split(key, len(sizes) - 1), sizes[:-1], sizes[1:], strict=True):
            key_weight, key_bias = jax.random.split(key_layer)
            bound = 1.0 / math.sqrt(fan_in)
            weights.append(jax.random.uniform(key_weight, (fan_in, fan_out), minval=-bound, maxval=bound))
            biases.append(jax.random.uniform(key_bias, (fan_out,), minval=-bound, maxval=bound))
        normed = sizes[1:-1] if layer_norm else ()
        return cls(tuple(weights), tuple(biases), tuple(map(jnp.ones, normed)), tuple(map(jnp.zeros, normed)))

    def __call__(self, x: Float[AnyArray, "*n in"]) -> Float[AnyArray, "*n out"]:
        """The outputs for inputs."""
        return self.after_first(self.first(x))

    def first(self, x: Float[AnyArray, "*n in"]) -> Float[AnyArray, "*n sums"]:
        """The first layer's sums."""
        return _linear(x, self.weights[0], self.biases[0])

    def after_first(self, sums: Float[AnyArray, "*n sums"]) -> Float[AnyArray, "*n out"]:
        """The outputs, from the first layer's sums."""
        for layer, (weight, bias) in enumerate(zip(self.weights[1:], self.biases[1:], strict=True)):
            if self.gains:
                sums = _layer_norm(sums, self.gains[layer], self.shifts[layer])
            sums = _linear(_relu(sums), weight, bias)
        return sums


def _linear(x: AnyArray, weight: AnyArray, bias: AnyArray) -> AnyArray:
    runs = weight.shape[:-2]
    rows = x.reshape(*runs, -1, x.shape[-1]) if runs and x.ndim > 3 else x
    between = (1,) * (rows.ndim - bias.ndim)  # a run's bias is the same for all of its inputs
    sums = rows @ weight + bias.reshape(*runs, *between, bias.shape[-1])
    return sums.reshape(*x.shape[:-1], -1)


def _layer_norm(x: AnyArray, gain: AnyArray, shift: AnyArray) -> AnyArray:
    """Inputs (..., width) with mean 0 and variance 1 over the width, times the gain, plus the shift."""
    centred = x - x.mean(axis=-1, keepdims=True)
    deviation = ((centred**2).mean(axis=-1, keepdims=True) + 1e-5) ** 0.5
    runs, between = gain.shape[:-1], (1,) * (x.ndim - gain.ndim)
    gain, shift = (part.reshape(*runs, *between, part.shape[-1]) for part in (gain, shift))
    return centred / deviation * gain + shift


def _relu(x: AnyArray) -> AnyArray:
    return np.maximum(x, 0.0) if isinstance(x, np.ndarray) else jax.nn.relu(x)


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
