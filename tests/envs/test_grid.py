import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrac.envs.base import Environment
from hrac.envs.grid import KEY_CHEST, MAZE, GridState, KeyChest, Maze, parse
from hrac.envs.layout import MOVES, LayoutError
from hrac.spaces import Discrete

UP, DOWN, LEFT, RIGHT = range(4)
DRAWS = 20_000

CORRIDOR = """\
######
#A..G#
######
"""

CHEST_ROOM = """\
#####
#AKC#
#...#
#####
"""


def at(row, column, has_key=False, time=0):
    return GridState(jnp.array([row, column], jnp.int32), jnp.asarray(has_key), jnp.asarray(time, jnp.int32))


def play(env, actions, state=None):
    """All steps of a sequence of actions, stacked, from `state` or a reset."""
    key = jax.random.key(0)
    state = env.reset(key)[0] if state is None else state

    def one(state, action):
        after = env.step(key, state, action)
        return after.state, after

    return jax.lax.scan(one, state, jnp.asarray(actions, jnp.int32))[1]


def quiet_chest(**keywords):
    return KeyChest(CHEST_ROOM, random_action_prob=0.0, random_start=False, **keywords)


@pytest.fixture(scope="module")
def maze():
    return Maze(random_action_prob=0.0)


@pytest.fixture(scope="module")
def key_chest():
    return KeyChest(random_action_prob=0.0, random_start=False)


# Parity with the authors' environments.


@pytest.mark.parametrize("name", ["maze", "key_chest"])
@pytest.mark.parametrize("kind", ["random", "optimal"])
def test_steps_are_those_of_the_published_environment(golden, request, name, kind):
    env, data = request.getfixturevalue(name), golden(name)
    _, first = env.reset(jax.random.key(0))
    steps = play(env, data[f"{kind}_actions"])
    np.testing.assert_array_equal(first, data[f"{kind}_states"][0])
    np.testing.assert_array_equal(steps.obs, data[f"{kind}_states"][1:])
    np.testing.assert_allclose(steps.reward, data[f"{kind}_rewards"], atol=1e-6)
    np.testing.assert_array_equal(steps.terminated | steps.truncated, data[f"{kind}_done"])
    assert bool(steps.terminated[-1]) == (kind == "optimal")


@pytest.mark.parametrize(("name", "best"), [("maze", 5.8), ("key_chest", 6.0)])
def test_the_optimal_return_is_the_specified_one(golden, request, name, best):
    steps = play(request.getfixturevalue(name), golden(name)["optimal_actions"])
    assert float(jnp.sum(steps.reward)) == pytest.approx(best, abs=1e-5)


def test_maze_distances_and_adjacency_are_the_published_ones(golden, maze):
    data = golden("maze")
    np.testing.assert_array_equal(maze.cells, data["free_cells"])
    np.testing.assert_array_equal(maze.cell_distances, data["distances"])
    np.testing.assert_array_equal(maze.cell_distances <= 10, data["adjacent_k10"])


def test_key_chest_map_is_the_published_one(golden, key_chest):
    data = golden("key_chest")
    np.testing.assert_array_equal(key_chest.cells, data["free_cells"])
    for letter, name in (("A", "start"), ("K", "key"), ("C", "chest")):
        np.testing.assert_array_equal(key_chest.layout.marks[letter], data[name])


@pytest.mark.parametrize(("world", "limit", "random_start"), [(Maze, 200, False), (KeyChest, 500, True)])
def test_paper_settings_are_the_defaults(world, limit, random_start):
    env = world()
    assert (env.time_limit, env.random_start, env.random_action_prob) == (limit, random_start, 0.25)


# Rewards and the two ends of an episode.


def test_maze_rewards_follow_the_way_to_the_goal():
    steps = play(Maze(CORRIDOR, random_action_prob=0.0), [RIGHT, LEFT, UP, RIGHT, RIGHT, RIGHT])
    np.testing.assert_allclose(steps.reward, [0.1, -0.1, 0.0, 0.1, 0.1, 0.1], atol=1e-7)
    np.testing.assert_array_equal(steps.obs[:, 1], [2, 1, 1, 2, 3, 4])
    np.testing.assert_array_equal(steps.terminated, [False] * 5 + [True])


def test_the_time_limit_truncates_and_does_not_terminate():
    steps = play(Maze(CORRIDOR, random_action_prob=0.0, time_limit=3), [LEFT] * 3)
    np.testing.assert_array_equal(steps.truncated, [False, False, True])
    assert not steps.terminated.any()


def test_the_goal_on_the_very_last_step_terminates_and_does_not_truncate():
    steps = play(Maze(CORRIDOR, random_action_prob=0.0, time_limit=3), [RIGHT] * 3)
    np.testing.assert_array_equal(steps.terminated, [False, False, True])
    assert not steps.truncated.any()


