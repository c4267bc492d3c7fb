"""Labelled pairs of positions, to draw minibatches from.

Half of each minibatch from a table is adjacent pairs and half other pairs. Each half is weighted by the share of such pairs
among all pairs. So the expected loss is that of uniform pairs of explored cells (Eq. 11), but every minibatch has adjacent
pairs, even in a large table where one pair in hundreds is adjacent.
"""

import itertools

import numpy as np
from numpy.typing import NDArray

from hrac.adjacency.network import PairBatch
from hrac.adjacency.table import AdjacencyTable, Cells

LISTED_PAIRS = 2**20
"""Up to this many pairs of cells are listed once; from more, minibatches are drawn by rejection."""

FAR = 4
"""Steps of one trajectory that are at least this many times k apart are taken to be far (paper, ablation)."""


BLANK_REACH = 2
"""Cells are taken for blank up to this many cells from an explored one, in each coordinate."""
MOST_BLANK = 125
"""At most so many cells around each are looked at: all in up to three dimensions, in more a random choice."""


def blank_cells(table: AdjacencyTable, old: int) -> tuple[Cells, Cells]:
    """Cells around the first `old` ones where nobody has been: for each, the index of the explored one, and itself (n, goal).

    Who has had time to enter a cell beside an explored one and never did is probably kept out by a wall.

    >>> table = AdjacencyTable(k=1, cell_size=1.0, dimensions=1)
    >>> table.explore(np.array([[0.0], [1.0], [2.0]]))
    >>> [part.ravel().tolist() for part in blank_cells(table, old=1)]
    [[0, 0], [-2, -1]]
    """
    side, dimensions = np.arange(-BLANK_REACH, BLANK_REACH + 1), table.cells.shape[1]
    if len(side) ** dimensions <= MOST_BLANK:
        offsets = np.array(list(itertools.product(side, repeat=dimensions)))
    else:
        offsets = np.random.default_rng(0).choice(side, (MOST_BLANK, dimensions))
    around = table.cells[:old, None] + offsets  # (old, offsets, goal)
    blank = ~table.explored(around.reshape(-1, around.shape[-1])).reshape(around.shape[:2])
    return np.nonzero(blank)[0], around[blank]


class TablePairs:
    """The pairs of a table, to draw minibatches from while the table does not change.

    A share `unexplored` of the pairs that are not adjacent leads from the first `old` cells to blank cells around them, as far
    as there are any.
    """

    def __init__(self, table: AdjacencyTable, unexplored: float = 0.0, old: int = 0) -> None:
        self._table, self._centres = table, table.centre_of(table.cells)
        self._blank = blank_cells(table, old) if unexplored > 0 else None
        self._unexplored = unexplored
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
        first, second = self._centres[i], self._centres[j]
        if self._blank is not None and len(self._blank[0]):
            replaced = ~adjacent & (rng.random(i.shape) < self._unexplored)
            pick = rng.integers(len(self._blank[0]), size=replaced.sum())
            first[replaced] = self._centres[self._blank[0][pick]]
            second[replaced] = self._table.centre_of(self._blank[1][pick])
            weight = np.where(replaced, np.maximum(weight, 1.0), weight)  # also where all explored cells are adjacent
        return PairBatch(first, second, adjacent, weight)

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
