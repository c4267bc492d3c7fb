"""Reachability from anybody's trajectories: judged against true distances, saved and loaded, refused with a reason."""

import itertools
import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csgraph

import hrac
from hrac import reachability
from hrac.config import ConfigError
from hrac.experiments import budget
from hrac.folder import checkpoint
from hrac.folder.checkpoint import CheckpointError
from hrac.folder.files import FileError
from hrac.reachability import fit

MOVES = np.array([(0, 1), (0, -1), (1, 0), (-1, 0)])
ROOM = np.ones((9, 11), bool)
ROOM[:7, 5] = False
"""Free cells: a room with a wall, which ends two cells before the lower side."""
RING = np.array([(0, c) for c in range(6)] + [(r, 5) for r in range(1, 6)] + [(5, c) for c in range(4, -1, -1)])
RING = np.concatenate([RING, [(r, 0) for r in range(4, 0, -1)]])
"""Twenty cells around a block."""
DOORS = (3, 8, 13, 18)
"""One can go from such a cell of the ring to the next, but not back."""
K = 5


def walk_in_room(walkers=150, steps=200, seed=0):
    """Positions (walkers, time, 2) of uniformly random moves; one into a wall does nothing."""
    rng, free = np.random.default_rng(seed), np.pad(ROOM, 1)
    cells = np.argwhere(ROOM)
    path = [cells[rng.integers(len(cells), size=walkers)]]
    for _ in range(steps):
        wanted = path[-1] + MOVES[rng.integers(4, size=walkers)]
        path.append(np.where(free[tuple(wanted.T + 1)][:, None], wanted, path[-1]))
    return np.stack(path, axis=1)


def walk_in_ring(walkers=50, steps=100, seed=0):
    rng = np.random.default_rng(seed)
    path = [rng.integers(len(RING), size=walkers)]
    for _ in range(steps):
        back = (rng.random(walkers) < 0.5) & ~np.isin(path[-1] - 1, [door % len(RING) for door in DOORS])
        path.append((path[-1] + np.where(back, -1, 1)) % len(RING))
    return RING[np.stack(path, axis=1)]


def true_steps(number, edges):
    """Steps from each of so many cells to each, by breadth-first search along the edges (from, to)."""
    graph = np.zeros((number, number))
    graph[tuple(np.array(edges).T)] = 1
    return csgraph.shortest_path(graph, unweighted=True)


def steps_in_room():
    cells = [tuple(map(int, cell)) for cell in np.argwhere(ROOM)]
    pairs = itertools.product(range(len(cells)), repeat=2)
    return true_steps(len(cells), [(i, j) for i, j in pairs if np.abs(np.subtract(cells[i], cells[j])).sum() == 1])


def steps_in_ring():
    size = len(RING)
    return true_steps(
        size, [(i, (i + 1) % size) for i in range(size)] + [((i + 1) % size, i) for i in range(size) if i not in DOORS]
    )


def accuracy(model, cells, steps):
    different = ~np.eye(len(cells), dtype=bool)
    return (model.adjacent(cells[:, None], cells) == (steps <= K))[different].mean()


def tiny(trajectories=None, k=2, **settings):
    trajectories = np.arange(12.0).reshape(1, 6, 2) if trajectories is None else trajectories
    return fit(trajectories, k, **{"gradient_steps": 3, "hidden": (8,), **settings})


@pytest.fixture(scope="module")
def room():
    return fit(walk_in_room(), K, gradient_steps=3_000)


# What is learned.


def test_it_knows_steps_around_a_wall(room):
    cells, steps = np.argwhere(ROOM), steps_in_room()
    assert accuracy(room, cells, steps) > 0.95
    assert not room.adjacent((2, 4), (2, 6))  # two cells apart, twelve steps
    assert room.adjacent((7, 4), (7, 6))
    assert 0.95 < room.agreement <= 1.0
    distances = room.distance(cells[:, None], cells)
    np.testing.assert_allclose(distances, distances.T, rtol=1e-4)
    np.testing.assert_array_equal(distances < 1, room.adjacent(cells[:, None], cells))


