"""Ways over the adjacency table, around what straight lines run into.

The table is a graph: explored cells, joined where they are adjacent. The way between two cells is the path with the fewest
cells, and of these the shortest. `next_cells` has the first cell of each, as a dense array for use on the device.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from hrac.adjacency.table import AdjacencyTable
from hrac.spaces import AnyArray

MOST_CELLS = 2048
"""Of a goal space. A run keeps a number for each pair of them."""
NONE = -1
"""In the place of a cell: no way is known."""
LENGTH = 1e-4
"""What a cell size of way costs, where a step to an adjacent cell costs 1."""


class Grid(NamedTuple):
    """All cells of a bounded goal space, numbered."""

    first: tuple[int, ...]
    """The cell at the lowest corner."""
    shape: tuple[int, ...]
    cell_size: float

    @classmethod
    def over(cls, low: tuple[float, ...], high: tuple[float, ...], cell_size: float) -> "Grid":
        """The cells of `AdjacencyTable` between two corners."""
        first, last = (tuple(math.floor(x / cell_size + 0.5) for x in corner) for corner in (low, high))
        return cls(first, tuple(b - a + 1 for a, b in zip(first, last, strict=True)), cell_size)

    @property
    def size(self) -> int:
        """How many cells there are."""
        return math.prod(self.shape)

    def number(self, positions: Float[AnyArray, "*n goal"]) -> Int[AnyArray, "*n"]:
        """The cell of each position, or the nearest where a position is outside."""
        xp = positions.__array_namespace__()
        cells = xp.floor(positions / self.cell_size + 0.5).astype(np.int32) - xp.asarray(self.first)
        cells = xp.clip(cells, 0, xp.asarray(self.shape) - 1)
        return (cells * xp.asarray(self._strides)).sum(axis=-1)

    def centre(self, numbers: Int[AnyArray, "*n"]) -> Float[AnyArray, "*n goal"]:
        """The centre of each cell."""
        xp = numbers.__array_namespace__()
        cells = numbers[..., None] // xp.asarray(self._strides) % xp.asarray(self.shape) + xp.asarray(self.first)
        return cells.astype(np.float32) * self.cell_size

    @property
    def _strides(self) -> tuple[int, ...]:
        return tuple(math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))


def next_cells(table: AdjacencyTable, grid: Grid) -> NDArray[np.int32]:
    """[i, j] is the first cell of the way from cell i to cell j; i itself where it ends there.

    A way to a cell that nobody was in ends at the nearest explored one. From such a cell there is none (`NONE`), as where
    nobody went all the way. Explored cells outside the grid are left out.

    >>> table = AdjacencyTable(k=2, cell_size=1.0, dimensions=1)
    >>> table.update(np.array([[0.0], [1.0], [2.0], [3.0], [4.0]]), np.zeros(5, int))
    >>> next_cells(table, Grid.over((0.0,), (5.0,), 1.0))[0, [0, 1, 2, 4, 5]].tolist()
    [0, 1, 2, 2, 2]
    """
    low, high = np.array(grid.first), np.array(grid.first) + np.array(grid.shape)
    inside = np.all((low <= table.cells) & (table.cells < high), axis=1)
    row, centres = np.cumsum(inside) - 1, table.centre_of(table.cells[inside])
    first, second = table.decode(table.pairs)
    kept = inside[first] & inside[second]
    first, second = row[first[kept]], row[second[kept]]
    if not table.directed:
        first, second = np.append(first, second), np.append(second, first)
    costs = 1.0 + LENGTH * np.linalg.norm((centres[first] - centres[second]) / table.cell_size, axis=1)
    # The cell before i on the way from j, backwards, is the one after i on the way to j.
    backwards = csr_array((costs, (second, first)), (len(centres), len(centres)))
    after = dijkstra(backwards, return_predecessors=True)[1].T
    np.fill_diagonal(after, np.arange(len(after)))
    numbers = grid.number(centres)
    following = np.where(after >= 0, numbers[np.maximum(after, 0)], NONE).astype(np.int32)
    everywhere, ways = grid.centre(np.arange(grid.size)), np.full((grid.size, grid.size), NONE, np.int32)
    if len(centres):
        ways[numbers] = following[:, np.linalg.norm(everywhere[:, None] - centres[None], axis=-1).argmin(axis=1)]
    return ways
