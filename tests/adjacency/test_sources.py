"""Where pairs come from: explored cells, true distances, stored trajectories, or nowhere."""

import itertools

import numpy as np
import pytest

from hrac.adjacency.pairs import FAR, TrajectoryPairs
from hrac.adjacency.sources import Oracle, Source, Table, Trajectories, make_source
from hrac.adjacency.table import AdjacencyTable
from hrac.config import ConfigError
from hrac.envs.grid import Maze
from hrac.settings import AdjacencyConfig

CFG = AdjacencyConfig()
SOURCES = ("table", "oracle", "trajectories")
HAIRPIN = Maze("#####\n#A..#\n###.#\n#G..#\n#####")
"""Seven cells in a row, bent around a wall: (1, 1) to (3, 1)."""


TRUTH = (HAIRPIN.cells, HAIRPIN.cell_distances)


def _source(name, k=2, truth=TRUTH):
    return make_source(AdjacencyConfig(source=name), k, 2, truth)


def _walk(seed=0, episodes=3, steps=12):
    """Random walks along the hairpin, each episode with a number."""
    path = np.array([(1, 1), (1, 2), (1, 3), (2, 3), (3, 3), (3, 2), (3, 1)], np.float64)
    rng, places = np.random.default_rng(seed), []
    for _ in range(episodes):
        place = rng.integers(7)
        for _ in range(steps):
            places.append(place)
            place = np.clip(place + rng.choice([-1, 1]), 0, 6)
    return path[places], np.repeat(np.arange(episodes), steps)


def _labels(source, batches=200, batch_size=16):
    """What is drawn: pairs of positions with labels and weights, by pair."""
    drawn = source.pairs().draw(np.random.default_rng(0), batches, batch_size)
    found = {}
    for first, second, adjacent, weight in zip(*(leaf.reshape(-1, *leaf.shape[2:]) for leaf in drawn), strict=True):
        found.setdefault((tuple(first.tolist()), tuple(second.tolist())), set()).add((bool(adjacent), float(weight)))
    return found


def test_none_is_no_source():
    assert _source("none") is None


@pytest.mark.parametrize("name", SOURCES)
def test_each_source_is_made_by_its_name(name):
    source = _source(name)
    assert isinstance(source, Source)
    assert type(source) is {"table": Table, "oracle": Oracle, "trajectories": Trajectories}[name]
    assert source.needs_random_walk is (name != "oracle")


def test_an_oracle_needs_a_task_that_knows_its_distances():
    with pytest.raises(ConfigError, match=r"adjacency\.source must be .*, got 'oracle': this task does not know"):
        _source("oracle", truth=None)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_oracles_labels_are_the_true_distances(k):
    source = _source("oracle", k)
    labels = _labels(source)
    cells = [tuple(cell) for cell in HAIRPIN.cells.astype(float).tolist()]
    true = {(a, b): HAIRPIN.cell_distances[i, j] <= k for (i, a), (j, b) in itertools.product(enumerate(cells), repeat=2)}
    assert all({adjacent for adjacent, _ in found} == {true[pair]} for pair, found in labels.items())
    unordered = lambda pairs: {frozenset(pair) for pair in pairs}  # noqa: E731
    assert unordered(labels) == unordered(true)  # all pairs there are
    assert source.epoch_pairs == 7 * 8 // 2
    assert source.numbers() == {"adjacency/cells": 7, "adjacency/pairs": 7 + sum(range(7 - k, 7))}


def test_experience_adds_nothing_to_what_an_oracle_knows():
    source = _source("oracle")
    before = source.snapshot()
    source.extend(*_walk())
    source.extend(np.array([[9.0, 9.0], [1.0, 1.0]]), np.zeros(2, np.int64))
    for name, array in source.snapshot().items():
        np.testing.assert_array_equal(array, before[name])


def test_places_are_adjacent_if_either_can_be_reached_from_the_other():
    """From 0 to 1 and from 1 to 2 in one step; there is no way back (-1), and from 0 to 2 it takes two."""
    steps = np.array([[0, 1, 2], [-1, 0, 1], [-1, -1, 0]])
    table = AdjacencyTable.from_distances(1, 1.0, np.array([[0.0], [1.0], [2.0]]), steps)
    i, j = np.array([0, 1, 1, 2, 0, 2]), np.array([1, 0, 2, 1, 2, 0])
    assert table.adjacent(i, j).tolist() == [True, True, True, True, False, False]


def test_positions_that_share_a_cell_are_one():
    """With cells of 4, places at 0, 1 and 7 are two cells, 0 and 2, which are adjacent because 1 and 7 are one step apart."""
    table = AdjacencyTable.from_distances(1, 4.0, np.array([[0.0], [1.0], [7.0]]), np.array([[0, 1, 2], [1, 0, 1], [2, 1, 0]]))
    assert table.cells.tolist() == [[0], [2]]
    assert table.adjacent(np.array([0]), np.array([1])).tolist() == [True]


def test_a_table_knows_what_trajectories_show():
    """A walk over the seven cells in order shows all that is within two steps."""
    source = _source("table")
    assert source.numbers() == {"adjacency/cells": 0, "adjacency/pairs": 0}
    path = np.array([(1, 1), (1, 2), (1, 3), (2, 3), (3, 3), (3, 2), (3, 1)], np.float64)
    source.extend(path, np.zeros(7, np.int64))
    assert source.numbers() == {"adjacency/cells": 7, "adjacency/pairs": 7 + 6 + 5}
    assert source.epoch_pairs == 28
    oracle = _labels(_source("oracle"))
    labels = _labels(source)
    shared = labels.keys() & oracle.keys()
    assert len(shared) > 20
    assert all(labels[pair] == oracle[pair] for pair in shared)


