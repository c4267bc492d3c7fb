"""Episodes as pictures, films and text, on stories worked out by hand and on untrained agents in small tasks."""

import io
import re
import sys
from types import SimpleNamespace

import gymnasium
import jax
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.contour import QuadContourSet
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from PIL import Image

import hrac
from hrac import cli, config
from hrac.agents import agent
from hrac.envs import palette
from hrac.envs.ant import opengl
from hrac.envs.ant.opengl import RenderingUnavailableError
from hrac.envs.blocks import BlockMaze
from hrac.envs.grid import MAZE, Maze
from hrac.envs.sketch import Mark, Sketch
from hrac.errors import MissingExtraError
from hrac.experiments import tasks
from hrac.folder.files import FileError
from hrac.nets import MLP
from hrac.scenes import drawing, film, picture, story, text
from hrac.scenes.story import NoMapError, Story, Window
from hrac.view import strips
from hrac.worlds.base import Episode
from hrac.worlds.episodes import Player
from hrac.worlds.make import make_setup

SMALL = {
    "k": 4,
    "manager.hidden": (8,),
    "controller.hidden": (8,),
    "adjacency.hidden": (8,),
    "training.total_env_steps": 200_000,
}
STRAIGHT = MLP((np.eye(2, dtype=np.float32),), (np.zeros(2, np.float32),), (), ())
"""An embedding in which the learned distance is the distance in a straight line."""
ROOM = Sketch((0.0, 0.0), (10.0, 6.0))
HOSTILE = r"$\frac{_^ %s {} \n <b> $$ ünï $"


def untrained(setup):
    """Random networks, and the setup."""
    rng, shapes = np.random.default_rng(0), jax.eval_shape(lambda: agent.init(jax.random.key(0), setup).actors)
    return jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(np.float32), shapes), setup


def player(task, **changes):
    """An untrained agent in a task."""
    cfg = config.replace(tasks.config_for(task), SMALL | changes)
    env = tasks.make_env(cfg)
    return Player(env, *untrained(make_setup(env, cfg)))


def made(positions, k=2, reached=(), rewards=None, target=(9.0, 5.0), sketch=ROOM, embedding=STRAIGHT, **fields):
    """A story along a way, in which the windows of these numbers reach their subgoals."""
    positions = np.array(positions, np.float64)
    length = len(positions) - 1
    windows = tuple(
        Window(start, min(start + k, length), np.array(target), start + 1 if number in reached else None, 1.25)
        for number, start in enumerate(range(0, length, k))
    )
    rewards = np.zeros(length) if rewards is None else np.array(rewards, float)
    sketches = (sketch,) * (length + 1)
    rest = {"threshold": 2.0, "succeeded": True, "ending": f"success after {length} steps"} | fields
    return Story("a title", k, positions, rewards, windows, sketches, embedding, **rest)


def along(length):
    return [[0.5 * x, 3.0] for x in range(length + 1)]


# What happened


def told(obs, subgoals, terminated, title="x", **changes):
    """The story of an episode of Maze that is given step by step."""
    obs = np.array(obs, np.float32)
    cfg = config.replace(tasks.config_for("maze"), {"k": 2} | changes)
    setup = make_setup(Maze(), cfg)
    length = len(obs) - 1
    ended = np.zeros(length, bool)
    ended[-1] = terminated
    alive, actions = np.ones(length, bool), np.zeros(length, np.int32)
    episode = Episode(obs[:-1], np.array(subgoals, np.float32), actions, np.full(length, 0.1), obs[1:], ended, alive)
    acted = SimpleNamespace(embedding=None)
    sketches = [Maze().sketch()] * (length + 1)
    return story.tell(SimpleNamespace(watch=lambda *_: (episode, sketches), setup=setup, actors=acted, task=Maze()), title)


