"""What an ant is to do: mazes, targets, rewards; apples, bombs and how they are seen."""

import math

import jaxtyping
import numpy as np
import pytest

from hrac.envs.ant.gather import APPLE, BOMB, AntGather, heading, readings
from hrac.envs.ant.maze import SPARSE, AntMaze
from hrac.envs.layout import LayoutError

STILL = np.zeros((1, 8))


def started(definition, copies=1, seeds=None):
    batch = definition.batch(copies)
    batch.reset(seeds=seeds)
    return batch


@pytest.fixture
def unchecked(monkeypatch):
    """As users have it: without the tests' type checks, which would refuse a wrong type before hrac does."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


# Mazes from layouts.

# The origin is the first A, in row 1, column 3, so the block in row r, column c is centred at (3 (c - 3), 3 (r - 1)).
BENT = AntMaze(layout="######\n#..A.#\n##.#A#\n######", block_size=3.0)


def test_starts_are_the_centres_of_their_blocks():
    np.testing.assert_array_equal(BENT.starts, [[0, 0], [3, 3]])


def test_free_blocks_are_all_that_are_no_wall():
    np.testing.assert_array_equal(BENT.free, [[-6, 0], [-3, 0], [0, 0], [3, 0], [-3, 3], [3, 3]])


def test_every_wall_block_is_a_box_half_as_high_as_wide():
    assert len(BENT.walls) == 18  # 4 rows of 6 blocks, 6 of them free
    assert {wall.half_size for wall in BENT.walls} == {(1.5, 1.5, 0.75)}
    assert {wall.centre[2] for wall in BENT.walls} == {0.75}  # from the ground up to 1.5
    centres = [wall.centre[:2] for wall in BENT.walls]
    assert centres[0] == (-9.0, -3.0)  # row 0, column 0
    assert centres[-1] == (6.0, 6.0)  # row 3, column 5
    inside = [centre for centre in centres if -9 < centre[0] < 6 and -3 < centre[1] < 6]
    assert inside == [(-6.0, 3.0), (0.0, 3.0)]  # row 2, columns 1 and 3


def test_positions_range_over_the_free_blocks_with_their_edges():
    batch = BENT.batch(1)
    assert (batch.position_low, batch.position_high) == ((-7.5, -1.5), (4.5, 4.5))


def test_walls_stand_in_the_physics_where_the_layout_has_them():
    model = BENT.batch(1).model
    boxes = [number for number in range(model.ngeom) if model.geom(number).name.startswith("wall_")]
    np.testing.assert_array_equal(model.geom_pos[boxes], [wall.centre for wall in BENT.walls])
    np.testing.assert_array_equal(model.geom_size[boxes], [wall.half_size for wall in BENT.walls])


def test_a_maze_has_starts_from_which_all_of_it_can_be_reached_and_no_other_letters():
    """All other mistakes of a layout are those of the grids: tests/envs/test_grid.py."""
    for layout, message in (
        ("#####\n#AG.#\n#####", "row 1, column 2: 'G' is none of '#', '.', 'A'"),
        ("####\n#..#\n####", "'A' stands nowhere"),
        ("#####\n#A#.#\n#####", "row 1, column 3: '.' cannot be reached from 'A'"),
        ("#####\n#A#A#\n#####", "row 1, column 3: 'A' cannot be reached from 'A'"),
    ):
        with pytest.raises(LayoutError) as caught:
            AntMaze(layout=layout)
        assert str(caught.value).startswith(message)


BAD_MAZES = [
    *[(field, value) for field in ("block_size", "success_radius") for value in (0.0, -1.0, math.nan, math.inf)],
    ("time_limit", 0),
    ("time_limit", -1),
    ("sigma", -0.1),
    ("sigma", math.nan),
    ("sigma", math.inf),
    ("reward", "dense"),
    ("target", "wall"),
    ("target", (1.0,)),
    ("target", (1.0, 2.0, 3.0)),
    ("target", (math.nan, 0.0)),
    ("target", (0.0, math.inf)),
    ("target", ((20.0, 20.0), (0.0, 0.0))),  # high before low
    ("target", ((0.0, 20.0), (20.0, 0.0))),
    ("target", ((0.0, 0.0), (1.0,))),
]


def test_a_bad_field_of_a_maze_is_named(unchecked):
    for field, value in BAD_MAZES:
        with pytest.raises(ValueError, match=f"^{field} must be"):
            AntMaze(**{field: value})


# Starts and targets.


def test_random_starts_are_the_exact_centres_of_all_start_blocks():
    batch = started(SPARSE, 2000)
    found, counts = np.unique(batch.positions, axis=0, return_counts=True)
    np.testing.assert_array_equal(found, np.unique(SPARSE.starts, axis=0))
    assert len(found) == 50
    # 40 in each on average, with a standard deviation of sqrt(40) = 6.3
    assert counts.min() > 10
    assert counts.max() < 75


def test_a_single_start_is_its_centre_and_a_little_noise():
    positions = started(AntMaze(), 500).positions
    assert len(np.unique(positions, axis=0)) == 500
    assert np.abs(positions).max() <= 0.1


def test_a_target_point_is_the_target_of_every_episode():
    batch = started(AntMaze(target=(8.0, 16.0)), 3)
    for _ in range(2):
        np.testing.assert_array_equal(batch.targets, [[8.0, 16.0]] * 3)
        batch.reset()


def test_a_target_rectangle_is_filled_evenly():
    targets = started(AntMaze(target=((-4.0, 10.0), (20.0, 12.0))), 2000).targets
    assert (targets >= [-4, 10]).all()
    assert (targets <= [20, 12]).all()
    quarters = ((targets - [-4, 10]) / [24 / 4, 2 / 4]).astype(int)
    share = np.histogram2d(*quarters.T, bins=4)[0] / 2000
    # 16 fields of a 16th each, 0.0625; the standard error is sqrt(0.0625 * 0.9375 / 2,000) = 0.0054
    np.testing.assert_allclose(share, 1 / 16, atol=0.022)


def test_free_targets_are_all_over_the_maze_but_never_in_a_wall():
    batch = started(AntMaze(layout=BENT.layout, block_size=3.0, target="free"), 2000)
    centre = 3.0 * np.floor(batch.targets / 3.0 + 0.5)
    found, counts = np.unique(centre, axis=0, return_counts=True)
    np.testing.assert_array_equal(found, np.unique(BENT.free, axis=0))
    # 6 blocks with a share of 0.167 each, the standard error is sqrt(0.167 * 0.833 / 2,000) = 0.0083
    np.testing.assert_allclose(counts / 2000, 1 / 6, atol=0.035)
    within = batch.targets - centre
    assert within.min() < -1.45
    assert within.max() > 1.45
    np.testing.assert_allclose(within.mean(axis=0), 0.0, atol=0.08)  # standard error 3 / sqrt(12 * 2,000) = 0.019


def test_the_target_is_the_context_where_it_is_shown():
    shown, hidden = started(AntMaze(), 3), started(AntMaze(shows_target=False), 3)
    assert (shown.context_dim, hidden.context_dim) == (2, 0)
    np.testing.assert_array_equal(shown.context, shown.targets)
    assert hidden.context.shape == (3, 0)
    np.testing.assert_array_equal(shown.targets, hidden.targets)


def test_episodes_of_all_tasks_have_500_steps():
    assert [task.time_limit for task in (AntMaze(), SPARSE, AntGather())] == [500, 500, 500]


def test_sparse_has_the_settings_of_the_paper():
    batch = SPARSE.batch(1)
    assert (SPARSE.target, SPARSE.success_radius, SPARSE.time_limit, batch.context_dim) == ((2.0, 9.0), 1.0, 500, 0)
    assert (batch.position_low, batch.position_high) == ((-1.0, -1.0), (15.0, 15.0))  # 8 by 8 blocks of 2


# Rewards and success.


def after_a_step():
    """Where the first copy of any maze with one start is after a step without torques."""
    return tuple(started(AntMaze()).step(STILL).obs[0, :2].tolist())


def test_the_distance_reward_is_minus_the_distance():
    x, y = after_a_step()
    step = started(AntMaze(target=(x - 3.0, y + 4.0))).step(STILL)
    assert step.reward[0] == pytest.approx(-5.0, abs=1e-12)


@pytest.mark.parametrize("near", [True, False])
def test_success_is_to_be_strictly_nearer_than_the_radius(near):
    x, y = after_a_step()
    distance = (x + 5.0) - x  # 5 but for rounding, and the very number the environment finds
    radius = math.nextafter(distance, math.inf) if near else distance
    batch = started(AntMaze(target=(x + 5.0, y), reward="sparse", success_radius=radius, ends_on_success=True))
    step = batch.step(STILL)
    assert step.reward == [float(near)]
    assert step.terminated == [near]
    assert batch.info(batch.everyone)["success"] == [near]


def test_ones_own_reward_is_used_in_steps():
    batch = started(AntMaze(reward=lambda positions, targets: 10 * positions[:, 0] - targets[:, 1], target=(0.0, 3.0)), 2)
    step = batch.step(np.zeros((2, 8)))
    np.testing.assert_array_equal(step.reward, 10 * batch.positions[:, 0] - 3.0)
    assert step.reward.dtype == np.float64


def test_steps_are_rewarded_for_where_they_end():
    batch = started(AntMaze(sigma=0.1), 3)
    for _ in range(3):
        step = batch.step(np.full((3, 8), 10.0))
        np.testing.assert_allclose(step.reward, -np.linalg.norm(batch.positions - batch.targets, axis=1))


@pytest.mark.parametrize("ends", [True, False])
def test_success_ends_an_episode_only_where_it_should(ends):
    batch = started(AntMaze(reward="sparse", ends_on_success=ends), 2)
    batch.targets[:] = [(3.0, 0.0), (8.0, 0.0)]  # nearer than 5 and not
    step = batch.step(np.zeros((2, 8)))
    np.testing.assert_array_equal(step.reward, [1, 0])
    np.testing.assert_array_equal(step.terminated, [ends, False])
    np.testing.assert_array_equal(batch.info(np.arange(2))["success"], [True, False])
    np.testing.assert_array_equal(batch.info(np.array([1]))["success"], [False])


# Apples and bombs: what is seen.


def sight(objects, yaw=0.0, bins=10, present=True):
    """Readings, as (apples, bombs), of one ant at the origin that sees to 6."""
    objects = np.array(objects, np.float64)
    kinds = objects[None, :, 2].astype(np.int64)
    there = np.broadcast_to(present, kinds.shape)
    return readings(objects[None, :, :2], kinds, there, np.array([yaw]), bins, 6.0).reshape(2, bins)


def only(readings_by_bin):
    expected = np.zeros(10)
    for number, reading in readings_by_bin.items():
        expected[number] = reading
    return expected


@pytest.mark.parametrize(
    ("x", "y", "bin_"),
    [
        (3, 0, 5),  # ahead: half the turn past the back, 180 / 36 = 5
        (0, 3, 7),  # left: 270 / 36 = 7.5
        (0, -3, 2),  # right: 90 / 36 = 2.5
        (-3, 0, 0),  # behind: the first bin begins there
        (-3, -0.0, 0),
        (-3, 0.001, 9),  # behind, a little to the left: the end of the last
        (-3, -0.001, 0),  # behind, a little to the right: the beginning of the first
        (3, -0.001, 4),  # ahead, a little to the right
    ],
)
def test_an_object_is_seen_in_the_bin_of_its_direction(x, y, bin_):
    apples, bombs = sight([(x, y, APPLE)])
    np.testing.assert_allclose(apples, only({bin_: 0.5}), atol=1e-6)  # 1 - 3 / 6
    assert not bombs.any()


@pytest.mark.parametrize(("distance", "reading"), [(1.5, 0.75), (3.0, 0.5), (5.999, 0.001 / 6), (6.0, 0.0), (6.001, 0.0)])
def test_a_reading_falls_with_the_distance_to_nothing_at_the_range(distance, reading):
    apples, _ = sight([(distance, 0, APPLE)])
    np.testing.assert_allclose(apples, only({5: reading}), atol=1e-12)


@pytest.mark.parametrize("order", [1, -1])
def test_the_nearest_object_of_a_kind_hides_those_behind_it(order):
    apples, bombs = sight([(4.5, 0, APPLE), (3.0, 0, APPLE), (1.5, 0, BOMB)][::order])
    np.testing.assert_allclose(apples, only({5: 0.5}))
    np.testing.assert_allclose(bombs, only({5: 0.75}))


def test_apples_and_bombs_are_seen_apart():
    apples, bombs = sight([(3, 0, APPLE), (0, 4.5, BOMB), (0, -1.5, APPLE)])
    np.testing.assert_allclose(apples, only({5: 0.5, 2: 0.75}))
    np.testing.assert_allclose(bombs, only({7: 0.25}))


def test_objects_that_are_gone_are_not_seen():
    apples, bombs = sight([(3, 0, APPLE), (0, 3, BOMB), (0, -3, BOMB)], present=[False, False, True])
    assert not apples.any()
    np.testing.assert_allclose(bombs, only({2: 0.5}))


@pytest.mark.parametrize(
    ("yaw", "bin_"),
    [
        (math.pi / 2, 2),  # what lies ahead in the world is to the right of an ant that turned left: 2.5 bins less than 5
        (-math.pi / 2, 7),
        (math.pi / 5, 4),  # by just one bin; the object is put a little off the edge below
        (-math.pi / 5, 6),
        (3.0, 0),  # turned nearly right round: 180 - 172 = 8 degrees past the back
        (-3.0, 9),
    ],
)
def test_turning_shifts_the_bins(yaw, bin_):
    apples, _ = sight([(3, 0.001, APPLE)], yaw=yaw)
    np.testing.assert_allclose(apples, only({bin_: 0.5}), atol=1e-6)


def test_an_object_behind_that_rounding_puts_past_the_last_bin_is_seen_in_the_first():
    apples, _ = sight([(-3, -0.0, APPLE)], yaw=4e-16)  # at -pi, turned by less than the distance of numbers near two pi
    np.testing.assert_allclose(apples, only({0: 0.5}))


def test_other_numbers_of_bins_divide_the_turn_evenly():
    apples, _ = sight([(3, 3, APPLE)], bins=4)  # 45 + 180 degrees = 2.5 quarters
    np.testing.assert_allclose(apples, [0, 0, 1 - math.sqrt(18) / 6, 0])
    apples, _ = sight([(3, 3, APPLE)], yaw=math.pi / 2, bins=4)
    np.testing.assert_allclose(apples, [0, 1 - math.sqrt(18) / 6, 0, 0])


def test_each_ant_has_its_own_sight():
    offset = np.array([[[3.0, 0.0]], [[0.0, 4.5]]])
    seen = readings(offset, np.array([[APPLE], [BOMB]]), np.ones((2, 1), bool), np.zeros(2), 10, 6.0)
    np.testing.assert_allclose(seen, [[*only({5: 0.5}), *np.zeros(10)], [*np.zeros(10), *only({7: 0.25})]])


HALF = math.sqrt(0.5)


@pytest.mark.parametrize(
    ("quaternion", "yaw"),
    [
        ((1, 0, 0, 0), 0.0),
        ((HALF, 0, 0, HALF), math.pi / 2),  # a quarter turn to the left
        ((HALF, 0, 0, -HALF), -math.pi / 2),
        ((0, 0, 0, 1), math.pi),
        ((3, 0, 0, 3), math.pi / 2),  # of any length
        ((-HALF, 0, 0, -HALF), math.pi / 2),  # the same turn with the other sign
        ((HALF, HALF, 0, 0), 0.0),  # rolled onto its side, still facing x
        ((0, 1, 0, 0), 0.0),  # on its back
        ((math.cos(0.1), 0, math.sin(0.1), 0), 0.0),  # nose down by 0.2
        ((0.5, 0.5, 0.5, 0.5), math.pi / 2),  # the axes change places: x to y, y to z, z to x
    ],
)
def test_the_heading_is_where_the_front_points_seen_from_above(quaternion, yaw):
    assert heading(np.array([quaternion], np.float64))[0] == pytest.approx(yaw, abs=1e-12)


def upright(batch, yaw=0.0, at=(0.0, 0.0)):
    """Put a batch's ants into the default pose, at rest, turned and moved."""
    qpos = batch.model.qpos0.copy()
    qpos[:2], qpos[3:7] = at, (math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2))
    batch.place(qpos, np.zeros(14))


