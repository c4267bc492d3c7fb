"""Inputs of a network on one scale: their running mean and variance, and how they are put into the first layer.

A network that learned on (x - mean) / deviation acts on x by other weights and biases of its first layer (`fold`), so that
whoever acts needs no statistics.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from hrac.nets import MLP

SMALLEST_VARIANCE = 1e-6
"""Inputs that vary less than this are constant: they are moved to 0 and not enlarged."""


class Inputs(NamedTuple):
    """The mean and the variance of inputs, and their number."""

    mean: Float[Array, "*runs inputs"]
    variance: Float[Array, "*runs inputs"]
    number: Float[Array, "*runs"]

    @property
    def deviation(self) -> Float[Array, "*runs inputs"]:
        """The standard deviation; 1 of what is constant."""
        return jnp.where(self.variance < SMALLEST_VARIANCE, 1.0, jnp.sqrt(jnp.maximum(self.variance, SMALLEST_VARIANCE)))


def init(inputs: int) -> Inputs:
    """Before anything was seen, inputs stay as they are."""
    return Inputs(jnp.zeros(inputs), jnp.ones(inputs), jnp.zeros(()))


def see(inputs: Inputs, seen: Float[Array, "n inputs"], most: int) -> Inputs:
    """The statistics with more inputs. They stay as they are once they are of `most` inputs."""
    number = inputs.number + len(seen)
    mean, variance = jnp.mean(seen, axis=0), jnp.var(seen, axis=0)
    share = len(seen) / number
    apart = mean - inputs.mean
    both = (1 - share) * inputs.variance + share * variance + share * (1 - share) * apart**2
    updated = Inputs(inputs.mean + share * apart, both, number)
    going = inputs.number < float(most)  # it may be beyond the largest whole number of the device
    return Inputs(*(jnp.where(going, new, old) for new, old in zip(updated, inputs, strict=True)))


def scale(inputs: Inputs, x: Float[Array, "*n inputs"]) -> Float[Array, "*n inputs"]:
    """Inputs with mean 0 and variance 1."""
    over = (1,) * (x.ndim - 1)
    return (x - inputs.mean.reshape(*over, -1)) / inputs.deviation.reshape(*over, -1)


def unscale(inputs: Inputs, scaled: Float[Array, "*n inputs"]) -> Float[Array, "*n inputs"]:
    """The inputs themselves."""
    over = (1,) * (scaled.ndim - 1)
    return scaled * inputs.deviation.reshape(*over, -1) + inputs.mean.reshape(*over, -1)


def fold(inputs: Inputs, network: MLP) -> MLP:
    """The network that does to inputs what this one does to scaled inputs. All may have a leading axis of runs."""
    weights = network.weights[0] / inputs.deviation[..., :, None]
    biases = network.biases[0] - (inputs.mean[..., None, :] @ weights)[..., 0, :]
    return network._replace(weights=(weights, *network.weights[1:]), biases=(biases, *network.biases[1:]))
