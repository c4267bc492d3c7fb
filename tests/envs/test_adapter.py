"""Gymnasium environments as tasks on the host."""

import dataclasses
import signal

import gymnasium
import numpy as np
import pytest

import hrac
import own_worlds
from hrac.envs.copies import EnvironmentFailedError
from hrac.envs.look import TaskError
from hrac.envs.view import View
from hrac.experiments import own
from hrac.spaces import Box, Discrete


def made(env=own_worlds.Walk, changes=None, **said):
    return own.task(env, **said).make({"cell": (2.0,), "time_limit": 6, **(changes or {})})


def test_an_observation_starts_with_the_goal_in_cells_and_the_target_is_for_the_manager():
    batch = made().batch(2)
    first = batch.reset(seeds=[0, 1])
    np.testing.assert_allclose(first, [[0.0, 5.0, 0.0]] * 2)  # 5 is the centre of 0 to 10; then the observation
    assert (batch.position_low, batch.position_high) == ((-2.5,), (2.5,))  # in cells of 2
    goals = [(own_worlds.Walk().reset(seed=seed)[0]["desired_goal"] - 5.0) / 2.0 for seed in (0, 1)]
    np.testing.assert_allclose(batch.context, goals)


def test_actions_from_minus_one_to_one_are_scaled_to_the_environments_range():
    batch = made().batch(3)
    batch.reset(seeds=[0, 1, 2])
    after = batch.step(np.array([[1.0], [-0.5], [7.0]]))  # 2, -1 and 2: a step is half of an action
    np.testing.assert_allclose(after.obs[:, 1], [6.0, 4.5, 6.0])


def test_only_the_named_copies_step_and_reset():
    batch = made().batch(3)
    batch.reset(seeds=[0, 1, 2])
    after = batch.step([[1.0], [1.0]], ids=[0, 2])
    np.testing.assert_allclose(after.obs[:, 1], [6.0, 6.0])
    assert batch.reset([0]).shape == (1, 3)
    np.testing.assert_allclose(batch.step([[0.0]] * 3).obs[:, 1], [5.0, 5.0, 6.0])


def test_the_tasks_time_limit_truncates():
    batch = made().batch(1)
    batch.reset(seeds=[3])
    flags = [batch.step([[0.0]]) for _ in range(6)]
    assert [bool(after.truncated[0]) for after in flags] == [False] * 5 + [True]
    batch.reset()
    assert not batch.step([[0.0]]).truncated[0]


def test_in_evaluation_success_and_nothing_else_terminates():
    """In training an episode ends where the environment says so."""
    task = made(own_worlds.Falls, {"time_limit": 50, "success": "is_success"})
    seed = next(seed for seed in range(50) if own_worlds.Walk().reset(seed=seed)[0]["desired_goal"][0] == 9.0)
    ends, told = {}, {}
    for name, variant in (("training", task), ("evaluation", task.evaluation())):
        for push in (1.0, -1.0):
            batch = variant.batch(1)
            batch.reset(seeds=[seed])
            for step in range(1, 20):
                after = batch.step([[push]])
                if batch.succeeded[0]:
                    told.setdefault((name, push), step)
                if after.terminated[0] or after.truncated[0]:
                    ends[name, push] = (step, bool(after.terminated[0]))
                    break
    assert ends == {
        ("training", -1.0): (5, True),  # falls at 0
        ("evaluation", 1.0): (4, True),  # the goal
        ("evaluation", -1.0): (5, False),  # the fall is no success
    }
    assert told == {("training", 1.0): 4, ("evaluation", 1.0): 4}  # in training it is told, and the episode goes on
    assert (task.ends_on_success, task.evaluation().ends_on_success) == (False, True)


def test_without_a_sign_of_success_there_is_none():
    task = own.task(own_worlds.Grid, goal=own_worlds.column).make({"cell": (1.0,), "time_limit": 20})
    assert task.evaluation() is task
    assert not task.ends_on_success


