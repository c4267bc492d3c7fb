"""The controller's learner for discrete actions: A2C on the intrinsic reward, within the window of one subgoal.

Returns are summed to the end of the window and not bootstrapped past it, as in the published code: a window is an episode of
at most k steps. With `bootstraps`, the critic's value of the state after the window counts too.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from hrac.nets import MLP, descend
from hrac.settings import A2C

Metrics = dict[str, Array]


class Beyond(NamedTuple):
    """What follows a window: the controller's input after its last step, and the weight of its value in the return."""

    seen: Float[Array, "*n seen"]
    weight: Float[Array, "*n"]
    """discount^steps until then; 0 if the episode ended."""


class ControllerStep(NamedTuple):
    """One step of the controller: its input, its action and its return until the end of the window."""

    seen: Float[Array, "*n seen"]
    """Its input: the part of the observation that it may see, then the subgoal."""
    action: Int[Array, "*n"]
    ret: Float[Array, "*n"]
    valid: Bool[Array, "*n"]
    """Whether the step counts."""
    beyond: Beyond | None = None
    """None: nothing past the end of the window counts."""


class A2CState(NamedTuple):
    """Actor, critic and the optimiser's state."""

    actor: MLP
    critic: MLP
    opt_state: optax.OptState


def init(key: PRNGKeyArray, inputs: int, num_actions: int, cfg: A2C) -> A2CState:
    """Untrained networks."""
    key_actor, key_critic = jax.random.split(key)
    actor = MLP.init(key_actor, (inputs, *cfg.hidden, num_actions))
    critic = MLP.init(key_critic, (inputs, *cfg.hidden, 1))
    return A2CState(actor, critic, _optimiser(cfg).init((actor, critic)))


def _optimiser(cfg: A2C) -> optax.GradientTransformation:
    return optax.adam(cfg.learning_rate)


def returns_to_window_end(
    rewards: Float[Array, " time"], last: Bool[Array, " time"], discount: float, k: int
) -> Float[Array, " time"]:
    """R_t = sum of discount^i r_{t+i} up to the window's last step, for windows of at most k steps."""
    lag = jnp.arange(k)
    index = jnp.arange(len(rewards))[:, None] + lag[None, :]
    padded_rewards = jnp.pad(rewards, (0, k))
    ended = jnp.cumsum(jnp.pad(last, (0, k)).astype(jnp.int32)[index], axis=1)
    open_before = jnp.pad(ended[:, :-1], ((0, 0), (1, 0))) == 0
    weights = jnp.asarray(discount, jnp.float32) ** lag.astype(jnp.float32)
    return jnp.sum(jnp.where(open_before, padded_rewards[index], 0.0) * weights[None, :], axis=1)


def loss(networks: tuple[MLP, MLP], steps: ControllerStep, cfg: A2C) -> tuple[Float[Array, ""], Metrics]:
    """-A log pi(a|s,g) + A^2 - entropy_weight H(pi), with A = R - V(s,g), averaged over the valid steps."""
    actor, critic = networks

    def terms(step: ControllerStep) -> tuple[Array, Array, Array]:
        log_probs = jax.nn.log_softmax(actor(step.seen))
        ret = step.ret
        if step.beyond is not None:
            ret = ret + step.beyond.weight * jax.lax.stop_gradient(critic(step.beyond.seen)[0])
        advantage = ret - critic(step.seen)[0]
        entropy = -jnp.sum(jnp.exp(log_probs) * log_probs)
        return -jax.lax.stop_gradient(advantage) * log_probs[step.action], advantage**2, entropy

    weight = steps.valid.astype(jnp.float32) / jnp.maximum(jnp.sum(steps.valid), 1).astype(jnp.float32)
    policy_loss, value_loss, entropy = (jnp.sum(weight * term) for term in jax.vmap(terms)(steps))
    metrics = {"controller/policy_loss": policy_loss, "controller/value_loss": value_loss, "controller/entropy": entropy}
    return policy_loss + value_loss - cfg.entropy_weight * entropy, metrics


def update(state: A2CState, steps: ControllerStep, cfg: A2C) -> tuple[A2CState, Metrics]:
    """One gradient step over all steps."""
    networks = (state.actor, state.critic)
    grads, metrics = jax.grad(loss, has_aux=True)(networks, steps, cfg)
    (actor, critic), opt_state = descend(_optimiser(cfg), grads, state.opt_state, networks)
    return A2CState(actor, critic, opt_state), metrics
