"""HIRO's off-policy correction: the subgoal with which the present controller would best repeat the actions of a window."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from hrac.agents.decide import Setup
from hrac.agents.windows import Window
from hrac.nets import MLP


def draw_candidates(key: PRNGKeyArray, batch: Window, setup: Setup) -> Float[Array, "batch candidates goal"]:
    """Random subgoals around the displacements achieved: N(displacement, half the range), clipped to the range."""
    achieved = _achieved(batch, setup)
    shape = (len(achieved), setup.cfg.manager.correction_candidates, setup.space.goal_dim)
    noise = jax.random.normal(key, shape)
    low, high = setup.space.bounds(noise)
    spread = 0.25 * (high - low)  # half of the range to each side
    return jnp.clip(achieved[:, None, :] + spread * noise, low, high)


def correct(
    draws: Float[Array, "batch candidates goal"], controller: MLP, batch: Window, setup: Setup
) -> Float[Array, "batch goal"]:
    """The subgoals that best explain the actions in windows, given the present controller.

    Candidates are the stored subgoal, the displacement achieved, and `draws`. h updates each along the window. The one whose
    actions explain those taken best is chosen: by the squared error, or with discrete actions by the likelihood, of the window.
    """
    space, actions = setup.space, setup.actions
    assert space.relative, "h is a sum"
    candidates = jnp.concatenate([batch.whole.action[:, None], _achieved(batch, setup)[:, None], draws], axis=1)

    # The first layer is linear: W x = W_obs obs + W_goal (phi(s_0) - phi(s_t)) + W_goal candidate. Only the last term differs
    # between candidates, so the others are computed once.
    start = space.phi(batch.whole.obs)[:, None, :]
    origin = space.transition(jnp.zeros_like(space.phi(batch.obs)), start, space.phi(batch.obs))
    sums = controller.first(space.controller_input(batch.obs, origin))
    by_candidate = candidates @ controller.weights[0][-space.goal_dim :]

    def error(added: Array) -> Array:
        errors = actions.mismatch(controller.after_first(sums + added[:, None]), batch.action)
        return jnp.sum(jnp.where(batch.inside, errors, 0.0), axis=1)

    # A CPU's cache holds the activations of one candidate. An accelerator is faster with all candidates at once.
    at_once = 1 if jax.default_backend() == "cpu" else candidates.shape[1]
    errors = jax.lax.map(error, jnp.swapaxes(by_candidate, 0, 1), batch_size=at_once)
    return jax.vmap(lambda options, wrong: options[jnp.argmin(wrong)])(candidates, errors.T)


def _achieved(batch: Window, setup: Setup) -> Float[Array, "batch goal"]:
    return setup.space.phi(batch.whole.next_obs) - setup.space.phi(batch.whole.obs)
