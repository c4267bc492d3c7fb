"""The comparison with direct pair sampling: what it measures, that it is fair, and its command."""

import csv
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure

from hrac import cli
from hrac.adjacency import network
from hrac.config import ConfigError
from hrac.experiments import pair_sampling
from hrac.experiments.pair_sampling import DividedRoom
from hrac.settings import AdjacencyConfig
from hrac.view import pair_sampling as view

ROOM = "#######\n#1.#.2#\n#..#..#\n#.....#\n#A....#\n#######"
SMALL = AdjacencyConfig(hidden=(16,), embedding_dim=4, batch_size=16)
TINY = {"steps": 500, "episode_steps": 100, "gradient_steps": 30, "k": 3, "layout": ROOM, "cfg": SMALL}

# A room of two columns with a wall between their upper cells, in reading order:  0 # 1
# All distances:  0-2: 1,  1-4: 1,  2-3: 1,  3-4: 1,  0-1: 4 by the way below     2 3 4
CELLS = np.array([[0, 0], [0, 2], [1, 0], [1, 1], [1, 2]])
STEPS = np.array([[0, 4, 1, 2, 3], [4, 0, 3, 2, 1], [1, 3, 0, 1, 2], [2, 2, 1, 0, 1], [3, 1, 2, 1, 0]])


def _pairs(mask):
    return [(int(i), int(j)) for i, j in np.argwhere(np.triu(mask))]


def test_pairs_that_the_best_straight_line_gets_wrong_by_hand():
    # k = 2. Straight distances: 1 for 02 14 23 34 (all near); sqrt(2) for 03 13 (near, 2 steps); 2 for 24 (near) and 01 (4
    # steps); sqrt(5) for 04 12 (3 steps). Up to sqrt(2) only 24 is wrong, up to 2 only 01: the lower threshold is taken.
    accuracy, wrong = pair_sampling.misjudged(CELLS, STEPS <= 2)
    assert accuracy == pytest.approx(9 / 10)
    assert _pairs(wrong) == [(2, 4)]
    np.testing.assert_array_equal(wrong, wrong.T)
    # k = 3. Now 04 and 12 are near too, so everything but 01 is: the best is to call all pairs near, and 01 is wrong.
    accuracy, wrong = pair_sampling.misjudged(CELLS, STEPS <= 3)
    assert accuracy == pytest.approx(9 / 10)
    assert _pairs(wrong) == [(0, 1)]


def test_equal_distances_are_judged_alike_and_none_may_be_near():
    line = pair_sampling.distances(np.array([[0], [1], [2]]))
    near = np.eye(3, dtype=bool)
    assert pair_sampling.best_threshold(line, near) == (-1.0, 1.0)
    near[0, 1] = near[1, 0] = True  # 01 is near and 12, just as long, is not
    threshold, accuracy = pair_sampling.best_threshold(line, near)
    assert accuracy == pytest.approx(2 / 3)
    assert threshold == -1.0


def test_the_numbers_of_a_score_by_hand():
    # Learned distances: all pairs 1.0, but 23 and 01 1.3; judged by 1.1 and k = 2. Near: 02 03 13 14 23 24 34; far: 01 04 12.
    learned = np.where(np.eye(5, dtype=bool), 0.0, 1.0)
    for i, j in ((2, 3), (0, 1)):
        learned[i, j] = learned[j, i] = 1.3
    truth, wrong = STEPS <= 2, np.zeros((5, 5), bool)
    wrong[0, 1] = wrong[1, 2] = True
    accuracy, hard, positives, negatives, best, best_hard = pair_sampling.judge(learned, truth, wrong, 1.1)
    assert accuracy == pytest.approx(7 / 10)  # wrong: 04, 12, 23
    assert hard == pytest.approx(1 / 2)  # 01 is right, 12 is wrong
    assert positives == pytest.approx(2 / 3)
    assert negatives == pytest.approx(1 / 7)
    assert best == pytest.approx(7 / 10)  # up to 1.0, or up to 1.3: the same
    assert best_hard == pytest.approx(1 / 2)