def test_a_subgoal_is_reached_in_its_own_window_or_missed():
    obs = [[11, 1], [11, 2], [11, 3], [11, 4], [11, 5], [11, 6]]
    subgoals = [[11, 5], [11, 5], [11, 4.4], [11, 4.4], [9, 6]]  # the first is passed, but too late
    tale = told(obs, subgoals, terminated=True)
    windows = [(window.start, window.end, window.arrived) for window in tale.windows]
    assert windows == [(0, 2, None), (2, 4, 3), (4, 5, None)]
    np.testing.assert_allclose([window.miss for window in tale.windows], [2.0, 0.4, 2.0], atol=1e-6)
    assert (tale.succeeded, tale.ending, tale.length) == (True, "success after 5 steps", 5)
    assert [tale.window(step).start for step in range(6)] == [0, 0, 2, 2, 4, 4]


def test_a_displacement_is_reached_where_its_point_is():
    """From (11, 1) by (0, 2), which is (11, 3): there after two steps. From (11, 3) by (-1, 0): never at (10, 3)."""
    obs = [[11, 1], [11, 2], [11, 3], [11, 4], [11, 5]]
    tale = told(obs, [[0, 2], [0, 1], [-1, 0], [-1, -1]], False, **{"manager.subgoals": "relative"})
    np.testing.assert_allclose([window.target for window in tale.windows], [[11, 3], [10, 3]])
    assert [(window.arrived, window.reached) for window in tale.windows] == [(2, True), (None, False)]


def test_without_a_reward_for_reaching_the_diagonal_of_a_cell_is_near_enough():
    ants = config.replace(tasks.config_for("ant-maze"), {"controller.reach_radius": 0.5})  # of no use there
    assert story.reach_in_words(ants) == "within 1.41 in a straight line"
    assert story.arrival(np.array([1.0, 1.0]), np.array([[9.0, 9.0], [0.01, 0.01]]), ants) == 2
    assert story.arrival(np.array([1.0, 1.0]), np.array([[9.0, 9.0], [-0.01, 0.0]]), ants) is None


def test_a_failure_is_told_in_words():
    still = [[11, 1]] * 13
    assert told(still, [[0, 0]] * 12, False).ending == "no success in 12 steps: stuck"
    away = [[11, 1 + step] for step in range(13)]
    assert told(away, [[0, 0]] * 12, False).ending == "no success in 12 steps: out of time"


def test_a_name_cannot_command_a_terminal():
    assert told([[11, 1], [11, 2]], [[0, 0]], False, title="a\x1b[2J\nb\x07").title == "a [2J b "


def test_panels_are_the_first_the_end_and_what_happens_between_them():
    """Twelve windows of two steps along a line, all reached but the one from step 8 on; the way turns at step 16."""
    straight = [[0.5 * step, 0.0] for step in range(17)] + [[8.0, 0.5 * step] for step in range(1, 9)]
    tale = made(straight, reached=set(range(12)) - {4})
    assert story.choose(tale, 4) == [0, 8, 16, 24]
    assert story.choose(tale, 3) == [0, 16, 24]  # turned: 0.25 + 0.5, 8 away; missed: 0.25 + 0.5 * 11 / 12, also 8 away
    assert story.choose(made(straight), 3) == [0, 16, 24]
    assert story.choose(made(straight[:17]), 3) == [0, 8, 16]  # all are missed: that is nothing to show
    assert story.choose(tale, 2) == [0, 24]
    assert story.choose(tale, 1) == [0]
    assert story.choose(tale, 99) == [*range(0, 25, 2)]
    rewarded = made(straight, reached=set(range(12)), rewards=[step == 21 for step in range(24)])
    assert story.choose(rewarded, 3) == [0, 16, 24]  # the turn: 0.75 * 8; the reward at 20: 1.25 * 4
    assert story.choose(rewarded, 4) == [0, 16, 20, 24]


# Pictures


def axis():
    figure = Figure(figsize=(4, 4))
    return figure.add_axes((0, 0, 1, 1))


def test_the_contour_is_where_the_learned_distance_is_the_threshold():
    drawn = axis()
    drawing.draw_step(drawn, made([[5.0, 3.0], [5.5, 3.0]]), 0)
    (contour,) = [part for part in drawn.get_children() if isinstance(part, QuadContourSet)]
    points = np.concatenate([path.vertices for path in contour.get_paths()])
    assert len(points) > 40
    np.testing.assert_allclose(np.hypot(*(points - [5.0, 3.0]).T), 2.0, atol=0.01)


