"""The k-step adjacency relation of the explored cells, built from trajectories and stored sparsely.

Goal space, of any dimension and extent, is divided into cells. Two cells are adjacent when some trajectory was in both at
most k steps apart; a cell is adjacent to itself. In a directed table, j is adjacent to i when a trajectory was in j at most k
steps after i. The relation is kept as one sorted array of pair codes, so its memory grows with the number of adjacent pairs,
not with the square of the explored cells.
"""

import numpy as np
from numpy.typing import NDArray

Cells = NDArray[np.int64]
Codes = NDArray[np.int64]

_SHIFT = 32
"""The code of a pair of cells (i, j) is i * 2**32 + j, with i < j unless the table is directed. Codes sort by i, for up to
2**31 cells."""


class AdjacencyTable:
    """The explored cells, and which of them are adjacent.

    >>> table = AdjacencyTable(k=2, cell_size=1.0, dimensions=1)
    >>> table.update(np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 0, 0]))
    >>> table.cells.ravel().tolist()
    [0, 1, 2, 3]
    >>> table.adjacent(np.array([0, 0, 3, 2]), np.array([2, 3, 1, 2])).tolist()
    [True, False, True, True]
    >>> table = AdjacencyTable(k=2, cell_size=1.0, dimensions=1, directed=True)
    >>> table.update(np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 0, 0]))
    >>> table.adjacent(np.array([0, 0, 3, 2]), np.array([2, 3, 1, 2])).tolist()
    [True, False, False, True]
    """

    def __init__(self, k: int, cell_size: float, dimensions: int, directed: bool = False) -> None:
        self.k = k
        self.cell_size = cell_size
        self.directed = directed
        self.cells: Cells = np.empty((0, dimensions), dtype=np.int64)
        self.pairs: Codes = np.empty(0, dtype=np.int64)
        """Sorted codes of the adjacent pairs of different cells."""
        self._index: dict[bytes, int] = {}

    @classmethod
    def restore(
        cls, k: int, cell_size: float, dimensions: int, cells: Cells, pairs: Codes, directed: bool = False
    ) -> "AdjacencyTable":
        """The table with these `cells` and `pairs`; raises `ValueError` if there can be no such table."""
        table = cls(k, cell_size, dimensions, directed)
        integers = cells.dtype == pairs.dtype == np.int64
        if not integers or cells.shape[1:] != (dimensions,) or pairs.ndim != 1:
            raise ValueError(f"cells {cells.shape} of {dimensions} dimensions and pairs {pairs.shape} do not make a table")
        table._index_of(cells)
        first, second = table.decode(pairs)
        ordered = first != second if directed else first < second
        if len(table.cells) != len(cells) or not (ordered & (first >= 0) & (np.maximum(first, second) < len(cells))).all():
            raise ValueError("the cells of a table must be different, and its pairs must be of these cells")
        if not (np.diff(pairs) > 0).all():
            raise ValueError("the pairs of a table must be in order")
        table.pairs = pairs
        return table

    @classmethod
    def from_distances(
        cls,
        k: int,
        cell_size: float,
        positions: NDArray[np.number],
        distances: NDArray[np.integer],
        directed: bool = False,
    ) -> "AdjacencyTable":
        """The true relation of positions (n, dimensions), given the steps from each to each (n, n), -1 where there is no way.

        Two cells are adjacent if there are at most k steps from either to the other, or if `directed` from the first to the
        second.
        """
        table = cls(k, cell_size, positions.shape[1], directed)
        ids = table._index_of(table.cell_of(positions.astype(np.float64)))
        first, second = np.nonzero((distances <= k) & (distances >= 0))
        different = ids[first] != ids[second]
        table.pairs = np.unique(table._encode(ids[first][different], ids[second][different]))
        return table

    def explore(self, positions: NDArray[np.floating]) -> None:
        """Add the cells of positions, without adjacent pairs."""
        self._index_of(self.cell_of(positions))

    def cell_of(self, positions: NDArray[np.floating]) -> Cells:
        """The cell around each position: cell c spans [c - 1/2, c + 1/2) cell sizes in each dimension."""
        if not np.isfinite(positions).all():
            raise ValueError("positions must be finite to be put into cells")
        return np.floor(np.asarray(positions, dtype=np.float64) / self.cell_size + 0.5).astype(np.int64)

    def centre_of(self, cells: Cells) -> NDArray[np.float32]:
        """Positions of the cells' centres."""
        return (cells * self.cell_size).astype(np.float32)

    def update(self, positions: NDArray[np.floating], episodes: NDArray[np.integer]) -> None:
        """Add the pairs of trajectories: positions (steps, dimensions), each with the number of its episode.

        The steps of an episode are consecutive, in time order. Different episodes have different numbers.
        """
        if len(positions) == 0:
            return
        ids = self._index_of(self.cell_of(positions))
        found = [self.pairs]
        for lag in range(1, min(self.k, len(ids) - 1) + 1):
            same = episodes[lag:] == episodes[:-lag]
            a, b = ids[:-lag][same], ids[lag:][same]
            found.append(np.unique(self._encode(a[a != b], b[a != b])))
        # Timsort merges the long sorted runs in linear time.
        codes = np.sort(np.concatenate(found), kind="stable")
        self.pairs = codes[np.concatenate([[True], codes[1:] != codes[:-1]])] if len(codes) else codes

    def adjacent(self, i: NDArray[np.integer], j: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Whether the cells with these indices are adjacent, elementwise; if directed, j to i."""
        if len(self.pairs) == 0:
            return i == j
        codes = self._encode(np.asarray(i, np.int64), np.asarray(j, np.int64))
        place = np.minimum(np.searchsorted(self.pairs, codes), len(self.pairs) - 1)
        return (i == j) | (self.pairs[place] == codes)

    def decode(self, codes: Codes) -> tuple[Cells, Cells]:
        """The cell indices (i, j) of pair codes."""
        return codes >> _SHIFT, codes & ((1 << _SHIFT) - 1)

    @property
    def num_pairs(self) -> int:
        """Pairs of explored cells, unordered unless directed, including each cell with itself: an epoch."""
        n = len(self.cells)
        return n * n if self.directed else n * (n + 1) // 2

    @property
    def num_adjacent(self) -> int:
        """How many of those are adjacent."""
        return len(self.pairs) + len(self.cells)

    def _index_of(self, cells: Cells) -> Cells:
        """Index of each row. New cells are added in order of appearance."""
        unique, first, inverse = np.unique(cells, axis=0, return_index=True, return_inverse=True)
        ids = np.empty(len(unique), dtype=np.int64)
        new = []
        for u in np.argsort(first, kind="stable"):
            key = unique[u].tobytes()
            if key not in self._index:
                self._index[key] = len(self._index)
                new.append(unique[u])
            ids[u] = self._index[key]
        if new:
            self.cells = np.concatenate([self.cells, np.stack(new)])
        return ids[inverse.reshape(-1)]

    def _encode(self, i: Cells, j: Cells) -> Codes:
        return (i << _SHIFT) | j if self.directed else (np.minimum(i, j) << _SHIFT) | np.maximum(i, j)
