"""The adjacency network: an embedding of goal space whose distances show which points are within k steps (Eq. 10, 11).

One network embeds both points of a pair, so their distance is the same both ways. In an irreversible environment two networks
do: one for where a way begins, one for where it ends (paper, Implementation Details).
"""

from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from hrac.nets import MLP, descend
from hrac.settings import AdjacencyConfig
from hrac.spaces import AnyArray


class DirectedEmbedding(NamedTuple):
    """Two networks: the distance from one point to another need not be that of the way back."""

    source: MLP
    target: MLP


Embedding: TypeAlias = MLP | DirectedEmbedding
"""psi: one network, or two."""


class AdjacencyState(NamedTuple):
    """The embedding psi and its optimiser's state."""

    embedding: Embedding
    opt_state: optax.OptState


class PairBatch(NamedTuple):
    """Pairs of positions, whether each second one is within k steps of the first, and the pair's weight in the mean."""

    first: Float[AnyArray, "*n goal"]
    second: Float[AnyArray, "*n goal"]
    adjacent: Bool[AnyArray, "*n"]
    weight: Float[AnyArray, "*n"]


def optimiser(cfg: AdjacencyConfig) -> optax.GradientTransformation:
    """Adam, Table 3."""
    return optax.adam(cfg.learning_rate)


def init(key: PRNGKeyArray, dimensions: int, cfg: AdjacencyConfig) -> AdjacencyState:
    """An untrained network."""
    sizes = (dimensions, *cfg.hidden, cfg.embedding_dim)
    embedding: Embedding = (
        DirectedEmbedding(*(MLP.init(each, sizes) for each in jax.random.split(key))) if cfg.directed else MLP.init(key, sizes)
    )
    return AdjacencyState(embedding, optimiser(cfg).init(embedding))


def distance(
    embedding: Embedding, first: Float[AnyArray, "*#n goal"], second: Float[AnyArray, "*#n goal"]
) -> Float[AnyArray, "*#n"]:
    """|| psi(g1) - psi(g2) ||, the learned distance from g1 to g2: below epsilon within k steps, above epsilon + delta beyond.

    For NumPy and JAX alike, on trailing axes; the others broadcast.
    """
    source, target = _both(embedding)
    return _norm(source(first) - target(second))


def contrastive_loss(separation: Float[Array, ""], adjacent: Bool[Array, ""], epsilon: float, delta: float) -> Float[Array, ""]:
    """Eq. 11 for one pair at embedding distance `separation`:  l max(d - eps, 0) + (1 - l) max(eps + delta - d, 0)."""
    return jnp.where(adjacent, jax.nn.relu(separation - epsilon), jax.nn.relu(epsilon + delta - separation))


def update(state: AdjacencyState, batch: PairBatch, cfg: AdjacencyConfig) -> tuple[AdjacencyState, Float[Array, ""]]:
    """One gradient step on a weighted minibatch of pairs."""

    def loss(embedding: Embedding) -> Float[Array, ""]:
        separations = jax.vmap(distance, (None, 0, 0))(embedding, batch.first, batch.second)
        losses = jax.vmap(contrastive_loss, (0, 0, None, None))(separations, batch.adjacent, cfg.epsilon, cfg.delta)
        return jnp.mean(batch.weight * losses)

    value, grads = jax.value_and_grad(loss)(state.embedding)
    return AdjacencyState(*descend(optimiser(cfg), grads, state.opt_state, state.embedding)), value


def accuracy(
    embedding: Embedding, cells: Float[Array, "cells goal"], truth: Bool[Array, "cells cells"], threshold: float
) -> Float[Array, ""]:
    """Share of the ordered pairs of different cells whose judged adjacency is the true one, `truth[from, to]`."""
    source, target = _both(embedding)
    separations = _norm(source(cells)[:, None] - target(cells)[None, :])
    right = ((separations < threshold) == truth) & ~jnp.eye(len(cells), dtype=bool)
    return jnp.sum(right.astype(jnp.float32)) / (len(cells) * (len(cells) - 1))


def _both(embedding: Embedding) -> tuple[MLP, MLP]:
    """The networks for the first and for the second point of a pair."""
    return (embedding.source, embedding.target) if isinstance(embedding, DirectedEmbedding) else (embedding, embedding)


def _norm(x: Float[AnyArray, "*n embedding"]) -> Float[AnyArray, "*n"]:
    # The small constant keeps the gradient finite where both points of a pair are the same.
    xp = x.__array_namespace__()
    return xp.sqrt(xp.sum(x * x, axis=-1) + 1e-12)
