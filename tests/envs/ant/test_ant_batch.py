"""What all ant tasks share: a copy's fate is its own, states can be kept and gone on from, and bad input is refused."""

import os
import pickle
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import jaxtyping
import mujoco
import numpy as np
import pytest

from hrac.envs.ant import body
from hrac.envs.ant.body import fallen
from hrac.envs.ant.gather import AntGather
from hrac.envs.ant.maze import SPARSE, AntMaze
from hrac.envs.base import BatchEnvironment, SimulationError

TASKS = {"maze": AntMaze(), "sparse": SPARSE, "gather": AntGather()}
every_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)

# Episodes that end after 9 steps; for some copies, whose target or apple happens to be near, after the first.
SHORT = {
    "maze": AntMaze(target=((-8.0, -8.0), (8.0, 8.0)), ends_on_success=True, time_limit=9),
    "sparse": replace(SPARSE, success_radius=5.0, time_limit=9),
    "gather": AntGather(apples=1, bombs=0, reach=6.0, time_limit=9),
}
every_short_task = pytest.mark.parametrize("task", SHORT.values(), ids=SHORT)
with_and_without_noise = pytest.mark.parametrize("sigma", [0.0, 0.05])


def torques(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-30, 30, (*shape, 8))


def assert_same_state(first, second, rows=slice(None)):
    """Two snapshots agree bit for bit (in some rows)."""
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name][rows], second[name][rows], err_msg=name)


def live(batch, actions):
    """All that the copies give (steps, copies, numbers), each being reset when its episode ends."""
    everything = []
    for action in actions:
        obs, reward, terminated, truncated = batch.step(action)
        following = obs.copy()
        if (ended := np.flatnonzero(terminated | truncated)).size:
            following[ended] = batch.reset(ended)
        everything.append(np.column_stack([terminated, truncated, reward, obs, following, batch.context]))
    return np.array(everything)


def started(task, copies, threads=1, seeds=None):
    batch = task.batch(copies, threads)
    batch.reset(seeds=seeds)
    return batch