@pytest.mark.parametrize("sketch", [ROOM, ROOM._replace(across=1), ROOM._replace(downward=True)])
def test_the_heat_is_drawn_around_the_agent(sketch):
    drawn, tale = axis(), made([[7.0, 2.0], [7.5, 2.0]], sketch=sketch)
    drawing.draw_step(drawn, tale, 0)
    x, y = tale.place(np.array([7.0, 2.0]))
    (image,) = drawn.get_images()
    left, right, low, high = image.get_extent()
    row, column = np.unravel_index(image.get_array().argmin(), image.get_array().shape)
    last = story.HEAT_POINTS - 1
    assert left + (right - left) * column / last == pytest.approx(x, abs=0.1)
    assert low + (high - low) * row / last == pytest.approx(y, abs=0.1)
    assert image.origin == "lower"


def test_an_outline_goes_around_whole_cells():
    axis, cells = Figure().add_subplot(), np.zeros((3, 5), bool)
    cells[1, 1:3] = True
    drawing.outline(axis, cells)
    lines = {tuple(map(tuple, line.tolist())) for line in axis.collections[0].get_segments()}
    sides = {((x, 0.5), (x, 1.5)) for x in (0.5, 2.5)}
    assert lines == sides | {((x, y), (x + 1, y)) for x in (0.5, 1.5) for y in (0.5, 1.5)}


def test_the_letter_of_a_mark_fits_its_cell_and_stands_upright():
    letters = []
    for downward in (False, True):
        axis = Figure(figsize=(0.5, 0.5)).add_subplot()
        drawing.draw_map(axis, ROOM._replace(downward=downward, marks=(Mark("G", 2.0, 3.0),)))
        letters += [patch.get_path() for patch in axis.patches if isinstance(patch, PathPatch)]
    up, down = letters
    assert np.abs(up.get_extents().get_points() - [2.0, 3.0]).max() < 0.5  # the cell is half as far to each side
    np.testing.assert_allclose(down.vertices, up.vertices * [1, -1] + [0, 6])


def test_a_map_is_the_same_way_up_as_its_text():
    layout = "#####\n#A.##\n##.##\n#..##\n#####"
    for sketch, beyond in ((Maze(layout.replace("#..##", "#G.##")).sketch(), 0.0), (BlockMaze(layout=layout).sketch(), 0.5)):
        drawn = axis()
        drawing.draw_map(drawn, sketch)
        drawn.figure.set_size_inches(4, 4)
        canvas = FigureCanvasAgg(drawn.figure)
        canvas.draw()
        pixels = np.asarray(canvas.buffer_rgba())[..., :3]
        size = len(pixels) / (5 - 2 * beyond)  # of a block; of the outer walls half a block may be shown
        for row, line in enumerate(layout.splitlines()):
            for column, char in enumerate(line):
                at = [min(max(int((place + 0.5 - beyond) * size), 5), len(pixels) - 6) for place in (row, column)]
                expected = palette.WALL if char == "#" else palette.FLOOR
                if (row, column) != (3, 1):  # G has a colour of its own
                    assert tuple(pixels[*at].tolist()) == expected, (row, column)


def test_a_picture_says_what_it_shows():
    figure = picture.paint(made(along(12), reached={0, 2}), panels=3)
    assert figure.get_suptitle() == "a title: success after 12 steps"
    titles = [axis.get_title() for axis in figure.axes]
    assert titles[0] == "step 0: subgoal reached"
    assert titles[-1] == "step 12: end"
    assert any(re.fullmatch(r"step \d+: subgoal missed by 1\.2", title) for title in titles)
    labels = [label.get_text() for label in figure.legends[0].get_texts()]
    for wanted in ("start", "agent", "subgoal", "past subgoal, reached", "past subgoal, missed", "judged within k = 2 steps"):
        assert wanted in labels
    assert "target" not in labels


