import os
import pickle
import re
import subprocess
import sys
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

import hrac  # noqa: F401  registers the environments
from hrac.envs import palette
from hrac.envs.ant import opengl
from hrac.envs.ant.gym import AntGatherEnv, AntMazeEnv, AntMazeSparseEnv
from hrac.envs.ant.opengl import Renderer, RenderingUnavailableError
from hrac.envs.ant.vector import AntMazeVectorEnv

# The middles of the walls of Ant Maze are from -8 to 24 on both axes, and a margin of 2 % of that, 0.64, is shown beyond
# them: 33.28 in all, which in 416 pixels is 12.5 pixels a unit. y grows downward: x is in column 12.5 (x + 8.64), y in row
# 12.5 (y + 8.64).
MAZE_PIXELS = 416
# Those of Ant Gather are from -11 to 11, the margin is 0.44: 22.88 in all, in 286 pixels also 12.5 a unit.
# So x is in column 12.5 (x + 11.44), y in row 12.5 (11.44 - y).
GATHER_PIXELS = 286
POSE = np.array([0.0, 0.0, 0.75, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, -1.0, 0.0, -1.0, 0.0, 1.0])
"""An ant that stands at the origin."""
MAZE_BLOCKS = [((8 * column, 8 * row), char) for row, line in enumerate(["#####", "#A..#", "###.#", "#...#", "#####"], -1)
               for column, char in enumerate(line, -1)]  # fmt: skip
FAR = {"target": (20.0, 20.0)}


def maze_env(camera="map", width=MAZE_PIXELS, height=MAZE_PIXELS, **keywords):
    return AntMazeEnv(render_mode="rgb_array", camera=camera, width=width, height=height, **keywords)


def gather_env(camera="map", objects=((4, 2, 0), (-4, -6, 1))):
    env = AntGatherEnv(render_mode="rgb_array", camera=camera, width=GATHER_PIXELS, height=GATHER_PIXELS)
    env.reset(seed=0)
    env.set_state(POSE, np.zeros(14))
    env.set_objects(list(objects))
    return env


def put(env, x, y):
    env.set_state(np.array([x, y, *POSE[2:]]), np.zeros(14))


def in_maze(picture, x, y):
    """The colour of a place of Ant Maze in a picture of any size, to scale and in the middle."""
    height, width, _ = picture.shape
    scale = min(width, height) / 33.28
    return tuple(picture[round(height / 2 + (y - 8) * scale), round(width / 2 + (x - 8) * scale)].tolist())


def green(picture):
    red, green, blue = np.moveaxis(picture.astype(int), -1, 0)
    return (green > red + 20) & (green > blue + 10)


def yellow(picture):
    red, green, blue = np.moveaxis(picture.astype(int), -1, 0)
    return (red > blue + 80) & (green > 0.6 * red)


def blue(picture):
    red, green, blue = np.moveaxis(picture.astype(int), -1, 0)
    return (blue > red + 40) & (blue > green + 20)


def red(picture):
    red, green, blue = np.moveaxis(picture.astype(int), -1, 0)
    return (red > green + 60) & (red > blue + 60)


@pytest.fixture(scope="session")
def opengl_works():
    """Skips where there is no OpenGL."""
    try:
        Renderer(AntMazeEnv().batch.model, "top", 16, 16).close()
    except RenderingUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def camera(request):
    if request.param != "map":
        request.getfixturevalue("opengl_works")
    return request.param


@pytest.fixture(scope="session")
def mazes():
    """Environments by camera, as making a context takes time."""
    made = {}
    yield made
    for env in made.values():
        env.close()


@pytest.fixture
def maze(camera, mazes):
    """Ant Maze, seen by a camera in 416 x 416 pixels."""
    if camera not in mazes:
        mazes[camera] = maze_env(camera)
    env = mazes[camera]
    env.subgoal = None
    env.reset(seed=0, options=FAR)
    put(env, 0, 0)
    return env


needs_opengl = pytest.mark.usefixtures("opengl_works")
every_camera = pytest.mark.parametrize("camera", ["map", "top", "follow"], indirect=True)
from_above = pytest.mark.parametrize("camera", ["map", "top"], indirect=True)


