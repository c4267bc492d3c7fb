"""TD3, for any level whose action is a bounded vector: the manager over windows of k steps, the ants' controller over steps.

    y = c r + gamma min_i Q'_i(s', pi'(s') + noise)         the second term only where `bootstrap`
    critics: error of both against y                        squared, or Huber
    actor:  -Q_1(s, pi(s)) + w max(excess, 0) + v z^2       the manager's excess is that of the adjacency loss (Eq. 12, 13)

z is the actor's output before it is squashed into an action; the paper has no such term (v = 0). The first term may be brought
to the scale of the second, the actor may look around for a better action, and critics may have layer norms (not in the paper).
Only the manager has settings for these.

Both critics, the actor and all slow copies are updated at every call. Levels and tasks differ in `Settings` only.

On an accelerator the two critics are `joined` while a round is learned from: half as many small products are faster there.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from hrac.nets import MLP, descend, soft_update

SATURATED = 0.95
FLAT = 1e-6
"""Values and slopes below this are taken for it when something is divided by them."""
Metrics = dict[str, Array]
Excess = Callable[[Float[Array, " obs"], Float[Array, " action"]], Float[Array, ""]]
"""How far an action lies beyond what is allowed; below 0 if it does not. What is beyond is penalised."""
Worth = Callable[[Float[Array, " action"]], Float[Array, ""]]
"""What an action is worth in a state."""
SEARCH = 1
"""Folded into the key of an update, for the noise of the search."""


@runtime_checkable
class Range(Protocol):
    """The range of a level's actions."""

    def squash(self, raw: Float[Array, " action"]) -> Float[Array, " action"]:
        """A network's output as an action."""
        ...

    def bounds(self, like: Float[Array, " action"]) -> tuple[Float[Array, " action"], Float[Array, " action"]]:
        """Lowest and highest action."""
        ...


class Settings(NamedTuple):
    """The settings of TD3; see `ManagerConfig` and `ControllerConfig`."""

    hidden: tuple[int, ...]
    actor_learning_rate: float
    critic_learning_rate: float
    soft_update_rate: float
    discount: float
    reward_scale: float = 1.0
    penalty_weight: float = 0.0
    huber: bool = False
    critic_weight_decay: float = 0.0
    target_noise_sigma: float = 0.0
    target_noise_clip: float = 0.0
    output_penalty: float = 0.0
    layer_norm: bool = False
    value_scale: str = "plain"
    pull_weight: float = 0.0
    search_candidates: int = 0
    search_sigma: float | tuple[float, ...] = 1.0


class Transition(NamedTuple):
    """One decision and its result."""

    obs: Float[Array, "*n obs"]
    action: Float[Array, "*n action"]
    reward: Float[Array, "*n"]
    next_obs: Float[Array, "*n obs"]
    bootstrap: Bool[Array, "*n"]
    """Whether the value of `next_obs` counts: not at an end."""


Twins = tuple[MLP, MLP] | MLP
"""Two critics: a pair, or one network whose arrays have a leading axis of two."""


class TD3State(NamedTuple):
    """Actor, twin critics, their slow copies and the optimisers' states."""

    actor: MLP
    critics: Twins
    target_actor: MLP
    target_critics: Twins
    actor_opt: optax.OptState
    critic_opt: optax.OptState


def init(key: PRNGKeyArray, obs_dim: int, action_dim: int, settings: Settings) -> TD3State:
    """Untrained networks."""
    key_actor, key_critics = jax.random.split(key)
    actor = MLP.init(key_actor, (obs_dim, *settings.hidden, action_dim))
    sizes = (obs_dim + action_dim, *settings.hidden, 1)
    key_first, key_second = jax.random.split(key_critics)
    critics = (MLP.init(key_first, sizes, settings.layer_norm), MLP.init(key_second, sizes, settings.layer_norm))
    return TD3State(
        actor=actor,
        critics=critics,
        target_actor=jax.tree.map(jnp.copy, actor),  # donated buffers must not be shared
        target_critics=jax.tree.map(jnp.copy, critics),
        actor_opt=_actor_optimiser(settings).init(actor),
        critic_opt=_critic_optimiser(settings).init(critics),
    )