def test_observations_hold_apple_then_bomb_readings():
    batch = started(AntGather())
    batch.put_objects(0, [(5.0, 1.0, APPLE), (2.0, 5.5, BOMB)])
    upright(batch, at=(2.0, 1.0))
    np.testing.assert_allclose(batch.observe()[0, 29:49], [*only({5: 0.5}), *only({7: 0.25})])
    upright(batch, yaw=math.pi / 2, at=(2.0, 1.0))  # the apple is to the right now (2.5), the bomb ahead (5)
    seen = batch.observe()[0, 29:49]
    np.testing.assert_allclose(seen[:10], only({2: 0.5}))
    assert seen[10:].max() == pytest.approx(0.25)
    assert np.flatnonzero(seen[10:]) in (4, 5)  # rounding decides on which side of the edge


# Apples and bombs: where they lie and what touching them does.


def test_objects_lie_at_distinct_even_points_and_never_at_the_start():
    batch = started(AntGather(), 300)
    points = batch.objects[..., :2]
    assert batch.present.all()
    assert points.shape == (300, 16, 2)
    assert (points % 2 == 0).all()
    assert (points.min(), points.max()) == (-10, 8)
    assert not (points == 0).all(axis=-1).any()
    assert all(len(np.unique(each, axis=0)) == 16 for each in points)
    np.testing.assert_array_equal((batch.objects[..., 2] == APPLE).sum(axis=1), 8)
    np.testing.assert_array_equal((batch.objects[..., 2] == BOMB).sum(axis=1), 8)


