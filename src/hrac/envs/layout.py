"""Maps drawn with characters: `#` is wall, `.` is free, letters mean what the task says they mean."""

from collections import deque

import numpy as np
from numpy.typing import NDArray

from hrac.errors import HracError

MOVES = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)], dtype=np.int32)
"""Up, down, left, right as changes of (row, column)."""


class LayoutError(HracError, ValueError):
    """A layout that is no map; the message names the row and the character."""


def read(text: str, letters: str) -> np.ndarray:
    """The characters of a map (rows, columns) that is closed by walls and has nothing in it but `letters`, `#` and `.`.

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


def distances(grid: np.ndarray, start: str) -> NDArray[np.int32]:
    """Steps between all free cells, in reading order; all must be reachable from the first `start`."""
    check_reachable(grid, start)
    cells = np.argwhere(grid != "#")
    return np.stack([_search(grid == "#", cell)[tuple(cells.T)] for cell in cells])


def check_reachable(grid: np.ndarray, start: str) -> None:
    """Raise `LayoutError` unless every free cell can be reached from the first `start`."""
    away = _search(grid == "#", np.argwhere(grid == start)[0])
    if (lost := np.argwhere((grid != "#") & (away < 0))).size:
        r, c = lost[0]
        raise LayoutError(f"row {r}, column {c}: {str(grid[r, c])!r} cannot be reached from {start!r}")


def _search(walls: NDArray[np.bool_], source: NDArray[np.integer]) -> NDArray[np.int32]:
    """Breadth-first search from a cell: steps to every cell (rows, columns), -1 where there is no way."""
    away = np.full(walls.shape, -1, dtype=np.int32)
    away[tuple(source)] = 0
    queue = deque([(int(source[0]), int(source[1]))])
    while queue:
        row, column = queue.popleft()
        for dr, dc in MOVES.tolist():
            there = row + dr, column + dc
            if not walls[there] and away[there] < 0:
                away[there] = away[row, column] + 1
                queue.append(there)
    return away