def joined(state: TD3State) -> TD3State:
    """The same state with its pairs of critics as one network each, also where its optimiser keeps numbers for them."""

    def join(node: Any) -> Any:
        return jax.tree.map(lambda *two: jnp.stack(two), *node) if _is_pair(node) else node

    return _with_critics(state, join, _is_pair)


def apart(state: TD3State) -> TD3State:
    """The inverse of `joined`."""

    def part(node: Any) -> Any:
        return (_one_of(node, 0), _one_of(node, 1)) if isinstance(node, MLP) else node

    return _with_critics(state, part, lambda node: isinstance(node, MLP))


def _is_pair(node: Any) -> bool:
    return isinstance(node, tuple) and len(node) == 2 and all(isinstance(one, MLP) for one in node)


def _with_critics(state: TD3State, change: Callable[[Any], Any], is_leaf: Callable[[Any], bool]) -> TD3State:
    """The state with its critics, their slow copies and their optimiser's numbers changed."""
    parts = (state.critics, state.target_critics, state.critic_opt)
    critics, slow, opt = (jax.tree.map(change, part, is_leaf=is_leaf) for part in parts)
    return state._replace(critics=critics, target_critics=slow, critic_opt=opt)


def with_fast_critics(updates: Callable[[TD3State], tuple[TD3State, Metrics]], state: TD3State) -> tuple[TD3State, Metrics]:
    """What the updates make of a state, made with its critics in the form that is fastest on this kind of device."""
    if jax.default_backend() == "cpu":
        return updates(state)
    learned, metrics = updates(joined(state))
    return apart(learned), metrics


def _one_of(critics: Twins, number: int) -> MLP:
    """One of two critics."""
    return jax.tree.map(lambda leaf: leaf[number], critics) if isinstance(critics, MLP) else critics[number]


def first_of(critics: Twins) -> MLP:
    """The critic that the actor learns from."""
    return _one_of(critics, 0)


def _actor_optimiser(settings: Settings) -> optax.GradientTransformation:
    return optax.adam(settings.actor_learning_rate)


def _critic_optimiser(settings: Settings) -> optax.GradientTransformation:
    adam = optax.adam(settings.critic_learning_rate)
    if settings.critic_weight_decay == 0:
        return adam
    return optax.chain(optax.add_decayed_weights(settings.critic_weight_decay), adam)  # L2, as PyTorch's Adam has it


def act(actor: MLP, obs: Float[Array, " obs"], actions: Range) -> Float[Array, " action"]:
    """The actor's choice, without noise."""
    return actions.squash(actor(obs))


def value(critic: MLP, obs: Float[Array, " obs"], action: Float[Array, " action"]) -> Float[Array, ""]:
    """A critic's value of an action."""
    return critic(jnp.concatenate([obs, action]))[0]


def values(critics: Twins, obs: Float[Array, " obs"], action: Float[Array, " action"]) -> tuple[Array, Array]:
    """Both critics' values of an action."""
    if isinstance(critics, MLP):
        first, second = jax.vmap(value, (0, None, None))(critics, obs, action)
        return first, second
    return value(critics[0], obs, action), value(critics[1], obs, action)


def saturation(action: Float[Array, "*n action"], actions: Range) -> Float[Array, ""]:
    """The share of an action's numbers that are in the outer twentieth of their range, where tanh has almost no gradient."""
    low, high = actions.bounds(action)
    return jnp.mean((jnp.abs(action - (low + high) / 2) > SATURATED * (high - low) / 2).astype(jnp.float32))


def squared_output(actor: MLP, obs: Float[Array, "batch obs"]) -> Float[Array, ""]:
    """Mean square of the actor's outputs before they are squashed. It is large where actions are near their limits."""
    return jnp.mean(actor(obs) ** 2)


def critic_target(
    noise: Float[Array, " action"], state: TD3State, step: Transition, actions: Range, settings: Settings
) -> Float[Array, ""]:
    """y = c r + gamma min_i Q'_i(s', pi'(s') + noise), without the second term unless `bootstrap`."""
    next_action = act(state.target_actor, step.next_obs, actions)
    if settings.target_noise_sigma > 0:
        next_action = jnp.clip(next_action + noise, *actions.bounds(noise))
    first, second = values(state.target_critics, step.next_obs, next_action)
    after = jnp.where(step.bootstrap, jnp.minimum(first, second), 0.0)
    return settings.reward_scale * step.reward + settings.discount * after