def test_reached_and_missed_subgoals_have_other_shapes_and_lie_on_the_path():
    drawn = axis()
    drawing.draw_step(drawn, made(along(8), reached={1}), 8)
    path, *_ = drawn.get_lines()
    past = [line for line in drawn.get_lines() if line.get_zorder() == 3.0]
    assert [line.get_marker() for line in past] == ["x", "o", "x"]
    assert all(line.get_zorder() > path.get_zorder() for line in past)


def test_marks_are_as_small_as_a_panel_needs():
    small, large = axis(), axis()
    for drawn, size in ((small, 0.5), (large, 1.0)):
        drawing.draw_step(drawn, made(along(8), reached={1}), 8, size=size)
    for half, whole in zip(small.get_lines(), large.get_lines(), strict=True):
        assert half.get_markersize() == whole.get_markersize() / 2 or half.get_linewidth() == whole.get_linewidth() / 2


def test_a_subgoal_outside_of_the_map_is_hollow_and_at_its_edge():
    """Not where its point is: that would be in another panel."""
    tale, drawn = made(along(8), target=(25.0, 3.0)), axis()
    drawing.draw_step(drawn, tale, 8)
    (star,) = [line for line in drawn.get_lines() if line.get_marker() == "*"]  # past ones are not drawn
    assert (star.get_color(), *star.get_xydata()[0]) == ("white", 10.0, 3.0)
    labels = [entry.get_label() for entry in drawing.legend(tale, [0, 8])]
    assert "subgoal outside of the map" in labels
    assert not {"subgoal", "past subgoal, missed"} & set(labels)


@pytest.mark.parametrize("sketch", [ROOM, ROOM._replace(downward=True)])
def test_a_star_above_the_map_covers_no_letter_of_a_title(sketch):
    tale = made(along(8), target=(5.0, -9.0 if sketch.downward else 9.0), sketch=sketch)
    figure = Figure(layout="constrained")
    strips.strip(figure.subplots(1, 2), tale)
    for drawn in (figure, picture.paint(tale, 2)):
        canvas = FigureCanvasAgg(drawn)
        canvas.draw()
        for panel in drawn.axes:
            (star,) = [line for line in panel.get_lines() if line.get_marker() == "*"]
            top = panel.transData.transform(star.get_xydata()[0])[1] + star.get_markersize() / 2 * drawn.dpi / 72
            assert panel.title.get_window_extent(canvas.get_renderer()).y0 >= top


def test_a_strip_of_few_subgoals_repeats_none():
    panels = strips.strip(Figure().subplots(1, 5), made(along(5)))
    assert [panel.get_title() for panel in panels] == ["step 0", "step 2", "step 4", "", ""]
    assert [panel.axison for panel in panels] == [True, True, True, False, False]


def test_a_legend_has_all_that_is_seen_at_the_last_step_that_is_shown():
    tale = made(along(8), reached={0, 1, 3})  # of four subgoals the third is missed
    for steps, seen in (([0, 8], True), ([0, 6], True), ([0, 4], False)):
        labels = [entry.get_label() for entry in drawing.legend(tale, steps)]
        assert ("past subgoal, missed" in labels) == seen, steps


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_hostile_names_are_drawn_as_they_are(suffix, tmp_path):
    tale = made(along(4))._replace(title=HOSTILE)
    picture.draw(tale, tmp_path / f"picture{suffix}")
    assert (tmp_path / f"picture{suffix}").stat().st_size > 5_000
    assert len(list(film.draw(tale, [0, 4], lambda step: None))) == 2


def test_an_agent_without_subgoals_and_without_adjacency_is_drawn():
    tale = made(along(6), embedding=None)
    tale = tale._replace(windows=tuple(window._replace(target=None) for window in tale.windows))
    figure = picture.paint(tale)
    assert [axis.get_title() for axis in figure.axes][:2] == ["step 0", "step 2"]
    labels = {label.get_text() for label in figure.legends[0].get_texts()}
    assert labels == {"start", "path so far", "its next 2 steps", "agent"}
    assert film.caption(tale, 2) == "step 2"
    assert text.page(tale, 2).splitlines()[-1].strip() == "o agent   : path"