def test_objects_lie_anywhere():
    found = np.unique(started(AntGather(), 300).objects[..., :2].reshape(-1, 2), axis=0)
    assert len(found) == 99  # 10 by 10 points, less the start


def test_a_room_can_be_filled_to_the_last_place():
    batch = started(AntGather(room=2, apples=2, bombs=1))  # coordinates -2 and 0: four points, less the start
    np.testing.assert_array_equal(np.unique(batch.objects[0, :, :2], axis=0), [[-2, -2], [-2, 0], [0, -2]])


def test_a_room_has_four_walls_and_reaches_to_them():
    batch = AntGather().batch(1)
    assert {wall.centre[:2] for wall in batch.definition.walls} == {(0.0, -11.0), (0.0, 11.0), (-11.0, 0.0), (11.0, 0.0)}
    assert (batch.position_low, batch.position_high) == ((-10.5, -10.5), (10.5, 10.5))


FAR = (8.0, 8.0, APPLE)  # so that something is left


@pytest.mark.parametrize(
    ("objects", "reward", "apples", "bombs"),
    [
        ([(0.8, 0.0, APPLE), FAR], 1, 1, 0),
        ([(0.0, -0.8, BOMB), FAR], -1, 0, 1),
        ([(0.8, 0.0, APPLE), (0.0, -0.8, BOMB), FAR], 0, 1, 1),
        ([(0.8, 0.0, APPLE), (-0.8, 0.0, APPLE), (0.0, -0.8, BOMB), FAR], 1, 2, 1),
        ([(0.8, 0.0, BOMB), (-0.8, 0.0, BOMB), FAR], -2, 0, 2),
        ([(1.2, 0.0, APPLE), (0.0, 1.2, BOMB)], 0, 0, 0),  # out of reach
    ],
)
@pytest.mark.parametrize("sigma", [0.0, 1e-6])
def test_touching_apples_pays_and_touching_bombs_costs(objects, reward, apples, bombs, sigma):
    batch = started(AntGather(sigma=sigma))
    batch.put_objects(0, objects)
    upright(batch)
    step = batch.step(STILL)
    assert step.reward == [reward]
    info = batch.info(np.array([0]))
    assert (info["apples"], info["bombs"]) == ([apples], [bombs])
    np.testing.assert_array_equal(batch.collected, [[apples, bombs]])
    assert batch.present.sum() == len(objects) - apples - bombs
    assert not step.terminated[0]