# All cameras


@every_camera
def test_a_picture_has_the_size_that_was_asked_for(camera):
    for env in (AntMazeEnv, AntMazeSparseEnv, AntGatherEnv):
        env = env(render_mode="rgb_array", camera=camera, width=57, height=38)
        env.reset(seed=0)
        picture = env.render()
        assert (picture.shape, picture.dtype) == ((38, 57, 3), np.uint8)
        assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 3
        env.close()


def test_render_wants_a_reset_and_a_mode():
    """Whatever draws."""
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"call reset\(\) before render\(\)"):
        maze_env().render()
    env = AntGatherEnv()
    env.reset(seed=0)
    with pytest.warns(UserWarning, match='render_mode="rgb_array"'):
        assert env.render() is None


@from_above
def test_a_picture_can_be_tiny_or_flat(camera):
    for width, height in ((1, 1), (333, 7)):
        env = maze_env(camera, width, height)
        env.reset(seed=0)
        assert env.render().shape == (height, width, 3)
        env.close()


@every_camera
def test_the_same_state_gives_the_same_picture_and_another_another(maze):
    first = maze.render()
    np.testing.assert_array_equal(maze.render(), first)
    for _ in range(3):
        maze.step(np.full(8, 30.0))
    moved = maze.render()
    assert (moved != first).any()
    put(maze, 16, 0)
    assert (maze.render() != moved).any()


@every_camera
def test_pictures_are_ones_own(maze):
    first = maze.render()
    kept = first.copy()
    put(maze, 5, 0)
    maze.render()
    np.testing.assert_array_equal(first, kept)
    first[...] = 0
    put(maze, 0, 0)
    np.testing.assert_array_equal(maze.render(), kept)


@every_camera
def test_rendering_changes_nothing_that_follows(maze):
    other = AntMazeEnv()
    for each in (maze, other):
        each.reset(seed=0)
    for action in np.random.default_rng(0).uniform(-30, 30, (4, 8)):
        maze.render()
        np.testing.assert_array_equal(maze.step(action)[0]["observation"], other.step(action)[0]["observation"])


@every_camera
def test_a_subgoal_is_drawn_and_gone_when_it_is_none(maze):
    without = maze.render()
    assert not yellow(without).any()
    maze.subgoal = np.array([1.5, 1.5])
    drawn = maze.render()
    assert yellow(drawn).sum() > 20
    maze.subgoal = [-1.5, -1.5]
    assert (maze.render() != drawn).any()
    maze.subgoal = None
    np.testing.assert_array_equal(maze.render(), without)


@every_camera
def test_the_target_is_drawn_where_it_is(maze):
    far = maze.render()
    maze.reset(seed=0, options={"target": (1.0, 1.0)})
    put(maze, 0, 0)
    near = maze.render()
    assert green(near).sum() > green(far).sum() + 1000


@from_above
def test_closing_twice_is_fine_and_pictures_can_be_had_again(camera):
    env = gymnasium.make("hrac/AntMaze-v0", render_mode="rgb_array", camera=camera, width=40, height=40)
    env.reset(seed=0)
    first = env.render()
    env.close()
    env.close()
    np.testing.assert_array_equal(env.render(), first)
    env.close()


def test_closing_what_never_drew_is_fine():
    env = AntMazeEnv()
    env.close()
    env.close()
    assert env.reset(seed=0)[1] == {"success": False}


@from_above
def test_what_rendering_holds_is_not_pickled(camera):
    env = maze_env(camera)
    env.reset(seed=0)
    size = len(pickle.dumps(env))
    first = env.render()
    pickled = pickle.dumps(env)
    assert len(pickled) == size
    other = pickle.loads(pickled)
    np.testing.assert_array_equal(other.render(), first)
    put(other, 5, 0)
    assert (other.render() != first).any()  # what it draws is itself,
    np.testing.assert_array_equal(env.render(), first)  # not the one it was copied from
    env.close()
    other.close()