@pytest.fixture
def unchecked(monkeypatch):
    """As users have it: without the tests' type checks, which would refuse a wrong type before hrac does."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


# A copy's fate is its own.


@every_short_task
@with_and_without_noise
def test_each_copy_lives_as_it_would_alone(task, sigma):
    task, seeds, actions = replace(task, sigma=sigma), np.arange(100, 108), torques(25, 8)
    together = live(started(task, 8, threads=2, seeds=seeds), actions)
    terminated, truncated = together[..., 0].any(axis=0), together[..., 1].any(axis=0)
    assert terminated.any()  # so not all copies are reset at the same time
    assert truncated.any()
    for copy in range(8):
        alone = live(started(task, 1, seeds=seeds[copy : copy + 1]), actions[:, copy : copy + 1])
        np.testing.assert_array_equal(together[:, copy], alone[:, 0])


@every_short_task
@with_and_without_noise
def test_the_number_of_threads_changes_nothing(task, sigma):
    lives = []
    for threads in (1, 2, 3):
        batch = started(replace(task, sigma=sigma), 7, threads)
        assert batch.threads == threads
        lives.append(live(batch, torques(15, 7)))
    np.testing.assert_array_equal(lives[0], lives[1])
    np.testing.assert_array_equal(lives[0], lives[2])


@every_task
def test_resetting_some_leaves_the_others_untouched(task):
    batch, undisturbed = started(replace(task, sigma=0.1), 4), started(replace(task, sigma=0.1), 4)
    for action in torques(5, 4):
        batch.step(action)
        undisturbed.step(action)
    obs = batch.reset([1, 3])
    np.testing.assert_array_equal(obs, batch.observe([1, 3]))
    np.testing.assert_array_equal(batch.steps, [5, 0, 5, 0])
    np.testing.assert_array_equal(batch.episodes, [0, 1, 0, 1])
    assert_same_state(batch.snapshot(), undisturbed.snapshot(), [0, 2])
    for action in torques(5, 4, seed=1):
        batch.step(action)
        undisturbed.step(action)
    assert_same_state(batch.snapshot(), undisturbed.snapshot(), [0, 2])


@every_task
def test_stepping_some_is_for_them_as_stepping_all_and_for_the_others_nothing(task):
    batch, everyone = started(replace(task, sigma=0.1), 4), started(replace(task, sigma=0.1), 4)
    before, actions = batch.snapshot(), torques(4)
    some, every = batch.step(actions[[0, 2]], [0, 2]), everyone.step(actions)
    for part, whole in zip(some, every, strict=True):
        np.testing.assert_array_equal(part, whole[[0, 2]])
    assert_same_state(batch.snapshot(), before, [1, 3])
    assert_same_state(batch.snapshot(), everyone.snapshot(), [0, 2])


def test_copies_can_be_named_by_a_mask():
    by_mask, by_number = started(AntMaze(), 3), started(AntMaze(), 3)
    np.testing.assert_array_equal(by_mask.reset([True, False, True]), by_number.reset([0, 2]))
    assert_same_state(by_mask.snapshot(), by_number.snapshot())


def test_copies_that_there_are_not_are_refused_and_nothing_changes():
    batch = started(AntMaze(), 3)
    before = batch.snapshot()
    for ids in ([3], [-1], [0, 0]):
        with pytest.raises((ValueError, IndexError)):
            batch.reset(ids)
    assert_same_state(batch.snapshot(), before)


# Episodes are drawn from seeds.


@every_task
def test_the_same_seed_gives_the_same_episode_and_another_seed_another(task):
    batch, again = task.batch(3, 1), task.batch(3, 1)
    obs = batch.reset(seeds=[7, 8, 7])
    np.testing.assert_array_equal(obs, again.reset(seeds=[7, 8, 7]))
    np.testing.assert_array_equal(obs[0], obs[2])
    np.testing.assert_array_equal(batch.context, again.context)
    assert (obs[0, :29] != obs[1, :29]).any()


@every_task
def test_the_next_episode_is_another(task):
    batch = task.batch(1, 1)
    first, second, third = (batch.reset() for _ in range(3))
    assert (first[0, 2:29] != second[0, 2:29]).all()
    assert (second[0, 2:29] != third[0, 2:29]).all()


@every_task
def test_a_new_seed_starts_the_sequence_of_episodes_anew(task):
    batch = replace(task, sigma=0.1).batch(2, 1)
    batch.reset(seeds=[5, 6])
    first = batch.snapshot()
    batch.reset()
    second = batch.snapshot()
    live(batch, torques(3, 2))
    batch.reset(seeds=[5, 6])
    assert_same_state(batch.snapshot(), first)
    batch.reset()
    assert_same_state(batch.snapshot(), second)


def test_without_seeds_copies_have_their_numbers_as_seeds():
    np.testing.assert_array_equal(AntMaze().batch(4).reset(), AntMaze().batch(4).reset(seeds=range(4)))


def test_seeds_that_are_none_are_refused_and_nothing_changes(unchecked):
    batch = started(AntMaze(), 2)
    before = batch.snapshot()
    for seeds in ([1], [1, 2, 3], 4, [1, -1], [1.0, 2.0], [True, False], [0, 2**63], [[1, 2]]):
        with pytest.raises(ValueError, match="seeds must be 2 integers"):
            batch.reset(seeds=seeds)
    assert_same_state(batch.snapshot(), before)


def test_seeds_can_be_as_large_as_the_message_says():
    batch = AntMaze().batch(2)
    obs = batch.reset(seeds=[2**63 - 1, 2**63 - 2])
    np.testing.assert_array_equal(batch.seeds, [2**63 - 1, 2**63 - 2])
    assert (obs[0, :29] != obs[1, :29]).all()


@pytest.mark.parametrize("xp", [np, jnp])
def test_an_ant_has_fallen_when_its_upward_axis_points_down(xp):
    """Turned about x by an angle a, the quaternion is (cos a/2, sin a/2, 0, 0) and the axis points up by cos a."""
    angles = np.radians([[0.0, 60.0, 89.0], [91.0, 135.0, 180.0]])
    obs = np.zeros((2, 3, 30))
    obs[..., 3], obs[..., 4] = np.cos(angles / 2), np.sin(angles / 2)
    np.testing.assert_array_equal(fallen(xp.asarray(obs)), [[False] * 3, [True] * 3])
    about_y = obs[..., [0, 1, 2, 3, 5, 4]]
    np.testing.assert_array_equal(fallen(xp.asarray(about_y)), [[False] * 3, [True] * 3])


def test_an_episode_starts_near_the_default_pose():
    batch = started(AntMaze(), 2000)
    shift = batch.qpos - batch.model.qpos0
    assert np.abs(shift).max() <= 0.1
    # 30,000 and 28,000 numbers: the standard deviation of U(-0.1, 0.1) is 0.2 / sqrt(12) = 0.0577. The standard error of a
    # normal one's is 0.1 / sqrt(56,000) = 0.0004, of the uniform one's less.
    assert shift.std() == pytest.approx(0.0577, abs=0.002)
    assert batch.qvel.std() == pytest.approx(0.1, abs=0.002)
    assert shift.mean() == pytest.approx(0.0, abs=0.002)
    assert batch.qvel.mean() == pytest.approx(0.0, abs=0.003)


# States can be kept.

KEPT = {"maze": AntMaze(time_limit=12), "sparse": replace(SPARSE, time_limit=12), "gather": AntGather(reach=5.0, time_limit=12)}
every_kept_task = pytest.mark.parametrize("task", KEPT.values(), ids=KEPT)


def mid_episode(task, sigma):
    """Three copies after 7 steps, the second having just begun its next episode."""
    batch = started(replace(task, sigma=sigma), 3, seeds=[11, 12, 13])
    live(batch, torques(7, 3))
    batch.reset([1])
    return batch


@every_kept_task
@with_and_without_noise
def test_a_snapshot_goes_on_bit_for_bit(task, sigma):
    batch = mid_episode(task, sigma)
    assert not isinstance(task, AntGather) or batch.collected.any()
    snapshot, actions = batch.snapshot(), torques(15, 3, seed=1)
    obs, facts = batch.observe(), batch.info(batch.everyone)
    lived = live(batch, actions)
    end = batch.snapshot()
    other = started(replace(task, sigma=sigma), 3, threads=2, seeds=[1, 2, 3])
    live(other, torques(2, 3))
    for going_on in (batch, other, batch):  # a snapshot can be used again
        going_on.restore(snapshot)
        np.testing.assert_array_equal(going_on.observe(), obs)
        np.testing.assert_equal(going_on.info(going_on.everyone), facts)
        np.testing.assert_array_equal(live(going_on, actions), lived)
        assert_same_state(going_on.snapshot(), end)


@every_kept_task
@with_and_without_noise
def test_a_pickled_batch_goes_on_bit_for_bit(task, sigma):
    batch = mid_episode(task, sigma)
    copy = pickle.loads(pickle.dumps(batch))
    assert (copy.definition, copy.num_envs, copy.threads) == (batch.definition, batch.num_envs, batch.threads)
    np.testing.assert_array_equal(live(copy, torques(15, 3, seed=1)), live(batch, torques(15, 3, seed=1)))
    assert_same_state(copy.snapshot(), batch.snapshot())


def test_objects_put_by_hand_survive_a_snapshot():
    batch, other = started(AntGather(apples=1, bombs=1), 2), started(AntGather(apples=1, bombs=1), 2)
    batch.put_objects(1, [(4.0, 0.0, 0), (0.0, 4.0, 1), (-4.0, 0.0, 1)])  # one more than the definition has
    other.restore(batch.snapshot())
    np.testing.assert_array_equal(other.observe(), batch.observe())
    np.testing.assert_array_equal(other.present.sum(axis=1), [2, 3])


def test_a_snapshot_is_not_changed_by_going_on():
    batch = started(AntGather(sigma=0.1), 2)
    snapshot = batch.snapshot()
    kept = {name: array.copy() for name, array in snapshot.items()}
    live(batch, torques(3, 2))
    batch.restore(snapshot)
    live(batch, torques(3, 2))
    assert_same_state(snapshot, kept)


@pytest.mark.parametrize(
    ("task", "other", "copies"),
    [
        (AntMaze(), AntMaze(), 2),
        (AntMaze(), AntMaze(), 4),
        (AntMaze(), AntGather(), 3),
        (AntGather(), AntMaze(), 3),
        (AntMaze(sigma=0.1), AntMaze(), 3),  # has no noise for the steps to come
    ],
    ids=["fewer copies", "more copies", "of a room", "of a maze", "without noise"],
)
def test_a_snapshot_of_something_else_is_refused_and_nothing_changes(task, other, copies):
    batch = started(task, 3)
    before = batch.snapshot()
    with pytest.raises(ValueError, match="does not fit"):
        batch.restore(started(other, copies).snapshot())
    assert_same_state(batch.snapshot(), before)


def test_a_snapshot_that_lacks_something_is_refused_and_nothing_changes():
    batch = started(AntMaze(), 3)
    before = batch.snapshot()
    for name in before:
        with pytest.raises(ValueError, match=f"'{name}' does not fit"):
            batch.restore({other: array for other, array in before.items() if other != name})
    assert_same_state(batch.snapshot(), before)


# Bad input is refused.


def test_an_action_that_is_not_finite_is_refused_and_nothing_moves():
    batch, actions = started(AntMaze(sigma=0.1), 3), torques(3)
    batch.step(actions)
    before = batch.snapshot()
    for bad in (np.nan, np.inf, -np.inf):
        actions[1, 4] = bad
        with pytest.raises(ValueError, match="actions must be finite"):
            batch.step(actions)
    assert_same_state(batch.snapshot(), before)


def test_actions_of_another_shape_are_refused_and_nothing_moves():
    batch = started(AntMaze(), 3)
    before = batch.snapshot()
    for shape in ((8,), (3, 7), (2, 8), (4, 8), (3, 8, 1), (3,), ()):
        with pytest.raises(ValueError, match=r"actions must have shape \(3, 8\)"):
            batch.step(np.zeros(shape))
    assert_same_state(batch.snapshot(), before)


def test_actions_out_of_range_count_as_the_nearest_in_range():
    signs = np.sign(torques(5, 2))
    expected = live(started(AntMaze(), 2), 30 * signs)
    for size in (30.001, 1e9, 1e12, 1e300):  # beyond 1e10 MuJoCo takes numbers for mistakes
        np.testing.assert_array_equal(live(started(AntMaze(), 2), size * signs), expected)


def test_stepping_before_resetting_is_refused():
    batch = AntMaze().batch(3)
    with pytest.raises(RuntimeError, match=r"reset copies \[0, 1, 2\]"):
        batch.step(np.zeros((3, 8)))
    batch.reset([0, 2])
    with pytest.raises(RuntimeError, match=r"reset copies \[1\]"):
        batch.step(np.zeros((3, 8)))
    assert batch.step(np.zeros((2, 8)), [0, 2]).obs.shape == (2, 30)


def one_bad(size, value):
    return np.where(np.arange(size) == 3, value, 0.5)


NO_STATES = [
    (np.ones(14), np.ones(14), "qpos must be 15 finite numbers"),
    (np.ones(15), np.ones(15), "qvel must be 14 finite numbers"),
    (one_bad(15, np.nan), np.ones(14), "qpos must be 15 finite numbers"),
    (np.ones(15), one_bad(14, np.inf), "qvel must be 14 finite numbers"),
    (np.ones((2, 15)), np.ones(14), "qpos must be 15 finite numbers"),  # rows for two of three copies
    (1.0, np.ones(14), "qpos must be 15 finite numbers"),
]


def test_a_state_that_is_none_is_refused_and_nothing_moves(unchecked):
    batch = started(AntMaze(), 3)
    before = batch.snapshot()
    for qpos, qvel, message in NO_STATES:
        with pytest.raises(ValueError, match=message):
            batch.place(qpos, qvel)
    assert_same_state(batch.snapshot(), before)


def test_placing_moves_those_named_and_their_episodes_go_on():
    batch = started(AntMaze(), 3)
    batch.step(np.zeros((3, 8)))
    before = batch.snapshot()
    batch.place(np.arange(30.0).reshape(2, 15), np.arange(14.0), [0, 2])
    np.testing.assert_array_equal(batch.observe()[[0, 2], :29], [[*range(15), *range(14)], [*range(15, 30), *range(14)]])
    np.testing.assert_array_equal(batch.steps, [1, 1, 1])
    assert_same_state(batch.snapshot(), before, [1])


def test_no_copies_or_no_threads_are_refused():
    for name in ("num_envs", "threads"):
        for number in (0, -1):
            with pytest.raises(ValueError, match=f"{name} must be at least 1"):
                AntMaze().batch(**{"num_envs": 1, name: number})


# Physics that breaks down. MuJoCo writes a log into the working directory.


def broken_down(task):
    """Three copies of which the second has just broken down, and one step of the same copies in good health."""
    batch, healthy = started(task, 3), started(task, 3)
    batch.place(batch.qpos[1].copy(), np.full(14, 1e12), [1])
    with pytest.raises(SimulationError, match=r"copies \[1\] became unstable"):
        batch.step(torques(3))
    return batch, healthy.observe(), healthy.step(torques(3)).obs


@every_task
def test_a_copy_that_broke_down_is_named_and_goes_on_after_a_reset(task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    batch, _, _ = broken_down(task)
    expected = started(task, 1, seeds=[1])
    np.testing.assert_array_equal(batch.reset([1]), expected.reset())
    for action in torques(3, 3, seed=1):
        np.testing.assert_array_equal(batch.step(action).obs[1], expected.step(action[1:2]).obs[0])


@with_and_without_noise
def test_when_a_copy_breaks_down_the_others_have_made_a_whole_step_or_none(tmp_path, monkeypatch, sigma):
    monkeypatch.chdir(tmp_path)
    batch, before, after = broken_down(AntMaze(sigma=sigma))
    for copy in (0, 2):
        now = batch.observe([copy])[0]
        assert (now == before[copy]).all() or (now == after[copy]).all()


def test_a_snapshot_mends_a_copy_that_broke_down(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    snapshot = started(AntMaze(), 3).snapshot()
    batch, _, after = broken_down(AntMaze())
    batch.restore(snapshot)
    np.testing.assert_array_equal(batch.step(torques(3)).obs, after)


# Noise.


def test_noise_has_its_standard_deviation_and_touches_the_position_only():
    sigma, copies = 0.05, 2000
    noisy, quiet = started(AntMaze(sigma=sigma), copies), started(AntMaze(), copies)
    np.testing.assert_array_equal(noisy.observe(), quiet.observe())
    actions = torques(copies)
    noisy_obs, quiet_obs = noisy.step(actions).obs, quiet.step(actions).obs
    np.testing.assert_array_equal(noisy_obs[:, 2:], quiet_obs[:, 2:])
    noise = (noisy_obs - quiet_obs)[:, :2]
    # 2,000 numbers for each of x and y: the standard error of a standard deviation is sigma / sqrt(4,000) = 0.016 sigma,
    # of a mean sigma / sqrt(2,000) = 0.022 sigma, and of a correlation 0.022.
    np.testing.assert_allclose(noise.std(axis=0), sigma, atol=0.07 * sigma)
    np.testing.assert_allclose(noise.mean(axis=0), 0.0, atol=0.09 * sigma)
    assert abs(np.corrcoef(noise.T)[0, 1]) < 0.09


def test_noise_differs_from_step_to_step_and_from_episode_to_episode():
    noisy, quiet = started(AntMaze(sigma=0.05), 2), started(AntMaze(), 2)
    shifts = []
    for _ in range(2):
        for action in torques(4, 2):
            quiet.place(noisy.qpos.copy(), noisy.qvel.copy())
            shifts.append(noisy.step(action).obs[:, :2] - quiet.step(action).obs[:, :2])
        noisy.reset()
        quiet.reset()
    assert len(np.unique(np.round(shifts, 9))) == 2 * 4 * 2 * 2  # episodes, steps, copies, x and y: no two the same


@every_task
def test_without_noise_a_step_is_what_mujoco_alone_makes_of_it(task):
    batch, actions = started(task, 1), torques(3, 1)
    data = mujoco.MjData(batch.model)
    data.qpos, data.qvel = batch.qpos[0], batch.qvel[0]
    for action in actions:
        data.ctrl = action[0]
        mujoco.mj_step(batch.model, data, 5)
        obs = batch.step(action).obs[0]
        np.testing.assert_array_equal(obs[:29], np.concatenate([data.qpos, data.qvel]))


def pushed_against_walls(task):
    """States of ants all over a map after some steps, and how many of them touch a wall."""
    batch, rng = task.batch(60), np.random.default_rng(0)
    batch.reset()
    places = rng.uniform(batch.position_low[:2], batch.position_high[:2], (60, 2))
    batch.place(np.concatenate([places, batch.qpos[:, 2:]], axis=1), batch.qvel)
    for _ in range(30):
        batch.step(rng.uniform(-30, 30, (60, 8)))
    walls = [geom for geom in range(batch.model.ngeom) if batch.model.geom(geom).name.startswith("wall")]
    touching = sum(np.isin(batch.data(copy).contact.geom, walls).any() for copy in range(60))
    return np.concatenate([batch.qpos, batch.qvel], axis=1), touching


@every_task
def test_what_mujoco_does_by_default_and_we_leave_out_changes_no_bit(task, monkeypatch):
    needless = body._needless(task.walls, ())
    assert task.batch(1).model.opt.disableflags == needless
    left_out, touching = pushed_against_walls(task)
    monkeypatch.setattr(body, "_needless", lambda walls, blocks: 0)
    assert task.batch(1).model.opt.disableflags == 0 != needless
    by_default, as_many = pushed_against_walls(task)
    assert touching == as_many > 0
    np.testing.assert_array_equal(left_out, by_default)


def test_where_ants_push_blocks_mujoco_looks_for_what_moves_by_itself():
    islands, block = mujoco.mjtDisableBit.mjDSBL_ISLAND.value, body.Block((4.0, 0.0, 2.0), (1.0, 1.0, 1.0), 0.1, {"x": None})
    assert body._needless((), ()) & islands
    assert not body._needless((), (block,)) & islands


# Time and observations.


@every_task
def test_time_runs_out_at_the_limit_and_not_before(task):
    batch = started(replace(task, time_limit=4), 2)
    if hasattr(batch, "targets"):
        batch.targets[:] = 1000.0  # out of reach
    steps = [batch.step(np.zeros((2, 8))) for _ in range(4)]
    np.testing.assert_array_equal([step.truncated for step in steps], [[False] * 2] * 3 + [[True] * 2])
    assert not any(step.terminated.any() for step in steps)


def test_success_on_the_very_last_step_terminates_and_does_not_truncate():
    batch = started(AntMaze(ends_on_success=True, time_limit=2), 2)
    batch.targets[:] = 1000.0
    batch.step(np.zeros((2, 8)))
    batch.targets[0] = 0.0
    last = batch.step(np.zeros((2, 8)))
    np.testing.assert_array_equal(last.terminated, [True, False])
    np.testing.assert_array_equal(last.truncated, [False, True])


@pytest.mark.parametrize(("task", "size", "tick"), [(AntMaze(), 30, 0.001), (SPARSE, 30, 0.001), (AntGather(), 50, 0.01)])
def test_an_observation_is_position_velocity_what_the_task_adds_and_time(task, size, tick):
    batch = task.batch(3)
    assert isinstance(batch, BatchEnvironment)
    first = batch.reset()
    np.testing.assert_array_equal(first[:, -1], 0.0)
    for number in (1, 2, 3):
        obs = batch.step(torques(3, seed=number)).obs
        assert (obs.shape, obs.dtype) == ((3, size), np.float64)
        assert batch.obs_dim == size
        np.testing.assert_array_equal(obs[:, :15], batch.qpos)
        np.testing.assert_array_equal(obs[:, 15:29], batch.qvel)
        np.testing.assert_array_equal(obs[:, :2], batch.positions)
        np.testing.assert_allclose(obs[:, -1], number * tick, rtol=1e-12)


def test_what_a_batch_gives_is_not_its_own_memory():
    batch = started(AntMaze(), 2)
    before = batch.snapshot()
    for given in (batch.observe(), batch.positions, batch.context, batch.snapshot()["physics"]):
        given[...] = 99.0
    assert_same_state(batch.snapshot(), before)


# Walls hold, and there is room for many.


def in_the_open(task, positions):
    """Whether points are not in or behind a wall."""
    if isinstance(task, AntGather):
        return (np.abs(positions) < 10.5).all(axis=1)  # walls 1 thick, centred at 11
    grid = np.array([list(row) for row in task.layout.split()])
    column, row = np.floor(positions / task.block_size + 0.5).astype(int).T + 1  # the origin is in row 1, column 1
    height, width = grid.shape
    return grid[row.clip(0, height - 1), column.clip(0, width - 1)] != "#"


def spread(task, ants, rng):
    """Points all over a task's world, 1.5 from the walls (or in the middle of blocks less wide than that)."""
    if isinstance(task, AntGather):
        return rng.uniform(-9, 9, (ants, 2))
    spare = max(task.block_size / 2 - 1.5, 0)
    return rng.choice(task.free, ants) + rng.uniform(-spare, spare, (ants, 2))


@pytest.mark.parametrize(("task", "ants"), [(AntMaze(), 20), (SPARSE, 40), (AntGather(), 20)], ids=TASKS)
def test_no_ant_leaves_the_walls(task, ants):
    rng, batch = np.random.default_rng(0), started(task, ants, threads=None)
    qpos = batch.qpos.copy()
    qpos[:, :2] = spread(task, ants, rng)
    batch.place(qpos, batch.qvel.copy())
    start, farthest = batch.positions, np.zeros(ants)
    for _ in range(100):
        action = rng.choice([-30.0, 30.0], (ants, 8))
        for _ in range(5):
            positions = batch.step(action).obs[:, :2]
            assert in_the_open(task, positions).all()
            farthest = np.maximum(farthest, np.linalg.norm(positions - start, axis=1))
    assert (farthest > 2.0).mean() > 0.2


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory taken is read from /proc")
def test_thousands_of_ants_fit_into_a_gigabyte():
    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    batch = started(replace(SPARSE, sigma=0.1), 4096, threads=None)
    step = batch.step(torques(4096))
    assert np.isfinite(step.obs).all()
    assert resident() - before < 1e9