def test_standing_on_the_goal_is_not_reaching_it():
    steps = play(Maze(CORRIDOR, random_action_prob=0.0), [RIGHT, LEFT, RIGHT], at(1, 4))
    np.testing.assert_array_equal(steps.terminated, [False, False, True])


def test_the_key_is_worth_something_once():
    steps = play(quiet_chest(), [RIGHT, LEFT, RIGHT])
    np.testing.assert_array_equal(steps.reward, [1, 0, 0])
    np.testing.assert_array_equal(steps.obs, [[1, 2, 1], [1, 1, 1], [1, 2, 1]])


def test_the_chest_without_the_key_gives_nothing():
    steps = play(quiet_chest(), [DOWN, RIGHT, RIGHT, UP])
    np.testing.assert_array_equal(steps.obs[-1], [1, 3, 0])
    assert not steps.reward.any()
    assert not steps.terminated.any()


def test_the_chest_with_the_key_gives_five_and_ends():
    steps = play(quiet_chest(), [RIGHT, RIGHT])
    np.testing.assert_array_equal(steps.reward, [1, 5])
    np.testing.assert_array_equal(steps.terminated, [False, True])


def test_starting_on_the_key_gives_it_only_when_stepped_on():
    steps = play(quiet_chest(), [UP, LEFT, RIGHT], at(1, 2))  # into the wall, away, back
    np.testing.assert_array_equal(steps.obs[:, 2], [0, 0, 1])
    np.testing.assert_array_equal(steps.reward, [0, 0, 1])


@pytest.mark.parametrize(
    ("env", "actions"),
    [
        (Maze(CORRIDOR, random_action_prob=0.0, time_limit=4).exploring(), [RIGHT] * 4),
        (quiet_chest(time_limit=3).exploring(), [RIGHT] * 3),
    ],
    ids=["maze", "key-chest"],
)
def test_when_exploring_the_task_does_not_end_the_episode_but_the_time_limit_does(env, actions):
    steps = play(env, actions, at(1, 1))
    assert steps.reward.any()
    assert not steps.terminated.any()
    np.testing.assert_array_equal(steps.truncated, [False] * (len(actions) - 1) + [True])


def test_exploring_keeps_the_map_and_the_noise_and_starts_at_random():
    env = Maze(CORRIDOR, random_action_prob=0.1, time_limit=7).exploring()
    assert (env.text, env.random_action_prob, env.time_limit, env.random_start) == (CORRIDOR, 0.1, 7, True)


# Chance.


def moves_made(probability, action):
    """How often each of the four moves came of an action, in the middle of an open room, over many keys."""
    env = Maze("#####\n#A..#\n#...#\n#..G#\n#####", random_action_prob=probability)
    step = jax.jit(jax.vmap(env.step, (0, None, None)))
    obs = step(jax.random.split(jax.random.key(0), DRAWS), at(2, 2), jnp.asarray(action, jnp.int32)).obs
    displacement = np.asarray(obs) - [2, 2]
    return (displacement[:, None] == MOVES).all(axis=-1).mean(axis=0)


def standard_error(share):
    return (share * (1 - share) / DRAWS) ** 0.5


def test_always_random_actions_are_uniform():
    np.testing.assert_allclose(moves_made(1.0, UP), 0.25, atol=4 * standard_error(0.25))


@pytest.mark.parametrize("action", [UP, RIGHT])
def test_the_intended_action_happens_unless_another_is_drawn(action):
    expected = np.full(4, 0.25 / 4)
    expected[action] += 0.75
    made = moves_made(0.25, action)
    assert made.sum() == pytest.approx(1.0)
    np.testing.assert_array_less(np.abs(made - expected), 4 * standard_error(expected))


def test_without_noise_the_intended_action_always_happens():
    np.testing.assert_array_equal(moves_made(0.0, LEFT), [0, 0, 1, 0])


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_a_probability_that_is_none_is_refused(probability):
    with pytest.raises(ValueError, match="random_action_prob must be between 0 and 1"):
        Maze(random_action_prob=probability)


def test_random_starts_are_uniform_over_the_free_cells():
    env = KeyChest()
    _, obs = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(1), DRAWS))
    found, counts = np.unique(np.asarray(obs), axis=0, return_counts=True)
    np.testing.assert_array_equal(found, np.pad(env.cells, ((0, 0), (0, 1))))  # no start has the key
    expected = 1 / len(env.cells)
    np.testing.assert_array_less(np.abs(counts / DRAWS - expected), 5 * standard_error(expected))


# Distances.


