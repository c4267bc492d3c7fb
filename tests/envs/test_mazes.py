"""The mazes of the field: their places in metres, rewards, ends, starts and targets, worked by hand from their sources."""

import dataclasses

import gymnasium
import jax
import jaxtyping
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import hrac
from hrac import cli
from hrac.envs.ant import body
from hrac.envs.ant.maze import AntMaze
from hrac.envs.blocks import BlockMaze
from hrac.envs.mazes import MAZES, gym_name
from hrac.envs.point import PointMaze
from hrac.experiments import tasks
from hrac.folder.progress import Silent
from tiny import TWO_TD3

ANTS = {name: AntMaze(**row.fields) for name, row in MAZES.items()}
POINTS = {name: PointMaze(**row.fields) for name, row in MAZES.items() if "point" in row.agents}
FIXED = {name: maze for name, maze in ANTS.items() if not maze.blocks}
every_maze = pytest.mark.parametrize("maze", ANTS.values(), ids=ANTS)

MAPS = {  # blocks, free blocks, lowest and highest place, steps
    "u-small": (4, 7, (-2, -2), (10, 10), 500),
    "u-sparse": (8, 7, (-4, -4), (20, 20), 500),
    "w": (2, 52, (-1, -1), (15, 15), 500),
    "complex": (8, 31, (-4, -4), (52, 52), 2000),
    "bottleneck": (8, 7, (-4, -4), (20, 20), 600),
    "four-rooms": (2, 68, (-3, -3), (15, 15), 1000),
    "medium": (4, 26, (-2, -2), (22, 22), 1000),
    "large": (4, 46, (-2, -2), (38, 26), 1000),
    "push": (8, 6, (-12, -4), (12, 20), 500),
    "fall": (8, 8, (-4, -4), (12, 28), 500),
}
MEDIUM = [((0, 0), (20, 20)), ((0, 20), (20, 0)), ((8, 16), (4, 12)), ((16, 20), (0, 20)), ((20, 4), (0, 0))]
LARGE = [((0, 0), (36, 24)), ((12, 16), (0, 24)), ((12, 24), (36, 0)), ((28, 8), (12, 16)), ((0, 0), (12, 16))]
EVALUATED = {
    "u-small": [(0, 8)],
    "u-sparse": [(0, 16)],
    "w": [(2, 9)],
    "complex": [(40, 8), (16, 48), (40, 48), (16, 32)],
    "bottleneck": [(0, 16)],
    "four-rooms": [(14, 14)],
    "medium": [target for _, target in MEDIUM],
    "large": [target for _, target in LARGE],
    "push": [(0, 19)],
    "fall": [(0, 27)],
}


@pytest.mark.parametrize("name", MAZES)
def test_the_maps_have_the_sizes_of_their_sources(name):
    mazes = [agent[name] for agent in (ANTS, POINTS) if name in agent]
    for maze in mazes:
        assert (maze.block_size, len(maze.free), *maze.bounds, maze.time_limit) == MAPS[name]
        for field in dataclasses.fields(BlockMaze):
            assert getattr(maze, field.name) == getattr(ANTS[name], field.name)
    assert len(mazes) == (1 if ANTS[name].blocks else 2)  # a point pushes nothing


@pytest.mark.parametrize("maze", FIXED.values(), ids=FIXED)
def test_starts_are_free_and_everything_can_be_reached(maze):
    starts = [start for start, _ in maze.pairs] or maze.starts
    assert not maze.in_wall(np.asarray(starts, float)).any()
    assert maze.cell_distances.max() < 2**31  # from every free cell of size 1 to every other, past thin walls too


@pytest.mark.parametrize("name", MAZES)
def test_agents_are_evaluated_on_the_sources_targets(name):
    evaluated = ANTS[name].evaluation()
    assert evaluated.ends_on_success
    discs = {(x, y) for x, y, _ in evaluated.sketch().discs}
    assert discs == set(EVALUATED[name])
    batch, targets = evaluated.batch(60), np.array(sorted(discs))
    batch.reset()
    near = np.abs(batch.targets[:, None, :2] - targets).max(axis=2)  # (copies, targets)
    assert (near.min(axis=1) <= (1.0 if evaluated.pairs else 0.0)).all()
    assert set(near.argmin(axis=1)) == set(range(len(targets)))


