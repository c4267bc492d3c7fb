import jax
import jax.numpy as jnp
import numpy as np

from hrac.agents import correction
from hrac.agents.decide import Setup
from hrac.agents.subgoals import SubgoalSpace
from hrac.agents.td3 import Transition
from hrac.agents.windows import Window
from hrac.config import replace
from hrac.experiments import tasks
from hrac.nets import MLP
from hrac.spaces import Box, Discrete

CONFIG = tasks.config_for("ant-maze")
ANT = Setup(
    SubgoalSpace(True, (-4.0, -4.0), (20.0, 20.0), reach=10.0, sees_position=False), Box((-30.0,) * 8, (30.0,) * 8), 30, CONFIG
)
LINE = Setup(SubgoalSpace(True, (0.0,), (10.0,), reach=5.0), Box((-1.0,), (1.0,)), 1, CONFIG)
CORRECT = jax.jit(correction.correct, static_argnums=3)


def test_the_correction_chooses_what_the_published_code_chooses(golden):
    data = golden("losses")
    layers = [f"controller_actor.l{layer}" for layer in (1, 2, 3)]
    controller = MLP(
        tuple(jnp.asarray(data[f"{layer}.weight"].T) for layer in layers),
        tuple(jnp.asarray(data[f"{layer}.bias"]) for layer in layers),
    )
    states = jnp.asarray(data["states"], jnp.float32)
    nothing = jnp.zeros(len(states))
    whole = Transition(
        states[:, 0], jnp.asarray(data["subgoals"], jnp.float32), nothing, states[:, -1], jnp.ones(len(states), bool)
    )
    actions = jnp.asarray(data["actions"], jnp.float32)
    windows = Window(whole, states[:, :-1], actions, jnp.ones(actions.shape[:2], bool))
    draws = jnp.asarray(data["random_candidates"], jnp.float32)
    chosen = CORRECT(draws, controller, windows, ANT)
    np.testing.assert_allclose(chosen, data["chosen"], rtol=1e-5, atol=1e-5)


def _line_window(inside):
    """A point at 0, 1, 2 that was asked to go to 2 and did as the controller of `_follow` does for a subgoal of 3."""
    obs = jnp.array([[0.0], [1.0], [2.0]])
    whole = Transition(obs[0], jnp.array([2.0]), jnp.zeros(()), jnp.array([3.0]), jnp.asarray(True))
    action = jnp.tanh(jnp.array([[3.0], [2.0], [-4.0]]))  # the third step did something else
    return Window(whole, obs, action, jnp.array([True, True, inside]))


_follow = MLP((jnp.array([[0.0], [1.0]]),), (jnp.zeros(1),))
"""Pushes by tanh of its subgoal, whatever it sees."""


def test_the_correction_looks_only_at_the_steps_there_were():
    """Of the stored 2, the achieved 3 and a drawn -1.

    Subgoals seen from 0, 1, 2 are g, g - 1, g - 2. For 3 the pushes asked for are tanh of 3, 2, 1: the first two are those
    made, so 3 wins without the third step. With it (-4 was made) the errors of the third are 4.0 (stored: tanh 0, so 1.0;
    drawn: tanh -3, so 0.0), and of the first two: stored 0.001 + 0.041, drawn 3.1 + 3.7: the stored one wins.
    """
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), _line_window(False), _line_window(True))
    chosen = CORRECT(jnp.full((2, 1, 1), -1.0), _follow, both, LINE)
    np.testing.assert_array_equal(chosen, [[3.0], [2.0]])


def test_random_candidates_are_spread_by_half_the_range_around_the_displacement():
    n = 4000
    batch = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], n, axis=0), _line_window(True))
    line = LINE._replace(cfg=replace(CONFIG, {"manager.correction_candidates": 1}))
    wide = line._replace(space=line.space._replace(reach=1000.0))
    drawn = correction.draw_candidates(jax.random.key(0), batch, wide)[:, 0, 0]
    np.testing.assert_allclose([drawn.mean(), drawn.std()], [3.0, 500.0], rtol=0.05, atol=25.0)  # displacement 3, 0.5 * 1000
    clipped = correction.draw_candidates(jax.random.key(0), batch, line)
    assert clipped.max() == 5.0
    assert clipped.min() == -5.0


def test_with_discrete_actions_the_most_likely_explanation_is_chosen():
    """Two actions; the logit of the first is the subgoal as seen from the present position.

    From 0 and 1 the actions were 0 and 1. Minus the log-likelihood of a subgoal g is log(1 + exp(-g)) + log(1 + exp(g - 1)).
    Stored 3: 0.049 + 2.127 = 2.18. Achieved 2: 0.127 + 1.313 = 1.44. Drawn 0.5: 0.474 + 0.474 = 0.95. Drawn -1: 1.313 + 0.127.
    """
    logits = MLP((jnp.array([[0.0, 0.0], [1.0, 0.0]]),), (jnp.zeros(2),))
    obs = jnp.array([[[0.0], [1.0]]])
    whole = Transition(obs[:, 0], jnp.array([[3.0]]), jnp.zeros(1), jnp.array([[2.0]]), jnp.ones(1, bool))
    window = Window(whole, obs, jnp.array([[0, 1]]), jnp.ones((1, 2), bool))
    discrete = LINE._replace(actions=Discrete(2))
    np.testing.assert_array_equal(CORRECT(jnp.array([[[0.5], [-1.0]]]), logits, window, discrete), [[0.5]])
    np.testing.assert_array_equal(CORRECT(jnp.array([[[-3.0], [-1.1]]]), logits, window, discrete), [[2.0]])
