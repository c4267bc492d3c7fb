"""Distances through free space, for oracles: how far it is from cell to cell for an agent that cannot pass walls."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

REACH = 3
"""A way is made of straight pieces to cells at most this far away in each coordinate. It is then at most 1.3 % too long."""
SAMPLES_PER_UNIT = 8
"""Points of a straight piece that are checked for walls."""

InWall = Callable[[NDArray[np.float64]], NDArray[np.bool_]]


def free_cells(low: tuple[float, ...], high: tuple[float, ...], in_wall: InWall) -> NDArray[np.int64]:
    """The points with whole coordinates between two bounds that are not in a wall (cells, 2): centres of cells of size 1."""
    axes = [np.arange(math.ceil(first), math.floor(last) + 1) for first, last in zip(low, high, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    return points[~in_wall(points.astype(np.float64))]


def distances(cells: NDArray[np.int64], in_wall: InWall) -> NDArray[np.float64]:
    """The length of the shortest way through free space from each cell to each (cells, cells)."""
    number = {tuple(cell): index for index, cell in enumerate(cells.tolist())}
    rows, columns, lengths = [], [], []
    for dx, dy in _directions():
        after = [number.get((x + dx, y + dy), -1) for x, y in cells.tolist()]
        there = np.array(after, np.int64)
        here = np.flatnonzero(there >= 0)
        length = math.hypot(dx, dy)
        share = np.linspace(0.0, 1.0, math.ceil(length * SAMPLES_PER_UNIT) + 1)
        points = cells[here][:, None] + share[None, :, None] * np.array([dx, dy])
        clear = ~in_wall(points.reshape(-1, 2)).reshape(len(here), -1).any(axis=1)
        rows.append(here[clear])
        columns.append(there[here][clear])
        lengths.append(np.full(clear.sum(), length))
    graph = csr_array((np.concatenate(lengths), (np.concatenate(rows), np.concatenate(columns))), (len(cells),) * 2)
    return dijkstra(graph, directed=False)


def _directions() -> list[tuple[int, int]]:
    """One of each pair of opposite directions."""
    steps = [(dx, dy) for dx in range(REACH + 1) for dy in range(-REACH, REACH + 1) if math.gcd(dx, dy) == 1]
    return [(dx, dy) for dx, dy in steps if dx > 0 or dy > 0]


def steps(cells: NDArray[np.int64], in_wall: InWall, speed: float) -> NDArray[np.int64]:
    """How many steps that takes with a speed (distance per step), rounded up (cells, cells)."""
    exact = distances(cells, in_wall) / speed
    return np.ceil(np.minimum(exact, 2**31) - 1e-6).astype(np.int64)
