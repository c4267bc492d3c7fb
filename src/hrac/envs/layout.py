"""Maps made of characters: `#` is wall, `.` is free, letters have the meaning that the task gives them.

`^`, `v`, `<` and `>` are one-way doors, for tasks that have them: free cells that are entered and left only in the direction of
the arrow.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csgraph, csr_array

from hrac.errors import HracError

MOVES = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)], dtype=np.int32)
"""Up, down, left, right as changes of (row, column)."""

DOORS = "^v<>"
"""The one-way doors, in the order of their moves."""


class LayoutError(HracError, ValueError):
    """A layout that is no map; the message names the row and the character."""


def read(text: str, letters: str) -> np.ndarray:
    """The characters of a map (rows, columns), which must be closed by walls and have only `letters`, `#` and `.`.

    >>> read("###\\n#A#\\n###", "A").shape
    (3, 3)
    """
    rows = text.strip("\n").splitlines()
    if not rows:
        raise LayoutError("the layout is empty")
    allowed = "#." + letters
    for r, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise LayoutError(
                f"row {r} ({row!r}) has {len(row)} characters, row 0 has {len(rows[0])}: all rows must be equally long"
            )
        for c, char in enumerate(row):
            if char not in allowed:
                raise LayoutError(f"row {r}, column {c}: {char!r} is none of {', '.join(map(repr, allowed))}")
            if char != "#" and (r in (0, len(rows) - 1) or c in (0, len(row) - 1)):
                raise LayoutError(f"row {r}, column {c}: {char!r} is on the border, which must be wall ('#')")
    return np.array([list(row) for row in rows])


def possible_moves(grid: np.ndarray) -> NDArray[np.bool_]:
    """Which of the four moves lead from each cell to another one (rows, columns, 4). Walls have none.

    >>> possible_moves(read("#####\\n#A>.#\\n#####", "A" + DOORS))[1, 1:4].astype(int).tolist()
    [[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0]]
    """
    ways = np.zeros((*grid.shape, len(MOVES)), bool)
    for number, (move, door) in enumerate(zip(MOVES, DOORS, strict=True)):
        along = ~np.isin(grid, list("#" + DOORS.replace(door, "")))  # neither wall nor a door that leads elsewhere
        ways[..., number] = along & np.roll(along, -move, axis=(0, 1))  # the border is wall: nothing goes around it
    return ways


def distances(grid: np.ndarray) -> NDArray[np.int32]:
    """Steps from each free cell, in reading order, to each (cells, cells); -1 where there is no way.

    >>> distances(read("####\\n#A.#\\n#.##\\n####", "A")).tolist()
    [[0, 1, 1], [1, 0, 2], [1, 2, 0]]
    >>> distances(read("#####\\n#A>.#\\n#####", "A" + DOORS)).tolist()
    [[0, 1, 2], [-1, 0, 1], [-1, -1, 0]]
    """
    return _whole(csgraph.dijkstra(_neighbours(grid), unweighted=True))


def distances_to(grid: np.ndarray, cell: int) -> NDArray[np.int32]:
    """Steps from each free cell to one, given by its number in reading order (cells)."""
    return _whole(csgraph.dijkstra(_neighbours(grid).T, unweighted=True, indices=cell))


def _whole(steps: NDArray[np.float64]) -> NDArray[np.int32]:
    steps[np.isinf(steps)] = -1
    return steps.astype(np.int32)


def check_reachable(grid: np.ndarray, start: str) -> None:
    """Raise `LayoutError` unless there is a way from the first `start` to every free cell, and a way back."""
    cells, ways = np.argwhere(grid != "#"), _neighbours(grid)
    first = int(np.flatnonzero(grid[grid != "#"] == start)[0])
    for directed, problem in ((ways, "cannot be reached from"), (ways.T, "has no way back to")):
        reached = csgraph.breadth_first_order(directed, first, return_predecessors=False)
        lost = np.delete(cells, reached, axis=0)
        if lost.size:
            r, c = lost[0]
            raise LayoutError(f"row {r}, column {c}: {str(grid[r, c])!r} {problem} {start!r}")


def _neighbours(grid: np.ndarray) -> csr_array:
    """From which free cell one move leads to which, as a sparse matrix (cells, cells)."""
    free = grid != "#"
    number = np.cumsum(free).reshape(free.shape) - 1
    *cell, move = np.nonzero(possible_moves(grid))
    there = np.array(cell) + MOVES[move].T
    return csr_array((np.ones(len(move)), (number[tuple(cell)], number[tuple(there)])), (free.sum(), free.sum()))
