"""Evaluation in JAX environments: whole episodes without exploration noise, recorded step by step. On the host: `playing`."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, Shaped

from hrac.agents import hierarchy
from hrac.agents.hierarchy import AgentState
from hrac.agents.subgoals import SubgoalSpace
from hrac.config import Config
from hrac.envs.base import Environment, KnownDistances, State

Mean = tuple[Array, Array]
"""A total and a weight, so that means over episodes, rounds and copies can be put together later."""


class Episode(NamedTuple):
    """One episode, padded to the time limit (rounded up to whole windows); `alive` marks the steps that were made."""

    obs: Float[Array, "*time obs"]
    subgoal: Float[Array, "*time goal"]
    action: Int[Array, "*time"]
    reward: Float[Array, "*time"]
    next_obs: Float[Array, "*time obs"]
    terminated: Bool[Array, "*time"]
    alive: Bool[Array, "*time"]


def play(key: PRNGKeyArray, agent: AgentState, env: Environment, space: SubgoalSpace, cfg: Config) -> Episode:
    """One episode: the manager's plain subgoals, the controller's sampled actions."""
    key_reset, key_steps = jax.random.split(key)
    state, obs = env.reset(key_reset)

    def step(carry: tuple[State, Array, Array, Array], key: PRNGKeyArray) -> tuple[tuple[State, Array, Array, Array], Episode]:
        state, obs, subgoal, alive = carry
        key_act, key_env = jax.random.split(key)
        action = hierarchy.act(key_act, agent, obs, subgoal, space)
        after = env.step(key_env, state, action)
        record = Episode(obs, subgoal, action, after.reward, after.obs, after.terminated, alive)
        subgoal = space.transition(subgoal, space.phi(obs), space.phi(after.obs))
        alive = alive & ~(after.terminated | after.truncated)
        return (after.state, after.obs, subgoal, alive), record

    def window(carry: tuple[State, Array, Array], keys: Key[Array, " k"]) -> tuple[tuple[State, Array, Array], Episode]:
        state, obs, alive = carry
        subgoal = hierarchy.propose_greedy(agent, obs, space)
        (state, obs, _, alive), record = jax.lax.scan(step, (state, obs, subgoal, alive), keys)
        return (state, obs, alive), record

    windows = -(-env.time_limit // cfg.k)
    keys = jax.random.split(key_steps, (windows, cfg.k))
    _, record = jax.lax.scan(window, (state, obs, jnp.asarray(True)), keys)
    return jax.tree.map(lambda leaf: leaf.reshape(windows * cfg.k, *leaf.shape[2:]), record)


def summarise(episode: Episode, agent: AgentState, env: Environment, space: SubgoalSpace, cfg: Config) -> dict[str, Mean]:
    """The numbers of one episode, each as a total and how many things it is a total over: see docs/metrics.md."""
    alive = episode.alive
    first = (jnp.arange(len(alive)) % cfg.k == 0) & alive
    last = alive & (jnp.append(~alive[1:], True) | (jnp.arange(1, len(alive) + 1) % cfg.k == 0))
    one = jnp.ones((), jnp.float32)
    numbers = {
        "eval/return": (jnp.sum(jnp.where(alive, episode.reward, 0.0)), one),
        "eval/success": (jnp.any(episode.terminated & alive).astype(jnp.float32), one),
        "eval/episode_length": (jnp.sum(alive).astype(jnp.float32), one),
    }
    for name, values in subgoal_numbers(episode.obs, episode.subgoal, episode.next_obs, agent, env, space, cfg).items():
        numbers[f"eval/{name}"] = mean_where(last if name == "subgoal_miss" else first, values)
    return numbers


def mean_where(mask: Bool[Array, "*n"], values: Shaped[Array, "*n"]) -> Mean:
    """Total and weight of the values where the mask holds."""
    weight = mask.astype(jnp.float32)
    return jnp.sum(weight * values.astype(jnp.float32)), jnp.sum(weight)


def subgoal_numbers(
    obs: Float[Array, "time obs"],
    subgoal: Float[Array, "time goal"],
    next_obs: Float[Array, "time obs"],
    agent: AgentState,
    env: Environment | None,
    space: SubgoalSpace,
    cfg: Config,
) -> dict[str, Float[Array, " time"]]:
    """Of each step: is its subgoal judged adjacent, is it truly within k steps, how far from it did the step end.

    The truth needs an environment that knows its distances (`envs.base.KnownDistances`).
    """

    def one(obs: Array, subgoal: Array, next_obs: Array) -> dict[str, Array]:
        position, after = space.phi(obs), space.phi(next_obs)
        target = space.target(subgoal, position)
        numbers = {
            "subgoal_judged_adjacent": hierarchy.judged_adjacent(agent, subgoal, position, space, cfg).astype(jnp.float32),
            "subgoal_miss": jnp.linalg.norm(target - after),
        }
        if isinstance(env, KnownDistances):
            numbers["subgoal_within_k"] = (env.steps_between(position, target) <= cfg.k).astype(jnp.float32)
        return numbers

    return jax.vmap(one)(obs, subgoal, next_obs)


def evaluate(
    key: PRNGKeyArray, agent: AgentState, episodes: int, env: Environment, space: SubgoalSpace, cfg: Config
) -> dict[str, Mean]:
    """Play episodes with one run's agent; the numbers of each."""

    def one(key: PRNGKeyArray) -> dict[str, Mean]:
        return summarise(play(key, agent, env, space, cfg), agent, env, space, cfg)

    return jax.vmap(one)(jax.random.split(key, episodes))
