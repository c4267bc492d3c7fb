"""Directed adjacency: ordered labels and two embeddings, and a ring of one-way doors where a symmetric network must err."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse import csgraph

from hrac.adjacency import learn, network, pairs
from hrac.adjacency.network import DirectedEmbedding, accuracy, distance
from hrac.adjacency.pairs import TablePairs
from hrac.adjacency.sources import Trajectories, make_source
from hrac.adjacency.table import AdjacencyTable
from hrac.envs.grid import Maze
from hrac.nets import MLP
from hrac.settings import AdjacencyConfig

RING = """\
#########
#A.>.>..#
#.#####.#
#^#####v#
#.#####.#
#G.<.<..#
#########
"""
"""Twenty cells in a ring, and six doors that lead around it clockwise."""
K = 4


def line(*xs):
    return np.array(xs, np.float64)[:, None]


def table_of(xs, k=2, episodes=None, directed=True):
    table = AdjacencyTable(k, 1.0, 1, directed)
    table.update(line(*xs), np.zeros(len(xs), np.int64) if episodes is None else np.array(episodes))
    return table


def relation(table):
    """Which cell of a line is adjacent to which, from asking about every ordered pair."""
    i, j = (each.ravel() for each in np.indices((len(table.cells), len(table.cells))))
    near = table.adjacent(i, j)
    return {(int(table.cells[a, 0]), int(table.cells[b, 0])) for a, b in zip(i[near], j[near], strict=True)}


def shift(by):
    """An embedding of a line that moves points."""
    return MLP((jnp.eye(1),), (jnp.array([float(by)]),))


# The table.


def test_only_what_came_later_is_adjacent():
    table = table_of([0, 1, 2, 3], k=2)
    assert relation(table) == {(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (0, 0), (1, 1), (2, 2), (3, 3)}
    assert (table.num_adjacent, table.num_pairs) == (9, 16)
    assert relation(table_of([0, 1, 0], k=1)) == {(0, 1), (1, 0), (0, 0), (1, 1)}  # there and back
    assert relation(table_of([5, 4, 4, 3], k=1)) == {(5, 4), (4, 3), (5, 5), (4, 4), (3, 3)}
    assert relation(table_of([0, 1, 2, 3], k=3, episodes=[0, 0, 1, 1])) == {(0, 1), (2, 3), *((x, x) for x in range(4))}


def test_symmetrised_it_is_the_undirected_table():
    xs = np.random.default_rng(0).integers(-5, 6, 60)
    directed, symmetric = table_of(xs, 3), table_of(xs, 3, directed=False)
    assert relation(symmetric) == relation(directed) | {(b, a) for a, b in relation(directed)} != relation(directed)
    np.testing.assert_array_equal(directed.cells, symmetric.cells)


def test_updates_in_parts_and_a_restored_table_give_the_same():
    xs, episodes = np.random.default_rng(1).integers(-5, 6, 60), np.repeat(np.arange(3), 20)
    whole, parts = table_of(xs, 3, episodes), AdjacencyTable(3, 1.0, 1, directed=True)
    for number in range(3):
        parts.update(line(*xs[episodes == number]), episodes[episodes == number])
        parts = AdjacencyTable.restore(3, 1.0, 1, parts.cells.copy(), parts.pairs.copy(), directed=True)
    np.testing.assert_array_equal(parts.pairs, whole.pairs)
    np.testing.assert_array_equal(parts.cells, whole.cells)
    assert (np.diff(whole.pairs) > 0).all()


@pytest.mark.parametrize("code", [(1, 1), (2, 0), (0, 2)])
def test_a_restored_table_has_pairs_of_its_own_different_cells(code):
    pairs = np.array([(code[0] << 32) | code[1]])
    with pytest.raises(ValueError, match="its pairs must be of these cells"):
        AdjacencyTable.restore(2, 1.0, 1, line(0, 1).astype(np.int64), pairs, directed=True)


def test_the_order_of_a_pair_counts_only_in_a_directed_table():
    cells, back = line(0, 1).astype(np.int64), np.array([1 << 32])  # the pair (1, 0)
    assert relation(AdjacencyTable.restore(2, 1.0, 1, cells, back, directed=True)) == {(0, 0), (1, 1), (1, 0)}
    with pytest.raises(ValueError, match="its pairs must be of these cells"):
        AdjacencyTable.restore(2, 1.0, 1, cells, back)


def test_true_distances_are_taken_as_they_are():
    """From 0 to 1 and from 1 to 2 in one step; there is no way back (-1), and from 0 to 2 it takes two."""
    steps = np.array([[0, 1, 2], [-1, 0, 1], [-1, -1, 0]])
    table = AdjacencyTable.from_distances(1, 1.0, line(0, 1, 2), steps, directed=True)
    assert relation(table) == {(0, 1), (1, 2), (0, 0), (1, 1), (2, 2)}


# Minibatches.


def drawn(source_pairs, batches=300, batch_size=16):
    """How often each ordered pair is drawn with which label and weight."""
    batch = source_pairs.draw(np.random.default_rng(0), batches, batch_size)
    found = {}
    for first, second, adjacent, weight in zip(*(leaf.reshape(-1, *leaf.shape[2:]) for leaf in batch), strict=True):
        key = (int(first[0]), int(second[0]), bool(adjacent), round(float(weight), 4))
        found[key] = found.get(key, 0) + 1
    return found


@pytest.mark.parametrize("listed", [True, False])
def test_all_ordered_pairs_are_drawn_with_their_own_label(listed, monkeypatch):
    """0, 1, 2 with k = 1: of nine ordered pairs five are adjacent, and four are not, each drawn as often as the others."""
    if not listed:
        monkeypatch.setattr(pairs, "LISTED_PAIRS", 0)
    found = drawn(TablePairs(table_of([0, 1, 2], k=1)))
    near, far = {(0, 1), (1, 2), (0, 0), (1, 1), (2, 2)}, {(1, 0), (2, 1), (0, 2), (2, 0)}
    assert found.keys() == {(*p, True, round(10 / 9, 4)) for p in near} | {(*p, False, round(8 / 9, 4)) for p in far}
    for pair, count in found.items():
        share = 1 / len(near if pair[2] else far)
        assert count / 2400 == pytest.approx(share, abs=5 * (share * (1 - share) / 2400) ** 0.5)


def test_steps_of_trajectories_are_paired_from_earlier_to_later():
    source = Trajectories(1, 1, AdjacencyConfig(directed=True))
    source.extend(line(*range(7)), np.zeros(7, np.int64))
    assert source.epoch_pairs == 49
    found = {pair[:3] for pair in drawn(source.pairs())}
    assert found == {(i, i + 1, True) for i in range(6)} | {(i, j, False) for i in range(3) for j in range(i + 4, 7)}
    other = Trajectories(1, 1, AdjacencyConfig(directed=True))
    other.restore(source.snapshot())
    assert other.epoch_pairs == 49


@pytest.mark.parametrize("name", ["table", "oracle"])
def test_a_source_is_directed_if_its_settings_are_and_stays_so_when_it_is_restored(name):
    truth = (line(0, 1, 2).astype(np.int64), np.array([[0, 1, 2], [-1, 0, 1], [-1, -1, 0]]))
    for directed, epoch, near in ((True, 9, 5), (False, 6, 5)):
        source, other = (make_source(AdjacencyConfig(source=name, directed=directed), 1, 1, truth) for _ in range(2))
        source.extend(line(0, 1, 2), np.zeros(3, np.int64))
        other.restore(source.snapshot())
        for each in (source, other):
            assert (each.epoch_pairs, each.numbers()) == (epoch, {"adjacency/cells": 3, "adjacency/pairs": near})
            assert each.table.adjacent(np.array([1, 0]), np.array([0, 1])).tolist() == [not directed, True]


# The network.


@pytest.mark.parametrize("xp", [jnp, np])
def test_distance_is_from_the_source_of_the_first_to_the_target_of_the_second(xp):
    """Sources stay, targets move by 3 to the left: from 1 to 5 is |1 - 2|, from 5 to 1 is |5 + 2|."""
    embedding = jax.tree.map(xp.asarray, DirectedEmbedding(shift(0), shift(-3)))
    there, back = xp.asarray([1.0], dtype=xp.float32), xp.asarray([5.0], dtype=xp.float32)
    assert float(distance(embedding, there, back)) == pytest.approx(1.0)
    assert float(distance(embedding, back, there)) == pytest.approx(7.0)
    many = distance(embedding, there[None], xp.asarray([[1.0], [4.0], [5.0]], dtype=xp.float32))
    np.testing.assert_allclose(many, [3.0, 0.0, 1.0], atol=1e-5)


def test_the_embeddings_of_several_runs_take_points_of_several_runs():
    embedding = jax.tree.map(lambda *leaves: np.stack(leaves), *(DirectedEmbedding(shift(0), shift(-by)) for by in (3, 4)))
    first, second = (np.tile(np.array([x], np.float32), (2, 5, 1)) for x in (1.0, 5.0))
    np.testing.assert_allclose(distance(embedding, first, second), [[1.0] * 5, [0.0] * 5], atol=1e-5)


@pytest.mark.parametrize(
    ("near", "share"),
    [
        ([(0, 1), (1, 2)], 1.0),  # with targets one to the left: only the next point is nearer than 0.5
        ([(1, 0), (2, 1)], 2 / 6),  # of the other direction
        ([(0, 1), (1, 0), (1, 2), (2, 1)], 4 / 6),
        ([], 4 / 6),
    ],
)
def test_accuracy_looks_at_both_directions_of_a_pair(near, share):
    truth = np.zeros((3, 3), bool)
    truth[tuple(np.array(near, int).reshape(-1, 2).T)] = True
    cells = jnp.array([[0.0], [1.0], [2.0]])
    found = accuracy(DirectedEmbedding(shift(0), shift(-1)), cells, jnp.asarray(truth), 0.5)
    assert float(found) == pytest.approx(share)


def test_two_networks_of_the_papers_layers_begin_differently():
    made = jax.jit(lambda: network.init(jax.random.key(0), 2, AdjacencyConfig(directed=True)).embedding)()
    for side in (made.source, made.target):
        assert [weight.shape for weight in side.weights] == [(2, 128), (128, 128), (128, 128), (128, 32)]
    assert not np.array_equal(made.source.weights[0], made.target.weights[0])


# The ring.


def walks(world, rng, episodes=300, steps=50):
    """Random walks of a grid world, and the numbers of their episodes."""
    places = []
    for _ in range(episodes):
        state, obs = world.start(rng.choice(world.cells))
        for _ in range(steps):
            places.append(obs)
            after = world.move(state, np.int32(rng.integers(4)), np.float32(1.0))
            state, obs = after.state, after.obs
    return np.array(places), np.repeat(np.arange(episodes), steps)


@functools.cache
def judged(source, directed):
    """The relation of the ring's cells (cells, cells) as a network judges it, learned from one source of pairs."""
    world = Maze(RING)
    cfg = AdjacencyConfig(source=source, directed=directed, hidden=(64, 64), embedding_dim=16, learning_rate=1e-3)
    made = make_source(cfg, K, 2, (world.cells, world.cell_distances))
    made.extend(*walks(world, np.random.default_rng(0)))
    states = jax.tree.map(lambda leaf: leaf[None], network.init(jax.random.key(0), 2, cfg))
    states, _ = learn.train(states, [made], [np.random.default_rng(0)], 400, cfg)
    embedding = jax.tree.map(lambda leaf: leaf[0], states.embedding)
    cells = jnp.asarray(world.cells, jnp.float32)
    relation = np.asarray(jax.vmap(lambda cell: distance(embedding, cell[None], cells))(cells) < cfg.threshold)
    different, truth = ~np.eye(len(cells), dtype=bool), world.cell_distances <= K
    share = float(accuracy(embedding, cells, jnp.asarray(truth), cfg.threshold))
    assert share == pytest.approx((relation == truth)[different].mean())
    return relation, share