def test_what_was_touched_is_gone():
    batch = started(AntGather())
    batch.put_objects(0, [(0.8, 0.0, APPLE), FAR])
    upright(batch)
    assert batch.observe()[0, 29:49].any()
    first, second = batch.step(STILL), batch.step(STILL)
    assert (first.reward, second.reward) == ([1], [0])
    assert not first.obs[0, 29:49].any()
    np.testing.assert_array_equal(batch.collected, [[1, 0]])


def test_an_episode_ends_when_nothing_is_left_and_the_next_has_everything_again():
    batch = started(AntGather(), 2)
    batch.put_objects(0, [(0.8, 0.0, APPLE), (0.0, 0.8, BOMB)])
    batch.put_objects(1, [(0.8, 0.0, APPLE), (0.0, 1.5, BOMB)])
    upright(batch)
    step = batch.step(np.zeros((2, 8)))
    np.testing.assert_array_equal(step.terminated, [True, False])
    assert not step.truncated.any()
    batch.reset([0])
    np.testing.assert_array_equal(batch.present.sum(axis=1), [16, 1])
    np.testing.assert_array_equal(batch.collected, [[0, 0], [1, 0]])


def test_counts_add_up_over_an_episode():
    batch = started(AntGather())
    batch.put_objects(0, [(0.0, 0.0, APPLE), (4.0, 0.0, BOMB), (8.0, 0.0, APPLE), (0.0, 8.0, BOMB)])
    rewards = []
    for x in (0.0, 4.0, 8.0):
        upright(batch, at=(x, 0.0))
        rewards.append(batch.step(STILL).reward[0])
    assert rewards == [1, -1, 1]
    np.testing.assert_array_equal(batch.collected, [[2, 1]])


