"""The manager's learner: TD3 over windows of k steps, with the adjacency loss in its actor (Eq. 12, 13).

On the grid worlds, as in the published code: squared error, no target smoothing, targets moved after every update, the
actor's value term (by the first critic) every `value_every_gradient_steps` updates and its adjacency term at each.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from hrac.agents.subgoals import SubgoalSpace
from hrac.config import ManagerConfig
from hrac.nets import MLP, descend, soft_update

Metrics = dict[str, Array]
Distance = Callable[[Float[Array, " goal"], Float[Array, " goal"]], Float[Array, ""]]


class Window(NamedTuple):
    """The manager's transition: one subgoal and what became of it, over k steps or fewer where the episode ended."""

    obs: Float[Array, "*n obs"]
    subgoal: Float[Array, "*n goal"]
    reward: Float[Array, "*n"]
    next_obs: Float[Array, "*n obs"]
    bootstrap: Bool[Array, "*n"]
    """Whether the value of `next_obs` counts: the episode went on."""


Twins = tuple[MLP, MLP]


class TD3State(NamedTuple):
    """Actor, twin critics, their slow copies and the optimisers' states."""

    actor: MLP
    critics: Twins
    target_actor: MLP
    target_critics: Twins
    actor_opt: optax.OptState
    critic_opt: optax.OptState


def init(key: PRNGKeyArray, obs_dim: int, space: SubgoalSpace, cfg: ManagerConfig) -> TD3State:
    """Untrained networks."""
    key_actor, key_critics = jax.random.split(key)
    actor = MLP.init(key_actor, (obs_dim, *cfg.hidden, space.dimensions))
    sizes = (obs_dim + space.dimensions, *cfg.hidden, 1)
    key_first, key_second = jax.random.split(key_critics)
    critics = (MLP.init(key_first, sizes), MLP.init(key_second, sizes))
    return TD3State(
        actor=actor,
        critics=critics,
        target_actor=jax.tree.map(jnp.copy, actor),  # donated buffers must not be shared
        target_critics=jax.tree.map(jnp.copy, critics),
        actor_opt=_actor_optimiser(cfg).init(actor),
        critic_opt=_critic_optimiser(cfg).init(critics),
    )


def _actor_optimiser(cfg: ManagerConfig) -> optax.GradientTransformation:
    return optax.adam(cfg.actor_learning_rate)


def _critic_optimiser(cfg: ManagerConfig) -> optax.GradientTransformation:
    return optax.adam(cfg.critic_learning_rate)


def act(actor: MLP, obs: Float[Array, " obs"], space: SubgoalSpace) -> Float[Array, " goal"]:
    """The subgoal proposed, without noise."""
    return space.squash(actor(obs))


def value(critic: MLP, obs: Float[Array, " obs"], subgoal: Float[Array, " goal"]) -> Float[Array, ""]:
    """A critic's value of a subgoal."""
    return critic(jnp.concatenate([obs, subgoal]))[0]


def critic_target(state: TD3State, window: Window, space: SubgoalSpace, cfg: ManagerConfig) -> Float[Array, ""]:
    """y = r + gamma min_i Q'_i(s', pi'(s')), without the second term where the episode ended."""
    next_subgoal = act(state.target_actor, window.next_obs, space)
    first, second = (value(critic, window.next_obs, next_subgoal) for critic in state.target_critics)
    return cfg.reward_scale * window.reward + cfg.discount * jnp.where(window.bootstrap, jnp.minimum(first, second), 0.0)


def critic_loss(critics: Twins, targets: Float[Array, " batch"], batch: Window) -> tuple[Float[Array, ""], Metrics]:
    """Squared error of both critics, summed over the two."""
    first, second = (jax.vmap(value, (None, 0, 0))(critic, batch.obs, batch.subgoal) for critic in critics)
    loss = jnp.mean((first - targets) ** 2) + jnp.mean((second - targets) ** 2)
    return loss, {"manager/critic_loss": loss, "manager/value": jnp.mean(first)}


def actor_loss(
    actor: MLP, critic: MLP, distance: Distance, batch: Window, space: SubgoalSpace, cfg: ManagerConfig, with_value: bool
) -> tuple[Float[Array, ""], Metrics]:
    """Minus the value of the proposed subgoal, plus eta times how far it leaves the k-step region (Eq. 12, 13).

    The second term is  max(||psi(phi(s)) - psi(g)|| - eps_k, 0).
    """

    def one(window: Window) -> tuple[Array, Array]:
        subgoal = act(actor, window.obs, space)
        worth = value(critic, window.obs, subgoal) if with_value else jnp.zeros(())
        position = space.phi(window.obs)
        too_far = jax.nn.relu(distance(position, space.target(subgoal, position)) - cfg.hinge)
        return worth, too_far

    worth, too_far = jax.tree.map(jnp.mean, jax.vmap(one)(batch))
    return -worth + cfg.eta * too_far, {"manager/too_far": too_far}


def update_critics(state: TD3State, batch: Window, space: SubgoalSpace, cfg: ManagerConfig) -> tuple[TD3State, Metrics]:
    """One gradient step of both critics."""
    targets = jax.vmap(lambda window: critic_target(state, window, space, cfg))(batch)
    grads, metrics = jax.grad(critic_loss, has_aux=True)(state.critics, targets, batch)
    critics, critic_opt = descend(_critic_optimiser(cfg), grads, state.critic_opt, state.critics)
    return state._replace(critics=critics, critic_opt=critic_opt), metrics


def update_actor(
    state: TD3State, distance: Distance, batch: Window, with_value: bool, space: SubgoalSpace, cfg: ManagerConfig
) -> tuple[TD3State, Metrics]:
    """One gradient step of the actor, with its value term or without; none if no term is left."""
    arguments = (state.actor, state.critics[0], distance, batch, space, cfg, with_value)
    grads, metrics = jax.grad(actor_loss, has_aux=True)(*arguments)
    if with_value or cfg.eta > 0:
        actor, actor_opt = descend(_actor_optimiser(cfg), grads, state.actor_opt, state.actor)
        state = state._replace(actor=actor, actor_opt=actor_opt)
    return state, metrics


def update(
    state: TD3State, distance: Distance, batch: Window, with_value: bool, space: SubgoalSpace, cfg: ManagerConfig
) -> tuple[TD3State, Metrics]:
    """One update: critics, actor, then both targets."""
    state, critic_metrics = update_critics(state, batch, space, cfg)
    state, actor_metrics = update_actor(state, distance, batch, with_value, space, cfg)
    state = state._replace(
        target_actor=soft_update(state.target_actor, state.actor, cfg.soft_update_rate),
        target_critics=soft_update(state.target_critics, state.critics, cfg.soft_update_rate),
    )
    return state, critic_metrics | actor_metrics
