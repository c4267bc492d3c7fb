import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrac.agents import continuous
from hrac.agents.continuous import ActionBox, Stretch
from hrac.agents.hierarchy import manager_settings
from hrac.agents.subgoals import SubgoalSpace
from hrac.agents.td3 import Settings, Transition
from hrac.agents.windows import Trajectory, fall_costs
from hrac.config import replace
from hrac.experiments import tasks
from hrac.nets import MLP

TORQUES = ActionBox((-30.0,) * 8, (30.0,) * 8)
ANT_SPACE = SubgoalSpace(True, (-4.0, -4.0), (20.0, 20.0), reach=10.0, sees_position=False)
CONFIG = tasks.config_for("ant-maze", "hrac")
LINE = SubgoalSpace(True, (0.0,), (10.0,), reach=5.0)
PUSH = ActionBox((-1.0,), (1.0,))


def test_the_correction_chooses_what_the_published_code_chooses(golden):
    data = golden("losses")
    layers = [f"controller_actor.l{layer}" for layer in (1, 2, 3)]
    controller = MLP(
        tuple(jnp.asarray(data[f"{layer}.weight"].T) for layer in layers),
        tuple(jnp.asarray(data[f"{layer}.bias"]) for layer in layers),
    )
    states = jnp.asarray(data["states"], jnp.float32)
    nothing = jnp.zeros(len(states))
    window = Transition(
        states[:, 0], jnp.asarray(data["subgoals"], jnp.float32), nothing, states[:, -1], jnp.ones(len(states), bool)
    )
    actions = jnp.asarray(data["actions"], jnp.float32)
    stretches = Stretch(window, states[:, :-1], actions, jnp.ones(actions.shape[:2], bool))
    draws = jnp.asarray(data["random_candidates"], jnp.float32)
    chosen = continuous.correct(draws, controller, stretches, ANT_SPACE, TORQUES)
    np.testing.assert_allclose(chosen, data["chosen"], rtol=1e-5, atol=1e-5)


def _line_stretch(inside):
    """A point at 0, 1, 2 that was asked to go to 2 and did as the controller of `_follow` does for a subgoal of 3."""
    obs = jnp.array([[0.0], [1.0], [2.0]])
    window = Transition(obs[0], jnp.array([2.0]), jnp.zeros(()), jnp.array([3.0]), jnp.asarray(True))
    action = jnp.tanh(jnp.array([[3.0], [2.0], [-4.0]]))  # the third step did something else
    return Stretch(window, obs, action, jnp.array([True, True, inside]))


_follow = MLP((jnp.array([[0.0], [1.0]]),), (jnp.zeros(1),))
"""Pushes by tanh of its subgoal, whatever it sees."""


def test_the_correction_looks_only_at_the_steps_there_were():
    """Of the stored 2, the achieved 3 and a drawn -1.

    Subgoals seen from 0, 1, 2 are g, g - 1, g - 2. For 3 the pushes asked for are tanh of 3, 2, 1: the first two are those
    made, so 3 wins without the third step. With it (-4 was made) the errors of the third are 4.0 (stored: tanh 0, so 1.0;
    drawn: tanh -3, so 0.0), and of the first two: stored 0.001 + 0.041, drawn 3.1 + 3.7: the stored one wins.
    """
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), _line_stretch(False), _line_stretch(True))
    chosen = continuous.correct(jnp.full((2, 1, 1), -1.0), _follow, both, LINE, PUSH)
    np.testing.assert_array_equal(chosen, [[3.0], [2.0]])


def test_random_candidates_are_spread_by_half_the_range_around_the_displacement():
    n = 4000
    batch = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], n, axis=0), _line_stretch(True))
    cfg = replace(CONFIG, {"manager.correction_candidates": 1})
    wide = LINE._replace(reach=1000.0)
    drawn = continuous.draw_candidates(jax.random.key(0), batch, wide, cfg)[:, 0, 0]
    np.testing.assert_allclose([drawn.mean(), drawn.std()], [3.0, 500.0], rtol=0.05, atol=25.0)  # displacement 3, 0.5 * 1000
    clipped = continuous.draw_candidates(jax.random.key(0), batch, LINE, cfg)
    assert clipped.max() == 5.0
    assert clipped.min() == -5.0


def _trajectory(last, terminated=(False,) * 4, truncated=(False,) * 4):
    """Two steps of tail, then steps from 0, 1, 3 with subgoal 4, 3, 1 and actions 0.1, 0.2, ..."""
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