def test_a_share_of_no_pairs_is_no_number():
    everything = np.ones((2, 2), bool)
    numbers = pair_sampling.judge(np.zeros((2, 2)), everything, ~everything, 1.1)
    np.testing.assert_array_equal(np.isnan(numbers), [False, True, True, False, False, True])


def test_a_walk_has_its_steps_and_starts_each_episode_at_a():
    world = DividedRoom(ROOM, time_limit=40)
    positions, episodes = pair_sampling.random_walk(world, seed=3, steps=100)
    assert np.bincount(episodes).tolist() == [41, 41, 21]
    first = np.flatnonzero(np.diff(episodes, prepend=-1))
    np.testing.assert_array_equal(positions[first], [[4, 1]] * 3)
    moved = np.abs(np.diff(positions, axis=0)).sum(axis=1)[np.diff(episodes) == 0]
    assert set(moved.tolist()) == {0.0, 1.0}
    assert {tuple(p) for p in positions.astype(int).tolist()} <= {tuple(c) for c in world.cells.tolist()}
    again, other = (pair_sampling.random_walk(world, seed, 100).positions for seed in (3, 4))
    np.testing.assert_array_equal(again, positions)
    assert (other != positions).any()


def test_the_two_states_are_near_each_other_only_in_a_straight_line():
    world = DividedRoom()
    first, second = (world.layout.marks[letter] for letter in "12")
    assert np.linalg.norm(first - second) == 4
    numbers = [int(np.flatnonzero((world.cells == cell).all(axis=1))[0]) for cell in (first, second)]
    assert world.cell_distances[tuple(numbers)] == 20


def test_all_networks_have_the_same_data_first_weights_and_gradient_steps(monkeypatch):
    begun, real = [], pair_sampling.learn.train

    def train(states, sources, *rest):
        begun.append(np.asarray(states.embedding.weights[0]))
        return real(states, sources, *rest)

    seen = []
    make = pair_sampling.make_source

    def watched(cfg, *rest):
        source = make(cfg, *rest)
        extend = source.extend

        def extend_too(*walk):
            seen.append((cfg.source, walk))
            extend(*walk)

        source.extend = extend_too
        return source

    monkeypatch.setattr(pair_sampling.learn, "train", train)
    monkeypatch.setattr(pair_sampling, "make_source", watched)
    result = pair_sampling.run([5, 6], sources=("table", "trajectories", "oracle"), **TINY)
    assert [(line.seed, line.source) for line in result.scores] == [
        (seed, name) for seed in (5, 6) for name in ("table", "trajectories", "oracle")
    ]
    assert {line.gradient_steps for line in result.scores} == {30}
    assert [name for name, _ in seen] == ["table", "trajectories", "oracle"] * 2
    for ours, direct in ((seen[0], seen[1]), (seen[3], seen[4])):
        for one, other in zip(ours[1], direct[1], strict=True):
            np.testing.assert_array_equal(one, other)
    weights = np.concatenate(begun)
    np.testing.assert_array_equal(weights[:3], np.broadcast_to(weights[:1], weights[:3].shape))
    assert (weights[0] != weights[3]).any()


def test_the_budget_does_not_depend_on_what_was_explored():
    walk = pair_sampling.Walk(np.full((9, 2), 4.0, np.float32), np.zeros(9, np.int64))  # one cell
    world = DividedRoom(ROOM)
    for source in ("table", "trajectories"):
        state = pair_sampling.train([(0, source, walk)], world, 30, 3, SMALL)
        assert state.opt_state[0].count.tolist() == [30]


