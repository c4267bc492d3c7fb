import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrac.adjacency import learn, network, pairs
from hrac.adjacency.learn import gradient_steps, train
from hrac.adjacency.network import distance
from hrac.adjacency.pairs import TablePairs
from hrac.adjacency.sources import Table
from hrac.adjacency.table import AdjacencyTable
from hrac.settings import AdjacencyConfig

CFG = AdjacencyConfig(hidden=(64,), embedding_dim=8, learning_rate=2e-3, batch_size=32, max_gradient_steps=1_000)
INIT = jax.jit(network.init, static_argnums=(1, 2))
LENGTH = 8

# Two corridors, rows 0 and 2, that meet at column 0 only: a path of 17 cells bent around a wall.
CORRIDORS = np.array([(0, c) for c in range(LENGTH)][::-1] + [(1, 0)] + [(2, c) for c in range(LENGTH)], np.float64)


def line(cells, k):
    """A walk along `cells` cells: cell index = position."""
    table = AdjacencyTable(k, 1.0, 1)
    table.update(np.arange(cells, dtype=np.float64)[:, None], np.zeros(cells, np.int64))
    return table


def walk_along(path, k, episodes=20, steps=100):
    """The relation that random walks up and down a path show."""
    rng = np.random.default_rng(0)
    places = [rng.integers(len(path), size=episodes)]
    for _ in range(steps - 1):
        places.append(np.clip(places[-1] + rng.choice([-1, 1], episodes), 0, len(path) - 1))
    source = Table(k, path.shape[1], CFG)
    source.extend(path[np.stack(places, axis=1).ravel()], np.repeat(np.arange(episodes), steps))
    return source


def indices(batch):
    """The cell indices drawn from a `line`."""
    return batch.first[..., 0].astype(np.int64), batch.second[..., 0].astype(np.int64)


def fresh(*seeds):
    """Untrained networks on a run axis, and their generators."""
    states = [INIT(jax.random.key(seed), 2, CFG) for seed in seeds]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states), [np.random.default_rng(seed) for seed in seeds]


# How many updates.


@pytest.mark.parametrize(
    ("cells", "epochs", "batch_size", "cap", "steps"),
    [
        (4, 50, 64, 20_000, 8),  # 10 pairs: 500 / 64 = 7.8
        (4, 64, 64, 20_000, 10),
        (4, 50, 64, 5, 5),
        (126, 50, 64, 20_000, 6_251),  # the Maze: 8,001 pairs
        (126, 50, 64, 6_250, 6_250),
        (1, 1, 64, 20_000, 1),
    ],
)
def test_gradient_steps_are_the_epochs_worth_of_pairs_under_the_cap(cells, epochs, batch_size, cap, steps):
    cfg = AdjacencyConfig(batch_size=batch_size, max_gradient_steps=cap)
    assert gradient_steps(line(cells, k=2).num_pairs, epochs, cfg) == steps


# What is drawn.


@pytest.fixture(params=["listed", "rejection"])
def _both_ways(request, monkeypatch):
    """However the pairs that are not adjacent are drawn."""
    if request.param == "rejection":
        monkeypatch.setattr(pairs, "LISTED_PAIRS", 0)


@pytest.mark.usefixtures("_both_ways")
def test_half_of_each_minibatch_is_adjacent_and_the_labels_are_right():
    table = line(6, k=2)
    batch = TablePairs(table).draw(np.random.default_rng(0), 20, 8)
    assert batch.first.shape == batch.second.shape == (20, 8, 1)
    np.testing.assert_array_equal(batch.adjacent, table.adjacent(*indices(batch)))
    np.testing.assert_array_equal(batch.adjacent.sum(axis=1), 4)


def test_weights_are_the_shares_of_the_two_kinds_of_pairs():
    batch = TablePairs(line(6, k=2)).draw(np.random.default_rng(0), 3, 8)  # 21 pairs: 6 + 5 + 4 adjacent
    np.testing.assert_allclose(batch.weight, np.where(batch.adjacent, 2 * 15 / 21, 2 * 6 / 21), rtol=1e-6)


