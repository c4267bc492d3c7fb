"""One round of experience from a JAX environment, by scan; also random behaviour.

Functions are for one run with its E copies; `training.rounds` maps them over runs.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PRNGKeyArray

from hrac.agents import hierarchy
from hrac.agents.hierarchy import AgentState, Intent
from hrac.agents.subgoals import SubgoalSpace
from hrac.agents.windows import Trajectory, empty_tail
from hrac.config import Config
from hrac.envs.base import Environment, State, Step
from hrac.runs import anywhere
from hrac.spaces import Discrete


class Live(NamedTuple):
    """Where the copies of a run stand between two rounds."""

    env: State
    obs: Float[Array, "copies obs"]
    intent: Intent
    tail: Trajectory
    """The last k steps (k, copies, ...)."""
    episode_return: Float[Array, " copies"]
    """Reward so far in the present episode."""


class Collected(NamedTuple):
    """A round's steps (time, copies, ...)."""

    trajectory: Trajectory
    """With the tail before it: k + T steps."""
    episode_return: Float[Array, "time copies"]
    """At the T new steps, the reward of the episode so far."""


def start(key: PRNGKeyArray, env: Environment, space: SubgoalSpace, cfg: Config) -> Live:
    """Fresh episodes in all copies."""
    copies = cfg.training.envs_per_run
    state, obs = jax.vmap(env.reset)(jax.random.split(key, copies))
    intent = Intent(jnp.zeros((copies, space.dimensions)), jnp.zeros(copies, jnp.int32))
    tail = empty_tail(cfg.k, env.obs_dim, space.dimensions)
    tail = jax.tree.map(lambda leaf: jnp.repeat(leaf[:, None], copies, axis=1), tail)
    return Live(state, obs, intent, tail, jnp.zeros(copies))


def collect(
    key: PRNGKeyArray,
    agent: AgentState,
    live: Live,
    ready: Bool[Array, ""],
    env: Environment,
    space: SubgoalSpace,
    cfg: Config,
    axis: str | None = None,
) -> tuple[Live, Collected]:
    """Let the two levels act for one round, exploring."""
    copies = cfg.training.envs_per_run

    def propose(keys: Array, obs: Array, intent: Intent) -> Array:
        fresh = jax.vmap(lambda k, o: hierarchy.propose(k, agent, o, ready, space, cfg))(keys, obs)
        return jnp.where((intent.clock == 0)[:, None], fresh, intent.subgoal)

    def one(live: Live, keys: Key[Array, "4 copies"]) -> tuple[Live, tuple[Trajectory, Array]]:
        keys_propose, keys_act, keys_env, keys_reset = keys
        # Proposing is dear: skip it in steps in which no copy of any run needs a subgoal.
        due = anywhere(jnp.any(live.intent.clock == 0), axis)
        subgoal = jax.lax.cond(due, propose, lambda _, __, intent: intent.subgoal, keys_propose, live.obs, live.intent)
        intent = Intent(subgoal, live.intent.clock)
        action = jax.vmap(lambda k, o, g: hierarchy.act(k, agent, o, g, space))(keys_act, live.obs, subgoal)
        after = jax.vmap(env.step)(keys_env, live.env, action)
        done = after.terminated | after.truncated
        last = done | (intent.clock == cfg.k - 1)
        step = Trajectory(
            live.obs, subgoal, action, after.reward, after.obs, after.terminated, after.truncated, intent.clock, last
        )
        intent = jax.vmap(lambda i, o, n, w: hierarchy.carry_on(i, o, n, w, space))(intent, live.obs, after.obs, last)
        env_state, obs = _restart(keys_reset, done, after, env)
        total = live.episode_return + after.reward
        live = Live(env_state, obs, intent, live.tail, jnp.where(done, 0.0, total))
        return live, (step, total)

    # All keys at once: splitting them step by step would take as long as acting.
    keys = jax.random.split(key, cfg.training.round_env_steps // copies)
    keys = jax.vmap(lambda k: jax.vmap(lambda use: jax.random.split(use, copies))(jax.random.split(k, 4)))(keys)
    live, (new, totals) = jax.lax.scan(one, live, keys)
    trajectory = jax.tree.map(lambda tail, leaf: jnp.concatenate([tail, leaf]), live.tail, new)
    return live._replace(tail=jax.tree.map(lambda leaf: leaf[-cfg.k :], trajectory)), Collected(trajectory, totals)


def _restart(keys: Key[Array, " copies"], done: Bool[Array, " copies"], after: Step, env: Environment) -> tuple[State, Array]:
    """Go on where the episode does, begin a new one where it ended."""
    fresh = jax.vmap(env.reset)(keys)
    going_on = (after.state, after.obs)
    return jax.tree.map(lambda new, old: jnp.where(done.reshape(-1, *[1] * (new.ndim - 1)), new, old), fresh, going_on)


def wander(key: PRNGKeyArray, env: Environment, episodes: int, space: SubgoalSpace) -> Float[Array, "episodes time goal"]:
    """Positions of whole episodes of uniformly random actions in a world without ends (`Environment.exploring`)."""

    assert isinstance(env.actions, Discrete)
    choices = env.actions.choices

    def episode(key: PRNGKeyArray) -> Array:
        key_reset, key_steps = jax.random.split(key)
        state, obs = env.reset(key_reset)

        def one(state: State, key: PRNGKeyArray) -> tuple[State, Array]:
            key_action, key_env = jax.random.split(key)
            action = jax.random.randint(key_action, (), 0, choices)
            step = env.step(key_env, state, action)
            return step.state, space.phi(step.obs)

        _, positions = jax.lax.scan(one, state, jax.random.split(key_steps, env.time_limit))
        return jnp.concatenate([space.phi(obs)[None], positions])

    return jax.vmap(episode)(jax.random.split(key, episodes))
