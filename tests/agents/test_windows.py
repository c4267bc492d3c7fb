"""The subgoal clock and the windows, with k = 3 on a line where every step moves right by one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrac import config as configs
from hrac.agents.decide import Setup
from hrac.agents.subgoals import SubgoalSpace
from hrac.agents.windows import (
    Trajectory,
    controller_steps,
    controller_transitions,
    empty_steps,
    intrinsic_rewards,
    manager_window,
    with_targets,
)
from hrac.config import Config
from hrac.experiments import tasks
from hrac.spaces import Box, Discrete

CFG = configs.replace(Config(), {"k": 3, "training.round_env_steps": 6, "controller.discount": 0.5})
LINE = SubgoalSpace(False, (0.0,), (20.0,))
SETUP = Setup(LINE, Discrete(2), 1, CFG)
STEPS = jax.jit(controller_steps, static_argnums=(1, 2))


def _trajectory(ends, rewards, subgoals=None, truncated=False):
    """Steps from position 0 on; `ends` are the steps at which an episode ends, where the clock restarts."""
    n, clock, clocks, last = len(rewards), 0, [], []
    for t in range(n):
        clocks.append(clock)
        last.append(clock == 2 or t in ends)
        clock = 0 if last[-1] else clock + 1
    position = jnp.arange(n, dtype=jnp.float32)[:, None]
    ended = jnp.array([t in ends for t in range(n)])
    return Trajectory(
        obs=position,
        subgoal=position + 100 if subgoals is None else jnp.asarray(subgoals, jnp.float32)[:, None],
        action=jnp.zeros(n, jnp.int32),
        reward=jnp.asarray(rewards, jnp.float32),
        next_obs=position + 1,
        terminated=ended & (not truncated),
        truncated=ended & truncated,
        clock=jnp.asarray(clocks),
        last=jnp.asarray(last),
    )


def _with_tail(trajectory, tail=None):
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), tail or empty_steps(SETUP, 3), trajectory)


def _window(trajectory, end, k, cfg):
    """The window that ended at a step, with its last step again where it is shorter than k."""
    start = end - int(trajectory.clock[end])
    index = jnp.minimum(start + jnp.arange(k), end)
    return manager_window(jax.tree.map(lambda leaf: leaf[index], trajectory), start + jnp.arange(k) <= end, cfg)


def test_a_window_is_from_its_first_observation_to_its_last_with_the_sum_of_its_rewards():
    # Steps 0 1 2 | 3 4 (ends) | 5 6 7 | 8 goes on.
    trajectory = _trajectory({4}, [1, 2, 4, 8, 16, 32, 64, 128, 256])
    np.testing.assert_array_equal(np.flatnonzero(trajectory.last), [2, 4, 7])
    kept = jax.tree.map(lambda *leaves: np.stack(leaves), *(_window(trajectory, end, 3, CFG).whole for end in (2, 4, 7)))
    np.testing.assert_array_equal(kept.reward, [1 + 2 + 4, 8 + 16, 32 + 64 + 128])
    np.testing.assert_array_equal(kept.obs[:, 0], [0, 3, 5])
    np.testing.assert_array_equal(kept.action[:, 0], [100, 103, 105])
    np.testing.assert_array_equal(kept.next_obs[:, 0], [3, 5, 8])
    np.testing.assert_array_equal(kept.bootstrap, [True, False, True])


@pytest.mark.parametrize("bootstraps", [False, True])
def test_bootstrapping_at_the_time_limit_is_a_choice(bootstraps):
    cfg = configs.replace(CFG, {"manager.bootstrap_at_time_limit": bootstraps})
    window = _window(_trajectory({1}, [1, 1], truncated=True), 1, 3, cfg)
    assert bool(window.whole.bootstrap) is bootstraps


def test_windows_are_cut_in_any_number_of_dimensions():
    trajectory = _trajectory({4}, [1, 2, 4, 8, 16, 32])
    steps = jax.tree.map(lambda leaf: leaf[jnp.array([[[0, 1, 2], [3, 4, 4]]])], trajectory)
    inside = jnp.array([[[True, True, True], [True, True, False]]])
    window = manager_window(steps, inside, CFG)
    assert window.whole.reward.tolist() == [[7.0, 24.0]]
    assert window.whole.obs.shape == (1, 2, 1)
    assert window.obs.shape == (1, 2, 3, 1)


def test_a_window_across_two_rounds_is_learned_from_once_and_whole():
    # Round one: 0 1 (ends) | 2 3 .  Round two: 4 | 5 6 7.
    whole = _trajectory({1}, [1, 2, 4, 8, 16, 32, 64, 128])
    first = _with_tail(jax.tree.map(lambda leaf: leaf[:4], whole))
    second = _with_tail(jax.tree.map(lambda leaf: leaf[4:], whole), jax.tree.map(lambda leaf: leaf[-3:], first))
    both = (STEPS(part, LINE, CFG) for part in (first, second))
    used = [np.asarray(steps.seen)[np.asarray(steps.valid), 0] for steps in both]
    np.testing.assert_array_equal(used[0], [0, 1])
    np.testing.assert_array_equal(used[1], [2, 3, 4, 5, 6, 7])


def test_every_step_is_used_exactly_once_over_many_rounds():
    rng = np.random.default_rng(0)
    ends = set(np.flatnonzero(rng.random(60) < 0.15).tolist()) | {59}
    whole = _trajectory(ends, np.ones(60))
    tail, used = None, []
    for start in range(0, 60, 6):
        part = _with_tail(jax.tree.map(lambda leaf, s=start: leaf[s : s + 6], whole), tail)
        tail = jax.tree.map(lambda leaf: leaf[-3:], part)
        steps = STEPS(part, LINE, CFG)
        used += np.asarray(steps.seen)[np.asarray(steps.valid), 0].tolist()
    assert sorted(used) == list(range(60))


def test_the_intrinsic_reward_is_for_the_subgoal_acted_on():
    # Each step ends one to the right: the subgoal 1 is reached by step 0 only, 3 by step 2, 9 by none.
    trajectory = _trajectory(set(), [0, 0, 0, 0], subgoals=[1, 1, 3, 9])
    np.testing.assert_array_equal(intrinsic_rewards(trajectory, LINE, CFG), [1, 0, 1, 0])
    relative = SubgoalSpace(True, (0.0,), (20.0,))
    trajectory = _trajectory(set(), [0, 0, 0], subgoals=[1, 2, 1])
    np.testing.assert_array_equal(intrinsic_rewards(trajectory, relative, CFG), [1, 0, 1])


def test_controller_returns_look_only_to_the_windows_end():
    steps = STEPS(_with_tail(_trajectory({4}, np.zeros(6), subgoals=[3, 3, 3, 5, 5, 6])), LINE, CFG)
    # Rewards 0 0 1 | 0 1 | 1 goes on; discount 1/2.
    np.testing.assert_allclose(np.asarray(steps.ret)[3:8], [0.25, 0.5, 1.0, 0.5, 1.0])
    np.testing.assert_array_equal(np.asarray(steps.valid), [False] * 3 + [True] * 5 + [False])


# Steps and windows as two levels by TD3 learn from them, with k = 2.

TD3 = configs.replace(tasks.config_for("ant-maze"), {"k": 2})
RELATIVE = SubgoalSpace(True, (0.0,), (10.0,), reach=5.0)


def _pushed(last, terminated=(False,) * 4, truncated=(False,) * 4):
    """Two steps of tail, then steps from 0, 1, 3, 3.5 to 4 with subgoals 4, 3, 1, 0.5 and actions 0.1, 0.2, ..."""
    positions = jnp.array([-9.0, -9.0, 0.0, 1.0, 3.0, 3.5])[:, None]
    after = jnp.array([-9.0, -9.0, 1.0, 3.0, 3.5, 4.0])[:, None]
    pad = lambda values: jnp.array([False, False, *values])  # noqa: E731
    return Trajectory(
        obs=positions,
        subgoal=jnp.array([0.0, 0.0, 4.0, 3.0, 1.0, 0.5])[:, None],
        action=jnp.array([0.0, 0.0, 0.1, 0.2, 0.3, 0.4])[:, None],
        reward=jnp.array([0.0, 0.0, 1.0, 2.0, 4.0, 8.0]),
        next_obs=after,
        terminated=pad(terminated),
        truncated=pad(truncated),
        clock=jnp.array([0, 0, 0, 1, 0, 1]),
        last=pad(last),
    )


def _new(trajectory):
    return jax.tree.map(lambda leaf: leaf[2:], trajectory)


@pytest.mark.parametrize("ends_with_window", [False, True])
def test_a_step_of_the_controller_by_hand(ends_with_window):
    cfg = configs.replace(TD3, {"controller.ends_with_window": ends_with_window})
    new = _new(_pushed((False, True, False, True), (False, False, False, True)))
    steps = controller_transitions(new, RELATIVE, cfg)
    np.testing.assert_allclose(steps.obs, [[0.0, 4.0], [1.0, 3.0], [3.0, 1.0], [3.5, 0.5]])  # what it saw, and its subgoal
    np.testing.assert_allclose(
        steps.next_obs, [[1.0, 3.0], [3.0, 1.0], [3.5, 0.5], [4.0, 0.0]]
    )  # the same point, seen from there
    np.testing.assert_allclose(steps.action[:, 0], [0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(steps.reward, [-3.0, -1.0, -0.5, -0.0])  # minus the distance left to the point 4
    expected = [True, not ends_with_window, True, False]  # the last one terminated
    np.testing.assert_array_equal(steps.bootstrap, expected)


def test_nothing_is_bootstrapped_past_the_time_limit():
    new = _new(_pushed((False, True, False, True), truncated=(False, True, False, False)))
    np.testing.assert_array_equal(controller_transitions(new, RELATIVE, TD3).bootstrap, [True, False, True, True])


def test_a_window_has_its_own_steps_and_no_others():
    new = _new(_pushed((False, True, True, True)))
    second, third = (_window(new, end, 2, TD3) for end in (1, 2))
    np.testing.assert_allclose(second.obs[:, 0], [0.0, 1.0])
    np.testing.assert_allclose(second.action[:, 0], [0.1, 0.2])
    np.testing.assert_array_equal(second.inside, [True, True])
    assert second.whole.reward == 3.0
    np.testing.assert_array_equal(third.inside, [True, False])  # it ended after one step
    assert third.whole.reward == 4.0
    np.testing.assert_allclose(third.obs[0], [3.0])


def test_the_steps_before_a_first_round_belong_to_nothing():
    steps = empty_steps(Setup(RELATIVE, Box((-1.0,) * 3, (1.0,) * 3), 5, TD3), 2)
    assert (steps.obs.shape, steps.subgoal.shape, steps.action.shape) == ((2, 5), (2, 1), (2, 3))
    assert steps.last.all()  # each is a window of its own
    assert not steps.clock.any()


def _aimed(target, rewards, ends=(), truncated=False):
    """Three steps of one window on the line, from 0 to 3; observations end with the target."""
    window = _trajectory(ends, rewards, truncated=truncated)
    seen = lambda obs: jnp.concatenate([obs, jnp.full((3, 1), target)], axis=1)  # noqa: E731
    return jax.tree.map(lambda leaf: leaf[None], window._replace(obs=seen(window.obs), next_obs=seen(window.next_obs)))


def _told(window, point, ending=True, where=True, inside=(True, True, True)):
    """The window of `_aimed` with another target, which pays 5 within half a step of it, and ends the episode if `ending`."""

    def outcome(points, targets):
        near = jnp.abs(points - targets)[..., 0] < 0.5
        return jnp.where(near, 5.0, 0.0), near & ending

    space = LINE._replace(context=1)
    told = with_targets(window, jnp.array([inside]), jnp.array([[float(point)]]), jnp.array([where]), space, outcome)
    return manager_window(*told, CFG).whole


def test_a_window_with_another_target_is_paid_by_it():
    whole = _told(_aimed(9.0, [0, 0, 0]), 3.0)
    assert whole.obs.tolist() == [[0.0, 3.0]]
    assert whole.next_obs.tolist() == [[3.0, 3.0]]
    assert (whole.reward.tolist(), whole.bootstrap.tolist()) == ([5.0], [False])
    assert whole.action.tolist() == [[100.0]]  # the subgoal stays


def test_a_window_ends_where_another_target_is_reached_first():
    whole = _told(_aimed(9.0, [0, 0, 0]), 1.0)
    assert (whole.reward.tolist(), whole.bootstrap.tolist()) == ([5.0], [False])
    goes_on = _told(_aimed(9.0, [0, 0, 0]), 1.0, ending=False)
    assert (goes_on.reward.tolist(), goes_on.bootstrap.tolist()) == ([5.0], [True])


def test_a_window_that_ended_at_its_target_goes_on_with_another_one():
    whole = _told(_aimed(3.0, [0, 0, 5], ends=[2]), 7.0)
    assert (whole.reward.tolist(), whole.bootstrap.tolist()) == ([0.0], [True])


@pytest.mark.parametrize("truncated", [False, True])
def test_other_ends_remain_with_another_target(truncated):
    """A fall, or the end of time, at a place that is not the target."""
    whole = _told(_aimed(9.0, [0, 0, -1], ends=[2], truncated=truncated), 7.0)
    assert (whole.reward.tolist(), whole.bootstrap.tolist()) == ([0.0], [False])


def test_steps_after_the_end_of_a_short_window_count_for_nothing_with_another_target():
    """The window has one step, which ended somewhere else. It is repeated, as `sample_windows` does."""
    window = jax.tree.map(lambda leaf: leaf[:, [0, 0, 0]], _aimed(9.0, [2, 0, 0], ends=[0]))
    whole = _told(window, 1.0, ending=False, inside=(True, False, False))
    assert (whole.reward.tolist(), whole.bootstrap.tolist()) == ([5.0], [False])


def test_windows_that_are_not_chosen_keep_their_target():
    window = _aimed(9.0, [1, 2, 3], ends=[2])
    kept, before = _told(window, 1.0, where=False), manager_window(window, jnp.ones((1, 3), bool), CFG).whole
    jax.tree.map(np.testing.assert_array_equal, kept, before)