def test_drawn_positions_are_the_centres_of_cells():
    table = AdjacencyTable(1, 0.5, 2)
    table.update(np.array([[0.1, -0.6], [0.4, -0.6]]), np.zeros(2, np.int64))
    drawn = TablePairs(table).draw(np.random.default_rng(0), 10, 4).first.reshape(-1, 2)
    assert {tuple(point) for point in drawn.tolist()} == {(0.0, -0.5), (0.5, -0.5)}


@pytest.mark.usefixtures("_both_ways")
def test_the_weighted_mean_of_any_function_estimates_its_mean_over_all_unordered_pairs():
    table, rng = line(6, k=2), np.random.default_rng(0)
    f = rng.normal(size=(6, 6))
    f = f + f.T + 3.0 * np.eye(6)
    i, j = np.triu_indices(6)
    exact = f[i, j].mean()
    batch = TablePairs(table).draw(rng, 4_000, 8)
    values = f[indices(batch)]
    estimates = (batch.weight * values).mean(axis=1)
    standard_error = estimates.std() / np.sqrt(len(estimates))
    assert abs(estimates.mean() - exact) < 4 * standard_error
    assert abs(values.mean() - exact) > 10 * standard_error  # the weights are needed


@pytest.mark.usefixtures("_both_ways")
def test_every_unordered_pair_has_the_same_expected_weight():
    draws = 40_000
    batch = TablePairs(line(6, k=2)).draw(np.random.default_rng(1), draws // 8, 8)
    i, j = indices(batch)
    pair = np.minimum(i, j) * 6 + np.maximum(i, j)
    weight = np.bincount(pair.ravel(), batch.weight.ravel(), minlength=36).reshape(6, 6) / draws
    share = 1 / 21
    standard_error = np.sqrt(share * 2 * 15 / 21 / draws)  # of a count of the heavier kind
    np.testing.assert_allclose(weight[np.triu_indices(6)], share, atol=5 * standard_error)
    assert weight[np.tril_indices(6, -1)].sum() == 0


@pytest.mark.usefixtures("_both_ways")
@pytest.mark.parametrize("cells", [1, 3])
def test_where_everything_is_adjacent_only_adjacent_pairs_count(cells):
    batch = TablePairs(line(cells, k=2)).draw(np.random.default_rng(0), 50, 8)
    np.testing.assert_array_equal(batch.weight, np.where(batch.adjacent, 2.0, 0.0))
    i, j = indices(batch)
    near = batch.adjacent
    assert len(set(zip(np.minimum(i, j)[near], np.maximum(i, j)[near], strict=True))) == cells * (cells + 1) // 2


def test_the_pairs_of_a_small_table_are_listed_once_each():
    """Those that are drawn by rejection come in both orders."""
    batch = TablePairs(line(6, k=2)).draw(np.random.default_rng(0), 50, 8)
    i, j = indices(batch)
    assert {*zip(i[~batch.adjacent], j[~batch.adjacent], strict=True)} == {(0, 3), (0, 4), (0, 5), (1, 4), (1, 5), (2, 5)}


def test_where_hardly_any_pair_is_not_adjacent_those_few_are_listed(monkeypatch):
    monkeypatch.setattr(pairs, "LISTED_PAIRS", 0)
    batch = TablePairs(line(20, k=18)).draw(np.random.default_rng(0), 10, 8)  # 210 pairs, all adjacent but (0, 19)
    i, j = indices(batch)
    assert {*zip(i[~batch.adjacent], j[~batch.adjacent], strict=True)} == {(0, 19)}
    np.testing.assert_allclose(batch.weight[~batch.adjacent], 2 / 210, rtol=1e-6)


# What is learned.


def test_the_network_learns_steps_not_space():
    states, rngs = fresh(0)
    states, loss = train(states, [walk_along(CORRIDORS, k=3)], rngs, 1_000, CFG)
    embedding = jax.tree.map(lambda leaf: leaf[0], states.embedding)
    apart = jax.vmap(distance, (None, 0, 0))

    def between(first, second):
        return apart(embedding, jnp.asarray(first, jnp.float32), jnp.asarray(second, jnp.float32))

    facing = np.array([(0, c) for c in range(2, LENGTH)]), np.array([(2, c) for c in range(2, LENGTH)])  # 6 steps or more
    assert (between(CORRIDORS[:-1], CORRIDORS[1:]) < CFG.threshold).all()
    assert (between(*facing) > CFG.threshold).all()
    assert float(loss[0]) < 0.02


def test_runs_trained_at_once_are_those_trained_one_by_one():
    sources = [walk_along(CORRIDORS, k=3), walk_along(CORRIDORS[:4], k=1)]  # 153 and 10 pairs: 718 and 47 steps
    states, rngs = fresh(0, 1)
    together, losses = train(states, sources, rngs, 150, CFG)
    for run, source in enumerate(sources):
        state, rng = fresh(run)
        alone, loss = train(state, [source], rng, 150, CFG)
        assert float(losses[run]) == pytest.approx(float(loss[0]), abs=1e-5)
        for one, both in zip(jax.tree.leaves(alone), jax.tree.leaves(together), strict=True):
            np.testing.assert_allclose(one[0], both[run], atol=1e-4)


def test_a_run_makes_exactly_its_gradient_steps():
    states, rngs = fresh(0, 1)
    sources = [walk_along(CORRIDORS, k=3), walk_along(CORRIDORS[:4], k=1)]
    trained, _ = train(states, sources, rngs, 150, CFG)
    counts = [leaf for leaf in jax.tree.leaves(trained.opt_state) if leaf.dtype == jnp.int32]
    np.testing.assert_array_equal(counts, [[718, 47]])


def test_the_loss_of_a_run_is_the_mean_over_its_steps_in_its_last_chunk(monkeypatch):
    """Chunks of four: nine steps are 4, 4 and 1; the other run makes three, and waits."""
    monkeypatch.setattr(learn, "CHUNK_GRADIENT_STEPS", 4)
    cfg = dataclasses.replace(CFG, max_gradient_steps=9)
    sources = [walk_along(CORRIDORS, k=3), walk_along(CORRIDORS[:4], k=1)]  # 8 * 153 / 32 is above 9, 8 * 10 / 32 = 2.5
    states, rngs = fresh(0, 1)
    trained, losses = train(states, sources, rngs, 8, cfg)
    update = jax.jit(network.update, static_argnames="cfg")
    for run, (source, last) in enumerate(zip(sources, ([8], [0, 1, 2]), strict=True)):
        state, rng, values = INIT(jax.random.key(run), 2, cfg), np.random.default_rng(run), []
        for _ in range(3):
            drawn = source.pairs().draw(rng, 4, 32)
            for batch in (jax.tree.map(lambda leaf, b=b: leaf[b], drawn) for b in range(4)):
                if len(values) <= last[-1]:
                    state, value = update(state, batch, cfg=cfg)
                    values.append(float(value))
        assert float(losses[run]) == pytest.approx(np.mean([values[step] for step in last]), rel=1e-4)
        np.testing.assert_allclose(trained.embedding.weights[0][run], state.embedding.weights[0], atol=1e-5)


def test_training_where_everything_is_adjacent_draws_all_cells_together():
    states, rngs = fresh(0)
    path = 5.0 * CORRIDORS[:3]
    ends = jnp.asarray(path[[0, 2]], jnp.float32)
    embedding = jax.tree.map(lambda leaf: leaf[0], states.embedding)
    assert float(distance(embedding, *ends)) > CFG.threshold
    trained, loss = train(states, [walk_along(path, k=2)], rngs, 200, CFG)
    embedding = jax.tree.map(lambda leaf: leaf[0], trained.embedding)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(embedding))
    assert float(distance(embedding, *ends)) < CFG.threshold
    assert np.isfinite(loss).all()
