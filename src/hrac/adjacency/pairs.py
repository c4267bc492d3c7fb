"""Labelled pairs of positions, to draw minibatches from.

Half of each minibatch from a table is adjacent pairs and half other pairs. Each half is weighted by the share of such pairs
among all pairs. So the expected loss is that of uniform pairs of explored cells (Eq. 11), but every minibatch has adjacent
pairs, even in a large table where one pair in hundreds is adjacent.
"""

import numpy as np
from numpy.typing import NDArray

from hrac.adjacency.network import PairBatch
from hrac.adjacency.table import AdjacencyTable, Cells

LISTED_PAIRS = 2**20
"""Up to this many pairs of cells are listed once; from more, minibatches are drawn by rejection."""

FAR = 4
"""Steps of one trajectory that are at least this many times k apart are taken to be far (paper, ablation)."""


class TablePairs:
    """The pairs of a table, to draw minibatches from while the table does not change."""

    def __init__(self, table: AdjacencyTable) -> None:
        self._table, self._centres = table, table.centre_of(table.cells)
        self._share = table.num_adjacent / max(table.num_pairs, 1)
        itself = np.arange(len(table.cells))
        first, second = table.decode(table.pairs)
        self._adjacent = np.concatenate([first, itself]), np.concatenate([second, itself])
        self._others: tuple[Cells, Cells] | None = None
        """All pairs that are not adjacent, unless there are too many to list."""
        num_others = table.num_pairs - table.num_adjacent
        if (
            table.num_pairs <= LISTED_PAIRS or num_others < table.num_pairs / 20
        ):  # fewer than the adjacent ones, which are listed
            i, j = np.triu_indices(len(table.cells), 1)
            if table.directed:
                i, j = np.concatenate([i, j]), np.concatenate([j, i])
            left = ~table.adjacent(i, j)
            self._others = (i[left], j[left]) if num_others else self._adjacent  # then of weight zero

    def draw(self, rng: np.random.Generator, batches: int, batch_size: int) -> PairBatch:
        """Minibatches (batches, batch_size, ...) as NumPy arrays, ordered within each: adjacent pairs, then others."""
        half = batch_size // 2
        near = _pick(self._adjacent, rng, (batches, half))
        far = self._reject(rng, (batches, half)) if self._others is None else _pick(self._others, rng, (batches, half))
        i, j = (np.concatenate([n, f], axis=1) for n, f in zip(near, far, strict=True))
        adjacent = np.broadcast_to(np.arange(batch_size) < half, i.shape)
        weight = np.where(adjacent, 2 * self._share, 2 * (1 - self._share)).astype(np.float32)
        return PairBatch(self._centres[i], self._centres[j], adjacent, weight)

    def _reject(self, rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Cells, Cells]:
        """Pairs that are not adjacent: drawn again until they are not. At least one pair in twenty is not adjacent."""
        size = len(self._table.cells)
        i, j = rng.integers(size, size=shape), rng.integers(size, size=shape)
        while (bad := self._table.adjacent(i, j)).any():
            i[bad], j[bad] = rng.integers(size, size=(2, bad.sum()))
        return i, j


def _pick(pairs: tuple[Cells, Cells], rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Cells, Cells]:
    pick = rng.integers(len(pairs[0]), size=shape)
    return pairs[0][pick], pairs[1][pick]


class TrajectoryPairs:
    """Pairs of steps of the same episode, the earlier first: near if at most k apart in time, far if at least 4 k."""

    def __init__(self, positions: NDArray[np.floating], episodes: NDArray[np.integer], k: int) -> None:
        self._positions, self._k = positions, k
        ends = np.searchsorted(episodes, episodes, side="right") - 1
        self._left = ends - np.arange(len(episodes))
        """How many steps follow each in its episode."""
        self._near, self._far = (np.flatnonzero(self._left >= least) for least in (1, FAR * k))

    def draw(self, rng: np.random.Generator, batches: int, batch_size: int) -> PairBatch:
        """Minibatches (batches, batch_size, ...) as NumPy arrays, ordered within each: near pairs, then far ones.

        If no episode is long enough for far pairs, they have weight zero.
        """
        half = batch_size // 2
        i = np.concatenate([_pick_one(self._near, rng, (batches, half)), _pick_one(self._far, rng, (batches, half))], axis=1)
        adjacent = np.broadcast_to(np.arange(batch_size) < half, i.shape)
        least = np.where(adjacent, 1, FAR * self._k)
        most = np.maximum(np.where(adjacent, np.minimum(self._k, self._left[i]), self._left[i]), least)
        j = np.minimum(i + rng.integers(least, most + 1), len(self._positions) - 1)
        enough = np.where(adjacent, len(self._near) > 0, len(self._far) > 0)
        return PairBatch(self._positions[i], self._positions[j], adjacent, enough.astype(np.float32))


def _pick_one(steps: NDArray[np.int64], rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.int64]:
    return steps[rng.integers(len(steps), size=shape)] if len(steps) else np.zeros(shape, np.int64)