@pytest.mark.parametrize(
    ("name", "place", "target", "reward"),
    [
        ("u-small", (3.0, 4.0), (0.0, 8.0), -5.0),
        ("w", (2.0, 5.0), (2.0, 9.0), -4.0),
        ("u-sparse", (0.0, 10.99), (0.0, 16.0), -1.0),
        ("u-sparse", (0.0, 11.01), (0.0, 16.0), 0.0),
        ("complex", (40.0, 13.01), (40.0, 8.0), -1.0),
        ("complex", (43.0, 11.99), (40.0, 8.0), 0.0),
        ("bottleneck", (5.01, 16.0), (0.0, 16.0), -1.0),
        ("bottleneck", (4.99, 16.0), (0.0, 16.0), 0.0),
        ("four-rooms", (12.49, 14.0), (14.0, 14.0), -1.0),
        ("four-rooms", (12.51, 14.0), (14.0, 14.0), 0.0),
        ("medium", (20.0, 19.49), (20.0, 20.0), 0.0),
        ("medium", (20.3, 20.39), (20.0, 20.0), 1.0),
        ("large", (36.0, 24.51), (36.0, 24.0), 0.0),
        ("large", (36.0, 24.49), (36.0, 24.0), 1.0),
        ("push", (3.0, 15.0), (0.0, 19.0), -5.0),
        ("fall", (2.0, 24.0, 10.5), (0.0, 27.0, 4.5), -7.0),
    ],
)
def test_rewards_are_those_of_the_sources(name, place, target, reward):
    maze, places, targets = ANTS[name], np.array([place]), np.array([target])
    assert maze.rewards(places, targets).tolist() == pytest.approx([reward])
    if MAZES[name].dense:
        return
    assert maze.success(places, targets).tolist() == [reward == max(0.0, maze.rewards(targets, targets)[0])]


@pytest.mark.parametrize(
    ("name", "radius"), [("u-small", 2.5), ("w", 1.0), ("four-rooms", 1.5), ("complex", 5.0), ("large", 0.5)]
)
def test_success_is_within_the_radius(name, radius):
    aside = np.array([[radius - 0.001, 0.0], [0.0, radius + 0.001]])
    assert ANTS[name].success(aside, np.zeros((2, 2))).tolist() == [True, False]


def test_training_targets_of_the_us_are_anywhere_in_the_square():
    for name, low, high in (("u-small", -2, 10), ("u-sparse", -4, 20)):
        targets = np.array([ANTS[name].draw_target(np.random.default_rng(i)) for i in range(400)])
        assert ((targets > low) & (targets < high)).all()
        np.testing.assert_allclose(targets.mean(axis=0), (low + high) / 2, atol=0.1 * (high - low))
        assert 0.1 < ANTS[name].in_wall(targets).mean() < 0.35  # two of nine blocks


@pytest.mark.parametrize("name", ["complex", "bottleneck"])
def test_training_targets_elsewhere_are_in_free_blocks_each_as_often(name):
    blocks = dataclasses.replace(ANTS[name], thin_walls=())
    targets = np.array([blocks.draw_target(np.random.default_rng(i)) for i in range(1000)])
    assert not blocks.in_wall(targets).any()
    nearest = np.abs(targets[:, None] - blocks.free).max(axis=2).argmin(axis=1)
    counts = np.bincount(nearest, minlength=len(blocks.free))
    expected = 1000 / len(blocks.free)
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()


def test_ogbenchs_pairs_are_at_its_places():
    assert list(ANTS["medium"].pairs) == MEDIUM
    assert list(ANTS["large"].pairs) == LARGE


@pytest.mark.parametrize("agent", [ANTS, POINTS], ids=["ant", "point"])
@pytest.mark.parametrize("name", ["medium", "large"])
def test_an_episode_has_one_of_the_pairs_moved_by_up_to_one(agent, name):
    batch, pairs = agent[name].batch(100), np.array(ANTS[name].pairs)
    batch.reset(seeds=np.arange(100))
    moved = np.stack([batch.positions, batch.targets], axis=1)[:, None] - pairs  # (copies, pairs, 2, 2)
    largest = np.abs(moved).max(axis=(2, 3))
    assert (largest.min(axis=1) <= 1.0).all()
    assert set(largest.argmin(axis=1)) == set(range(5))
    own = moved[np.arange(100), largest.argmin(axis=1)]
    assert own.std() == pytest.approx(1 / np.sqrt(3), abs=0.05)  # uniform, all four numbers
    assert abs(np.corrcoef(own.reshape(100, 4).T)[0, 2]) < 0.3