def test_discrete_observations_and_actions_that_do_not_start_at_zero():
    task = own.task(own_worlds.Grid, goal=own_worlds.column).make({"cell": (1.0,), "time_limit": 20})
    batch = task.batch(1)
    assert batch.actions == Discrete(2)
    assert batch.obs_dim == 1 + 5  # goal space, then a one at the place of the cell
    np.testing.assert_array_equal(batch.reset(seeds=[0])[0, 1:], [1, 0, 0, 0, 0])
    seen = [batch.step([move]).obs[0] for move in (1, 1, 0)]
    assert [obs[1:].argmax() for obs in seen] == [1, 2, 1]
    assert [obs[0] - seen[0][0] for obs in seen] == [0.0, 1.0, 0.0]  # a cell is one of the environment's


def test_goal_space_by_indices_comes_first_and_what_only_the_manager_sees_is_apart():
    view = View(goal=(3, 1), cell=(2.0, 0.5), centre=(0.0, 3.0), manager_only=(0,))
    seen, hidden = view.read([9.0, 1.0, 5.0, 4.0])
    assert (seen.tolist(), hidden.tolist()) == ([2.0, -4.0, 5.0], [9.0])
    assert view.outside(seen[:2]).tolist() == [4.0, 1.0]


def test_a_target_is_seen_in_cells_at_the_end_of_what_only_the_manager_sees():
    space = {"goal": (0, 1), "cell": (2.0, 0.5), "centre": (4.0, 3.0), "manager_only": (5,)}
    observation = [6.0, 4.0, 7.0, 2.0, 3.5, 9.0]  # at (6, 4), a speed, the target (2, 3.5), a number for the manager
    by_index, by_function = View(**space, target=(3, 4)), View(**space, target=lambda seen: [seen[3], seen[4]])
    assert [part.tolist() for part in by_index.read(observation)] == [[1.0, 2.0, 7.0], [9.0, -1.0, 1.0]]
    assert [part.tolist() for part in by_function.read(observation)] == [[1.0, 2.0, 7.0, 2.0, 3.5], [9.0, -1.0, 1.0]]
    assert (by_index.rest_dim(6), by_function.rest_dim(6)) == (1, 3)
    assert [view.shows_target for view in (by_index, by_function, View(**space))] == [True, True, False]


def test_a_numbered_state_is_a_one_among_zeros():
    by_function = View(goal=lambda state: [state / 2], cell=(0.5,), centre=(3.0,), states=4, first_state=5)
    assert [by_function.read(state)[0].tolist() for state in (5, 8)] == [[-1, 1, 0, 0, 0], [2, 0, 0, 0, 1]]
    assert by_function.rest_dim(1) == 4
    by_index = View(goal=(0,), cell=(2.0,), centre=(5.0,), states=4, first_state=5)  # its number itself is goal space
    assert (by_index.read(8)[0].tolist(), by_index.rest_dim(1)) == ([1.5], 0)


def test_environments_are_used_again(monkeypatch):
    task = made()
    first = task.batch(3)
    first.close()
    monkeypatch.setattr(own_worlds.Walk, "__init__", lambda self: pytest.fail("another one was made"))
    again = dataclasses.replace(task.evaluation(), time_limit=5).batch(3)
    assert again.num_envs == 3


def walked(stepping, steps=25):
    """The numbers of some random steps, and of resets where episodes end."""
    task = made(own_worlds.Falls, {"stepping": stepping, "success": "is_success"})
    batch, rng, numbers = task.batch(3), np.random.default_rng(0), []
    obs = batch.reset(seeds=[4, 5, 6])
    for step in range(steps):
        ids = np.arange(3) if step % 4 else np.array([0, 2])
        after = batch.step(rng.uniform(-1, 1, (len(ids), 1)), ids)
        numbers += [obs, after.obs, after.reward, after.terminated, after.truncated, batch.context]
        if (over := after.terminated | after.truncated).any():
            obs = batch.reset(ids[over])
    batch.close()
    return numbers