@from_above
def test_environments_that_take_turns_do_not_mix_their_pictures(camera):
    envs = [maze_env(camera, 50, 60), AntGatherEnv(render_mode="rgb_array", camera=camera, width=70, height=40)]
    for env in envs:
        env.reset(seed=0)
    first = [env.render() for env in envs]
    for env, picture in zip(envs, first, strict=True):
        np.testing.assert_array_equal(env.render(), picture)
    envs[1].close()
    np.testing.assert_array_equal(envs[0].render(), first[0])
    envs[0].close()


@pytest.mark.parametrize("camera", ["top"], indirect=True)  # the map: test_ant_vector
def test_many_copies_are_drawn_as_the_single_ones(camera):
    env = AntMazeVectorEnv(num_envs=3, render_mode="rgb_array", camera=camera, width=40, height=40)
    env.reset(seed=5)
    single = maze_env(camera, 40, 40)
    for i, picture in enumerate(env.render()):
        single.reset(seed=5 + i)
        np.testing.assert_array_equal(single.render(), picture)
    env.close()
    single.close()


# From above


@from_above
@pytest.mark.parametrize(("width", "height"), [(333, 333), (640, 416), (417, 501)])
def test_walls_and_floor_are_where_they_are_to_scale(camera, width, height):
    env = maze_env(camera, width, height)
    env.reset(seed=0, options={"target": (100.0, 100.0)})
    put(env, 3, 0)
    picture = env.render()
    for (x, y), char in MAZE_BLOCKS:
        if char == "#":
            assert max(in_maze(picture, x, y)) < 130, (x, y)
        else:
            assert min(in_maze(picture, x, y)) > 200, (x, y)
    # The wall in the middle ends at x = 12, and from y = 4 to y = 12.
    assert max(in_maze(picture, 11.7, 8)) < 130
    assert min(in_maze(picture, 12.3, 8)) > 200
    assert max(in_maze(picture, 0, 11.7)) < 130
    assert min(in_maze(picture, 0, 12.3)) > 200
    assert max(in_maze(picture, 0, 4.3)) < 130
    assert min(in_maze(picture, 0, 3.7)) > 200
    env.close()


@from_above
def test_things_are_drawn_in_their_colours_where_they_are(maze):
    maze.reset(seed=0, options={"target": (16.0, 8.0)})
    put(maze, 0, 0)
    maze.subgoal = np.array([0.0, 16.0])
    picture = maze.render()
    assert blue(picture)[108, 108]  # 12.5 (0 + 8.64), twice
    assert green(picture)[208, 308]  # 12.5 (8 + 8.64), 12.5 (16 + 8.64)
    assert yellow(picture)[308, 108]  # 12.5 (16 + 8.64), 12.5 (0 + 8.64)
    put(maze, 16, 0)
    picture = maze.render()
    assert blue(picture)[108, 308]
    assert not blue(picture)[108, 108]


@from_above
def test_apples_are_green_and_bombs_red_until_they_are_touched(camera):
    env = gather_env(camera)
    picture = env.render()
    assert green(picture)[118, 193]  # 12.5 (11.44 - 2), 12.5 (4 + 11.44)
    assert red(picture)[218, 93]  # 12.5 (11.44 + 6), 12.5 (-4 + 11.44)
    assert blue(picture)[143, 143]
    assert not red(picture)[118, 193]
    put(env, 4, 2)
    assert env.step(np.zeros(8))[1] == 1.0
    put(env, 0, 0)
    picture = env.render()
    assert not green(picture).any()
    assert red(picture)[218, 93]
    env.close()


# The map


def test_the_map_has_the_colours_of_the_palette():
    env = maze_env()
    env.reset(seed=0, options={"target": (0.0, 16.0)})
    put(env, 0, 0)
    env.subgoal = np.array([16.0, 0.0])
    picture = env.render()

    def colour(row, column):
        return tuple(picture[row, column].tolist())

    assert colour(108, 108) == palette.AGENT  # (0, 0)
    assert colour(208, 208) == palette.WALL  # (8, 8)
    assert colour(208, 308) == palette.FLOOR  # (16, 8)
    assert colour(308, 108) == palette.TARGET  # (0, 16)
    assert colour(108, 308) == palette.SUBGOAL  # (16, 0)
    assert colour(408, 8) == palette.WALL  # (-8, 24)
    assert colour(0, 0) == palette.WALL
    # (2, 18), within 5 of the target: 35 % of its colour on 65 % of the floor's
    np.testing.assert_allclose(colour(333, 133), [159.9, 215.2, 197.6], atol=1)
    assert colour(333, 183) == palette.FLOOR  # (6, 18), farther than 5
    assert colour(253, 108) == palette.WALL  # (0, 11.6), within 5 of the target but inside the wall