def test_the_point_on_the_device_begins_likewise():
    for name in ("medium", "complex"):
        device = POINTS[name].on_device().evaluation()
        state, obs = jax.vmap(device.reset)(jax.random.split(jax.random.key(0), 64))
        targets = np.array(EVALUATED[name])
        near = np.abs(np.asarray(state.target)[:, None] - targets).max(axis=2)
        assert (near.min(axis=1) <= (1.0 if name == "medium" else 0.0)).all()
        assert set(near.argmin(axis=1)) == set(range(len(targets)))
        if name == "medium":
            starts = np.array([start for start, _ in MEDIUM])[near.argmin(axis=1)]
            assert (np.abs(np.asarray(state.position) - starts) <= 1.0).all()
        np.testing.assert_array_equal(obs[:, -2:], state.target)


@pytest.mark.parametrize("name", MAZES)
def test_episodes_end_at_the_limit(name):
    batch, limit = ANTS[name].batch(1), MAPS[name][-1]
    batch.reset()
    batch.targets[:] = 1000.0
    batch.steps[:] = limit - 2
    ends = [batch.step(np.zeros((1, 8))).truncated[0] for _ in range(2)]
    assert ends == [False, True]


@pytest.mark.parametrize(
    ("name", "ends"), [("u-small", False), ("complex", False), ("w", True), ("four-rooms", True), ("large", True)]
)
def test_success_ends_an_episode_where_it_does_in_the_source(name, ends):
    batch = ANTS[name].batch(1)
    batch.reset()
    batch.targets[:] = batch.positions
    assert batch.step(np.zeros((1, 8))).terminated.tolist() == [ends]


def test_the_bottleneck_is_a_passage_of_one_point_six_at_the_bend():
    maze = ANTS["bottleneck"]
    walls = [(12.1, 8.0), (15.3, 8.0), (17.1, 8.0), (19.9, 8.0), (14.0, 7.1), (14.0, 8.9)]
    free = [(15.5, 8.0), (16.9, 8.0), (14.0, 6.9), (14.0, 9.1), (18.0, 6.9), (18.0, 9.1)]
    assert maze.in_wall(np.array(walls)).all()
    assert not maze.in_wall(np.array(free)).any()
    assert len(maze.walls) == 20  # as in the source: 18 blocks and two more
    assert [wall.centre for wall in maze.walls[-2:]] == [(13.7, 8.0, 2.0), (18.5, 8.0, 2.0)]
    assert [wall.half_size for wall in maze.walls[-2:]] == [(pytest.approx(1.7), 1.0, 2.0), (1.5, 1.0, 2.0)]
    cells = maze.cells.tolist()
    assert [16, 8] in cells
    assert not {(13, 8), (14, 8), (15, 8), (17, 8), (18, 8), (19, 8)} & set(map(tuple, cells))


def test_the_oracle_goes_through_the_passage():
    """From (14, 6) to (14, 10) it is 4 in the U, and 2 * sqrt(5) + 2 = 6.47 by (16, 7) and (16, 9)."""
    steps = {}
    for name in ("u-sparse", "bottleneck"):
        maze = ANTS[name]
        one, two = (maze.cells.tolist().index(cell) for cell in ([14, 6], [14, 10]))
        steps[name] = maze.cell_distances[one, two]
    assert steps == {"u-sparse": 20, "bottleneck": 33}


def test_a_point_does_not_pass_a_thin_wall():
    batch = POINTS["bottleneck"].batch(2)
    batch.reset()
    batch.positions[:] = [(14.0, 5.0), (16.2, 5.0)]
    for _ in range(40):
        batch.step(np.array([[0.0, 1.0]] * 2))
    assert batch.positions[0, 1] < 7.0
    assert batch.positions[1, 1] > 9.0