def test_a_directed_model_tells_one_way_doors():
    steps, walks = steps_in_ring(), walk_in_ring()
    directed = fit(walks, K, directed=True, gradient_steps=3_000)
    assert accuracy(directed, RING, steps) > 0.95
    door = RING[DOORS[0]], RING[DOORS[0] + 1]
    assert directed.adjacent(*door)
    assert not directed.adjacent(*reversed(door))
    symmetric = fit(walks, K, gradient_steps=3_000)
    assert symmetric.adjacent(*door)
    assert symmetric.adjacent(*reversed(door))
    assert accuracy(symmetric, RING, steps) < 0.9


def test_the_same_seed_gives_the_same_model_and_another_another():
    points = np.arange(12.0).reshape(6, 2)
    one, again, other = (tiny(seed=seed).distance(points[:, None], points) for seed in (3, 3, 4))
    assert one.tobytes() == again.tobytes() != other.tobytes()


def test_a_list_of_trajectories_is_the_array_of_them():
    walks = walk_in_room(6, 10)
    assert tiny(list(walks)).distance((0, 0), (3, 3)) == tiny(walks).distance((0, 0), (3, 3))
    assert tiny([each.tolist() for each in walks]).distance((0, 0), (3, 3)) == tiny(walks).distance((0, 0), (3, 3))


def test_units_and_places_do_not_count():
    """The same world in other units per coordinate, and far away: all powers of two, so that rounding is the same."""
    walks, points = walk_in_room(20, 30).astype(float), np.argwhere(ROOM)
    units, moved = np.array([4.0, 1 / 64]), np.array([2.0**30, 0.0])
    here = tiny(walks).distance(points[:, None], points)
    there = tiny(walks * units + moved, cell_size=units).distance(points[:, None] * units + moved, points * units + moved)
    assert here.tobytes() == there.tobytes()


def test_trajectories_that_enter_the_table_in_pieces_give_the_same_model(monkeypatch):
    walks, points = walk_in_room(7, 50), np.argwhere(ROOM)
    whole = tiny(walks).distance(points[:, None], points)
    for pairs in (1, 30, 150):
        monkeypatch.setattr(reachability, "PART_PAIRS", pairs)
        assert len(list(reachability._parts(list(walks), 2))) > 1
        assert tiny(walks).distance(points[:, None], points).tobytes() == whole.tobytes()


@pytest.mark.parametrize("coordinates", [1, 3])
def test_any_number_of_coordinates(coordinates):
    walk = np.cumsum(np.random.default_rng(0).integers(-1, 2, (4, 50, coordinates)), axis=1)
    assert tiny(walk).distance(np.zeros(coordinates), np.ones((7, coordinates))).shape == (7,)


@pytest.mark.parametrize(
    ("start", "end", "shape"),
    [((), (), ()), ((), (4,), (4,)), ((4,), (), (4,)), ((3, 1), (4,), (3, 4)), ((1, 4), (3, 1), (3, 4))],
)
def test_leading_axes_broadcast(room, start, end, shape):
    rng = np.random.default_rng(0)
    first, second = rng.uniform(0, 9, (*start, 2)), rng.uniform(0, 9, (*end, 2))
    distances = room.distance(first, second)
    assert (distances.shape, distances.dtype) == (shape, np.float32)
    assert (room.adjacent(first, second).shape, room.adjacent(first, second).dtype) == (shape, np.bool_)
    both = [np.broadcast_to(each, (*shape, 2)).reshape(-1, 2) for each in (first, second)]
    one_by_one = [room.distance(*pair) for pair in zip(*both, strict=True)]
    np.testing.assert_allclose(distances.ravel(), one_by_one, rtol=1e-4, atol=1e-5)


def test_settings_are_those_of_the_adjacency_network():
    model = tiny(hidden=[4, 5], embedding_dim=6, epsilon=2.0, delta=1.0, directed=True)
    assert [weight.shape for weight in model.embedding.source.weights] == [(2, 4), (4, 5), (5, 6)]
    assert model.settings.threshold == 2.5
    assert repr(model).startswith("Reachability(directed, k = 2, cell_size = [1.0, 1.0], agreement 0.")


def test_the_example_runs(tmp_path, capsys):
    example = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "reachability.py"))
    example["main"](str(tmp_path / "model"))
    answers = [line.rpartition(": ")[2] for line in capsys.readouterr().out.splitlines()]
    assert answers == ["within ten steps", "more than ten steps", "within ten steps"]


