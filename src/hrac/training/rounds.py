"""The part of training that runs on the device: one run's state, and one round of it, mapped over runs and compiled."""

import functools
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PRNGKeyArray

from hrac.adjacency import network
from hrac.agents import hierarchy
from hrac.agents.hierarchy import AgentState
from hrac.agents.subgoals import SubgoalSpace
from hrac.agents.td3 import Transition
from hrac.agents.windows import Trajectory, controller_steps, intrinsic_rewards, manager_windows
from hrac.config import Config
from hrac.envs.base import Environment
from hrac.runs import over_runs
from hrac.training import evaluate, replay, rollout
from hrac.training.evaluate import Mean
from hrac.training.replay import Buffer
from hrac.training.rollout import Collected, Live

Tree = TypeVar("Tree")


class RunState(NamedTuple):
    """Everything of a run that lives on the device."""

    agent: AgentState
    windows: Buffer
    live: Live


class Visited(NamedTuple):
    """Where a round's steps led, for the adjacency table (time, copies, ...)."""

    position: Float[Array, "time copies goal"]
    after: Float[Array, "time copies goal"]
    done: Bool[Array, "time copies"]


def init(key: PRNGKeyArray, env: Environment, space: SubgoalSpace, cfg: Config) -> RunState:
    """A new run."""
    key_agent, key_live = jax.random.split(key)
    agent = hierarchy.init(key_agent, env.obs_dim, env.actions.outputs, space, cfg)
    obs, goal, number = jnp.zeros(env.obs_dim), jnp.zeros(space.dimensions), jnp.zeros(())
    example = Transition(obs, goal, number, obs, jnp.asarray(False))
    buffer = replay.create(example, cfg.manager.buffer_windows)
    return RunState(agent, buffer, rollout.start(key_live, env, space, cfg))


def round_(
    key_act: PRNGKeyArray,
    key_learn: PRNGKeyArray,
    run: RunState,
    env: Environment,
    space: SubgoalSpace,
    cfg: Config,
    learning: bool,
    axis: str | None = None,
) -> tuple[RunState, dict[str, Mean], Visited]:
    """Collect a round and store its windows; if `learning`, learn from them in the runs that have stored enough."""
    ready = run.windows.size >= cfg.manager.start_windows
    live, collected = rollout.collect(key_act, run.agent, run.live, ready, env, space, cfg, axis)
    trajectory = collected.trajectory

    per_copy = functools.partial(jax.vmap, in_axes=1, out_axes=0)
    windows, ended = per_copy(lambda t: manager_windows(t, cfg))(trajectory)
    buffer = replay.extend(run.windows, flat(windows), flat(ended))
    steps = flat(per_copy(lambda t: controller_steps(t, space, cfg))(trajectory))

    def learn(agent: AgentState) -> tuple[AgentState, dict[str, Array]]:
        updates = cfg.training.round_env_steps // cfg.k
        _, key_windows, key_update = jax.random.split(key_learn, 3)
        batches = replay.sample(key_windows, buffer, (updates, cfg.manager.batch_size))
        return hierarchy.learn(jax.random.split(key_update)[1], agent, steps, batches, space, cfg)

    agent, metrics = learn_if_ready(learn, run.agent, ready, learning, axis)
    metrics |= acting_metrics(collected, run.agent, env, space, cfg)
    new = jax.tree.map(lambda leaf: leaf[cfg.k :], trajectory)
    phi = jax.vmap(jax.vmap(space.phi))
    visited = Visited(phi(new.obs), phi(new.next_obs), new.terminated | new.truncated)
    return RunState(agent, buffer, live), metrics, visited


def learn_if_ready(
    learn: Callable[[AgentState], tuple[AgentState, dict[str, Array]]],
    agent: AgentState,
    ready: Bool[Array, ""],
    learning: bool,
    axis: str | None,
) -> tuple[AgentState, dict[str, Mean]]:
    """What `learn` makes of an agent that is ready, and its numbers, weighted so; without `learning` the same names, empty."""
    if not learning:
        shapes = jax.eval_shape(learn, agent)[1]
        nothing = jnp.zeros(())
        return agent, {name: (jnp.zeros(shape.shape, shape.dtype), nothing) for name, shape in shapes.items()}
    learned, numbers = learn(agent)
    if axis is not None:  # runs mapped together may start to learn at different times
        learned = jax.tree.map(lambda new, old: jnp.where(ready, new, old), learned, agent)
    weight = ready.astype(jnp.float32)
    return learned, {name: (weight * value, weight) for name, value in numbers.items()}