def test_the_disc_of_the_target_has_the_radius_of_success():
    env = maze_env(success_radius=2.0)
    env.reset(seed=0, options={"target": (0.0, 16.0)})
    disc = green(env.render())
    rows, columns = np.nonzero(disc)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == pytest.approx((283, 332, 83, 132), abs=1)  # 308, 108 +- 25
    assert disc.sum() == pytest.approx(np.pi * 25**2, rel=0.03)


def test_the_map_of_gather_has_the_colours_of_the_palette():
    picture = gather_env().render()
    assert tuple(picture[118, 193].tolist()) == palette.APPLE  # (4, 2)
    assert tuple(picture[218, 93].tolist()) == palette.BOMB  # (-4, -6)
    assert tuple(picture[143, 143].tolist()) == palette.AGENT  # (0, 0)
    assert tuple(picture[93, 93].tolist()) == palette.FLOOR  # (-4, 4)
    assert tuple(picture[143, 280].tolist()) == palette.WALL  # (11, 0)
    assert tuple(picture[5, 143].tolist()) == palette.WALL  # (0, 11)
    assert green(picture).sum() == pytest.approx(np.pi * 5**2, rel=0.2)  # one apple of radius 0.4


def test_the_map_shows_the_legs():
    env = maze_env()
    env.reset(seed=0, options=FAR)
    put(env, 0, 0)
    rows, columns = np.nonzero(blue(env.render()))
    # Hips at 0.2, knees at 0.4 on both axes; the shanks go on from there, as far as the ankles are stretched. The torso alone
    # would be 0.5 wide.
    assert rows.max() - rows.min() > 2 * 12.5 * 0.4
    assert columns.max() - columns.min() > 2 * 12.5 * 0.4


def test_a_long_maze_lies_in_the_middle_of_the_map():
    env = maze_env(layout="#####\n#A..#\n#####", block_size=4.0, target=(100.0, 100.0))
    env.reset(seed=0)
    put(env, 0, 0)
    picture = env.render()
    # Middles of walls from -4 to 12 and from -4 to 4, 0.32 beyond on all sides: 16.64 and 8.64 in 416 and 216 pixels.
    colours = {place: tuple(picture[208, 25 * place + 108].tolist()) for place in (-4, 0, 4, 8, 12)}
    expected = [palette.WALL, palette.AGENT, palette.FLOOR, palette.FLOOR, palette.WALL]
    assert colours == dict(zip(colours, expected, strict=True))
    assert tuple(picture[308 - 4, 208].tolist()) == palette.WALL  # y from 2 to 4.32 above and below
    assert tuple(picture[50, 208].tolist()) == (255, 255, 255)


def test_a_subgoal_outside_the_walls_does_no_harm():
    env = maze_env()
    env.reset(seed=0, options=FAR)
    without = env.render()
    env.subgoal = np.array([1000.0, -1000.0])
    np.testing.assert_array_equal(env.render(), without)


# OpenGL


@pytest.mark.parametrize("camera", ["follow"], indirect=True)
def test_the_following_camera_sees_the_maze_the_same_way_up_as_the_map(maze):
    for (x, y), (row, column) in {(2, 0): (0, 1), (-2, 0): (0, -1), (0, 2): (1, 0), (0, -2): (-1, 0)}.items():
        maze.subgoal = np.array([x, y], float)
        rows, columns = np.nonzero(yellow(maze.render()))
        away = np.array([rows.mean(), columns.mean()]) - MAZE_PIXELS / 2
        assert away @ (row, column) > 40
        assert abs(away @ (column, row)) < 60


