import itertools

import numpy as np
import pytest

from hrac.adjacency.table import AdjacencyTable


def table_of(positions, episodes=None, k=2, cell_size=1.0):
    positions = np.asarray(positions, np.float64)
    table = AdjacencyTable(k, cell_size, positions.shape[1])
    table.update(positions, np.zeros(len(positions), np.int64) if episodes is None else np.asarray(episodes))
    return table


def line(*xs):
    return np.array(xs, np.float64)[:, None]


def relation(table):
    """The adjacent pairs as a set of pairs of cells, from asking about every pair."""
    n = range(len(table.cells))
    i, j = np.array(list(itertools.product(n, n)), np.int64).reshape(-1, 2).T
    near = table.adjacent(i, j)
    cells = [tuple(cell) for cell in table.cells.tolist()]
    return {(cells[a], cells[b]) for a, b in zip(i[near], j[near], strict=True)}


def both_ways(*pairs):
    """Those pairs of 1-D cells, their reverses, and each cell with itself."""
    cells = {x for pair in pairs for x in pair}
    return {((a,), (b,)) for a, b in [*pairs, *((b, a) for a, b in pairs), *((x, x) for x in cells)]}


def random_walks(rng, episodes, steps, dimensions):
    """Positions and episode numbers of short walks that cross each other's ways."""
    moves = rng.normal(0.0, 1.0, (episodes, steps, dimensions))
    return moves.cumsum(axis=1).reshape(-1, dimensions), np.repeat(np.arange(episodes), steps)


def brute_force(positions, episodes, k):
    """The definition itself: cells some trajectory was in at most k steps apart."""
    cells = [tuple(np.floor(position + 0.5).astype(int).tolist()) for position in positions]
    near = {cell: set() for cell in cells}
    for (s, a), (t, b) in itertools.product(enumerate(cells), repeat=2):
        if episodes[s] == episodes[t] and abs(s - t) <= k:
            near[a].add(b)
    return {(a, b) for a, others in near.items() for b in others}


def test_one_dimension_by_hand():
    table = table_of(line(0, 1, 2, 3), k=2)
    assert relation(table) == both_ways((0, 1), (0, 2), (1, 2), (1, 3), (2, 3))
    assert table.cells.tolist() == [[0], [1], [2], [3]]


def test_two_dimensions_by_hand():
    table = table_of([[0, 0], [0, 1], [1, 1]], k=1)
    a, b, c = (0, 0), (0, 1), (1, 1)
    assert relation(table) == {(a, a), (b, b), (c, c), (a, b), (b, a), (b, c), (c, b)}


def test_three_dimensions_by_hand():
    table = table_of([[0, 0, 0], [0, 0, 5], [0, 0, 5], [7, 0, 5]], k=2)  # a pause counts as a step
    a, b, c = (0, 0, 0), (0, 0, 5), (7, 0, 5)
    assert relation(table) == {(a, a), (b, b), (c, c), (a, b), (b, a), (b, c), (c, b)}


def test_k_steps_apart_is_adjacent_and_one_more_is_not():
    table = table_of(line(*range(12)), k=10)
    assert table.adjacent(np.array([0, 1, 0]), np.array([10, 11, 11])).tolist() == [True, True, False]


def test_what_was_far_once_is_adjacent_when_seen_near_another_time():
    table = table_of(line(0, 1, 2, 3, 0), k=2)  # 3 and 0 are three steps apart, then one
    assert ((0,), (3,)) in relation(table)


def test_episodes_are_not_joined():
    table = table_of(line(0, 1, 2, 3), episodes=[5, 5, 6, 6], k=3)
    assert relation(table) == both_ways((0, 1), (2, 3))


def test_negative_coordinates():
    table = table_of(line(-3, -2, -1, 0), k=1)
    assert relation(table) == both_ways((-3, -2), (-2, -1), (-1, 0))


@pytest.mark.parametrize(
    ("cell_size", "x", "cell"),
    [
        (1.0, 0.49, 0),
        (1.0, 0.5, 1),
        (1.0, -0.5, 0),
        (1.0, -0.51, -1),
        (0.5, 1.2, 2),
        (4.0, 5.9, 1),
        (4.0, 6.0, 2),
        (4.0, -7.0, -2),
    ],
)
def test_a_cell_reaches_half_a_cell_size_to_each_side_of_its_centre(cell_size, x, cell):
    table = AdjacencyTable(2, cell_size, 1)
    assert table.cell_of(line(x)).tolist() == [[cell]]
    assert table.centre_of(np.array([[cell]])).tolist() == [[cell * cell_size]]


def test_cell_size_decides_what_is_one_cell():
    assert relation(table_of(line(0.0, 0.3, 0.6, 1.1), k=1, cell_size=0.5)) == both_ways((0, 1), (1, 2))
    assert relation(table_of(line(0.0, 0.3, 0.6, 1.1), k=1, cell_size=4.0)) == both_ways((0, 0))


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("k", [1, 3, 50])
def test_random_trajectories_give_the_relation_of_the_definition(dimensions, k):
    positions, episodes = random_walks(np.random.default_rng(k), 4, 15, dimensions)
    table = table_of(positions, episodes, k)
    assert relation(table) == brute_force(positions, episodes, k)


def test_the_relation_is_symmetric_and_every_cell_is_adjacent_to_itself():
    positions, episodes = random_walks(np.random.default_rng(0), 4, 15, 2)
    table = table_of(positions, episodes)
    found = relation(table)
    assert found == {(b, a) for a, b in found}
    assert {(tuple(cell), tuple(cell)) for cell in table.cells.tolist()} <= found