def test_goals_of_three_dimensions_are_projected(tmp_path):
    tale = story.tell(player("ant-fall", **{"env.time_limit": 6}), "fall", 0)
    assert tale.positions.shape == (7, 3)
    assert tale.heat(3).shape == (story.HEAT_POINTS,) * 2
    picture.draw(tale, tmp_path / "fall.png")
    labels = [label.get_text() for label in picture.paint(tale).legends[0].get_texts()]
    assert {"chasm", "box to push", "target"} <= set(labels)


class Plane(gymnasium.Env):
    """A point in a plane without walls, and a goal."""

    goals = gymnasium.spaces.Box(-5.0, 5.0, (2,))
    observation_space = gymnasium.spaces.Dict({"observation": goals, "achieved_goal": goals, "desired_goal": goals})
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = np.zeros(2, np.float32), 0
        return self._seen(), {}

    def step(self, action):
        self.place = np.clip(self.place + 0.3 * action, -5, 5).astype(np.float32)
        self.steps += 1
        return self._seen(), 0.0, False, self.steps == 6, {"is_success": False}

    def _seen(self):
        goal = np.array([3.0, -2.0], np.float32)
        return {"observation": self.place, "achieved_goal": self.place, "desired_goal": goal}


def own(make, settings, **fields):
    """An untrained agent in an environment of one's own, with the settings for another task."""
    env = hrac.own_task(make, time_limit=6, **fields).make({})
    cfg = config.replace(tasks.config_for(settings), SMALL)
    return Player(env, *untrained(make_setup(env, cfg)))


def test_the_target_of_a_task_of_ones_own_is_drawn_and_no_wall():
    fields = {"goal_low": (-5.0, -5.0), "goal_high": (5.0, 5.0), "cell": (0.5, 0.5), "success": "is_success"}
    tale = story.tell(own(Plane, "point-maze", **fields), "plane")
    (target,) = tale.sketches[0].discs
    assert (target.x, target.y) == (6.0, -4.0)  # in cells of 0.5
    assert tale.sketches[0].walls == ()
    assert not tale.sketches[0].downward
    labels = [label.get_text() for label in picture.paint(tale).legends[0].get_texts()]
    assert "target" in labels
    assert tale.ending.startswith("no success in 6 steps")


def test_a_task_without_a_map_says_so():
    fields = {"goal": (0,), "goal_low": (-5.0,), "goal_high": (5.0,), "cell": (0.5,)}
    with pytest.raises(NoMapError, match="has no map to draw: it needs two coordinates and a method `sketch`"):
        story.tell(own(lambda: gymnasium.make("CartPole-v1"), "maze", **fields), "x")


def test_the_map_of_a_device_task_changes_with_the_episode():
    chest = tasks.make_env(tasks.config_for("key-chest"))
    letters = ["".join(mark.letter for mark in chest.sketch_at(np.float32([1, 1, key])).marks) for key in (0, 1)]
    assert letters == ["AKC", "AC"]
    point = tasks.make_env(tasks.config_for("point-maze-jax"))
    (target,) = point.sketch_at(np.float32([0, 0, 0, 0, 0, 5, 7])).discs
    assert (target.x, target.y) == (5.0, 7.0)


# Films


@pytest.fixture(scope="module")
def filmed(tmp_path_factory):
    """An episode of Maze, and its film."""
    path, said = tmp_path_factory.mktemp("film") / "film.gif", []
    tale = film.record(player("maze", **{"env.time_limit": 9}), "maze", path, 0, said.append)
    assert said == []
    return tale, path


def test_a_film_has_a_frame_for_each_step_and_holds_the_last(filmed):
    tale, path = filmed
    assert tale.length == 9
    with Image.open(path) as gif:
        assert gif.n_frames == 10
        durations, sizes = [], set()
        for frame in range(10):
            gif.seek(frame)
            durations.append(gif.info["duration"])
            sizes.add(gif.convert("RGB").size)
    assert durations == [100] * 9 + [2500]
    assert len(sizes) == 1


