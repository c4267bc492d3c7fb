"""One-way doors of the grid worlds: free cells that are entered and left only in the direction of the arrow."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hrac  # noqa: F401  registers the environments
from hrac import theory
from hrac.envs import layout as layouts
from hrac.envs import palette
from hrac.envs.ant.maze import AntMaze
from hrac.envs.grid import KeyChest, Maze
from hrac.envs.layout import LayoutError
from hrac.envs.paint import paint
from hrac.envs.sketch import Arrow

UP, DOWN, LEFT, RIGHT = range(4)

RING = """\
#######
#A.>.G#
#.###.#
#..<..#
#######
"""
CLOCKWISE = [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (2, 5), (3, 5), (3, 4), (3, 3), (3, 2), (3, 1), (2, 1)]
"""The cells in the direction of the two doors, which are the third and the ninth."""


def by_number(world, cells):
    rows = world.cells.tolist()
    return [rows.index(list(cell)) for cell in cells]


def test_distances_go_around_the_ring_where_a_door_is_in_the_way():
    world = Maze(RING)
    expected = np.empty((12, 12), int)
    for a in range(12):
        for b in range(12):
            free_way = {a, b} <= {3, 4, 5, 6, 7} or {a, b} <= {9, 10, 11, 0, 1}  # between the doors one may turn around
            expected[a, b] = min((b - a) % 12, (a - b) % 12) if free_way else (b - a) % 12
    order = by_number(world, CLOCKWISE)
    np.testing.assert_array_equal(world.cell_distances[np.ix_(order, order)], expected)
    assert expected[1, 3] == 2  # through the door
    assert expected[3, 1] == 10  # all the way around
    assert expected[1, 2] == expected[2, 3] == 1
    assert expected[3, 2] == expected[2, 1] == 11


@pytest.mark.parametrize(
    ("cell", "ways"),
    [
        ((1, 2), [LEFT, RIGHT]),  # behind the door
        ((1, 3), [RIGHT]),  # in it
        ((1, 4), [RIGHT]),  # in front of it
        ((1, 5), [DOWN, LEFT]),  # no door is near
        ((3, 4), [LEFT, RIGHT]),
        ((3, 3), [LEFT]),
        ((3, 2), [LEFT]),
    ],
)
def test_a_door_is_entered_and_left_only_along_its_arrow(cell, ways):
    world = Maze(RING, random_action_prob=0.0)
    state, _ = world.start(np.array(cell, np.int32))
    moved = [bool((world.move(state, np.int32(action), np.float32(0.5)).state.position != cell).any()) for action in range(4)]
    assert np.flatnonzero(moved).tolist() == ways


@pytest.mark.parametrize(("door", "way"), [("^", UP), ("v", DOWN), ("<", LEFT), (">", RIGHT)])
def test_each_door_leads_in_its_direction_in_an_open_room(door, way):
    world = Maze(f"#####\n#A..#\n#.{door}.#\n#..G#\n#####", random_action_prob=0.0)
    middle = np.array([2, 2], np.int32)
    for action in range(4):
        inside, _ = world.start(middle)
        left = world.move(inside, np.int32(action), np.float32(0.5)).state.position
        assert (left != middle).any() == (action == way)
        before, _ = world.start(middle - layouts.MOVES[action])
        entered = world.move(before, np.int32(action), np.float32(0.5)).state.position
        assert (entered == middle).all() == (action == way)


def test_steps_to_the_goal_and_rewards_follow_the_possible_ways():
    world = Maze(
        RING.replace("A", "x").replace("G", "A").replace("x", "G"), random_action_prob=0.0
    )  # from the right to the left
    to_goal = [[8, 11, 10, 9, 8], [1, -1, -1, -1, 7], [2, 3, 4, 5, 6]]
    to_goal[0][:2] = [0, 1]
    np.testing.assert_array_equal(world.to_goal[1:4, 1:6], to_goal)
    state, rewards = world.start(np.array([1, 5], np.int32))[0], []
    for action in [LEFT, LEFT, RIGHT, DOWN, DOWN, LEFT, LEFT, LEFT, LEFT, UP, UP]:
        after = world.move(state, np.int32(action), np.float32(0.5))
        state = after.state
        rewards.append(float(after.reward))
    np.testing.assert_allclose(rewards, [-0.1, 0.0, *[0.1] * 9], atol=1e-6)  # against the door nothing happens
    assert bool(after.terminated)


def test_steps_between_points_depend_on_the_direction():
    world = Maze(RING)
    here, there = jnp.array([1.0, 2.0]), jnp.array([1.0, 4.0])
    assert (int(world.steps_between(here, there)), int(world.steps_between(there, here))) == (2, 10)


@pytest.mark.parametrize("world", [Maze(RING, random_start=True), KeyChest("#####\n#A>K#\n#^#v#\n#..C#\n#####")])
def test_it_moves_alike_in_numpy_and_in_jax(world):
    """With the same chance, from every cell."""
    move = jax.jit(world.move)
    rng = np.random.default_rng(0)
    for cell in world.cells:
        for action in range(4):
            chance = np.float32(rng.random(dtype=np.float32))
            here = world.move(world.start(cell)[0], np.int32(action), chance)
            there = move(world.start(jnp.asarray(cell))[0], jnp.asarray(action, jnp.int32), jnp.asarray(chance))
            for ours, theirs in zip(jax.tree.leaves(tuple(here)), jax.tree.leaves(tuple(there)), strict=True):
                np.testing.assert_array_equal(ours, theirs)


def test_the_gymnasium_environment_has_doors_too():
    env = gymnasium.make("hrac/Maze-v0", layout=RING, random_action_prob=0.0, render_mode="ansi")
    env.reset(seed=0)
    columns = [float(env.step(action)[0][1]) for action in (RIGHT, RIGHT, LEFT, UP, RIGHT, LEFT)]
    assert columns == [2, 3, 3, 3, 4, 4]
    assert env.render() == RING.replace(".G", "oG").rstrip()


def test_the_moves_are_those_of_the_tabular_world():
    """`hrac.theory` works its distances out from the moves alone."""
    world = Maze(RING, random_action_prob=0.0)
    mdp = theory.TabularMDP.from_grid_world(world)
    assert mdp.strongly_connected
    np.testing.assert_array_equal(mdp.distance, world.cell_distances)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("######\n#A>.G#\n######", "row 1, column 2: '>' has no way back to 'A'"),
        ("######\n#A<.G#\n######", "row 1, column 2: '<' cannot be reached from 'A'"),
        ("#####\n#A.G#\n#..v#\n#####", "row 2, column 3: 'v' has no way back to 'A'"),  # into a wall: a trap
        (RING.replace("#.###.#", "#.#v#.#"), "row 2, column 3: 'v' cannot be reached from 'A'"),  # two doors side by side
        ("##>##\n#A.G#\n#####", "row 0, column 2: '>' is on the border, which must be wall"),
        ("#####\n#AxG#\n#####", "row 1, column 2: 'x' is none of '#', '.', 'A', 'G', '^', 'v', '<', '>'"),
    ],
)
def test_there_must_be_a_way_to_every_cell_and_a_way_back(layout, message):
    with pytest.raises(LayoutError) as caught:
        Maze(layout)
    assert str(caught.value).startswith(message)


def test_mazes_of_blocks_have_no_doors():
    with pytest.raises(LayoutError, match=r"row 1, column 2: '>' is none of '#', '.', 'A'"):
        AntMaze(layout="#####\n#A>.#\n#####").grid  # noqa: B018


def test_doors_are_arrows_in_pictures():
    sketch = Maze(RING).sketch()
    assert sketch.arrows == (Arrow(3.0, 3.0, -1.0, 0.0), Arrow(3.0, 1.0, 1.0, 0.0))
    picture = paint(sketch, 7 * 40, 5 * 40).picture().astype(int)
    dark = [(picture[40 * row : 40 * row + 40, 120:160] == palette.EDGE).all(axis=-1) for row in (1, 3)]
    assert all(part.sum() > 50 for part in dark)
    heads = [part[:, 20:].sum() - part[:, :20].sum() for part in dark]  # the head is larger than the shaft's end
    assert heads[0] == -heads[1] > 30
    assert Maze().sketch().arrows == ()