def test_objects_that_are_none_are_refused(unchecked):
    batch = started(AntGather())
    before, nan, inf = batch.objects.copy(), math.nan, math.inf
    for objects in ([(1.0, 2.0)], (1.0, 2.0, 0), [(1.0, 2.0, 2)], [(1.0, 2.0, 0.5)], [(nan, 2.0, 0)], [(inf, 2.0, 1)]):
        with pytest.raises(ValueError, match=r"objects must be rows of \(x, y, kind\), kind 0 for an apple or 1 for a bomb"):
            batch.put_objects(0, objects)
    np.testing.assert_array_equal(batch.objects, before)


BAD_ROOMS = [
    *[(field, value) for field in ("room", "bins", "time_limit") for value in (0, -1)],
    *[(field, value) for field in ("reach", "sensor_range") for value in (0.0, -1.0, math.nan, math.inf)],
    *[("sigma", value) for value in (-0.1, math.nan, math.inf)],
    ("apples", -1),
    ("bombs", -1),
]


def test_a_bad_field_of_a_room_is_named(unchecked):
    for field, value in BAD_ROOMS:
        with pytest.raises(ValueError, match=f"^{field} must be"):
            AntGather(**{field: value})


def test_as_many_objects_as_there_are_places_and_at_least_one():
    for apples, bombs in ((0, 0), (50, 50), (100, 0)):
        with pytest.raises(ValueError, match="apples \\+ bombs must be from 1 to 99"):
            AntGather(apples=apples, bombs=bombs)
