"""Training the adjacency network from the table: minibatches whose expectation is that of uniform pairs of explored cells.

Half of each minibatch is drawn from the adjacent pairs and half from the others, and the two halves are weighted by the
share of such pairs among all. That leaves the expected loss that of uniform pairs (Eq. 11), while a large table, where one
pair in hundreds is adjacent, still shows adjacent pairs in every minibatch.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from hrac.adjacency.network import AdjacencyState, PairBatch, update
from hrac.adjacency.table import AdjacencyTable
from hrac.config import AdjacencyConfig
from hrac.runs import over_runs

CHUNK_GRADIENT_STEPS = 500
"""Minibatches sent to the device at once."""


def gradient_steps(table: AdjacencyTable, epochs: int, cfg: AdjacencyConfig) -> int:
    """The paper's budget, `epochs` times all unordered pairs of explored cells, under the configured cap."""
    return min(math.ceil(epochs * table.num_pairs / cfg.batch_size), cfg.max_gradient_steps)


def draw(table: AdjacencyTable, rng: np.random.Generator, batches: int, batch_size: int) -> PairBatch:
    """Minibatches (batches, batch_size, ...) as NumPy arrays, ordered within each: adjacent pairs, then others."""
    half = batch_size // 2
    near_i, near_j = _draw_adjacent(table, rng, batches * half)
    far_i, far_j = _draw_others(table, rng, batches * half)
    share = table.num_adjacent / table.num_pairs
    i = np.concatenate([near_i.reshape(batches, half), far_i.reshape(batches, half)], axis=1)
    j = np.concatenate([near_j.reshape(batches, half), far_j.reshape(batches, half)], axis=1)
    adjacent = np.broadcast_to(np.arange(batch_size) < half, i.shape)
    weight = np.where(adjacent, 2 * share, 2 * (1 - share)).astype(np.float32)
    centres = table.centre_of(table.cells)
    return PairBatch(centres[i], centres[j], adjacent, weight)  # type: ignore[arg-type]


def _draw_adjacent(table: AdjacencyTable, rng: np.random.Generator, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    pick = rng.integers(table.num_adjacent, size=n)
    i, j = table.decode(table.pairs[np.minimum(pick, max(len(table.pairs) - 1, 0))]) if len(table.pairs) else (pick, pick)
    itself = pick >= len(table.pairs)
    cell = pick - len(table.pairs)
    return np.where(itself, cell, i), np.where(itself, cell, j)


def _draw_others(table: AdjacencyTable, rng: np.random.Generator, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Uniform over the pairs that are not adjacent; any pair if there is none, which then has weight zero."""
    size = len(table.cells)
    i, j = rng.integers(size, size=n), rng.integers(size, size=n)
    others = table.num_pairs - table.num_adjacent
    if others == 0:
        return i, j
    if others < table.num_pairs / 20:  # so few that rejection would be slow, and all pairs are as many as the table's
        i, j = np.triu_indices(size, 1)
        left = np.flatnonzero(~table.adjacent(i, j))
        pick = left[rng.integers(len(left), size=n)]
        return i[pick], j[pick]
    while (bad := np.flatnonzero(table.adjacent(i, j))).size:
        i[bad], j[bad] = rng.integers(size, size=bad.size), rng.integers(size, size=bad.size)
    return i, j


def train(
    states: AdjacencyState, tables: list[AdjacencyTable], rngs: list[np.random.Generator], epochs: int, cfg: AdjacencyConfig
) -> tuple[AdjacencyState, Float[Array, " runs"]]:
    """Fit the networks of all runs to their tables; the mean loss of each run's last chunk comes back too.

    Runs that have explored more cells train longer; the others idle meanwhile.
    """
    steps = [gradient_steps(table, epochs, cfg) for table in tables]
    loss = jnp.zeros(len(tables), jnp.float32)
    for start in range(0, max(steps), CHUNK_GRADIENT_STEPS):
        drawn = [draw(table, rng, CHUNK_GRADIENT_STEPS, cfg.batch_size) for table, rng in zip(tables, rngs, strict=True)]
        batches = jax.tree.map(lambda *leaves: np.stack(leaves), *drawn)
        todo = np.clip(np.array(steps) - start, 0, CHUNK_GRADIENT_STEPS).astype(np.int32)
        states, loss = _train_chunk(states, batches, todo, loss, cfg)
    return states, loss


@functools.partial(jax.jit, static_argnames="cfg", donate_argnums=(0, 3))
def _train_chunk(
    states: AdjacencyState, batches: PairBatch, todo: Array, loss: Array, cfg: AdjacencyConfig
) -> tuple[AdjacencyState, Array]:
    """The first `todo` of each run's minibatches, one gradient step each."""

    def chunk(
        _: str | None, state: AdjacencyState, batches: PairBatch, todo: Array, loss: Array
    ) -> tuple[AdjacencyState, Array]:
        def one(state: AdjacencyState, indexed: tuple[Array, PairBatch]) -> tuple[AdjacencyState, Array]:
            index, batch = indexed
            new, value = update(state, batch, cfg)
            state = jax.tree.map(lambda n, o: jnp.where(index < todo, n, o), new, state)
            return state, jnp.where(index < todo, value, 0.0)

        state, losses = jax.lax.scan(one, state, (jnp.arange(batches.weight.shape[0]), batches))
        mean = jnp.sum(losses) / jnp.maximum(todo, 1).astype(jnp.float32)
        return state, jnp.where(todo > 0, mean, loss)

    return over_runs(chunk, states, batches, todo, loss)
