"""Maps made of characters: `#` is wall, `.` is free, letters have the meaning that the task gives them."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csgraph, csr_array

from hrac.errors import HracError

MOVES = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)], dtype=np.int32)
"""Up, down, left, right as changes of (row, column)."""


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


def distances(grid: np.ndarray, sources: NDArray[np.integer] | None = None) -> NDArray[np.int32]:
    """Steps from some free cells, by number in reading order (default: from all), to all (sources, cells).

    >>> distances(read("####\\n#A.#\\n#.##\\n####", "A")).tolist()
    [[0, 1, 1], [1, 0, 2], [1, 2, 0]]
    """
    return csgraph.dijkstra(_neighbours(grid), unweighted=True, indices=sources).astype(np.int32)


def check_reachable(grid: np.ndarray, start: str) -> None:
    """Raise `LayoutError` unless every free cell can be reached from the first `start`."""
    _, part = csgraph.connected_components(_neighbours(grid), directed=False)
    cells = np.argwhere(grid != "#")
    lost = cells[part != part[np.flatnonzero(grid[grid != "#"] == start)[0]]]
    if lost.size:
        r, c = lost[0]
        raise LayoutError(f"row {r}, column {c}: {str(grid[r, c])!r} cannot be reached from {start!r}")


def _neighbours(grid: np.ndarray) -> csr_array:
    """Which free cells are neighbours, as a sparse matrix (cells, cells)."""
    free = grid != "#"
    number = np.where(free, np.cumsum(free).reshape(free.shape) - 1, -1)
    across, down = (number[:, :-1], number[:, 1:]), (number[:-1], number[1:])
    first, second = np.concatenate([[a[(a >= 0) & (b >= 0)], b[(a >= 0) & (b >= 0)]] for a, b in (across, down)], axis=1)
    both = np.concatenate([first, second]), np.concatenate([second, first])
    return csr_array((np.ones(len(both[0])), both), (free.sum(), free.sum()))
