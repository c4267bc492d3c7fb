"""The run axis: how one run's functions become those of several.

A run is one seed. Pytrees of several runs have a leading run axis. Several runs are mapped by `vmap`; a single one is not
mapped at all, because on a CPU the batched matrix products of a mapped program are slower than plain ones.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

RUNS = "runs"
"""Name of the mapped axis."""


def over_runs(function: Callable[..., Any], *trees: Any) -> Any:
    """Map `function(axis, *trees)` over the leading run axis; `axis` is its name, or None for a single run."""
    if jax.tree.leaves(trees)[0].shape[0] == 1:
        result = function(None, *jax.tree.map(lambda leaf: leaf[0], trees))
        return jax.tree.map(lambda leaf: leaf[None], result)
    return jax.vmap(functools.partial(function, RUNS), axis_name=RUNS)(*trees)


def anywhere(flag: Bool[Array, ""], axis: str | None) -> Bool[Array, ""]:
    """Whether a flag is up in any of the runs mapped over `axis`: one answer for all, so that `cond` can skip work."""
    return flag if axis is None else jax.lax.psum(flag.astype(jnp.int32), axis) > 0