# Files.


@pytest.mark.parametrize("directed", [False, True])
def test_a_loaded_model_gives_the_same_bytes(directed, tmp_path):
    model = tiny(walk_in_room(6, 10) / 3, cell_size=(0.3, 1 / 3), directed=directed)
    model.save(str(tmp_path / "model"))
    again = hrac.reachability.load(tmp_path / "model")
    points = np.random.default_rng(0).uniform(-5, 5, (50, 2))
    assert again.distance(points[:, None], points).tobytes() == model.distance(points[:, None], points).tobytes()
    assert repr(again) == repr(model)
    (tmp_path / "link").symlink_to(tmp_path / "model")
    assert repr(hrac.reachability.load(tmp_path / "link")) == repr(model)
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


@pytest.mark.parametrize("name", ["no/such/folder/model", "", "folder"])
def test_what_cannot_be_written_is_named(tmp_path, monkeypatch, name):
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileError, match=f"{name or '.'} cannot be written: "):
        tiny().save(name)
    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]


def refused(path, match):
    with pytest.raises(CheckpointError, match=match) as caught:
        hrac.reachability.load(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_damaged_and_foreign_files_are_refused(tmp_path):
    path = tmp_path / "model"
    refused(path, "No such file")
    refused(tmp_path, "no regular file")
    tiny().save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    refused(path, "damaged or incomplete")
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    refused(path, "does not match its digest")
    path.write_bytes(b"\x80\x04N.")
    refused(path, "no file of this program")
    refused(hrac.pretrained("ant-maze"), "is a 'policy' file, not a 'reachability' file")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"k": 1}, "k must be a whole number from 2 to 1,000, got 1"),
        ({"k": True}, "k must be"),
        ({"cell_size": [1.0, 0.0]}, "cell_size must be a positive number"),
        ({"cell_size": [1.0]}, "origin does not fit"),
        ({"cell_size": 1.0}, "another version, or damaged"),
        ({"cell_size": [], "origin": []}, "cell_size must be"),
        ({"cell_size": [1.0, 1.0, 1.0], "origin": [0.0, 0.0, 0.0]}, "is needed"),
        ({"origin": [[0.0, 0.0]]}, "origin does not fit"),
        ({"origin": [0.0, None]}, "origin must be"),
        ({"origin": {}}, "origin must be"),
        ({"settings": None}, "another version, or damaged"),
        ({"settings": {"hidden": [8], "epsilon": -1.0}}, "epsilon: Input should be"),
        ({"settings": {"hidden": [9]}}, "is needed"),
        ({"settings": {"hidden": [8], "directed": True}}, "it has no"),
        ({"settings": {"colour": 1}}, "colour: no such field"),
        ({"agreement": "x"}, "agreement must be"),
        ({"agreement": [0.5, 0.5]}, "another version, or damaged"),
    ],
)
def test_a_whole_file_with_odd_content_is_refused(tmp_path, change, match):
    path = tmp_path / "model"
    tiny().save(path)
    arrays, facts = checkpoint.load(path, "reachability")
    checkpoint.save(path, "reachability", arrays, facts | change)
    refused(path, match)


def test_weights_that_are_not_finite_and_missing_facts_are_refused(tmp_path):
    path = tmp_path / "model"
    tiny().save(path)
    arrays, facts = checkpoint.load(path, "reachability")
    checkpoint.save(path, "reachability", {name: np.full_like(array, np.nan) for name, array in arrays.items()}, facts)
    refused(path, "not finite")
    checkpoint.save(path, "reachability", arrays, {})
    refused(path, "another version, or damaged: KeyError: 'k'")


# What is refused.

