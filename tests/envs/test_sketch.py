"""Sketches of maps, and how they are painted."""

import numpy as np
import pytest

from hrac.envs import palette
from hrac.envs.ant.gather import AntGather
from hrac.envs.ant.maze import AntMaze
from hrac.envs.grid import KeyChest, Maze
from hrac.envs.paint import Canvas, paint
from hrac.envs.point import SPARSE, PointMaze
from hrac.envs.sketch import Disc, Drawable, Mark, Rectangle, Sketch, Thing, rectangles

ROOM = Sketch((0.0, 0.0), (8.0, 4.0), walls=(Rectangle(0.0, 0.0, 2.0, 4.0), Rectangle(2.0, 0.0, 6.0, 1.0)))


def in_walls(sketch, points):
    """Whether points (n, 2) of goal space are in a wall, and in how many."""
    x, y = sketch.place(points).T
    return sum((wall.x < x) & (x < wall.x + wall.width) & (wall.y < y) & (y < wall.y + wall.height) for wall in sketch.walls)


def colour(picture, row, column):
    return tuple(picture[row, column].tolist())


def test_a_mask_is_covered_once_by_its_rectangles():
    for seed in range(20):
        mask = np.random.default_rng(seed).random((9, 7)) < 0.5
        covered = np.zeros(mask.shape, int)
        for row, column, rows, columns in rectangles(mask):
            covered[row : row + rows, column : column + columns] += 1
        np.testing.assert_array_equal(covered, mask)
    assert rectangles(np.ones((3, 4), bool)) == [(0, 0, 3, 4)]
    assert rectangles(np.zeros((3, 4), bool)) == []


@pytest.mark.parametrize("world", [Maze(), KeyChest()])
def test_a_grid_is_drawn_by_row_and_column_with_rows_downward(world):
    sketch, (rows, columns) = world.sketch(), world.layout.walls.shape
    assert sketch.extent == (-0.5, columns - 0.5, rows - 0.5, -0.5)
    np.testing.assert_array_equal(sketch.place([[3, 5, 1]]), [[5.0, 3.0]])
    everywhere = np.argwhere(np.ones(world.layout.walls.shape, bool))
    np.testing.assert_array_equal(in_walls(sketch, everywhere), world.layout.walls.ravel())
    assert {mark.letter: [mark.y, mark.x] for mark in sketch.marks} == {
        letter: cell.tolist() for letter, cell in world.layout.marks.items()
    }


@pytest.mark.parametrize("maze", [AntMaze(), SPARSE, PointMaze(layout="######\n#.A..#\n#.##.#\n######", block_size=3.0)])
def test_a_maze_of_blocks_is_drawn_the_same_way_up_as_its_text(maze):
    sketch, rng = maze.sketch(), np.random.default_rng(0)
    left, right, bottom, top = sketch.extent
    assert left < right
    assert bottom > top
    points = rng.uniform(sketch.low, sketch.high, (2000, 2))
    np.testing.assert_array_equal(sketch.place(points), points)
    np.testing.assert_array_equal(in_walls(sketch, points), maze.in_wall(points))
    edge = maze.block_size / 2
    np.testing.assert_allclose([sketch.low, sketch.high], np.add(maze.bounds, [[-edge], [edge]]))
    # Half a block of the outer walls is shown. So in a picture of 2 x 2 pixels for each block, less one on each side, the
    # pixels of a block are those around its character in the text.
    rows = maze.layout.strip("\n").splitlines()
    picture = paint(sketch, 2 * len(rows[0]) - 2, 2 * len(rows) - 2).picture()
    wall = np.kron([[char == "#" for char in row] for row in rows], np.ones((2, 2)))[1:-1, 1:-1].astype(bool)
    np.testing.assert_array_equal((picture == palette.WALL).all(axis=-1), wall)


def test_the_target_of_all_episodes_is_drawn_and_one_that_is_drawn_anew_is_not():
    assert SPARSE.sketch().discs == (Disc(2.0, 9.0, 1.0),)
    assert AntMaze().sketch().discs == ()
    assert AntMaze().evaluation().sketch().discs == (Disc(0.0, 16.0, 5.0),)
    assert AntMaze().sketch((1.0, 2.0)).discs == (Disc(1.0, 2.0, 5.0),)
    assert PointMaze().on_device().sketch() == PointMaze().sketch()