def _places(length, *episodes):
    """Positions that are their number in time, in episodes of these lengths."""
    numbers = np.repeat(np.arange(len(episodes)), episodes)
    assert len(numbers) == length
    return np.arange(length, dtype=np.float32)[:, None], numbers


def test_pairs_of_trajectories_are_near_or_far_in_time_and_of_one_episode():
    """k = 2: near is one or two steps apart, far eight or more. The last episode has no two steps so far apart."""
    positions, episodes = _places(30, 12, 10, 8)
    drawn = TrajectoryPairs(positions, episodes, 2).draw(np.random.default_rng(0), 500, 16)
    i, j = (points[..., 0].astype(int) for points in (drawn.first, drawn.second))
    near = drawn.adjacent
    np.testing.assert_array_equal(near, np.broadcast_to(np.arange(16) < 8, near.shape))
    np.testing.assert_array_equal(episodes[i], episodes[j])
    assert set((j - i)[near].tolist()) == {1, 2}
    assert set((j - i)[~near].tolist()) == {8, 9, 10, 11}
    assert set(episodes[i][near].tolist()) == {0, 1, 2}
    assert set(episodes[i][~near].tolist()) == {0, 1}
    assert (drawn.weight == 1.0).all()
    assert FAR == 4


def test_all_near_and_all_far_pairs_are_drawn():
    positions, episodes = _places(15, 11, 4)
    drawn = TrajectoryPairs(positions, episodes, 2).draw(np.random.default_rng(0), 2000, 8)
    pairs = np.concatenate([drawn.first, drawn.second], axis=-1).astype(int)
    found = [{tuple(pair) for pair in pairs[mask].tolist()} for mask in (drawn.adjacent, ~drawn.adjacent)]
    everything = [(i, j) for i, j in itertools.combinations(range(15), 2) if episodes[i] == episodes[j]]
    assert found[0] == {(i, j) for i, j in everything if j - i <= 2}
    assert found[1] == {(i, j) for i, j in everything if j - i >= 8}


@pytest.mark.parametrize(
    ("lengths", "near", "far"),
    [((9,), 1.0, 1.0), ((8, 8), 1.0, 0.0), ((1, 1, 1), 0.0, 0.0), ((2, 1), 1.0, 0.0)],
    ids=["just long enough", "too short for far ones", "of one step", "of two steps"],
)
def test_pairs_that_no_episode_is_long_enough_for_have_no_weight(lengths, near, far):
    positions, episodes = _places(sum(lengths), *lengths)
    drawn = TrajectoryPairs(positions, episodes, 2).draw(np.random.default_rng(0), 10, 8)
    np.testing.assert_array_equal(drawn.weight, np.where(drawn.adjacent, near, far))
    if near:
        apart = (drawn.second - drawn.first)[drawn.adjacent]
        assert ((apart >= 1) & (apart <= 2)).all()


@pytest.mark.parametrize("number", [0, 5])
def test_stored_trajectories_are_not_joined_to_later_ones(number):
    """However the episodes of later ones are numbered."""
    source = Trajectories(2, 1, CFG)
    source.extend(*_places(9, 9))
    positions, episodes = _places(9, 9)
    source.extend(positions + 100, episodes + number)
    drawn = source.pairs().draw(np.random.default_rng(0), 200, 8)
    np.testing.assert_array_equal(drawn.first > 50, drawn.second > 50)
    assert {0.0, 100.0} == set(drawn.first[~drawn.adjacent].ravel().tolist())


def test_episodes_are_numbered_on_from_those_stored_before():
    """Two episodes of two steps, then two numbered 7 and 8."""
    source = Trajectories(2, 1, CFG)
    positions, episodes = _places(4, 2, 2)
    source.extend(positions, episodes)
    source.extend(positions, episodes + 7)
    assert source.snapshot()["episodes"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_stored_trajectories_make_as_many_gradient_steps_as_their_cells_would():
    source, table = _source("trajectories"), _source("table")
    for each in (source, table):
        each.extend(*_walk())
    assert source.epoch_pairs == table.epoch_pairs == 28
    assert source.numbers() == {"adjacency/cells": 7}


def test_positions_are_drawn_as_they_were_and_not_as_centres_of_cells():
    source = _source("trajectories")
    positions, episodes = _walk()
    source.extend(positions + 0.25, episodes)
    drawn = source.pairs().draw(np.random.default_rng(0), 10, 8)
    assert set((drawn.first % 1).ravel().tolist()) == {0.25}
    assert drawn.first.dtype == np.float32


@pytest.mark.parametrize("name", SOURCES)
def test_a_restored_source_is_the_same_and_goes_on(name):
    source, again = _source(name), _source(name)
    source.extend(*_walk(0))
    again.restore({key: array.copy() for key, array in source.snapshot().items()})
    for each in (source, again):
        each.extend(*_walk(1))
    assert source.numbers() == again.numbers()
    assert source.epoch_pairs == again.epoch_pairs
    first, second = (each.pairs().draw(np.random.default_rng(3), 20, 8) for each in (source, again))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", SOURCES)
def test_a_snapshot_is_arrays_and_names_only(name):
    source = _source(name)
    source.extend(*_walk())
    kept = source.snapshot()
    assert kept
    assert all(isinstance(array, np.ndarray) for array in kept.values())


@pytest.mark.parametrize("name", ["table", "trajectories"])
def test_positions_that_are_not_finite_are_refused(name):
    source = _source(name)
    with pytest.raises(ValueError, match="positions must be finite"):
        source.extend(np.array([[1.0, 1.0], [np.nan, 1.0]]), np.zeros(2, np.int64))
    assert source.numbers()["adjacency/cells"] == 0