LINE = np.arange(10.0)[:, None]
FORM = r"trajectories must be a list of arrays \(time, coordinates\) or one array \(episodes, time, coordinates\), got "


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"trajectories": []}, FORM + "none"),
        ({"trajectories": np.zeros((0, 5, 2))}, FORM + "none"),
        ({"trajectories": 3}, FORM + "int"),
        ({"trajectories": LINE}, FORM + r"shape \(1,\) for trajectories\[0\]"),
        ({"trajectories": [np.zeros((5, 0))]}, FORM + r"shape \(5, 0\)"),
        ({"trajectories": [LINE, LINE[:1]]}, r"trajectories\[1\] must have at least 2 points, got 1"),
        (
            {"trajectories": [LINE, np.zeros((4, 2))]},
            r"trajectories\[1\] must have 1 coordinates, as trajectories\[0\] has, got 2",
        ),
        ({"trajectories": [LINE, [[0.0], [np.nan]]]}, r"trajectories\[1\] must be finite, got NaN or infinity"),
        ({"trajectories": [[[0.0], [np.inf]]]}, r"trajectories\[0\] must be finite"),
        ({"trajectories": [[["a"], ["b"]]]}, r"trajectories\[0\] must be an array of numbers"),
        ({"trajectories": [[[0.0], [1.0, 2.0]]]}, r"trajectories\[0\] must be an array of numbers"),
        ({"k": 1}, "k must be a whole number from 2 to 1,000, got 1"),
        ({"k": 1001}, "k must be"),
        ({"k": 2.0}, "k must be"),
        ({"k": True}, "k must be"),
        ({"k": 9}, "k must be smaller, or cell_size: all 10 cells that were visited are within k steps of one another"),
        ({"seed": -1}, "seed must be a whole number from 0 to 2,147,483,647, got -1"),
        ({"cell_size": 0}, "cell_size must be a positive number or 1, one per coordinate, got 0"),
        ({"cell_size": -1.0}, "cell_size must be a positive number"),
        ({"cell_size": (1.0, 1.0)}, "cell_size must be a positive number or 1, one per coordinate"),
        ({"cell_size": np.nan}, "cell_size must be finite"),
        ({"cell_size": "large"}, "cell_size must be an array of numbers"),
        ({"cell_size": 30.0}, "cell_size must be smaller: all points of the trajectories are in one cell"),
        ({"cell_size": 1e-7}, "no coordinate extends over more than 16,777,216 cells, got 1e-07 for coordinate 0"),
        ({"cell_size": 1e-320}, "no coordinate extends over more than 16,777,216 cells"),
        ({"gradient_steps": 0}, "gradient_steps: Input should be greater than or equal to 1"),
        ({"directed": "yes"}, "directed: Input should be a valid boolean"),
        ({"hidden": (0,), "batch_size": 3}, r"batch_size: .*; hidden.0: "),
        ({"source": "oracle"}, "source: no such setting. Settings are: hidden, "),
    ],
)
def test_what_cannot_be_fit_is_refused_in_one_line(given, match):
    with pytest.raises(ConfigError, match=match) as caught:
        tiny(**{"trajectories": [LINE], **given})
    assert "\n" not in str(caught.value)


def test_what_does_not_fit_into_memory_is_refused(monkeypatch):
    monkeypatch.setattr(budget, "available", lambda: 400_000)
    with pytest.raises(
        budget.OutOfMemoryError, match=r"0 cells and 0 pairs of them so far, and 1,206 points to add.*cell_size"
    ):
        tiny(walk_in_room(6), batch_size=2)
    with pytest.raises(budget.OutOfMemoryError, match="Most of it is for batch_size = 64"):
        tiny()
    with pytest.raises(budget.OutOfMemoryError, match=r"Most of it is for hidden = \(9000, 9000\)"):
        tiny(hidden=(9000, 9000))


@pytest.mark.parametrize(
    ("start", "end", "match"),
    [
        ((1.0,), (1.0, 2.0), r"start must have shape \(..., 2\), as the trajectories had, got \(1,\)"),
        ((1.0, 2.0), 3.0, r"end must have shape \(..., 2\), as the trajectories had, got \(\)"),
        ((1.0, np.nan), (1.0, 2.0), "start must be finite"),
        ((1.0, 2.0), "ab", "end must be an array of numbers"),
        (np.zeros((3, 2)), np.zeros((4, 2)), r"leading axes that broadcast, got shapes \(3, 2\) and \(4, 2\)"),
    ],
)
def test_points_that_do_not_fit_are_refused(room, start, end, match):
    with pytest.raises(ConfigError, match=match):
        room.adjacent(start, end)
