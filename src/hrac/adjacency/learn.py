"""Training the adjacency network of all runs from their sources of pairs, in chunks of minibatches."""

import functools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hrac.adjacency.network import AdjacencyState, PairBatch, update
from hrac.adjacency.sources import Source
from hrac.runs import over_runs
from hrac.settings import AdjacencyConfig

CHUNK_GRADIENT_STEPS = 500
"""Minibatches sent to the device at once."""


def gradient_steps(epoch_pairs: int, epochs: int, cfg: AdjacencyConfig) -> int:
    """The paper's budget, `epochs` times all pairs of explored cells, under the configured cap."""
    return min(math.ceil(epochs * epoch_pairs / cfg.batch_size), cfg.max_gradient_steps)


def train(
    states: AdjacencyState,
    sources: Sequence[Source],
    rngs: list[np.random.Generator],
    epochs: int,
    cfg: AdjacencyConfig,
    poll: Callable[[], None] = lambda: None,
) -> tuple[AdjacencyState, Float[Array, " runs"]]:
    """Fit the networks of all runs to their pairs. Returns them and the mean loss of each run's last chunk.

    Runs that have explored more cells train longer; the others wait. `poll` is called often and may raise to stop.
    """
    steps = [gradient_steps(source.epoch_pairs, epochs, cfg) for source in sources]
    pairs = [source.pairs() for source in sources]
    loss = jnp.zeros(len(sources), jnp.float32)
    for start in range(0, max(steps), CHUNK_GRADIENT_STEPS):
        poll()
        drawn = [each.draw(rng, CHUNK_GRADIENT_STEPS, cfg.batch_size) for each, rng in zip(pairs, rngs, strict=True)]
        batches = jax.tree.map(lambda *leaves: np.stack(leaves), *drawn)
        todo = np.clip(np.array(steps) - start, 0, CHUNK_GRADIENT_STEPS).astype(np.int32)
        states, loss = _train_chunk(states, batches, todo, loss, cfg)
    return states, loss


@functools.partial(jax.jit, static_argnames="cfg", donate_argnums=(0, 3))
def _train_chunk(
    states: AdjacencyState, batches: PairBatch, todo: Array, loss: Array, cfg: AdjacencyConfig
) -> tuple[AdjacencyState, Array]:
    """The first `todo` of each run's minibatches, one gradient step each."""

    def chunk(state: AdjacencyState, batches: PairBatch, todo: Array, loss: Array) -> tuple[AdjacencyState, Array]:
        def one_update(state: AdjacencyState, indexed: tuple[Array, PairBatch]) -> tuple[AdjacencyState, Array]:
            index, batch = indexed
            new, value = update(state, batch, cfg)
            state = jax.tree.map(lambda n, o: jnp.where(index < todo, n, o), new, state)
            return state, jnp.where(index < todo, value, 0.0)

        state, losses = jax.lax.scan(one_update, state, (jnp.arange(batches.weight.shape[0]), batches))
        mean = jnp.sum(losses) / jnp.maximum(todo, 1).astype(jnp.float32)
        return state, jnp.where(todo > 0, mean, loss)

    return over_runs(chunk, states, batches, todo, loss)
