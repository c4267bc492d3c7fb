"""The run axis: how functions of one run become functions of several.

A run is one seed. Pytrees of several runs have a leading run axis. Several runs are mapped by `vmap`; a single one is not
mapped at all, because on a CPU the batched matrix products of a mapped program are slower than plain ones.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import numpy as np

Tree = TypeVar("Tree")


def over_runs(function: Callable[..., Any], *trees: Any) -> Any:
    """Map `function(*trees)` over the leading run axis."""
    if jax.tree.leaves(trees)[0].shape[0] == 1:
        result = function(*jax.tree.map(lambda leaf: leaf[0], trees))
        return jax.tree.map(lambda leaf: leaf[None], result)
    return jax.vmap(function)(*trees)


class Parts:
    """How the runs of a training are divided among programs.

    On an accelerator all runs are one part, mapped together. On a CPU each run is a separate part: that is no slower, and a
    seed's numbers do not depend on the other seeds of the training.
    """

    def __init__(self, runs: int) -> None:
        size = 1 if jax.default_backend() == "cpu" else runs
        self.slices = [slice(start, start + size) for start in range(0, runs, size)]

    def split(self, tree: Tree) -> list[Tree]:
        """The parts of a pytree of all runs."""
        return [jax.tree.map(lambda leaf, p=part: leaf[p], tree) for part in self.slices]


def join(parts: Sequence[Tree]) -> Tree:
    """One pytree for all runs."""
    return parts[0] if len(parts) == 1 else jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
