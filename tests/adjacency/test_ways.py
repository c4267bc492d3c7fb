import numpy as np
import pytest

from hrac.adjacency.table import AdjacencyTable
from hrac.adjacency.ways import NONE, Grid, next_cells

U = np.array([[0, 0], [1, 0], [2, 0], [2, 1], [2, 2], [1, 2], [0, 2]])
"""A way around (0, 1) and (1, 1), where a wall would be."""


def _table(positions, k=1, directed=False):
    table = AdjacencyTable(k, 1.0, positions.shape[1], directed)
    table.update(positions.astype(float), np.zeros(len(positions), int))
    return table


def _way(ways, grid, start, end):
    """The cells from one to the other, one after the other."""
    here, there = (int(grid.number(np.array(cell, np.float32))) for cell in (start, end))
    cells = [here]
    while ways[cells[-1], there] not in (NONE, cells[-1]):
        cells.append(int(ways[cells[-1], there]))
    return [grid.centre(np.array(cell)).tolist() for cell in cells]


def test_cells_of_a_grid_are_those_of_the_table():
    grid, table = Grid.over((-1.0, -2.0), (3.0, 4.0), 0.5), AdjacencyTable(1, 0.5, 2)
    points = np.random.default_rng(0).uniform((-1, -2), (3, 4), (200, 2)).astype(np.float32)
    assert grid.shape == (9, 13)
    assert grid.size == 117
    np.testing.assert_array_equal(grid.centre(grid.number(points)), table.centre_of(table.cell_of(points)))
    assert grid.centre(grid.number(np.array([9.0, -9.0]))).tolist() == [3.0, -2.0]  # the nearest, of a point outside


def test_a_way_leads_around_a_wall_and_not_straight_through():
    grid = Grid.over((0.0, 0.0), (2.0, 2.0), 1.0)
    ways = next_cells(_table(U), grid)
    assert _way(ways, grid, (0, 0), (0, 2)) == U.tolist()
    assert _way(ways, grid, (0, 2), (0, 0)) == U[::-1].tolist()
    assert _way(ways, grid, (2, 1), (2, 1)) == [[2, 1]]


def test_with_larger_k_a_way_has_fewer_cells():
    grid = Grid.over((0.0, 0.0), (2.0, 2.0), 1.0)
    ways = next_cells(_table(U, k=2), grid)
    assert _way(ways, grid, (0, 0), (0, 2)) == [[0, 0], [2, 0], [2, 2], [0, 2]]
    # Two cells either way: the straight one is shorter than that over (2, 1).
    assert _way(ways, grid, (1, 0), (2, 1)) == [[1, 0], [2, 1]]


def test_of_ways_with_as_many_cells_the_shortest_counts():
    table = _table(np.array([[0, 0], [1, 3], [2, 0]]))
    table.update(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]]), np.full(3, 1))
    grid = Grid.over((0.0, 0.0), (2.0, 3.0), 1.0)
    assert _way(next_cells(table, grid), grid, (0, 0), (2, 0)) == [[0, 0], [1, 1], [2, 0]]


def test_a_way_to_where_nobody_was_ends_next_to_it():
    grid = Grid.over((0.0, 0.0), (2.0, 4.0), 1.0)
    ways = next_cells(_table(U), grid)
    assert _way(ways, grid, (0, 0), (0, 4))[-1] == [0, 2]
    assert _way(ways, grid, (0, 4), (0, 0)) == [[0, 4]]  # and from there is none


@pytest.mark.parametrize("directed", [False, True])
def test_there_is_no_way_where_nobody_went(directed):
    table = _table(np.array([[0], [1]]), directed=directed)
    table.update(np.array([[3.0], [4.0]]), np.full(2, 1))
    grid = Grid.over((0.0,), (4.0,), 1.0)
    ways = next_cells(table, grid)
    assert ways[0].tolist() == [0, 1, 1, NONE, NONE]  # cell 2 is unexplored and as near to 1 as to 3
    assert ways[1, 0] == (NONE if directed else 0)
    assert ways[2].tolist() == [NONE] * 5


def test_cells_outside_the_grid_are_left_out():
    """A way over 3 would have to leave the grid."""
    grid = Grid.over((0.0,), (2.0,), 1.0)
    assert next_cells(_table(np.array([[0], [1], [2], [3], [2], [1]])), grid).tolist() == [[0, 1, 1], [0, 1, 2], [1, 1, 2]]
    apart = _table(np.array([[0], [1], [3], [2]]))
    assert next_cells(apart, grid)[1].tolist() == [0, 1, NONE]
    assert (next_cells(_table(np.array([[7], [8]])), grid) == NONE).all()
