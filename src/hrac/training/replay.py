"""A ring buffer on the training device: a state and three functions."""

from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray

Items = TypeVar("Items")


class Buffer(NamedTuple):
    """Stored items, how many there are, and where the next one goes."""

    items: NamedTuple
    size: Int[Array, ""]
    head: Int[Array, ""]


def create(example: NamedTuple, capacity: int) -> Buffer:
    """An empty buffer for items like the example."""
    items = jax.tree.map(lambda leaf: jnp.zeros((capacity, *jnp.shape(leaf)), jnp.asarray(leaf).dtype), example)
    return Buffer(items, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))


def extend(buffer: Buffer, items: NamedTuple, keep: Bool[Array, " n"]) -> Buffer:
    """Add those of n items that are to be kept, in order, over the oldest ones."""
    capacity = jax.tree.leaves(buffer.items)[0].shape[0]
    if len(keep) > capacity:
        raise ValueError(f"{len(keep)} items at once do not fit into a buffer of {capacity}")
    count = jnp.cumsum(keep.astype(jnp.int32))
    slot = jnp.where(keep, (buffer.head + count - 1) % capacity, capacity)  # one past the end is dropped
    stored = jax.tree.map(lambda store, new: store.at[slot].set(new, mode="drop"), buffer.items, items)
    return Buffer(stored, jnp.minimum(buffer.size + count[-1], capacity), (buffer.head + count[-1]) % capacity)


def sample(key: PRNGKeyArray, buffer: Buffer, n: int) -> NamedTuple:
    """n items drawn uniformly, with replacement."""
    index = jax.random.randint(key, (n,), 0, jnp.maximum(buffer.size, 1))
    return jax.tree.map(lambda store: store[index], buffer.items)