def best_symmetric(world):
    """The most that any symmetric judgement can get right.

    Of a pair whose two directions differ it gets one wrong, whatever it says.
    """
    near = world.cell_distances <= K
    both = [(near[i, j], near[j, i]) for i, j in itertools.combinations(range(len(near)), 2)]
    return 1 - sum(there != back for there, back in both) / (2 * len(both))


def test_the_best_that_a_symmetric_network_can_do_on_the_ring():
    """Of 190 pairs 80 are within 4 steps clockwise; of these 12 are between two doors, where one can turn around."""
    world = Maze(RING)
    near = world.cell_distances <= K
    assert len(world.cells) == 20
    assert near.sum() - 20 == 80 + 12
    assert best_symmetric(world) == pytest.approx(1 - (80 - 12) / 380)  # 0.82


@pytest.mark.parametrize("source", ["oracle", "table"])
def test_on_the_ring_the_directed_network_is_right_and_the_symmetric_one_cannot_be(source):
    world = Maze(RING)
    best = best_symmetric(world)
    assert best - 0.02 < judged(source, directed=False)[1] < best + 1e-6
    assert judged(source, directed=True)[1] > 0.97


def arrives(world, near, start, windows=10):
    """Whether an agent that plans with a judged relation gets from a cell to G.

    Every K steps it plans over cells that are judged adjacent, and goes for the next of them. Its controller knows the way to
    what truly is within K steps. Towards anything else it takes the steps that look shorter as the crow flies.
    """
    cells, steps = world.cells, world.cell_distances
    number = {tuple(cell): index for index, cell in enumerate(cells.tolist())}
    hops = csgraph.dijkstra(near & ~np.eye(len(near), dtype=bool), unweighted=True)[:, number[tuple(world.layout.marks["G"])]]
    state = world.start(cells[start])[0]
    for _ in range(windows):
        here = number[tuple(state.position.tolist())]
        following = np.flatnonzero(near[here] & (hops < hops[here]))
        if len(following) == 0:
            return False
        subgoal = following[hops[following].argmin()]
        knows = steps[here, subgoal] <= K
        for _ in range(K):
            after = [world.move(state, np.int32(action), np.float32(1.0)) for action in range(4)]
            places = [step.state.position for step in after]
            far = [steps[number[tuple(p.tolist())], subgoal] if knows else np.linalg.norm(p - cells[subgoal]) for p in places]
            state = after[int(np.argmin(far))].state
            if (state.position == world.layout.marks["G"]).all():
                return True
    return False


@pytest.mark.parametrize("source", ["oracle", "table"])
def test_an_agent_that_plans_with_adjacency_needs_the_directed_one(source):
    """From A the goal is four steps away, against a door. The way there is 16 steps, clockwise."""
    world = Maze(RING, random_action_prob=0.0, ends_on_success=False)
    starts = [cell for cell in range(20) if (world.cells[cell] != world.layout.marks["G"]).any()]
    arrived = {directed: [arrives(world, judged(source, directed)[0], cell) for cell in starts] for directed in (True, False)}
    assert arrived[True][0]
    assert not arrived[False][0]
    assert sum(arrived[True]) >= 18
    assert sum(arrived[False]) <= 12