def test_processes_give_the_same_numbers():
    """Copies that nobody asked for move too in a vector environment, so all copies are named here."""
    task = {name: made(changes={"stepping": name}).batch(2) for name in ("sync", "async")}
    rng, rows = np.random.default_rng(0), {name: [] for name in task}
    actions = rng.uniform(-1, 1, (20, 2, 1))
    for name, batch in task.items():
        obs = batch.reset(seeds=[4, 5])
        for action in actions:
            after = batch.step(action)
            rows[name] += [obs, *after, batch.context]
            if (over := after.terminated | after.truncated).any():
                batch.reset(np.flatnonzero(over))
        batch.close()
    for first, second in zip(rows["sync"], rows["async"], strict=True):
        np.testing.assert_allclose(first, second, atol=1e-5)  # its space says float32, in which processes send them


def test_some_copies_of_a_vector_environment_can_be_stepped():
    numbers = walked("async")
    assert all(np.isfinite(part).all() for part in numbers)


def test_the_environments_own_vector_form_is_used_where_it_can_be_told_not_to_reset():
    task = hrac.experiments.tasks.find("gym:hrac/AntMaze-v0")
    batch = task.make({"stepping": "vector", "goal_low": (-4.0, -4.0), "goal_high": (20.0, 20.0), "cell": (1.0, 1.0)}).batch(2)
    obs = batch.reset(seeds=[1, 2])
    assert obs.shape == (2, batch.obs_dim)
    assert batch.step(np.zeros((2, 8))).obs.shape == (2, batch.obs_dim)
    cart = hrac.experiments.tasks.find("gym:CartPole-v1")
    with pytest.raises(EnvironmentFailedError, match=r'env\.stepping: its own vector form .*use "async" or "sync"'):
        cart.make({"stepping": "vector", "goal": (0,), "goal_low": (-1.0,), "goal_high": (1.0,), "cell": (0.1,)}).batch(2)
    with pytest.raises(EnvironmentFailedError, match="no vector form of its own"):
        made(changes={"stepping": "vector"}).batch(2)


def test_an_environment_that_raises_names_the_copy():
    batch = made(own_worlds.Breaks, {"goal_low": (0.0,), "goal_high": (10.0,)}).batch(2)
    batch.reset(seeds=[0, 1])
    own_worlds.Breaks.steps = 3_500
    with pytest.raises(EnvironmentFailedError, match="copy 0 of the environment failed in step: ZeroDivisionError: the motor"):
        batch.step([[0.0], [0.0]])
    own_worlds.Breaks.steps = 0


def test_an_environment_that_raised_is_not_used_again():
    task = made(own_worlds.Breaks, {"goal_low": (0.0,), "goal_high": (10.0,)})
    task.pool.clear()
    batch = task.batch(3)
    batch.reset(seeds=[0, 1, 2])
    good, broken, unasked = batch._copies.sources()
    broken.step = lambda action: 1 / 0
    with pytest.raises(EnvironmentFailedError, match="copy 1 of the environment failed in step"):
        batch.step([[0.0]] * 3)
    batch.close()
    assert task.pool == [good, unasked]


def test_a_copy_that_hangs_is_named_after_the_time_that_it_may_take():
    space = {"goal_low": (0.0,), "goal_high": (10.0,), "success": "is_success"}
    batch = made(own_worlds.Hangs, space | {"stepping": "async", "step_seconds": 1.0}).batch(2)
    batch.reset(seeds=[0, 1])
    batch.step([[0.0], [0.0]])
    batch.step([[0.0], [0.0]])
    with pytest.raises(EnvironmentFailedError, match=r"did not answer within env\.step_seconds = 1 seconds"):
        batch.step([[0.0], [0.0]])


def test_a_copy_that_hangs_in_reset_is_found_too():
    space = {"goal_low": (0.0,), "goal_high": (10.0,), "success": "is_success"}
    batch = made(own_worlds.Slow, space | {"stepping": "async", "step_seconds": 1.0}).batch(1)
    batch.reset(seeds=[0])
    with pytest.raises(EnvironmentFailedError, match="did not answer within"):
        batch.reset()
    batch.close()
    assert batch.task.vectors[1] == []  # it is not used again


