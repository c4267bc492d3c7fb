"""The adjacency network: an embedding of goal space whose distances show which points are within k steps (Eq. 10, 11)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from hrac.nets import MLP, descend
from hrac.settings import AdjacencyConfig
from hrac.spaces import AnyArray


class AdjacencyState(NamedTuple):
    """The embedding psi and its optimiser's state."""

    embedding: MLP
    opt_state: optax.OptState


class PairBatch(NamedTuple):
    """Pairs of positions, whether each is adjacent, and its weight in the mean."""

    first: Float[AnyArray, "*n goal"]
    second: Float[AnyArray, "*n goal"]
    adjacent: Bool[AnyArray, "*n"]
    weight: Float[AnyArray, "*n"]


def optimiser(cfg: AdjacencyConfig) -> optax.GradientTransformation:
    """Adam, Table 3."""
    return optax.adam(cfg.learning_rate)


def init(key: PRNGKeyArray, dimensions: int, cfg: AdjacencyConfig) -> AdjacencyState:
    """An untrained network."""
    embedding = MLP.init(key, (dimensions, *cfg.hidden, cfg.embedding_dim))
    return AdjacencyState(embedding, optimiser(cfg).init(embedding))


def distance(embedding: MLP, first: Float[AnyArray, "*m goal"], second: Float[AnyArray, "*n goal"]) -> Float[AnyArray, "*n"]:
    """|| psi(g1) - psi(g2) ||, the learned distance: below epsilon within k steps, above epsilon + delta beyond.

    For NumPy and JAX alike, on trailing axes; `first` may have axes of length 1 where `second` has more.
    """
    return _norm(embedding(first) - embedding(second))


def contrastive_loss(separation: Float[Array, ""], adjacent: Bool[Array, ""], epsilon: float, delta: float) -> Float[Array, ""]:
    """Eq. 11 for one pair at embedding distance `separation`:  l max(d - eps, 0) + (1 - l) max(eps + delta - d, 0)."""
    return jnp.where(adjacent, jax.nn.relu(separation - epsilon), jax.nn.relu(epsilon + delta - separation))


def update(state: AdjacencyState, batch: PairBatch, cfg: AdjacencyConfig) -> tuple[AdjacencyState, Float[Array, ""]]:
    """One gradient step on a weighted minibatch of pairs."""

    def loss(embedding: MLP) -> Float[Array, ""]:
        separations = jax.vmap(distance, (None, 0, 0))(embedding, batch.first, batch.second)
        losses = jax.vmap(contrastive_loss, (0, 0, None, None))(separations, batch.adjacent, cfg.epsilon, cfg.delta)
        return jnp.mean(batch.weight * losses)

    value, grads = jax.value_and_grad(loss)(state.embedding)
    return AdjacencyState(*descend(optimiser(cfg), grads, state.opt_state, state.embedding)), value


def accuracy(
    embedding: MLP, cells: Float[Array, "cells goal"], truth: Bool[Array, "cells cells"], threshold: float
) -> Float[Array, ""]:
    """Share of the pairs of different cells whose judged adjacency is the true one."""
    points = embedding(cells)
    separations = _norm(points[:, None] - points[None, :])
    right = ((separations < threshold) == truth) & ~jnp.eye(len(cells), dtype=bool)
    return jnp.sum(right.astype(jnp.float32)) / (len(cells) * (len(cells) - 1))


def _norm(x: Float[AnyArray, "*n embedding"]) -> Float[AnyArray, "*n"]:
    # The small constant keeps the gradient finite where both points of a pair are the same.
    xp = x.__array_namespace__()
    return xp.sqrt(xp.sum(x * x, axis=-1) + 1e-12)
