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

from hrac.adjacency.network import AdjacencyState, PairBatch, update
from hrac.adjacency.table import AdjacencyTable, Cells
from hrac.runs import over_runs
from hrac.settings import AdjacencyConfig

CHUNK_GRADIENT_STEPS = 500
"""Minibatches sent to the device at once."""

LISTED_PAIRS = 2**20
"""Up to so many pairs of cells are listed once; of more, minibatches are drawn by rejection."""


def gradient_steps(table: AdjacencyTable, epochs: int, cfg: AdjacencyConfig) -> int:
    """The paper's budget, `epochs` times all unordered pairs of explored cells, under the configured cap."""
    return min(math.ceil(epochs * table.num_pairs / cfg.batch_size), cfg.max_gradient_steps)


class Pairs:
    """The pairs of a table, to draw minibatches from while it stays as it is."""

    def __init__(self, table: AdjacencyTable) -> None:
        self._table, self._centres = table, table.centre_of(table.cells)
        self._share = table.num_adjacent / max(table.num_pairs, 1)
        itself = np.arange(len(table.cells))
        first, second = table.decode(table.pairs)
        self._adjacent = np.concatenate([first, itself]), np.concatenate([second, itself])
        self._others: tuple[Cells, Cells] | None = None
        """All that are not adjacent, unless they are too many to list."""
        apart = table.num_pairs - table.num_adjacent
        if table.num_pairs <= LISTED_PAIRS or apart < table.num_pairs / 20:  # fewer than those that the table lists anyway
            i, j = np.triu_indices(len(table.cells), 1)
            left = ~table.adjacent(i, j)
            self._others = (i[left], j[left]) if apart else self._adjacent  # which then have weight zero

    def draw(self, rng: np.random.Generator, batches: int, batch_size: int) -> PairBatch:
        """Minibatches (batches, batch_size, ...) as NumPy arrays, ordered within each: adjacent pairs, then others."""
        half = batch_size // 2
        near = _some(self._adjacent, rng, (batches, half))
        far = self._reject(rng, (batches, half)) if self._others is None else _some(self._others, rng, (batches, half))
        i, j = (np.concatenate([n, f], axis=1) for n, f in zip(near, far, strict=True))
        adjacent = np.broadcast_to(np.arange(batch_size) < half, i.shape)
        weight = np.where(adjacent, 2 * self._share, 2 * (1 - self._share)).astype(np.float32)
        return PairBatch(self._centres[i], self._centres[j], adjacent, weight)  # type: ignore[arg-type]

    def _reject(self, rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Cells, Cells]:
        """Pairs that are not adjacent, by drawing until they are not: at least one in twenty is so."""
        size = len(self._table.cells)
        i, j = rng.integers(size, size=shape), rng.integers(size, size=shape)
        while (bad := self._table.adjacent(i, j)).any():
            i[bad], j[bad] = rng.integers(size, size=(2, bad.sum()))
        return i, j


def _some(pairs: tuple[Cells, Cells], rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Cells, Cells]:
    pick = rng.integers(len(pairs[0]), size=shape)
    return pairs[0][pick], pairs[1][pick]


def train(
    states: AdjacencyState, tables: list[AdjacencyTable], rngs: list[np.random.Generator], epochs: int, cfg: AdjacencyConfig
) -> tuple[AdjacencyState, Float[Array, " runs"]]:
    """Fit the networks of all runs to their tables; the mean loss of each run's last chunk comes back too.

    Runs that have explored more cells train longer; the others idle meanwhile.
    """
    steps, pairs = [gradient_steps(table, epochs, cfg) for table in tables], [Pairs(table) for table in tables]
    loss = jnp.zeros(len(tables), jnp.float32)
    for start in range(0, max(steps), CHUNK_GRADIENT_STEPS):
        drawn = [some.draw(rng, CHUNK_GRADIENT_STEPS, cfg.batch_size) for some, rng in zip(pairs, rngs, strict=True)]
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