def test_a_copy_that_hangs_while_it_is_measured_is_found_too(monkeypatch):
    monkeypatch.setattr(own, "LOOK_SECONDS", 0.0)
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(EnvironmentFailedError, match=r"first copy did not answer within env\.step_seconds = 0\.5 seconds"):
        made(own_worlds.Hangs, {"stepping": "async", "step_seconds": 0.5})
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.parametrize("stepping", [{}, {"stepping": "vector"}])
def test_only_copies_in_processes_may_be_given_a_time(stepping):
    with pytest.raises(TaskError, match=r"env\.step_seconds must be None unless .* got 3 and '(sync|vector)'"):
        made(changes={"step_seconds": 3.0} | stepping)


def test_processes_are_used_again_and_end_with_the_task():
    task = made(changes={"stepping": "async"})
    first = task.batch(2)
    first.reset(seeds=[0, 1])
    first.close()
    (kept,) = task.vectors[2]
    second = task.evaluation().batch(2)
    assert second._copies is kept
    np.testing.assert_allclose(second.reset(seeds=[0, 1])[:, 1], [5.0, 5.0])
    second.close()
    task.close()
    assert task.vectors == {}
    assert not any(process.is_alive() for process in kept._vector.processes)


def test_saturated_actions_are_within_the_bounds_in_their_own_type():
    task = own.task(own_worlds.LastOnly).make({"cell": (1.0,)})
    batch = task.batch(2)
    batch.reset(seeds=[0, 1])
    batch.step([[1.0], [-1.0]])  # the environment asserts that its space contains them
    assert (task.time_limit, task.success) == (30, "is_success")


def test_bounds_far_from_zero_are_measured_by_their_extent():
    task = own.task(own_worlds.FarAway).make({"time_limit": 20})
    assert 1002.9 < task.goal_low[0] < 1003.05
    assert 1003.15 < task.goal_high[0] < 1003.3


def test_a_snapshot_is_exact_where_the_environment_can_save_its_state():
    task = made(own_worlds.Saved, {"time_limit": 50})
    batch = task.batch(2)
    assert batch.exact
    assert not made().batch(1).exact
    batch.reset(seeds=[0, 1])
    batch.step([[1.0], [-1.0]])
    saved = batch.snapshot()
    after = [batch.step([[0.5], [0.5]]).obs, batch.reset(), batch.context]
    other = task.batch(2)
    other.restore(saved)
    again = [other.step([[0.5], [0.5]]).obs, other.reset(), other.context]
    for first, second in zip(after, again, strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("what", "message"), [("nan", "observation of copy 1 is not finite"), ("inf", "reward of copy 1 is inf")]
)
def test_numbers_that_are_not_finite_name_the_copy(what, message, monkeypatch):
    batch = made().batch(2)
    batch.reset(seeds=[0, 1])
    step = own_worlds.Walk.step

    def broken(self, action):
        seen, reward, *rest = step(self, action)
        if action[0] > 1.5:
            reward = np.inf if what == "inf" else reward
            seen["achieved_goal"] = np.array([np.nan if what == "nan" else 0.0])
        return seen, reward, *rest

    monkeypatch.setattr(own_worlds.Walk, "step", broken)
    with pytest.raises(EnvironmentFailedError, match=message):
        batch.step([[0.0], [1.0]])


def test_a_sketch_has_the_goal_of_an_episode():
    task = hrac.experiments.tasks.find("gym:hrac/AntMaze-v0")
    batch = task.make({"goal_low": (-4.0, -4.0), "goal_high": (20.0, 20.0), "cell": (2.0, 2.0)}).batch(1)
    batch.reset(seeds=[0])
    sketch = batch.sketch(0)
    assert sketch.low == pytest.approx((-6.6, -6.6))  # 12 of 24 in cells of 2, and a margin of a tenth of that
    assert (sketch.discs[0].x, sketch.discs[0].y) == tuple(batch.context[0].tolist())


def test_continuous_actions_are_seen_as_a_box():
    assert made().actions == Box((-1.0,), (1.0,))
    assert isinstance(gymnasium.make("hrac/Maze-v0").action_space, gymnasium.spaces.Discrete)