def test_a_gif_has_the_shades_of_learned_distances_however_small_they_are_in_it(tmp_path):
    grey = np.full((40, 40, 3), 128, np.uint8)
    film._write_gif(tmp_path / "film.gif", iter([grey, grey + 1]))
    with Image.open(tmp_path / "film.gif") as gif:
        has = np.reshape(gif.getpalette(), (-1, 3))
    for shade in drawing.DISTANCES(np.linspace(0.0, 0.5, 100), bytes=True)[:, :3].astype(int):
        assert np.abs(has - shade).max(axis=1).min() <= 6, shade


def test_a_long_episode_is_filmed_by_every_few_steps():
    for length in (1, 130, 131, 500, 2000):
        steps = film.chosen_steps(length)
        assert len(steps) <= film.MOST_FRAMES + 1
        assert (steps[0], steps[-1]) == (0, length)
        assert steps == sorted(set(steps))


def test_frames_tell_the_step_and_the_end():
    tale = made(along(5))
    assert [film.caption(tale, step) for step in (0, 4, 5)] == [
        "step 0, subgoal 1",
        "step 4, subgoal 3",
        "success after 5 steps",
    ]


def test_an_mp4_has_its_frames_too(tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    film._write_mp4(tmp_path / "film.mp4", film.draw(made(along(5)), [0, 2, 4, 5], lambda step: None))
    frames, seconds = ffmpeg.count_frames_and_secs(str(tmp_path / "film.mp4"))
    assert frames == 4 + 25
    assert seconds == pytest.approx(2.9, abs=0.2)


def test_without_the_extra_an_mp4_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    policy = hrac.load(hrac.pretrained("ant-maze"))
    with pytest.raises(MissingExtraError, match=r"MP4 needs the extra `video`: pip install 'hrac\[video\]'"):
        policy.record(tmp_path / "new" / "film.mp4")
    with pytest.raises(FileError, match=r"path must end in \.gif or \.mp4, got '.*film\.avi'"):
        policy.record(tmp_path / "film.avi")
    with pytest.raises(FileError, match=r"path must end in \.png, \.pdf or \.svg, got '.*film\.gif'"):
        policy.draw(tmp_path / "film.gif")


def test_a_film_of_an_ant_has_the_simulation_beside_the_map(tmp_path, monkeypatch):
    ant = player("ant-maze", **{"env.time_limit": 3})
    said = []
    film.record(ant, "ant", tmp_path / "map.gif", 0, said.append, simulation=False)
    with Image.open(tmp_path / "map.gif") as gif:
        alone = gif.size

    def nothing(*_):
        raise RenderingUnavailableError("no OpenGL: apt install it")

    with monkeypatch.context() as without:
        without.setattr(opengl, "_gl_context", nothing)
        film.record(ant, "ant", tmp_path / "without.gif", 0, said.append)
    assert said == ["the film shows the map alone: no OpenGL: apt install it"]
    with Image.open(tmp_path / "without.gif") as gif:
        assert (gif.size, gif.n_frames) == (alone, 4)
    try:
        opengl._gl_context(8, 8).free()
    except RenderingUnavailableError as error:
        pytest.skip(str(error))
    film.record(ant, "ant", tmp_path / "both.gif", 0, said.append)
    with Image.open(tmp_path / "both.gif") as gif:
        assert (gif.size[0] > alone[0], gif.n_frames) == (True, 4)
    assert len(said) == 1


# Text


def test_the_text_of_a_grid_world_is_its_layout(filmed):
    tale, _ = filmed
    tale = tale._replace(windows=(tale.windows[0]._replace(target=np.array([2.2, 4.9])),))
    expected = [list(line) for line in MAZE.strip().splitlines()]
    expected[11][1], expected[2][5] = "o", "*"
    assert text.draw(tale, 0) == ["".join(line) for line in expected]


def test_the_text_of_a_maze_of_blocks_is_the_same_way_up_as_its_layout():
    tale = made([[0.0, 0.0], [8.0, 0.0]], target=(16.0, 8.0), sketch=BlockMaze(target=(0.0, 16.0)).sketch())
    lines = text.draw(tale, 1)
    assert {len(line) for line in lines} == {text.WIDEST}
    rows = ["".join(dict.fromkeys(line)) for line in lines]
    assert rows[0] == rows[-1] == "#"
    assert next(row for row in rows if "o" in row) == "#.:o"  # the start is on the upper side
    assert next(index for index, row in enumerate(rows) if "T" in row) > next(i for i, row in enumerate(rows) if "*" in row)


def test_an_episode_is_played_live_in_a_terminal_and_by_its_subgoals_elsewhere(monkeypatch):
    tale, waited = made(along(4), reached={0}), []
    monkeypatch.setattr(text.time, "sleep", waited.append)
    plain = io.StringIO()
    text.play(tale, 4.0, plain)
    assert [line.strip() for line in plain.getvalue().splitlines() if line.startswith(("step", "success", "last"))] == [
        "step 0, subgoal 1",
        "step 2, subgoal 2",
        "last subgoal reached",
        "success after 4 steps",
        "last subgoal missed by 1.2",
    ]
    assert waited == []
    live = io.StringIO()
    live.isatty = lambda: True
    text.play(tale, 4.0, live)
    assert live.getvalue().count("\x1b[H") == 5
    assert waited == [0.25] * 5


# Commands


def test_the_commands_make_their_folders_and_say_how_it_went(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(story, "tell", lambda player, title, *_: made(along(4))._replace(title=title))
    monkeypatch.setattr(film, "tell", story.tell)
    monkeypatch.chdir(tmp_path)
    source = ["ant-gather", "--pretrained"]
    assert cli._main(["picture", *source, "--out", "new/ant.png"]) == 0
    assert capsys.readouterr().out == "drawn: new/ant.png (success after 4 steps)\n"
    assert cli._main(["video", *source]) == 0
    assert capsys.readouterr().out == "filmed: ant-gather.gif (success after 4 steps)\n"
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")} == {"new/ant.png", "ant-gather.gif"}
    assert cli._main(["picture", "ant-gather"]) == 0  # by its name alone: the same file
    assert capsys.readouterr().out == "drawn: ant-gather.png (success after 4 steps)\n"
    assert cli._main(["video", *source, "--text"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"ant-gather, hrac-plus, seed {hrac.load('ant-gather').seed} ")
    assert text.KEY in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["picture", "ant-maze", "--pretrained", "--panels", "0"], "--panels must be from 1 to 100, got 0"),
        (["picture", "ant-maze", "--pretrained", "--out", "x.gif"], "--out must end in .png, .pdf or .svg, got 'x.gif'"),
        (["video", "ant-maze", "--pretrained", "--out", "x.png"], "--out must end in .gif or .mp4, got 'x.png'"),
        (
            ["video", "ant-maze", "--pretrained", "--steps-per-second", "0"],
            "--steps-per-second must be above 0 and at most 1000",
        ),
        (["video", "ant-maze", "--pretrained", "--episode", "-1"], "--episode must be at least 0 and less than 2^31, got -1"),
        (["video", "nowhere/at/all"], "nowhere/at/all does not exist"),
    ],
)
def test_mistakes_are_answered_in_one_line(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli._main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {message}")
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


# Windows on the screen


def test_the_environments_open_a_window_with_pygame(monkeypatch):
    pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    with pytest.warns(UserWarning, match="HumanRendering wrapper is being applied"):
        env = gymnasium.make("hrac/Maze-v0", render_mode="human")
    env.reset(seed=0)
    env.step(0)
    env.close()


def test_without_pygame_the_environments_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.warns(UserWarning, match="HumanRendering wrapper is being applied"):
        env = gymnasium.make("hrac/KeyChest-v0", render_mode="human")
    with pytest.raises(gymnasium.error.DependencyNotInstalled, match="pygame is not installed"):
        env.reset(seed=0)


def test_a_grid_world_draws_a_subgoal():
    env = gymnasium.make("hrac/Maze-v0", render_mode="ansi").unwrapped
    env.reset(seed=0)
    env.subgoal = (1.6, 3.2)
    assert env.render().splitlines()[2][3] == "*"
    env.render_mode = "rgb_array"
    assert tuple(env.render()[2 * 24 - 2, round(3.7 * 24)].tolist()) == palette.SUBGOAL  # row 1.6 is at 24 (1.6 + 0.5) = 50.4