@pytest.mark.parametrize("camera", ["follow"], indirect=True)
def test_the_camera_follows_the_ant(maze):
    for x, y in ((0, 0), (16, 8), (3, 17)):
        put(maze, x, y)
        rows, columns = np.nonzero(blue(maze.render()))
        assert rows.mean() == pytest.approx(208, abs=30)
        assert columns.mean() == pytest.approx(208, abs=30)


@needs_opengl
def test_more_objects_than_can_be_drawn_do_no_harm():
    env = gather_env("top", [(2 * (i % 10) - 10, 2 * (i // 10 % 10) - 10, 0) for i in range(3000)])
    assert green(env.render()).any()
    env.close()


def without_opengl(monkeypatch, *, system="Linux", display=None, asked=None):
    """Names of the modules that were tried in vain."""
    tried = []

    def fail(name):
        tried.append(name)
        raise ImportError(f"no {name} here")

    monkeypatch.setattr(opengl, "importlib", SimpleNamespace(import_module=fail))
    monkeypatch.setattr(opengl, "platform", SimpleNamespace(system=lambda: system))
    for name, value in (("DISPLAY", display), ("WAYLAND_DISPLAY", None), ("MUJOCO_GL", asked)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    return tried


@pytest.mark.parametrize("camera", ["top", "follow"])
def test_without_opengl_it_is_told_what_to_do(monkeypatch, camera):
    without_opengl(monkeypatch)
    env = maze_env(camera)
    env.reset(seed=0)
    message = r'apt install libegl1 .*camera="map".*Tried egl: ImportError: no mujoco\.egl here'
    with pytest.raises(RenderingUnavailableError, match=message):
        env.render()
    assert np.isfinite(env.step(np.zeros(8))[1])  # all but pictures goes on
    env.close()


def test_without_opengl_there_is_the_map(monkeypatch):
    tried = without_opengl(monkeypatch)
    env = maze_env("map")
    env.reset(seed=0)
    assert blue(env.render()).any()
    assert tried == []


@pytest.mark.parametrize(
    ("machine", "kinds"),
    [
        ({"system": "Linux"}, ["egl"]),
        ({"system": "Linux", "display": ":0"}, ["egl", "glfw"]),
        ({"system": "Darwin"}, ["cgl", "glfw"]),
        ({"system": "Windows"}, ["glfw"]),
        ({"system": "Linux", "display": ":0", "asked": "osmesa"}, ["osmesa"]),
        ({"system": "Linux", "asked": "EGL"}, ["egl"]),
        ({"system": "Linux", "asked": "nonsense"}, ["egl"]),
    ],
)
def test_all_kinds_of_opengl_that_a_machine_may_have_are_tried(monkeypatch, machine, kinds):
    tried = without_opengl(monkeypatch, **machine)
    env = maze_env("top")
    env.reset(seed=0)
    with pytest.raises(RenderingUnavailableError) as caught:
        env.render()
    assert tried == [f"mujoco.{kind}" for kind in kinds]
    assert all(re.search(rf"\b{kind}: ImportError", str(caught.value)) for kind in kinds)


def test_the_first_kind_of_opengl_that_works_is_used(monkeypatch):
    def found(name):
        if name == "mujoco.egl":
            raise AttributeError("'NoneType' object has no attribute 'eglQueryString'")
        return SimpleNamespace(GLContext=lambda width, height: (name, width, height))

    without_opengl(monkeypatch, display=":0")
    monkeypatch.setattr(opengl, "importlib", SimpleNamespace(import_module=found))
    assert opengl._gl_context(30, 20) == ("mujoco.glfw", 30, 20)


WINDOW = """
import gymnasium, hrac
for mode in ("human", "rgb_array"):
    env = gymnasium.make("hrac/AntMaze-v0", render_mode=mode)
    env.reset(seed=0)
    seen = env.render()
    env.close()
print(seen.shape)
"""


@needs_opengl
def test_a_window_of_an_ant_leaves_opengl_as_it_was():
    """Without a screen a window of pygame opens too, and would use EGL as pictures of ants do."""
    pytest.importorskip("pygame")
    hidden = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER", "SDL_FRAMEBUFFER_ACCELERATION")
    clean = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run([sys.executable, "-c", WINDOW], env=clean, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["(480, 480, 3)"]), done.stderr
