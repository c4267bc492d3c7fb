"""A ring buffer on the training device: a state and a few functions."""

from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray
from numpy.typing import NDArray

Tree = TypeVar("Tree")
Items = Any
"""A pytree of arrays; in a buffer, with a leading axis of the capacity."""


class Buffer(NamedTuple):
    """Stored items, how many there are, and where the next one goes."""

    items: Items
    size: Int[Array, ""]
    head: Int[Array, ""]


def create(example: Items, capacity: int) -> Buffer:
    """An empty buffer for items like the example."""
    items = jax.tree.map(lambda leaf: jnp.zeros((capacity, *jnp.shape(leaf)), jnp.asarray(leaf).dtype), example)
    return Buffer(items, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))


def extend(buffer: Buffer, items: Items, keep: Bool[Array, " n"]) -> Buffer:
    """Add those of n items that are to be kept, in order, over the oldest ones."""
    capacity = jax.tree.leaves(buffer.items)[0].shape[0]
    if len(keep) > capacity:
        raise ValueError(f"{len(keep)} items at once do not fit into a buffer of {capacity}")
    count = jnp.cumsum(keep.astype(jnp.int32))
    slot = jnp.where(keep, (buffer.head + count - 1) % capacity, capacity)  # one past the end is dropped
    stored = jax.tree.map(lambda store, new: store.at[slot].set(new, mode="drop"), buffer.items, items)
    return Buffer(stored, jnp.minimum(buffer.size + count[-1], capacity), (buffer.head + count[-1]) % capacity)


def sample(key: PRNGKeyArray, buffer: Buffer, shape: tuple[int, ...]) -> Items:
    """Items drawn uniformly, with replacement, in an array of the given shape."""
    index = jax.random.randint(key, shape, 0, jnp.maximum(buffer.size, 1))
    return jax.tree.map(lambda store: store[index], buffer.items)


def trimmed(runs: Tree) -> Tree:
    """A pytree of runs whose buffers have only as many rows as are filled, for saving."""

    def trim(node: Any) -> Any:
        if not isinstance(node, Buffer):
            return node
        rows = int(np.max(np.asarray(node.size)))
        return node._replace(items=jax.tree.map(lambda leaf: leaf[:, :rows], node.items))

    return jax.tree.map(trim, runs, is_leaf=lambda node: isinstance(node, Buffer))


def padded(arrays: dict[str, NDArray[Any]], like: Tree, prefix: str) -> dict[str, NDArray[Any]]:
    """Saved arrays in which buffers have empty rows behind the filled ones again, up to the capacity that `like` has."""
    result = dict(arrays)
    for path, buffer in jax.tree_util.tree_leaves_with_path(like, is_leaf=lambda node: isinstance(node, Buffer)):
        if not isinstance(buffer, Buffer):
            continue
        for inner, leaf in jax.tree_util.tree_leaves_with_path(buffer.items):
            name = f"{prefix}{jax.tree_util.keystr(path)}.items{jax.tree_util.keystr(inner)}"
            if name in arrays and arrays[name].ndim == leaf.ndim >= 2 and arrays[name].shape[1] < leaf.shape[1]:
                rows = arrays[name]
                result[name] = np.pad(rows, [(0, 0), (0, leaf.shape[1] - rows.shape[1])] + [(0, 0)] * (rows.ndim - 2))
    return result