@pytest.mark.filterwarnings("ignore:.*A Box observation space minimum value is -infinity. This is probably too low.")
@pytest.mark.filterwarnings("ignore:.*A Box observation space maximum value is infinity. This is probably too high.")
@pytest.mark.filterwarnings("ignore:.*For Box action spaces, we recommend using a symmetric and normalized space")
@pytest.mark.parametrize("name", MAZES)
def test_gymnasium_finds_no_fault(name):
    env = gymnasium.make(gym_name(name), camera="map", render_mode="rgb_array", width=60, height=40)
    check_env(env.unwrapped)
    assert env.unwrapped.definition == ANTS[name]
    assert env.unwrapped.render().shape == (40, 60, 3)
    obs, _ = env.reset(seed=3)
    many = gymnasium.make_vec(gym_name(name), num_envs=2, threads=1)
    both, _ = many.reset(seed=2)
    for part, value in obs.items():
        np.testing.assert_array_equal(both[part][1], value)


@every_maze
def test_every_map_is_drawn(maze):
    sketch = maze.sketch()
    area = sum(wall.width * wall.height for wall in sketch.walls)
    thin = 3.4 * 2 + 3.0 * 2 if maze.thin_walls else 0.0
    assert area == pytest.approx((maze.grid == "#").sum() * maze.block_size**2 + thin)  # no wall overlaps another


def test_ants_and_points_are_tasks():
    for name, row in MAZES.items():
        for agent, mazes in (("ant", ANTS), ("point", POINTS)):
            if agent not in row.agents:
                assert f"{agent}-{name}" not in tasks.TASKS
                continue
            config = tasks.config_for(f"{agent}-{name}")
            assert tasks.make_env(config) == mazes[name]
            assert config.manager.reward_scale == (0.1 if row.dense else 1.0)


def test_the_fields_of_the_tasks_can_be_changed():
    config = hrac.config.replace(tasks.config_for("ant-medium"), {"env.time_limit": 7, "env.sigma": 0.1})
    assert tasks.make_env(config) == dataclasses.replace(ANTS["medium"], time_limit=7, sigma=0.1)


SMALL = TWO_TD3 | {"adjacency__source": "oracle", "env__time_limit": 20}


@pytest.mark.parametrize("task", ["point-bottleneck", "ant-medium"])
def test_they_train_with_the_oracle_and_their_episodes_are_drawn(task, tmp_path):
    hrac.train(task, steps=480, out=tmp_path / "run", display=Silent(), **SMALL)
    assert cli._main(["picture", str(tmp_path / "run"), "--out", str(tmp_path / "episode.png")]) == 0
    assert (tmp_path / "episode.png").stat().st_size > 5_000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pairs": (((0, 0), (0, 4)),)}, r"pairs: \(0\.0, 4\.0\) is in a wall"),
        ({"pairs": (((0, 0), (8, 0)),), "target": (8, 0)}, "pairs say where targets are"),
        ({"pairs": ((0, 0), (8, 0))}, r"pairs must be several \(\(x, y\), \(x, y\)\), got"),
        ({"pair_noise": -1}, "pair_noise must be a number from 0, got -1"),
        ({"thin_walls": (((3, 0), (2, 1)),)}, "thin_walls must be several"),
        ({"evaluation_target": ((0, 8), (1,))}, r"evaluation_target must be \(x, y\) or several \(x, y\), got"),
        ({"target": ((3, 3), (2, 2))}, r"target must be \(x, y\) or .* or \"free\", got"),
        ({"target": (np.nan, 0.0)}, "target must be"),
        ({"reward": "step"}, 'reward must be "distance", "sparse", "steps" or a function'),
    ],
)
def test_what_cannot_be_is_refused(changes, message, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # the checks of the package, not those of the tests
    with pytest.raises(ValueError, match=message):
        AntMaze(block_size=4.0, **changes)


def test_the_floor_is_drawn_up_to_the_last_wall():
    sizes = {name: body.model(ANTS[name].walls).geom("floor").size[:2].tolist() for name in ("u-sparse", "complex")}
    assert sizes == {"u-sparse": [40, 40], "complex": [60, 60]}  # complex's last walls end at 56 + 4