def test_the_walls_of_gather_close_the_room_and_objects_are_those_that_are_left():
    room = AntGather(room=6)
    sketch = room.sketch()
    assert sketch.extent == (-7.0, 7.0, -7.0, 7.0)
    points = np.random.default_rng(0).uniform(-7.4, 7.4, (2000, 2))
    np.testing.assert_array_equal(in_walls(sketch, points), (np.abs(points) > 6.5).any(axis=1))
    batch = room.batch(1, 1)
    batch.reset(seeds=[0])
    batch.put_objects(0, [(2.0, 4.0, 0), (-2.0, 4.0, 1), (4.0, 4.0, 1)])
    batch.present[0, 1] = False
    assert batch.sketch(0).things == (Thing(2.0, 4.0, "apple"), Thing(4.0, 4.0, "bomb"))


def test_what_has_a_map_says_so():
    assert all(isinstance(task, Drawable) for task in (Maze(), AntMaze(), AntGather(), SPARSE, SPARSE.on_device()))


def test_walls_are_painted_to_scale_without_seams_and_white_is_around_them():
    """8 x 4 units in 80 x 60 pixels are 10 pixels a unit, with 10 white rows above and below."""
    picture = paint(ROOM, 80, 60).picture()
    expected = np.full((60, 80, 3), 255)
    expected[10:50] = palette.FLOOR
    expected[10:50, :20] = expected[40:50] = palette.WALL
    np.testing.assert_array_equal(picture, expected)
    odd = paint(ROOM, 83, 60).picture()  # edges between pixels
    assert {tuple(pixel) for pixel in odd[45].tolist()} == {palette.WALL}


def test_what_grows_downward_is_painted_upside_down():
    upright, turned = (paint(sketch, 80, 40).picture() for sketch in (ROOM, ROOM._replace(downward=True)))
    np.testing.assert_array_equal(turned, upright[::-1])


def test_marks_things_and_discs_are_painted_where_they_are():
    """20 pixels a unit: x is in column 20 x, y in row 80 - 20 y."""
    marks, things = (Mark("G", 3.5, 2.5), Mark("A", 4.5, 2.5)), (Thing(5.5, 2.5, "apple"), Thing(6.5, 2.5, "bomb"))
    picture = paint(ROOM._replace(marks=marks, things=things, discs=(Disc(7.0, 3.0, 0.9),)), 160, 80).picture()
    expected = [palette.TARGET, palette.FLOOR, palette.APPLE, palette.BOMB]
    assert [colour(picture, 30, column) for column in (70, 90, 110, 130)] == expected
    assert colour(picture, 20, 140) == palette.TARGET
    np.testing.assert_allclose(colour(picture, 20, 155), [159.9, 215.2, 197.6], atol=1)  # 35 % on the floor


def test_shapes_have_their_sizes_and_nothing_happens_outside():
    canvas = Canvas(Sketch((0.0, 0.0), (10.0, 10.0)), 200, 200)
    before = canvas.picture()
    canvas.disc((1e6, -1e6), 1.0, palette.AGENT)
    canvas.star((1e6, -1e6), palette.SUBGOAL, palette.EDGE)
    np.testing.assert_array_equal(canvas.picture(), before)
    canvas.disc((2.0, 2.0), 1.5, (0, 0, 0))
    assert (255 - canvas.image[..., 0]).sum() / 255 == pytest.approx(np.pi * 30**2, rel=0.01)
    canvas = Canvas(Sketch((0.0, 0.0), (10.0, 10.0)), 200, 200)
    canvas.line((2.0, 5.0), (8.0, 5.0), 6.0, (0, 0, 0))
    assert (255 - canvas.image[..., 0]).sum() / 255 == pytest.approx(120 * 6 + np.pi * 3**2, rel=0.01)
    canvas.star((5.0, 8.0), palette.SUBGOAL, palette.EDGE)
    assert colour(canvas.picture(), 40, 100) == palette.SUBGOAL
    rows, columns = np.nonzero((canvas.picture() == palette.EDGE).all(axis=-1))
    assert (rows.min() < 31, columns.mean()) == (True, pytest.approx(99.5, abs=1.5))  # a ray points upward