def flat(tree: Tree) -> Tree:
    """Join the two leading axes."""
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), tree)


def acting_metrics(
    collected: Collected, agent: AgentState, env: Environment | None, space: SubgoalSpace, cfg: Config
) -> dict[str, Mean]:
    """What the round's behaviour was like: see docs/metrics.md."""
    new: Trajectory = jax.tree.map(lambda leaf: leaf[cfg.k :], collected.trajectory)
    done = new.terminated | new.truncated
    rewards = jax.vmap(lambda t: intrinsic_rewards(t, space, cfg), 1, 1)(new)
    means = {
        "train/return": evaluate.mean_where(done, collected.episode_return),
        "train/success": evaluate.mean_where(done, new.terminated),
        "train/intrinsic_reward": evaluate.mean_where(jnp.ones_like(done), rewards),
    }
    for mask, names in (
        (new.clock == 0, ("subgoal_judged_adjacent", "subgoal_within_k")),
        (new.last, ("subgoal_miss",)),
    ):
        # Measured for as many windows as a round usually has twice over, not for every step: it is not free.
        count = 2 * cfg.training.round_env_steps // cfg.k
        (index,) = jnp.nonzero(mask.reshape(-1), size=count, fill_value=-1)
        some = jax.tree.map(lambda leaf, i=index: leaf[i], flat(new))
        numbers = evaluate.subgoal_numbers(some.obs, some.subgoal, some.next_obs, agent, env, space, cfg)
        means |= {f"train/{name}": evaluate.mean_where(index >= 0, numbers[name]) for name in names if name in numbers}
    return means


# Compiled and mapped over runs. The environment, space and config are constants of the program.

STATIC = ("env", "space", "cfg")


@functools.partial(jax.jit, static_argnames=STATIC)
def init_runs(keys: Key[Array, " runs"], *, env: Environment, space: SubgoalSpace, cfg: Config) -> RunState:
    """`init` for all runs."""
    return over_runs(lambda _, key: init(key, env, space, cfg), keys)


@functools.partial(jax.jit, static_argnames=("learning", *STATIC), donate_argnums=1)
def round_runs(
    keys: Key[Array, "runs 2"],
    runs: RunState,
    index: Array,
    learning: bool,
    *,
    env: Environment,
    space: SubgoalSpace,
    cfg: Config,
) -> tuple[RunState, dict[str, Mean], Visited]:
    """`round_` for all runs; `keys` (runs, 2) are their acting and learning streams, `index` the round's number."""

    def one(axis: str | None, keys: Key[Array, "2"], run: RunState) -> tuple[RunState, dict[str, Mean], Visited]:
        key_act, key_learn = jax.vmap(jax.random.fold_in, (0, None))(keys, index)
        return round_(key_act, key_learn, run, env, space, cfg, learning, axis)

    return over_runs(one, keys, runs)


@functools.partial(jax.jit, static_argnames=("episodes", *STATIC))
def evaluate_runs(
    keys: Key[Array, " runs"],
    agents: AgentState,
    index: Array,
    episodes: int,
    *,
    env: Environment,
    space: SubgoalSpace,
    cfg: Config,
) -> dict[str, Mean]:
    """`evaluate` for all runs: totals and weights (runs, episodes)."""

    def one(_: str | None, key: PRNGKeyArray, agent: AgentState) -> dict[str, Mean]:
        return evaluate.evaluate(jax.random.fold_in(key, index), agent, episodes, env, space, cfg)

    return over_runs(one, keys, agents)


@functools.partial(jax.jit, static_argnames=("episodes", *STATIC))
def wander_runs(
    keys: Key[Array, " runs"], episodes: int, *, env: Environment, space: SubgoalSpace, cfg: Config
) -> Float[Array, "runs episodes time goal"]:
    """`wander` for all runs, in the environment's exploring form."""
    world = env.exploring()
    return over_runs(lambda _, key: rollout.wander(key, world, episodes, space), keys)


@functools.partial(jax.jit, static_argnames=("threshold",))
def accuracy_runs(agents: AgentState, cells: Array, truth: Array, *, threshold: float) -> Float[Array, " runs"]:
    """Adjacency accuracy against the true relation, of all runs."""
    return over_runs(lambda _, agent: network.accuracy(agent.adjacency.embedding, cells, truth, threshold), agents)