@pytest.mark.parametrize(
    ("position", "target", "steps"),
    [
        ([1.0, 1.0], [3.0, 1.0], 4),  # around the wall: right, down, down, left
        ([1.2, 0.7], [2.6, 1.4], 4),  # the same cells, given roughly
        ([1.8, 1.1], [3.0, 1.0], 4),  # inside the wall, nearest to (1, 1)
        ([2.0, 0.9], [1.0, 1.0], 0),  # inside the wall, as near to (1, 1) as to (3, 1): the first
        ([-9.0, -9.0], [9.0, 9.0], 3),  # outside the map: nearest to (1, 1) and (3, 2)
        ([2.0, 2.0], [2.0, 2.0], 0),
    ],
)
def test_steps_between_points_are_those_between_their_nearest_free_cells(position, target, steps):
    env = Maze("####\n#A.#\n##.#\n#G.#\n####")
    assert int(env.steps_between(jnp.array(position), jnp.array(target))) == steps


def test_steps_from_start_to_goal_of_the_maze(maze):
    assert int(maze.steps_between(jnp.array([11.0, 1.0]), jnp.array([4.0, 4.0]))) == 58


# Layouts.


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("####\n#AX#\n#.G#\n####", "row 1, column 2: 'X' is none of '#', '.', 'A', 'G'"),
        ("####\n#AG#\n###", "row 2 ('###') has 3 characters, row 0 has 4"),
        ("####\n#AG.\n####", "row 1, column 3: '.' is on the border, which must be wall"),
        ("#A##\n#.G#\n####", "row 0, column 1: 'A' is on the border, which must be wall"),
        ("####\n#A.#\n####", "'G' must stand exactly once, found nowhere"),
        ("#####\n#AGG#\n#####", "'G' must stand exactly once, found row 1, column 2; row 1, column 3"),
        ("######\n#AG#.#\n######", "row 1, column 4: '.' cannot be reached from 'A'"),
        ("#####\n#A#G#\n#####", "row 1, column 3: 'G' cannot be reached from 'A'"),
        ("", "the layout is empty"),
        ("\n\n", "the layout is empty"),
    ],
)
def test_a_bad_layout_is_told_with_its_row_and_character(layout, message):
    with pytest.raises(LayoutError) as caught:
        Maze(layout)
    assert str(caught.value).startswith(message)


def test_each_task_wants_its_own_letters():
    with pytest.raises(LayoutError, match=r"row 2, column 1: 'C' is none of"):
        Maze(KEY_CHEST)
    with pytest.raises(LayoutError, match=r"row 4, column 4: 'G' is none of"):
        KeyChest(MAZE)


def test_a_layout_is_read_with_any_line_ends():
    assert parse("####\r\n#AG#\r\n####\r\n", "AG").walls.shape == (3, 4)


def test_ones_own_layout_gives_the_world_its_size_and_cells():
    env = quiet_chest()
    assert (env.position_low, env.position_high) == ((0.0, 0.0), (3.0, 4.0))
    np.testing.assert_array_equal(env.cells, [[1, 1], [1, 2], [1, 3], [2, 1], [2, 2], [2, 3]])
    np.testing.assert_array_equal(env.cell_distances[0], [0, 1, 2, 1, 2, 3])


def test_a_grid_world_says_what_any_environment_says():
    world = Maze()
    assert isinstance(world, Environment)
    assert (world.actions, world.obs_dim, world.context_dim, world.ends_on_success) == (Discrete(4), 2, 0, True)
    assert world.evaluation() is world
    assert not world.exploring().ends_on_success


def test_distances_in_an_empty_room_and_along_a_winding_corridor_are_the_known_ones():
    room = parse("\n".join(["#" * 42, "#AG" + "." * 38 + "#", *["#" + "." * 40 + "#"] * 39, "#" * 42]), "AG")
    between = np.abs(room.cells[:, None] - room.cells[None]).sum(axis=-1)
    np.testing.assert_array_equal(room.distances, between)
    corridor = parse("#####\n#A..#\n###.#\n#...#\n#.###\n#..G#\n#####", "AG")
    along = [0, 1, 2, 3, 6, 5, 4, 7, 8, 9, 10]  # reading order goes back in the third row
    np.testing.assert_array_equal(corridor.distances, np.abs(np.subtract.outer(along, along)))
    np.testing.assert_array_equal(
        corridor.steps_to("G")[1:6, 1:4], [[10, 9, 8], [-1, -1, 7], [4, 5, 6], [3, -1, -1], [2, 1, 0]]
    )


def test_worlds_of_one_layout_share_its_map_and_cannot_write_to_it():
    world = Maze()
    assert world.exploring().cell_distances is world.cell_distances
    for array in (world.cells, world.cell_distances, world.to_goal, world.layout.walls, world.layout.marks["G"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_a_subgoal_is_in_a_wall_by_its_nearest_cell():
    places = jnp.array([[1.0, 1.0], [1.4, 4.4], [1.6, 2.0], [1.0, 0.4], [1.0, 5.0], [-3.0, 2.0], [1.0, 99.0]])
    assert Maze(CORRIDOR).in_wall(places).tolist() == [False, False, True, True, True, True, True]