@pytest.mark.parametrize("ends_with_window", [False, True])
def test_a_step_of_the_controller_by_hand(ends_with_window):
    cfg = replace(CONFIG, {"k": 2, "controller.ends_with_window": ends_with_window})
    steps = continuous.controller_transitions(_trajectory((False, True, False, True), (False, False, False, True)), LINE, cfg)
    np.testing.assert_allclose(steps.obs, [[0.0, 4.0], [1.0, 3.0], [3.0, 1.0], [3.5, 0.5]])  # what it saw, and its subgoal
    np.testing.assert_allclose(
        steps.next_obs, [[1.0, 3.0], [3.0, 1.0], [3.5, 0.5], [4.0, 0.0]]
    )  # the same point, seen from there
    np.testing.assert_allclose(steps.reward, [-3.0, -1.0, -0.5, -0.0])  # minus the distance left to the point 4
    expected = [True, not ends_with_window, True, False]  # the last one terminated
    np.testing.assert_array_equal(steps.bootstrap, expected)


def test_a_step_that_ends_on_the_back_costs_the_penalty():
    """The steps end at 1, 3, 3.5 and 4, and 3, 1, 0.5 and 0 from the point 4; those beyond 3.2 are said to have fallen."""
    space = LINE._replace(fallen=lambda obs: obs[..., 0] > 3.2)
    cfg = replace(CONFIG, {"k": 2, "controller.fallen_penalty": 2.0})
    trajectory = _trajectory((False, True, False, True))
    np.testing.assert_allclose(fall_costs(trajectory, space, cfg)[2:], [0.0, 0.0, 2.0, 2.0])
    steps = continuous.controller_transitions(trajectory, space, cfg)
    np.testing.assert_allclose(steps.reward, [-3.0, -1.0, -2.5, -2.0])


def test_nothing_is_bootstrapped_past_the_time_limit():
    trajectory = _trajectory((False, True, False, True), truncated=(False, True, False, False))
    steps = continuous.controller_transitions(trajectory, LINE, replace(CONFIG, {"k": 2}))
    np.testing.assert_array_equal(steps.bootstrap, [True, False, True, True])


def test_both_levels_have_the_settings_of_the_configuration():
    cfg = replace(
        CONFIG,
        {
            "manager.reward_scale": 0.3,
            "manager.critic_weight_decay": 2e-4,
            "manager.target_noise_sigma": 0.4,
            "manager.target_noise_clip": 0.6,
            "controller.reward_scale": 0.2,
            "controller.output_penalty": 1e-3,
            "controller.critic_weight_decay": 3e-4,
            "controller.target_noise_sigma": 0.5,
            "controller.target_noise_clip": 0.7,
        },
    )
    manager = Settings((300, 300), 1e-4, 1e-3, 0.005, 0.99, 0.3, 20.0, True, 2e-4, 0.4, 0.6)
    controller = Settings((300, 300), 1e-4, 1e-3, 0.005, 0.95, 0.2, 0.0, True, 3e-4, 0.5, 0.7, 1e-3)
    assert manager_settings(cfg) == manager
    assert continuous.controller_settings(cfg) == controller


def test_a_stretch_has_its_windows_steps_and_no_others():
    cfg = replace(CONFIG, {"k": 2})
    stretches, ended = continuous.stretches(_trajectory((False, True, True, True)), cfg)
    np.testing.assert_array_equal(ended, [False, True, True, True])
    second, third = (jax.tree.map(lambda leaf, i=i: leaf[i], stretches) for i in (1, 2))
    np.testing.assert_allclose(second.obs[:, 0], [0.0, 1.0])
    np.testing.assert_allclose(second.action[:, 0], [0.1, 0.2])
    np.testing.assert_array_equal(second.inside, [True, True])
    assert second.window.reward == 3.0
    np.testing.assert_array_equal(third.inside, [True, False])  # it ended after one step
    assert third.window.reward == 4.0
    np.testing.assert_allclose(third.obs[0], [3.0])


def test_the_controller_does_not_see_where_it_is_nor_the_target():
    space = ANT_SPACE._replace(context=2)
    obs = jnp.arange(1.0, 33.0)
    seen = space.controller_input(obs, jnp.array([7.0, 8.0]))
    np.testing.assert_allclose(seen, [0.0, 0.0, *np.arange(3.0, 31.0), 7.0, 8.0])


def test_actions_are_squashed_to_their_range():
    box = ActionBox((-30.0, 0.0), (30.0, 10.0))
    np.testing.assert_allclose(box.squash(jnp.array([0.0, 0.0])), [0.0, 5.0])
    np.testing.assert_allclose(box.squash(jnp.array([100.0, -100.0])), [30.0, 0.0])
