"""The random streams of a run."""

import enum
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key


class Stream(enum.IntEnum):
    """Separate random streams of a run, so that more evaluations do not change what is learned."""

    INIT = 0
    ACT = 1
    LEARN = 2
    EVAL = 3
    RANDOM_WALK = 4
    PAIRS = 5
    ACT_COPIES = 6
    RANDOM_WALK_COPIES = 7


def run_keys(seeds: Sequence[int], stream: Stream) -> Key[Array, " runs"]:
    """A random key for each run, from its seed and a stream."""
    keys = jax.vmap(jax.random.key)(jnp.asarray(seeds, jnp.uint32))
    return jax.vmap(lambda key: jax.random.fold_in(key, int(stream)))(keys)