def test_accuracy_is_that_of_the_adjacency_network():
    result = pair_sampling.run([0], sources=["table"], **TINY)
    world = result.world
    walk = pair_sampling.random_walk(world, 0, TINY["steps"])
    state = pair_sampling.train([(0, "table", walk)], world, 30, 3, SMALL)
    embedding = jax.tree.map(lambda leaf: leaf[0], state.embedding)
    cells, truth = jnp.asarray(world.cells, jnp.float32), jnp.asarray(world.cell_distances <= 3)
    expected = network.accuracy(embedding, cells, truth, SMALL.threshold)
    assert result.scores[0].accuracy == pytest.approx(float(expected))


def test_the_parts_of_the_picture_are_drawn_into_axes_of_ones_own_and_returned():
    pytest.importorskip("sklearn")
    result = pair_sampling.run([0], sources=["table"], **TINY)
    true, learned, flat = Figure().subplots(1, 3)
    assert view.heat(true, result, 0) is true
    assert view.heat(learned, result, 0, "table") is learned
    steps = result.world.cell_distances[0]
    shown = true.images[0].get_array()
    assert shown.compressed() == pytest.approx(steps / result.k)
    assert view.embedding(flat, result, "table") is flat
    assert sum(len(side.get_offsets()) for side in flat.collections) == len(result.world.cells)


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"episode_steps": 0}, {"gradient_steps": -1}, {"k": 0}, {"steps": 10**12}])
def test_impossible_numbers_are_refused(wrong):
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))} must be from 1 to 10,000,000, got"):
        pair_sampling.run([0], **TINY | wrong)


def test_at_least_one_seed_and_source_are_needed():
    with pytest.raises(ConfigError, match="at least one seed"):
        pair_sampling.run([], **TINY)


COMMAND = ["pairs", "--seeds", "2", "--first-seed", "7", "--steps", "1000", "--gradient-steps", "20"]


def test_the_command_writes_both_files_and_prints_the_table_and_overwrites_nothing(tmp_path, capsys):
    folder = tmp_path / "new" / "folder"
    assert cli._main([*COMMAND, "--out", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "12,090 pairs of cells, k = 10. Euclidean distance at its best threshold: accuracy 0.8719, 1,549 pairs wrong." in out
    assert f"written: {folder / 'pairs.csv'}" in out
    assert f"drawn: {folder / 'pairs.png'}" in out
    assert sorted(path.name for path in folder.iterdir()) == ["pairs.csv", "pairs.png"]
    assert (folder / "pairs.png").read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader((folder / "pairs.csv").read_text().splitlines()))
    assert [(row["seed"], row["source"]) for row in rows] == [
        (seed, source) for seed in ("7", "8") for source in ("table", "trajectories")
    ]
    assert all(row["gradient_steps"] == "20" and 0 <= float(row["accuracy"]) <= 1 for row in rows)
    before = (folder / "pairs.csv").read_bytes()
    assert cli._main([*COMMAND, "--out", str(folder)]) == 2
    assert f"{folder / 'pairs.csv'} is there already: name another folder with --out" in capsys.readouterr().err
    assert (folder / "pairs.csv").read_bytes() == before


def test_the_picture_is_not_overwritten_either(tmp_path, capsys):
    (tmp_path / "pairs.png").write_text("mine")
    assert cli._main([*COMMAND, "--out", str(tmp_path)]) == 2
    assert "pairs.png is there already" in capsys.readouterr().err
    assert (tmp_path / "pairs.png").read_text() == "mine"


def test_without_scikit_learn_the_extra_is_named_before_any_work(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setattr(pair_sampling, "run", lambda *_, **__: pytest.fail("work was done"))
    assert cli._main([*COMMAND, "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == "error: this figure needs scikit-learn: install it with  pip install 'hrac[figures]'\n"
    assert not (tmp_path / "out").exists()


def test_the_plane_keeps_the_order_of_a_curve():
    turn = np.linspace(0.0, np.pi, 40)
    curve = np.stack([np.cos(turn), np.sin(turn), 0.1 * turn, 0.0 * turn], axis=1)
    along = view.plane(curve)[:, 0]
    assert (np.diff(along) > 0).all() or (np.diff(along) < 0).all()