def test_updates_in_parts_equal_one_update():
    positions, episodes = random_walks(np.random.default_rng(1), 6, 20, 2)
    parts = AdjacencyTable(3, 1.0, 2)
    for number in range(6):
        parts.update(positions[episodes == number], episodes[episodes == number])
    whole = table_of(positions, episodes, k=3)
    np.testing.assert_array_equal(parts.cells, whole.cells)
    np.testing.assert_array_equal(parts.pairs, whole.pairs)


def test_the_same_again_changes_nothing():
    positions, episodes = random_walks(np.random.default_rng(2), 3, 20, 2)
    table = table_of(positions, episodes)
    cells, pairs = table.cells.copy(), table.pairs.copy()
    table.update(positions, episodes)
    np.testing.assert_array_equal(table.cells, cells)
    np.testing.assert_array_equal(table.pairs, pairs)


def test_each_adjacent_pair_of_different_cells_is_stored_once_and_sorted():
    positions, episodes = random_walks(np.random.default_rng(3), 5, 30, 2)
    table = table_of(positions, episodes, k=3)
    unordered = {frozenset(pair) for pair in brute_force(positions, episodes, 3)}
    n = len(table.cells)
    assert len(table.pairs) == len(unordered) - n
    assert (table.num_adjacent, table.num_pairs) == (len(unordered), n * (n + 1) // 2)
    assert (np.diff(table.pairs) > 0).all()
    i, j = table.decode(table.pairs)
    assert (i < j).all()
    assert table.adjacent(i, j).all()


def test_a_pair_is_stored_as_one_number():
    """Checkpoints hold these numbers: (0, 1), (0, 2) and (1, 2)."""
    assert table_of(line(5, 6, 7), k=2).pairs.tolist() == [1, 2, 2**32 + 2]


def test_memory_grows_with_the_adjacent_pairs_not_with_the_square_of_the_cells():
    cells = 20_000
    table = table_of(np.arange(cells, dtype=np.float64)[:, None], k=2)
    assert len(table.pairs) == (cells - 1) + (cells - 2)
    held = [value for value in vars(table).values() if isinstance(value, np.ndarray)]
    assert sum(array.nbytes for array in held) == 8 * (len(table.pairs) + cells)


def test_a_restored_table_is_the_same_and_goes_on():
    positions, episodes = random_walks(np.random.default_rng(4), 6, 20, 2)
    early = episodes < 3
    table = table_of(positions[early], episodes[early])
    again = AdjacencyTable.restore(table.k, table.cell_size, table.cells.shape[1], table.cells.copy(), table.pairs.copy())
    assert relation(again) == relation(table)
    again.update(positions[~early], episodes[~early])
    whole = table_of(positions, episodes)
    np.testing.assert_array_equal(again.cells, whole.cells)
    np.testing.assert_array_equal(again.pairs, whole.pairs)


def test_an_empty_table_can_be_restored_and_filled():
    empty = AdjacencyTable(2, 1.0, 2)
    assert (empty.num_pairs, empty.num_adjacent) == (0, 0)
    empty.update(np.empty((0, 2)), np.empty(0, np.int64))
    again = AdjacencyTable.restore(2, 1.0, empty.cells.shape[1], empty.cells, empty.pairs)
    again.update(np.zeros((1, 2)), np.zeros(1, np.int64))
    assert relation(again) == {((0, 0), (0, 0))}


def _code(i, j):
    """The code of a pair of cells, by hand."""
    return i * 2**32 + j


@pytest.mark.parametrize(
    ("cells", "pairs", "message"),
    [
        (np.array([[0, 0], [1, 1]]), np.array([_code(0, 1)]), r"cells \(2, 2\) of 1 dimensions and pairs \(1,\) do not make"),
        (np.array([[0], [1], [2]]), np.array([[_code(0, 1)]]), "do not make a table"),
        (np.array([[0], [1], [0]]), np.array([_code(0, 1)]), "must be different"),
        (np.array([[0], [1], [2]]), np.array([_code(0, 1), _code(0, 3)]), "must be of these cells"),  # cells are 0, 1, 2
        (np.array([[0], [1], [2]]), np.array([_code(-1, 1), _code(0, 1)]), "must be of these cells"),
        (np.array([[0], [1], [2]]), np.array([_code(0, 1), _code(1, 1)]), "must be of these cells"),  # with itself: not stored
        (np.array([[0], [1], [2]]), np.array([_code(1, 0)]), "must be of these cells"),
        (np.array([[0], [1], [2]]), np.array([_code(1, 2), _code(0, 1)]), "must be in order"),
        (np.array([[0], [1], [2]]), np.array([_code(0, 1), _code(0, 1)]), "must be in order"),
    ],
)
def test_what_can_be_no_table_is_not_restored(cells, pairs, message):
    with pytest.raises(ValueError, match=message):
        AdjacencyTable.restore(2, 1.0, 1, cells, pairs)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_positions_that_are_not_finite_are_refused_and_leave_the_table_as_it_was(bad):
    table = table_of(line(0, 1))
    with pytest.raises(ValueError, match="positions must be finite"):
        table.update(line(2, bad), np.zeros(2, np.int64))
    assert relation(table) == both_ways((0, 1))


def test_huge_coordinates():
    table = table_of([[1e9, -1e9], [1e9 + 1, -1e9], [1e9 + 2, -1e9]], k=1)
    a, b, c = ((10**9 + i, -(10**9)) for i in range(3))
    assert relation(table) == {(a, a), (b, b), (c, c), (a, b), (b, a), (b, c), (c, b)}