def critic_loss(
    critics: Twins, targets: Float[Array, " batch"], batch: Transition, huber: bool = False
) -> tuple[Float[Array, ""], Metrics]:
    """Error of both critics, summed over the two."""
    first, second = jax.vmap(values, (None, 0, 0))(critics, batch.obs, batch.action)
    error = optax.huber_loss if huber else (lambda q, y: (q - y) ** 2)
    loss = jnp.mean(error(first, targets)) + jnp.mean(error(second, targets))
    return loss, {"critic_loss": loss, "value": jnp.mean(first)}


def slopes(
    actor: MLP, critic: MLP, obs: Float[Array, "batch obs"], actions: Range, excess: Excess
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """How steeply the value and the excess rise with the action where the actor chooses it: mean lengths of gradients."""

    def lengths(obs: Array) -> tuple[Array, Array]:
        action = act(actor, obs, actions)
        by_value, by_excess = jax.grad(value, argnums=2)(critic, obs, action), jax.grad(excess, argnums=1)(obs, action)
        return jnp.linalg.norm(by_value), jnp.linalg.norm(by_excess)

    of_value, of_excess = map(jnp.mean, jax.vmap(lengths)(obs))
    return of_value, of_excess


def value_factors(
    actor: MLP, critic: MLP, obs: Float[Array, "batch obs"], actions: Range, excess: Excess | None, settings: Settings
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """What the value of the actor's choice is multiplied by, and what it is divided by, taken as constants.

    With the `value_scale` "mean" it is divided by its mean absolute value over the minibatch, with "slope" multiplied so that
    it rises as steeply as the excess does, by the `slopes` over the minibatch. It then weighs the same, whatever the rewards.
    """
    times, by = jnp.ones(()), jnp.ones(())
    if settings.value_scale == "mean":
        by = jnp.mean(jnp.abs(jax.vmap(lambda obs: value(critic, obs, act(actor, obs, actions)))(obs)))
    elif settings.value_scale == "slope" and excess is not None:
        by, times = slopes(actor, critic, obs, actions, excess)
    return jax.lax.stop_gradient(times), jax.lax.stop_gradient(jnp.maximum(by, FLAT))


def better_action(
    own: Float[Array, " action"], noise: Float[Array, "candidates action"], worth: Worth, actions: Range
) -> Float[Array, " action"]:
    """The action that is worth most: `own`, or one of those that noise makes of it."""
    around = jax.vmap(lambda each: jnp.clip(own + each, *actions.bounds(own)))(noise)
    worths = jax.vmap(worth)(around)
    best = jnp.argmax(worths)
    return jnp.where(worths[best] > worth(own), around[best], own)


def actor_loss(
    actor: MLP,
    critic: MLP,
    batch: Transition,
    actions: Range,
    excess: Excess | None,
    settings: Settings,
    with_value: bool = True,
    pull: Excess | None = None,
    noise: Float[Array, "batch candidates action"] | None = None,
) -> tuple[Float[Array, ""], Metrics]:
    """Minus the value of the chosen action, plus the weighted penalty on it, plus the weighted penalty on the raw output, plus
    the weighted `pull`.

    With `noise` also the squared distance from a `better_action`, in units of `search_sigma`: the one of most value among those
    without penalty. So the actor finds one that does not lie uphill, as beyond a wall.
    """
    times, by = value_factors(actor, critic, batch.obs, actions, excess, settings) if with_value else (0.0, 1.0)

    def value_and_penalty(obs: Array, action: Array) -> tuple[Array, Array]:
        chosen_value = value(critic, obs, action) if with_value else jnp.zeros(())
        return chosen_value, jnp.zeros(()) if excess is None else jax.nn.relu(excess(obs, action))

    def terms(obs: Array) -> tuple[Array, ...]:
        action = act(actor, obs, actions)
        return *value_and_penalty(obs, action), saturation(action, actions)

    def worth(obs: Array, action: Array) -> Array:
        chosen_value, penalty = value_and_penalty(obs, action)
        return jnp.where(penalty > 0, -jnp.inf, chosen_value)

    def apart(obs: Array, noise: Array) -> Array:
        own = act(actor, obs, actions)
        better = better_action(jax.lax.stop_gradient(own), noise, lambda action: worth(obs, action), actions)
        return jnp.sum(((own - better) / jnp.asarray(settings.search_sigma, own.dtype)) ** 2)

    mean_value, penalised, saturated = map(jnp.mean, jax.vmap(terms)(batch.obs))
    loss = -mean_value * times / by + settings.penalty_weight * penalised
    metrics = {"saturation": saturated} | ({} if excess is None else {"penalty": penalised})
    if with_value and noise is not None:
        squared = jnp.mean(jax.vmap(apart)(batch.obs, noise))
        loss, metrics["search_distance"] = loss + squared, jnp.sqrt(squared)
    if pull is not None:
        away = jnp.mean(jax.vmap(lambda obs: pull(obs, act(actor, obs, actions)))(batch.obs))
        loss, metrics["off_the_way"] = loss + settings.pull_weight * away, away
    if settings.output_penalty > 0:
        loss = loss + settings.output_penalty * squared_output(actor, batch.obs)
    return loss, metrics


def update_critics(
    key: PRNGKeyArray, state: TD3State, batch: Transition, actions: Range, settings: Settings
) -> tuple[TD3State, Metrics]:
    """One gradient step of both critics."""
    noise = jnp.zeros_like(batch.action)
    if settings.target_noise_sigma > 0:
        clip = settings.target_noise_clip
        noise = jnp.clip(settings.target_noise_sigma * jax.random.normal(key, noise.shape), -clip, clip)
    targets = jax.vmap(lambda noise, step: critic_target(noise, state, step, actions, settings))(noise, batch)
    grads, metrics = jax.grad(critic_loss, has_aux=True)(state.critics, targets, batch, settings.huber)
    critics, critic_opt = descend(_critic_optimiser(settings), grads, state.critic_opt, state.critics)
    return state._replace(critics=critics, critic_opt=critic_opt), metrics


def update_actor(
    state: TD3State,
    batch: Transition,
    actions: Range,
    excess: Excess | None,
    settings: Settings,
    with_value: bool = True,
    pull: Excess | None = None,
    noise: Float[Array, "batch candidates action"] | None = None,
) -> tuple[TD3State, Metrics]:
    """One gradient step of the actor, with or without its value term; none if no term is left."""
    terms = (excess, settings, with_value, pull, noise)
    grads, metrics = jax.grad(actor_loss, has_aux=True)(state.actor, first_of(state.critics), batch, actions, *terms)
    penalised = excess is not None and settings.penalty_weight > 0
    if with_value or penalised or pull is not None or settings.output_penalty > 0:
        actor, actor_opt = descend(_actor_optimiser(settings), grads, state.actor_opt, state.actor)
        state = state._replace(actor=actor, actor_opt=actor_opt)
    return state, metrics


def update(
    key: PRNGKeyArray,
    state: TD3State,
    batch: Transition,
    actions: Range,
    excess: Excess | None,
    settings: Settings,
    with_value: bool = True,
    pull: Excess | None = None,
) -> tuple[TD3State, Metrics]:
    """One update: critics, actor, then all targets."""
    state, critic_metrics = update_critics(key, state, batch, actions, settings)
    noise = None
    if settings.search_candidates > 0:
        shape = (len(batch.obs), settings.search_candidates, batch.action.shape[-1])
        sigma = jnp.broadcast_to(jnp.asarray(settings.search_sigma, batch.action.dtype), shape)
        noise = sigma * jax.random.normal(jax.random.fold_in(key, SEARCH), shape)
    state, actor_metrics = update_actor(state, batch, actions, excess, settings, with_value, pull, noise)
    state = state._replace(
        target_actor=soft_update(state.target_actor, state.actor, settings.soft_update_rate),
        target_critics=soft_update(state.target_critics, state.critics, settings.soft_update_rate),
    )
    return state, critic_metrics | actor_metrics
