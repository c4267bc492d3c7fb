"""The manager: TD3 over windows of k steps, with the adjacency loss on subgoals (Eq. 12, 13) and off-policy correction."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from hrac.adjacency import network
from hrac.adjacency.network import Embedding
from hrac.adjacency.ways import NONE
from hrac.agents import td3
from hrac.agents.correction import correct, draw_candidates
from hrac.agents.decide import Setup, judged_adjacent
from hrac.agents.td3 import Excess, Metrics, Settings, TD3State, Transition
from hrac.agents.windows import Window
from hrac.config import Config
from hrac.nets import MLP


def init(key: PRNGKeyArray, setup: Setup) -> TD3State:
    """An untrained manager."""
    return td3.init(key, setup.obs_dim, setup.space.goal_dim, settings(setup.cfg))


def settings(cfg: Config) -> Settings:
    """The manager's TD3."""
    level = cfg.manager
    return Settings(
        hidden=level.hidden,
        actor_learning_rate=level.actor_learning_rate,
        critic_learning_rate=level.critic_learning_rate,
        soft_update_rate=level.soft_update_rate,
        discount=level.discount,
        reward_scale=level.reward_scale,
        penalty_weight=level.eta,
        pull_weight=level.way_pull,
        huber=level.critic_loss == "huber",
        critic_weight_decay=level.critic_weight_decay,
        target_noise_sigma=level.target_noise_sigma,
        target_noise_clip=level.target_noise_clip,
        output_penalty=level.output_penalty,
        layer_norm=level.critic_layer_norm,
        value_scale=level.value_scale,
        search_candidates=level.search_candidates,
        search_sigma=level.noise_sigma,
    )


def too_far(embedding: Embedding, setup: Setup) -> Excess:
    """How far a subgoal lies beyond the hinge,  ||psi(phi(s)) - psi(g)|| - eps_k  (Eq. 13)."""

    def excess(obs: Float[Array, " obs"], subgoal: Float[Array, " goal"]) -> Float[Array, ""]:
        position = setup.space.phi(obs)
        distance = network.distance(embedding, position, setup.space.target(subgoal, position))
        return distance - setup.cfg.manager.hinge

    return excess


def off_the_way(embedding: Embedding, ways: Int[Array, "cells cells"], setup: Setup) -> Excess:
    """How far a subgoal is from the next cell on the way to the task's target, by the adjacency network; 0 without a way.

    In place of the target's own cell stands the target. Where a way ends before, because nobody was at the target, nothing
    pulls at its end.
    """
    grid = setup.grid
    assert grid is not None

    def distance(obs: Float[Array, " obs"], subgoal: Float[Array, " goal"]) -> Float[Array, ""]:
        position, end = setup.space.phi(obs), setup.space.shown_target(obs)
        here, there = grid.number(position), grid.number(end)
        cell = ways[here, there]
        point = jnp.where(cell == there, end, grid.centre(cell))
        apart = network.distance(embedding, setup.space.target(subgoal, position), point)
        return jnp.where((cell == NONE) | ((cell == here) & (here != there)), 0.0, apart)

    return distance


def non_adjacent_costs(embedding: Embedding | None, windows: Transition, setup: Setup) -> Float[Array, "*n"]:
    """The cost of the subgoals of windows to the manager: the penalty where one is judged not adjacent, else 0."""
    adjacent = judged_adjacent(embedding, windows.action, setup.space.phi(windows.obs), setup)
    return jnp.where(adjacent, 0.0, setup.cfg.manager.non_adjacent_penalty)


Drawn = tuple[Array, Window]
"""Random keys and minibatches."""
Update = Callable[[TD3State, Drawn, bool], tuple[TD3State, Metrics]]
"""One gradient step, with or without the actor's value term."""


def _all_updates(update: Update, manager: TD3State, drawn: Drawn, every: int) -> tuple[TD3State, Metrics]:
    """One update per key and minibatch, in groups of `every`: the first of a group with the value term, the others without.

    A `cond` in each update would be slower.
    """

    def group(manager: TD3State, drawn: Drawn) -> tuple[TD3State, Metrics]:
        first, others = jax.tree.map(lambda leaf: leaf[0], drawn), jax.tree.map(lambda leaf: leaf[1:], drawn)
        manager, once = update(manager, first, True)
        if len(drawn[0]) == 1:
            return manager, jax.tree.map(lambda number: number[None], once)
        manager, metrics = jax.lax.scan(lambda state, each: update(state, each, False), manager, others)
        return manager, {name: jnp.append(metrics.get(name, jnp.zeros(0)), one) for name, one in once.items()}

    count = len(drawn[0])
    every = min(every, count)
    whole = count // every * every
    grouped = jax.tree.map(lambda leaf: leaf[:whole].reshape(-1, every, *leaf.shape[1:]), drawn)
    manager, metrics = jax.lax.scan(group, manager, grouped)
    metrics = jax.tree.map(jnp.ravel, metrics)
    if whole == count:
        return manager, metrics
    manager, last = group(manager, jax.tree.map(lambda leaf: leaf[whole:], drawn))
    return manager, jax.tree.map(jnp.append, metrics, last)


def learn(
    key: PRNGKeyArray,
    manager: TD3State,
    controller: MLP,
    embedding: Embedding | None,
    batches: Window,
    setup: Setup,
    ways: Int[Array, "cells cells"] | None = None,
) -> tuple[TD3State, Metrics]:
    """One update per minibatch of windows (updates, batch), whose subgoals are corrected first if so configured.

    The actor's value term is applied once per `value_every_gradient_steps` updates, its adjacency term at each.
    """
    cfg = setup.cfg.manager
    excess = None if embedding is None else too_far(embedding, setup)
    pull = None if ways is None or embedding is None else off_the_way(embedding, ways, setup)

    def one_update(manager: TD3State, drawn: Drawn, with_value: bool) -> tuple[TD3State, Metrics]:
        key, batch = drawn
        key_draw, key_update = jax.random.split(key)
        window, metrics = batch.whole, {}
        if cfg.non_adjacent_penalty > 0:
            costs = non_adjacent_costs(embedding, window, setup) / cfg.reward_scale  # the reward is scaled later
            window = window._replace(reward=window.reward - costs)
        if cfg.correction_candidates > 0:
            corrected = correct(draw_candidates(key_draw, batch, setup), controller, batch, setup)
            metrics["corrected"] = jnp.mean(jnp.any(corrected != window.action, axis=1).astype(jnp.float32))
            window = window._replace(action=corrected)
        manager, numbers = td3.update(key_update, manager, window, setup.space, excess, settings(setup.cfg), with_value, pull)
        return manager, metrics | numbers

    drawn = (jax.random.split(key, len(batches.inside)), batches)
    manager, metrics = td3.with_fast_critics(
        lambda state: _all_updates(one_update, state, drawn, cfg.value_every_gradient_steps), manager
    )
    names = {"penalty": "too_far"}  # how far subgoals leave the k-step region
    numbers = {names.get(name, name): jnp.mean(numbers) for name, numbers in metrics.items()}
    if excess is not None:
        of_value, of_excess = td3.slopes(
            manager.actor, td3.first_of(manager.critics), batches.whole.obs[-1], setup.space, excess
        )
        numbers |= {"value_slope": of_value, "distance_slope": of_excess}
    return manager, {f"manager/{name}": number for name, number in numbers.items()}
